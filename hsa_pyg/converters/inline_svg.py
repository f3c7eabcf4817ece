"""Drawings that stand in HTML itself: their markup, words and pictures."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from hsa_pyg.converters.elements import element_names

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_XMLNS = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
_DRAWN = element_names("circle ellipse line path polygon polyline rect text use")
_LEFT_OUT = element_names("foreignobject metadata script")
_SILENT = element_names("metadata script style")
# Elements whose words stand apart from those before them.
_APART = element_names("desc div li p text title tspan")


class InlineDrawing:
    """An ``<svg>`` element of a page.

    Args:
        svg: The element.

    Attributes:
        address: The drawing as an address of the kind ``data:``, empty if nothing is
            drawn but pictures from files.
        words: All words in it: those drawn, its title and its description.
        pictures: Addresses of the pictures from files in it.
    """

    def __init__(self, svg: LexborNode) -> None:
        self.pictures: list[str] = []
        self._markup: list[str] = []
        self._words: list[str] = []
        self._is_drawn = False
        self._silent = 0
        self._left_out = 0
        self._walk(svg)
        self.words = " ".join("".join(self._words).split())
        if not self.words:
            self.words = (svg.attributes.get("aria-label") or "").strip()
        markup = "".join(self._markup).encode("utf-8", "replace")
        self.address = ""
        if self._is_drawn:
            encoded = base64.b64encode(markup).decode("ascii")
            self.address = f"data:image/svg+xml;base64,{encoded}"

    def _walk(self, svg: LexborNode) -> None:
        opened: list[tuple[LexborNode, str]] = []
        node = svg
        while True:
            tag = node.tag or ""
            if node.is_text_node:
                self._text(node.text_content or "")
            elif node.is_element_node:
                self._start(node, tag, is_root=not opened)
                child = node.child
                if child is not None:
                    opened.append((node, tag))
                    node = child
                    continue
                self._end(tag)
            while opened:
                following = node.next
                if following is not None:
                    node = following
                    break
                node, tag = opened.pop()
                self._end(tag)
            if not opened:
                return

    def _start(self, node: LexborNode, tag: str, is_root: bool) -> None:
        name = tag.lower()
        self._silent += name in _SILENT
        self._left_out += name in _LEFT_OUT
        if name in _APART:
            self._words.append(" ")
        attributes = dict(node.attributes)
        if name == "image":
            source = attributes.get("href") or attributes.get("xlink:href") or ""
            if source and source[:5].lower() != "data:":
                self.pictures.append(source)
            elif source:
                self._is_drawn = True
        if self._left_out:
            return
        self._is_drawn = self._is_drawn or name in _DRAWN
        if is_root:
            attributes |= {"xmlns": _XMLNS, "xmlns:xlink": _XLINK}
        written = "".join(
            f" {key}={quoteattr(value or '')}"
            for key, value in attributes.items()
            if _is_name(key)
        )
        self._markup.append(f"<{tag}{written}>")

    def _end(self, tag: str) -> None:
        name = tag.lower()
        if not self._left_out:
            self._markup.append(f"</{tag}>")
        self._silent -= name in _SILENT
        self._left_out -= name in _LEFT_OUT

    def _text(self, text: str) -> None:
        if not self._silent:
            self._words.append(text)
        if not self._left_out:
            self._markup.append(escape(text))


def _is_name(key: str) -> bool:
    """Whether XML allows an attribute's name: prefixes must be declared in it."""
    prefix, colon, local = key.rpartition(":")
    if colon and prefix not in ("xlink", "xml", "xmlns"):
        return False
    return local.replace("-", "").replace("_", "").replace(".", "").isalnum()
