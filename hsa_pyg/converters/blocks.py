"""The tree of blocks that every document format is parsed into.

A reader of a format turns a document into nested :class:`Block` objects over a text;
:mod:`hsa_pyg.converters.assemble` turns those into a signal. A new format therefore
only has to write a function like :func:`parse_plain_text`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hsa_pyg.converters.sentences import SentenceSplitter

if TYPE_CHECKING:
    from hsa_pyg.converters.images import Patches

# New roles go to the end: stored signals hold the numbers.
ROLES = (
    "paragraph",
    "heading",
    "code",
    "caption",
    "alt",
    "list",
    "item",
    "table",
    "row",
    "cell",
    "quote",
    "figure",
    "division",
)
"""What a node of type ``paragraph`` or ``block`` is: ``role`` holds places in here."""


@dataclass(frozen=True, eq=False)
class Picture:
    """A picture in a document.

    Args:
        key: Digest of its bytes: places that show the same picture share one.
        patches: The decoded picture.
    """

    key: str
    patches: Patches = field(repr=False)


# Compared by identity: the hash of a deep tree would recurse as deep.
@dataclass(eq=False)
class Block:
    """A stretch of a document's text and the blocks nested in it.

    Args:
        kind: Node type of the block in the signal, such as ``"paragraph"``. The text of
            blocks of the kind ``"sentence"`` is tokenized.
        start: Offset of its first character in the document's text.
        stop: Offset after its last character.
        children: Blocks inside it, in reading order.
        role: What a block of the kind ``"block"`` or ``"paragraph"`` is, one of
            :data:`ROLES`.
        level: Level of the heading of a section, 1 to 6.
        picture: What a block of the kind ``"block"`` and the role ``"figure"`` shows.
    """

    kind: str
    start: int
    stop: int
    children: Sequence[Block] = field(default=(), repr=False)
    role: str = "paragraph"
    level: int = 0
    picture: Picture | None = field(default=None, repr=False)


@dataclass(eq=False)
class ParsedDocument:
    """What the reader of a format makes of a document.

    Args:
        block: Root of the tree of blocks.
        text: The document's visible text, which the offsets of the blocks point into.
        dropped: What was left out, by its reason, with the number of times.
        title: Title of the document, which is not part of its text.
    """

    block: Block
    text: str
    dropped: Counter[str] = field(default_factory=Counter)
    title: str = ""


def paragraph_spans(text: str) -> Iterator[tuple[int, int]]:
    r"""Yield the character span of each paragraph: a run of lines that are not blank.

    Args:
        text: The document's text, with any line endings.

    Example:
        >>> list(paragraph_spans("one\ntwo\r\n \r\nthree"))
        [(0, 9), (12, 17)]
    """
    offset = 0
    lines = text.splitlines(keepends=True)
    for is_blank, run in itertools.groupby(lines, key=lambda line: not line.strip()):
        stop = offset + sum(map(len, run))
        if not is_blank:
            yield offset, stop
        offset = stop


def parse_plain_text(text: str, split: SentenceSplitter) -> Block:
    r"""Parse plain text into document > paragraph > sentence.

    Paragraphs are separated by blank lines. All three levels are there even for a
    document of one paragraph; a text without a visible character gives a document
    without children.

    Args:
        text: The document's text.
        split: Gives the character spans of the sentences of one paragraph.

    Example:
        >>> from hsa_pyg.converters.sentences import split_lines
        >>> document = parse_plain_text("One.\nTwo.\n\nThree.", split_lines)
        >>> [len(paragraph.children) for paragraph in document.children]
        [2, 1]
    """
    paragraphs = []
    for start, stop in paragraph_spans(text):
        sentences = tuple(
            Block("sentence", start + first, start + last)
            for first, last in split(text[start:stop])
        )
        # The paragraph's own span leaves out the white space around its sentences.
        paragraphs.append(
            Block("paragraph", sentences[0].start, sentences[-1].stop, sentences)
        )
    return Block("document", 0, len(text), tuple(paragraphs))
