"""The tree of blocks that every document format is parsed into.

A reader for a format (plain text today) turns a document's text into nested
:class:`Block` objects; :mod:`hsa_pyg.converters.assemble` turns those into a signal.
A new format therefore only has to write a function like :func:`parse_plain_text`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

from hsa_pyg.converters.sentences import SentenceSplitter


# Compared by identity: the hash of a deep tree would recurse as deep.
@dataclass(frozen=True, eq=False)
class Block:
    """A stretch of a document's text and the blocks nested in it.

    Args:
        kind: Node type of the block in the signal, such as ``"paragraph"``.
        start: Offset of its first character in the document's text.
        stop: Offset after its last character.
        children: Blocks inside it, in reading order. A block without children is
            tokenized.
    """

    kind: str
    start: int
    stop: int
    children: tuple[Block, ...] = field(default=(), repr=False)


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
