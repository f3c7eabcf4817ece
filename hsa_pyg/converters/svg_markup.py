"""A drawing's markup (SVG), rewritten so that it refers to nothing but itself."""

from __future__ import annotations

import base64
import re
from urllib.parse import unquote_to_bytes
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

# Renderers recurse over elements; drawings of people and programs stay below 50.
MAX_DEPTH = 200
# Entities and default attributes may make the rewritten markup longer than the file.
_MAX_GROWTH = 10
_FREE_GROWTH = 1_000_000

_EMBEDDED = ("image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp")
_LENGTH = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(px|in|cm|mm|pt|pc)?")
_REFERENCE = re.compile("&(?!#)")
_PIXELS_PER_UNIT = {
    "px": 1.0,
    "in": 96.0,
    "cm": 96 / 2.54,
    "mm": 96 / 25.4,
    "pt": 96 / 72,
    "pc": 16.0,
}


class Drawing:
    """The markup of an SVG without anything that points out of it.

    Links to other files and to the network are taken off, and so are the document type
    and its entities, which are expanded. What stays are references within the drawing
    and pictures embedded as ``data:`` addresses.

    Args:
        content: The file's bytes.
        embedded: Whether the drawing is embedded in another one; it may then embed no
            drawing itself.

    Attributes:
        markup: The rewritten markup.
        size: Height and width in pixels, if they are stated.
        left_out: Number of outside pictures that it refers to.
        has_text: Whether there is text, which needs fonts.

    Raises:
        ValueError: If it is no SVG, no well-formed XML, or nested too deep.

    Example:
        >>> drawing = Drawing(
        ...     b'<svg xmlns="http://www.w3.org/2000/svg" width="3cm" height="90">'
        ...     b'<image href="/etc/passwd"/><use href="#a"/></svg>'
        ... )
        >>> drawing.markup
        '<svg xmlns="http://www.w3.org/2000/svg" width="3cm" height="90"><image></image><use href="#a"></use></svg>'
        >>> drawing.left_out, [round(side) for side in drawing.size]
        (1, [90, 113])
    """  # noqa: E501

    def __init__(self, content: bytes, embedded: bool = False) -> None:
        self.size: tuple[float, float] | None = None
        self.left_out = 0
        self.has_text = False
        self._embedded = embedded
        self._depth = 0
        self._parts: list[str] = []
        self._room = _FREE_GROWTH + _MAX_GROWTH * len(content)
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = lambda text: self._write(_escape(text))
        parser.EntityDeclHandler = _check_entity
        try:
            parser.Parse(content, True)
        except expat.ExpatError as error:
            raise ValueError(f"it is no well-formed XML: {error}") from error
        self.markup = "".join(self._parts)

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        name = _local(tag)
        if self._depth == 0:
            if name != "svg":
                raise ValueError(f"it is markup, but no SVG: its root is <{tag[:40]}>")
            self.size = stated_size(attributes)
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ValueError(f"its elements nest deeper than {MAX_DEPTH}")
        self.has_text = self.has_text or name == "text"
        self._write(f"<{tag}")
        for key, value in attributes.items():
            if _local(key) == "href":
                kept = self._reference(name, value)
                if kept is None:
                    continue
                value = kept
            self._write(f" {key}={quoteattr(value)}")
        self._write(">")

    def _end(self, tag: str) -> None:
        self._depth -= 1
        self._write(f"</{tag}>")

    def _reference(self, name: str, address: str) -> str | None:
        """What stays of a reference: None for one that points out of the drawing."""
        address = address.strip()
        if address.startswith("#"):
            return address
        if name not in ("image", "feImage"):
            return None
        kept = None
        if address[:5].lower() == "data:":
            kept = self._data(address)
        self.left_out += kept is None
        return kept

    def _data(self, address: str) -> str | None:
        head, _, body = address.partition(",")
        kind, *options = [part.strip().lower() for part in head[5:].split(";")]
        if kind in _EMBEDDED:
            return address
        if kind != "image/svg+xml" or self._embedded:
            return None
        content = unquote_to_bytes(body)
        try:
            if "base64" in options:
                content = base64.b64decode(content)
            inner = Drawing(content, embedded=True)
        except ValueError:
            return None
        self.left_out += inner.left_out
        self.has_text = self.has_text or inner.has_text
        content = inner.markup.encode()
        return "data:image/svg+xml;base64," + base64.b64encode(content).decode()

    def _write(self, text: str) -> None:
        self._room -= len(text)
        if self._room < 0:
            raise ValueError("its entities blow it up")
        self._parts.append(text)


def stated_size(attributes: dict[str, str]) -> tuple[float, float] | None:
    """Return the height and width in pixels that the root of a drawing states.

    Args:
        attributes: Those of the root: ``width`` and ``height`` in absolute units, and
            ``viewBox``, which stands in for what is missing.

    Returns:
        None if they do not tell the size, so that the contents have to.

    Example:
        >>> stated_size({"width": "60", "viewBox": "0 0 30 40"})
        (80.0, 60.0)
    """
    width, height = attributes.get("width"), attributes.get("height")
    if width == height == "100%":
        width = height = None
    known = {
        key: _pixels(value)
        for key, value in (("width", width), ("height", height))
        if value is not None
    }
    if None in known.values():
        return None
    across, down = known.get("width"), known.get("height")
    if across is None or down is None:
        box = _view_box(attributes.get("viewBox", ""))
        if box is None:
            return None
        if across is not None:
            down = across * box[1] / box[0]
        elif down is not None:
            across = down * box[0] / box[1]
        else:
            across, down = box
    return down, across


def _pixels(length: str) -> float | None:
    found = _LENGTH.fullmatch(length)
    if found is None:
        return None
    return float(found[1]) * _PIXELS_PER_UNIT[found[2] or "px"]


def _view_box(text: str) -> tuple[float, float] | None:
    sides = [_pixels(part) for part in re.split(r"[\s,]+", text.strip())]
    if len(sides) != 4 or sides[2] is None or sides[3] is None:
        return None
    return (sides[2], sides[3]) if sides[2] > 0 and sides[3] > 0 else None


def _local(name: str) -> str:
    return name.rpartition(":")[2]


def _escape(text: str) -> str:
    return escape(text, {"\r": "&#13;"})


def _check_entity(
    name: str,
    is_parameter: bool,
    value: str | None,
    base: str | None,
    system: str | None,
    public: str | None,
    notation: str | None,
) -> None:
    # Entities within entities are what blows drawings up and exhausts parsers.
    if value is not None and _REFERENCE.search(value):
        raise ValueError(f"its entity {name[:40]!r} refers to another one")
