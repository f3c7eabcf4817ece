"""The source of an HTML document, tidied before it is parsed.

HTML parsers take time that grows with the square of the depth of a document: a megabyte
of ``<div>`` takes minutes. Browsers stop nesting at a depth of 512; so does this.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from hsa_pyg.converters.elements import BLOCKS, VOID, element_names

MAX_DEPTH = 512
"""Elements nested deeper than this lose their tags, and nothing else."""

# Parsers open these again in each paragraph until they are closed by name.
_FORMATTING = element_names("b big code em font i s small strike strong tt u")
_MOST_FORMATTING = 64
# Parsers compare each attribute with all before it.
_MOST_ATTRIBUTES = 256
_LONG_TAG = 2 * _MOST_ATTRIBUTES
# Parsers go through all options of a list when they meet another one.
_MOST_OPTIONS = 1_000
# An unseen field sets words apart, as a list does.
_GAP = "<input type=hidden>"
_RAW = element_names("iframe noembed noframes script style textarea title xmp")
_TABLE_PARTS = element_names("caption col colgroup tbody td tfoot th thead tr")
# A start tag closes the nearest of the first set that is above all of the second.
_LIST = element_names("blockquote button caption dl dir menu ol table td th ul")
_TABLE = frozenset(["table"])
_SECTIONS = element_names("caption colgroup tbody td tfoot th thead tr")
_CLOSES = {
    "li": (frozenset(["li"]), _LIST),
    "dd": (frozenset(["dd", "dt"]), _LIST),
    "dt": (frozenset(["dd", "dt"]), _LIST),
    "option": (frozenset(["option"]), frozenset(["select", "table"])),
    "td": (frozenset(["td", "th", "caption", "colgroup"]), _TABLE),
    "th": (frozenset(["td", "th", "caption", "colgroup"]), _TABLE),
    "tr": (frozenset(["tr", "caption", "colgroup"]), _TABLE),
    "tbody": (_SECTIONS - {"td", "th", "tr"}, _TABLE),
    "thead": (_SECTIONS - {"td", "th", "tr"}, _TABLE),
    "tfoot": (_SECTIONS - {"td", "th", "tr"}, _TABLE),
    "a": (frozenset(["a"]), frozenset(["button", "caption", "table", "td", "th"])),
}
_PARAGRAPH = frozenset(["p"])
# End tags close nothing that lies below one of these.
_SCOPE = element_names("button caption marquee object table td template th")

_TAG = re.compile(r"<(?:(/?)([a-zA-Z][^\s/>]*)([^>\"']*)|(!--|!\[CDATA\[|[!?/]))")
_ATTRIBUTE = re.compile(
    r"[\s/]*(?:[^\s/>][^\s/>=]*"
    r"(?:\s*=\s*(?:\"[^\"]*\"|'[^']*'|(?=[\"'])(?P<open>)|[^\s>]*))?)?"
)
_COMMENT_END = re.compile(r"--!?>")
_RAW_END = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in _RAW}


def tags(source: str, xhtml: bool = False) -> Iterator[tuple[int, int, str, bool]]:
    """Yield the tags of a document in HTML or XHTML, in linear time.

    What looks like tags in comments, attributes and scripts is none.

    Args:
        source: The document.
        xhtml: Whether ``<title/>`` is an element without content, as in XHTML.

    Yields:
        Start and stop of the tag in ``source``, the name of the element in lower case,
        and whether it is an end tag. CDATA sections have the name ``"[cdata["``.

    Example:
        >>> source = '<p title="<b>">x<!-- <i> --></p>'
        >>> [(name, is_end) for _, _, name, is_end in tags(source)]
        [('p', False), ('p', True)]
    """
    position = 0
    foreign = 0
    while match := _TAG.search(source, position):
        start = match.start()
        slash, written, _, other = match.groups()
        if other is not None:
            position = _markup_end(source, start, other)
            if other == "![CDATA[":
                yield start, position, "[cdata[", False
            continue
        position = match.end()
        if source[position : position + 1] != ">":
            position = _tag_end(source, match.end(2))
            if position < 0:
                return
        position += 1
        name = written.lower()
        yield start, position, name, bool(slash)
        is_empty = source[position - 2] == "/"
        if name in ("svg", "math"):
            if not is_empty:
                foreign = max(0, foreign + (-1 if slash else 1))
        elif name == "plaintext" and not slash:
            return
        elif name in _RAW and not slash and not foreign:
            if is_empty and xhtml:
                continue
            end = _RAW_END[name].search(source, position)
            if end is None:
                return
            position = end.start()


def _markup_end(source: str, start: int, opening: str) -> int:
    """Return where a comment or a declaration ends: at the latest with the source."""
    if opening == "!--":
        end = _COMMENT_END.search(source, start + 2)
        return len(source) if end is None else end.end()
    closing = "]]>" if opening == "![CDATA[" else ">"
    end_of = source.find(closing, start)
    return len(source) if end_of < 0 else end_of + len(closing)


def _tag_end(source: str, position: int) -> int:
    """Return where the ``>`` of a tag is: not in a quoted value; -1 if nowhere."""
    while True:
        match = _ATTRIBUTE.match(source, position)
        if match is None or match["open"] is not None or match.end() == len(source):
            return -1
        position = match.end()
        if source[position] == ">":
            return position
        if match.end() == match.start():
            # A lone "=" before a name: part of the name.
            position += 1


class _OpenElements:
    """The elements that are open, as the tags alone tell."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._number: Counter[str] = Counter()

    def start(self, name: str) -> None:
        if name in BLOCKS and self._number["p"]:
            self._close(_PARAGRAPH, _SCOPE)
        if name in _CLOSES:
            self._close(*_CLOSES[name])

    def push(self, name: str) -> None:
        self.names.append(name)
        self._number[name] += 1

    def end(self, name: str) -> None:
        if self._number[name]:
            parts = name == "table" or name in _SECTIONS
            self._close(frozenset([name]), _TABLE if parts else _SCOPE)

    def _close(self, closed: frozenset[str], limits: frozenset[str]) -> None:
        if not any(self._number[name] for name in closed):
            return
        for place in range(len(self.names) - 1, -1, -1):
            name = self.names[place]
            if name in closed:
                self._number.subtract(self.names[place:])
                del self.names[place:]
                return
            if name in limits:
                return


def bound_nesting(source: str) -> str:
    """Leave out tags of elements that nest so deep that parsing would take minutes.

    Text, links and pictures stay, and so does the break that a block makes. A document
    that needs none of this comes back as it is.

    Args:
        source: The document in HTML.

    Example:
        >>> deep = bound_nesting("<div>" * 100_000 + "text")
        >>> deep.count("<div>"), deep.endswith("text")
        (512, True)
    """
    # The usual case first: most pages do not even have so many elements.
    if source.count("<") <= MAX_DEPTH and len(source) < 1 << 16:
        return source
    opened = _OpenElements()
    formatting: Counter[str] = Counter()
    most_formatting = 0
    skipped: Counter[str] = Counter()
    # Start, stop and replacement of the tags that go.
    changes: list[tuple[int, int, str]] = []
    formats: list[tuple[int, int, str]] = []
    selects: list[tuple[int, int, str]] = []
    options = most_options = 0
    for start, stop, name, is_end in tags(source):
        if stop - start > _LONG_TAG and name != "[cdata[":
            changes += _spare_attributes(source, start + len(name) + 1, stop)
        if name in VOID or name == "[cdata[":
            continue
        if name in _FORMATTING:
            formats.append((start, start + 1 + is_end + len(name), name))
            formatting[name] = max(0, formatting[name] + (-1 if is_end else 1))
            most_formatting = max(most_formatting, formatting[name])
        if name == "select":
            selects.append(
                (start, stop, f"</span>{_GAP}")
                if is_end
                else (start, start + len("<select"), f"{_GAP}<span")
            )
            options = 0
        elif name == "option" and not is_end:
            options += 1
            most_options = max(most_options, options)
        if is_end:
            if skipped[name]:
                skipped[name] -= 1
                changes.append((start, stop, _break(name)))
            else:
                opened.end(name)
                if skipped and len(opened.names) < MAX_DEPTH:
                    skipped.clear()
            continue
        opened.start(name)
        if skipped and len(opened.names) < MAX_DEPTH:
            skipped.clear()
        part = name in _TABLE_PARTS
        too_deep = len(opened.names) >= MAX_DEPTH and name != "a"
        if skipped["table"] if part else too_deep:
            skipped[name] += 1
            changes.append((start, stop, _break(name)))
        else:
            opened.push(name)
    if changes or most_formatting > _MOST_FORMATTING:
        gone = {start for start, _, _ in changes}
        changes += [
            (start, stop, "</span" if source[start + 1] == "/" else "<span")
            for start, stop, _ in formats
            if start not in gone
        ]
    if most_options > _MOST_OPTIONS:
        gone = {start for start, _, _ in changes}
        changes += [change for change in selects if change[0] not in gone]
    return _replaced(source, sorted(changes))


def _spare_attributes(source: str, start: int, stop: int) -> list[tuple[int, int, str]]:
    """Return the attributes of a tag that are too many, as a change of the source."""
    position = start
    for _ in range(_MOST_ATTRIBUTES):
        match = _ATTRIBUTE.match(source, position, stop - 1)
        if match is None or match.end() >= stop - 1:
            return []
        position = match.end() + (match.end() == position)
    return [(position, stop - 1, "")]


def _break(name: str) -> str:
    return "<hr>" if name in BLOCKS else ""


def close_empty_elements(source: str) -> str:
    """Write XHTML such that an HTML parser reads it as it is meant.

    ``<a id="x"/>`` becomes ``<a id="x"></a>``, which HTML would take for a start tag
    alone, and the text of CDATA sections is escaped.

    Args:
        source: The document in XHTML.

    Example:
        >>> close_empty_elements('<?xml version="1.0"?><title/><p>x<br/>')
        '<?xml version="1.0"?><title></title><p>x<br/>'
    """
    changes = []
    foreign = 0
    for start, stop, name, is_end in tags(source, xhtml=True):
        if name == "[cdata[":
            text = source[start + len("<![CDATA[") : stop].removesuffix("]]>")
            escaped = text.replace("&", "&amp;").replace("<", "&lt;")
            changes.append((start, stop, escaped))
            continue
        empty = source.endswith("/>", start, stop)
        if name in ("svg", "math") and not empty:
            foreign = max(0, foreign + (-1 if is_end else 1))
        if empty and not is_end and not foreign and name not in VOID:
            changes.append((stop - 2, stop, f"></{name}>"))
    return _replaced(source, changes)


def _replaced(source: str, changes: list[tuple[int, int, str]]) -> str:
    if not changes:
        return source
    pieces = []
    position = 0
    for start, stop, replacement in changes:
        if start < position:  # inside of what has gone already
            continue
        pieces += [source[position:start], replacement]
        position = stop
    return "".join([*pieces, source[position:]])
