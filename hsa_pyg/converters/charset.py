"""The encoding of HTML documents, as browsers tell it."""

from __future__ import annotations

import codecs
import re
from collections import Counter

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# What pages call by these names is a superset of what Python does.
_SUPERSETS = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "hz": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
    # A page whose declaration can be read byte by byte is not in one of these.
    "utf-16": "utf-8",
    "utf-16-le": "utf-8",
    "utf-16-be": "utf-8",
}
# Python knows encodings that no page is in, such as "rot13" and "utf-7".
_OF_PAGES = re.compile(
    r"utf-8|utf-16(-[lb]e)?|ascii|iso8859-\d+|cp(125\d|866|874|932|949)|koi8-[ru]"
    r"|mac-(roman|cyrillic)|gb2312|gbk|gb18030|hz|big5(hkscs)?|euc_(jp|kr)|shift_jis|iso2022_jp|tis-620"
)
_DECLARATION = re.compile(
    rb"""<meta\s[^>]*?charset\s*=\s*["']?\s*([^\s"'/>;]+)"""
    rb"""|<\?xml\s[^>]*?encoding\s*=\s*["']([^"']+)""",
    re.IGNORECASE,
)


def decode_html(
    content: bytes, name: str, encoding: str | None, dropped: Counter[str]
) -> str:
    r"""Decode an HTML document.

    A byte order mark counts first, then ``encoding``, then what the document declares
    in its first 1024 bytes; one that declares nothing is in UTF-8, or else in
    windows-1252. Bytes that are wrong become the replacement character U+FFFD.

    Args:
        content: The bytes of the document.
        name: Name of the document, for errors.
        encoding: Name of the encoding, as Python knows it.
        dropped: Told how many bytes could not be decoded.

    Raises:
        ValueError: If ``encoding`` is unknown.

    Example:
        >>> dropped = Counter()
        >>> decode_html(b"<meta charset=latin-1>\xe9\x80", "a.html", None, dropped)
        '<meta charset=latin-1>\xe9€'
        >>> decode_html(b"<meta charset=utf-8>\xe9", "a.html", None, dropped)[-1]
        '\ufffd'
        >>> dropped
        Counter({'undecodable bytes': 1})
    """
    for mark, marked in _MARKS:
        if content.startswith(mark):
            return _decode(content[len(mark) :], marked, dropped)
    declared = encoding or _declared(content[:1024])
    if declared is None:
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError:
            return _decode(content, "cp1252", dropped)
    try:
        return _decode(content, declared, dropped).removeprefix("\ufeff")
    except LookupError as error:
        raise ValueError(
            f"Document {name!r} cannot be read: {declared!r} is no encoding that "
            "Python knows. Pass for example encoding='utf-8'."
        ) from error


def _declared(beginning: bytes) -> str | None:
    for match in _DECLARATION.finditer(re.sub(rb"(?s)<!--.*?-->", b"", beginning)):
        label = (match[1] or match[2]).decode("ascii", "replace")
        try:
            known = codecs.lookup(label).name
        except (LookupError, ValueError):
            continue
        if _OF_PAGES.fullmatch(known):
            return _SUPERSETS.get(known, known)
    return None


def _decode(content: bytes, encoding: str, dropped: Counter[str]) -> str:
    try:
        return content.decode(encoding)
    except UnicodeDecodeError:
        text = content.decode(encoding, "replace")
    wrong = text.count("\ufffd")
    if encoding == "utf-8":
        wrong -= content.count("\ufffd".encode())
    dropped["undecodable bytes"] += max(1, wrong)
    return text
