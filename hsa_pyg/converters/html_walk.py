"""A walk over the elements of a page, in the order in which they are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from typing import TYPE_CHECKING

from hsa_pyg.converters.blocks import Picture
from hsa_pyg.converters.elements import (
    APART,
    BLOCKS,
    OUTLINES,
    PRESERVED,
    REPLACED,
    ROLES,
    TEXTS,
    UNSEEN,
)
from hsa_pyg.converters.flow import FlowBuilder
from hsa_pyg.converters.inline_svg import InlineDrawing
from hsa_pyg.converters.resources import (
    PictureResolver,
    ResourceError,
    embeds_drawing,
    with_base,
)

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_PICTURES = {"img", "image", "input", "object", "embed", "svg"}
# Fields whose value is not shown, or not as text.
_NO_TEXT = {
    "checkbox",
    "color",
    "file",
    "hidden",
    "image",
    "password",
    "radio",
    "range",
}
# Each drawing in a page takes a process of its own to render.
_MOST_DRAWINGS = 500
_UNUSED = 0


class HtmlWalk:
    """Writes what is seen of a page into a flow.

    Args:
        flow: Told of all text, breaks, containers and pictures.
        base: Where relative addresses start from, see ``<base href>``.
        resolve: Gives the pictures; None leaves them out.
        dropped: Told what is left out.
        hidden: ``mem_id`` of the elements that are not shown.
    """

    def __init__(
        self,
        flow: FlowBuilder,
        base: str,
        resolve: PictureResolver | None,
        dropped: Counter[str],
        hidden: Set[int],
    ) -> None:
        self._flow = flow
        self._base = base
        self._resolve = resolve
        self._dropped = dropped
        self._hidden = hidden
        # Elements around the present one whose white space is shown as it is.
        self._preserved = 0
        self._drawings: set[str] = set()

    def walk(self, top: LexborNode) -> None:
        """Walk over an element and all in it, without recursion."""
        opened: list[tuple[LexborNode, str, int]] = []
        node = top
        while True:
            tag = node.tag or ""
            if tag == "-text":
                self._flow.write(node.text_content or "", self._preserved > 0)
            elif node.is_element_node and self._is_entered(node, tag):
                mark = self._start(node, tag)
                child = node.child
                if child is not None:
                    opened.append((node, tag, mark))
                    node = child
                    continue
                self._end(tag, mark)
            while opened:
                following = node.next
                if following is not None:
                    node = following
                    break
                node, tag, mark = opened.pop()
                self._end(tag, mark)
            if not opened:
                return

    def _is_entered(self, node: LexborNode, tag: str) -> bool:
        """Whether an element's children are shown; those without are dealt with."""
        if tag in UNSEEN:
            return False
        if self._hidden and node.mem_id in self._hidden:
            if node.text().strip():
                self._dropped["hidden elements with text"] += 1
            return False
        if tag in _PICTURES:
            return self._picture_element(node, tag)
        if tag in REPLACED:
            self._dropped[f"{tag} elements"] += 1
            return False
        return True

    def _start(self, node: LexborNode, tag: str) -> int:
        """Begin an element; returns what :meth:`_end` needs to end it."""
        flow = self._flow
        self._preserved += tag in PRESERVED
        if tag in ROLES:
            return flow.open(ROLES[tag])
        if tag in OUTLINES:
            return flow.open_outline()
        if tag in TEXTS:
            if TEXTS[tag] == "heading":
                flow.heading(int(tag[1]))
            else:
                flow.open_text(TEXTS[tag])
        elif tag in ("br", "option", "optgroup"):
            flow.line_break()
            if tag == "optgroup":
                flow.write(node.attributes.get("label") or "")
        elif tag in BLOCKS:
            flow.paragraph_break()
        elif tag in APART:
            flow.write(" ")
        return _UNUSED

    def _end(self, tag: str, mark: int) -> None:
        flow = self._flow
        self._preserved -= tag in PRESERVED
        if tag in ROLES:
            flow.close(mark, ROLES[tag])
        elif tag in OUTLINES:
            flow.close(mark)
        elif tag in TEXTS:
            if TEXTS[tag] == "heading":
                flow.end_heading()
            else:
                flow.close_text()
        elif tag in ("option", "optgroup"):
            return
        elif tag in BLOCKS:
            flow.paragraph_break()
        elif tag in APART:
            flow.write(" ")

    def _picture_element(self, node: LexborNode, tag: str) -> bool:
        """Add the picture that an element is; returns whether to enter it instead."""
        if tag == "svg":
            self._drawing(node)
            return False
        attributes = node.attributes
        kind = (attributes.get("type") or "").strip().lower()
        if tag == "input" and kind != "image":
            if kind not in _NO_TEXT and attributes.get("value"):
                self._dropped["values of buttons and fields"] += 1
            self._flow.write(" ")
            return False
        if tag in ("object", "embed"):
            return self._embedded(node, tag, kind)
        src = attributes.get("src") or ""
        if not src.strip() and attributes.get("srcset"):
            src = (attributes["srcset"] or "").split()[0].rstrip(",")
        self._flow.figure(self._picture(src), attributes.get("alt") or "")
        return False

    def _embedded(self, node: LexborNode, tag: str, kind: str) -> bool:
        """Add the picture in an ``object`` or ``embed``, or count what else it is."""
        if kind.startswith("image/"):
            src = node.attributes.get("data" if tag == "object" else "src")
            picture = self._picture(src or "")
            if picture is not None:
                self._flow.figure(picture, node.text())
                return False
        else:
            self._dropped[f"{tag} elements"] += 1
        # Browsers show what stands in the object instead.
        return tag == "object"

    def _drawing(self, node: LexborNode) -> None:
        drawing = InlineDrawing(node)
        words = drawing.words
        for src in drawing.pictures:
            self._flow.figure(self._picture(src), words)
            words = ""
        if drawing.address or words:
            self._flow.figure(self._drawn(drawing.address), words)

    def _drawn(self, address: str) -> Picture | None:
        if self._resolve is None or not address:
            return None
        if address not in self._drawings:
            if len(self._drawings) == _MOST_DRAWINGS:
                self._dropped[f"drawings beyond {_MOST_DRAWINGS} in a page"] += 1
                return None
            self._drawings.add(address)
        return self._resolve(address, self._dropped)

    def _picture(self, src: str) -> Picture | None:
        if self._resolve is None:
            return None
        if src.lstrip()[:5].lower() != "data:":
            try:
                src = with_base(src, self._base)
            except ResourceError as error:
                self._dropped[f"pictures {error.reason}"] += 1
                return None
        elif embeds_drawing(src):
            return self._drawn(src)
        return self._resolve(src, self._dropped)
