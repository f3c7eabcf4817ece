"""From text, breaks and containers in reading order to a tree of blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hsa_pyg.converters.blocks import Block, Picture
from hsa_pyg.converters.sentences import SentenceSplitter, split_lines

MAX_DEPTH = 512
"""Containers and sections nested deeper than this are left out, but not their text."""

# White space of CSS: what str.strip takes for more, a no-break space say, stays.
_WHITE_SPACE = re.compile(r"[ \t\n\r\f]+")

# What stands in the text where a container starts or ends: the strongest of them wins.
_STRENGTHS = {"cell": 1, "row": 2, "item": 2}
_SEPARATORS = {0: "\n\n", 1: "\t", 2: "\n", 3: "\n\n"}


@dataclass(eq=False)
class _Open:
    """A container that is open, or the scope of an outline in one.

    A scope is no block: what opens in it belongs to the container around it, whose
    ``block`` and ``children`` it has.
    """

    block: Block
    children: list[Block]
    is_scope: bool = False
    is_full: bool = False


class FlowBuilder:
    r"""Builds the tree of blocks and the text of a document, front to back.

    Text gathers until a break ends the paragraph. White space is collapsed as in CSS.
    Headings open sections that are nested by level and end with the container or the
    outline that they stand in. Containers without text and pictures are left out, but
    not empty cells of rows that have others.

    Args:
        kind: Node type of the root.
        split: Splits the text of a paragraph into sentences.

    Example:
        >>> flow = FlowBuilder("document", split_lines)
        >>> flow.heading(1)
        >>> flow.write(" Rain ")
        >>> flow.end_heading()
        >>> flow.write("It  rained.")
        >>> root = flow.finish()
        >>> flow.text, [child.kind for child in root.children]
        ('Rain\n\nIt rained.', ['section'])
    """

    def __init__(self, kind: str, split: SentenceSplitter) -> None:
        self._split = split
        self._open = [_Open(Block(kind, 0, 0), [])]
        self._text: list[str] = []
        self._length = 0
        self._separator = 0
        # Of the paragraph that is being written.
        self._pieces: list[str] = []
        self._ends_in_space = True
        self._lines = 0
        self._figures: list[tuple[Picture | None, str]] = []
        self._roles: list[str] = []
        self._level = 0

    @property
    def text(self) -> str:
        """The text so far, without the paragraph that is being written."""
        return "".join(self._text)

    def write(self, text: str, preserve: bool = False) -> None:
        """Add text to the paragraph.

        Args:
            text: The text.
            preserve: Keep its white space as it is.
        """
        if not text:
            return
        if preserve:
            self._lines = 0 if text.strip() else self._lines
            self._ends_in_space = False
        else:
            text = _WHITE_SPACE.sub(" ", text)
            if self._ends_in_space:
                text = text.lstrip(" ")
                if not text:
                    return
            self._ends_in_space = text[-1] == " "
            if text != " ":
                self._lines = 0
        self._pieces.append(text)

    def line_break(self) -> None:
        """Start a new line; the second of two breaks starts a new paragraph."""
        self._lines += 1
        if self._lines > 1:
            self.paragraph_break()
        elif self._pieces:
            self._pieces[-1] = self._pieces[-1].rstrip(" ")
            self._pieces.append("\n")
            self._ends_in_space = True

    def paragraph_break(self) -> None:
        """End the paragraph; what had no visible character leaves nothing."""
        self._lines = 0
        self._ends_in_space = True
        if self._pieces:
            text = "".join(self._pieces)
            self._pieces.clear()
            self._paragraph(text, self._roles[-1] if self._roles else "paragraph")
        if self._figures:
            figures, self._figures = self._figures, []
            for picture, alt in figures:
                self._figure(picture, alt)

    def figure(self, picture: Picture | None, alt: str) -> None:
        """Add a picture and the words for it, behind the paragraph that it stands in.

        Args:
            picture: The picture, None if it is left out.
            alt: The words that stand for it.
        """
        alt = _WHITE_SPACE.sub(" ", alt).strip(" ")
        if picture is not None or alt.strip():
            self._figures.append((picture, alt))

    def open(self, role: str) -> int:
        """Open a container of a role; returns what :meth:`close` closes it with."""
        self.paragraph_break()
        self._open_heading()
        self._separate(role)
        mark = len(self._open)
        if mark < MAX_DEPTH:
            self._push(Block("block", self._length, self._length, role=role))
        return mark

    def open_outline(self) -> int:
        """Open a scope that ends the sections in it; see :meth:`open`."""
        self.paragraph_break()
        self._open_heading()
        mark = len(self._open)
        if mark < MAX_DEPTH:
            top = self._open[-1]
            self._open.append(_Open(top.block, top.children, is_scope=True))
        return mark

    def close(self, mark: int, role: str = "") -> None:
        """Close the container that was opened with ``mark`` and all in it."""
        self.paragraph_break()
        while len(self._open) > mark:
            self._pop()
        if role:
            self._separate(role)

    def open_text(self, role: str) -> None:
        """Give the paragraphs that follow a role."""
        self.paragraph_break()
        self._roles.append(role)

    def close_text(self) -> None:
        """End what :meth:`open_text` began."""
        self.paragraph_break()
        self._roles.pop()

    def heading(self, level: int) -> None:
        """Begin a heading: its first text or picture opens a section."""
        self.open_text("heading")
        self._level = level

    def end_heading(self) -> None:
        """End a heading."""
        self.close_text()
        self._level = 0

    def finish(self) -> Block:
        """End the document and return its root."""
        self.paragraph_break()
        while len(self._open) > 1:
            self._pop()
        root = self._open[0].block
        root.children = tuple(self._open[0].children)
        root.stop = self._length
        return root

    def _separate(self, role: str) -> None:
        strength = _STRENGTHS.get(role, 3)
        if role == "list" and self._open[-1].block.role == "item":
            strength = 2
        self._separator = max(self._separator, strength)

    def _push(self, block: Block) -> None:
        self._open.append(_Open(block, []))

    def _pop(self) -> None:
        closed = self._open.pop()
        above = self._open[-1]
        if closed.is_scope:
            above.is_full = above.is_full or closed.is_full
            return
        block = closed.block
        # Cells keep their places in the row.
        if closed.is_full or block.role == "cell":
            above.children.append(block)
        above.is_full = above.is_full or closed.is_full
        block.children = tuple(closed.children)
        texts = [child for child in block.children if child.stop > child.start]
        if texts:
            block.start, block.stop = texts[0].start, texts[-1].stop

    def _open_heading(self) -> None:
        """Open the section of a heading that has something to show."""
        level, self._level = self._level, 0
        if level == 0:
            return
        while (top := self._open[-1]).block.kind == "section" and not top.is_scope:
            if top.block.level < level:
                break
            self._pop()
        if len(self._open) < MAX_DEPTH:
            self._push(Block("section", self._length, self._length, level=level))

    def _paragraph(self, text: str, role: str) -> None:
        text = text.rstrip()
        if not text.strip():
            return
        self._open_heading()
        if self._length:
            self._append(_SEPARATORS[self._separator])
        self._separator = 0
        start = self._length
        split = split_lines if role == "code" else self._split
        sentences = tuple(
            Block("sentence", start + first, start + last)
            for first, last in split(text)
        )
        self._append(text)
        self._add(
            Block("paragraph", sentences[0].start, sentences[-1].stop, sentences, role)
        )

    def _figure(self, picture: Picture | None, alt: str) -> None:
        self._open_heading()
        top = self._open[-1]
        # An element <figure> is the block of its first picture.
        mark = len(self._open)
        if top.is_scope or top.block.role != "figure" or top.block.picture is not None:
            self._push(Block("block", self._length, self._length, role="figure"))
            top = self._open[-1]
        if picture is not None:
            top.block.picture = picture
            top.is_full = True
        self._paragraph(alt, "alt")
        while len(self._open) > mark:
            self._pop()

    def _add(self, block: Block) -> None:
        top = self._open[-1]
        top.children.append(block)
        top.is_full = True

    def _append(self, text: str) -> None:
        self._text.append(text)
        self._length += len(text)
