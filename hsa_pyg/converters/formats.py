"""Reading a document file: which format it has, and its text."""

from __future__ import annotations

import codecs
import os
from pathlib import Path

SUFFIXES = {
    "": "text",
    ".txt": "text",
    ".text": "text",
    ".md": "markdown",
    ".markdown": "markdown",
    ".mdown": "markdown",
    ".htm": "html",
    ".html": "html",
    ".xhtml": "html",
    ".xht": "html",
    ".epub": "epub",
}
"""File name suffix (lower case) to the name of the format."""

FORMATS = tuple(dict.fromkeys(SUFFIXES.values()))
"""Formats that documents are read from."""

PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".svg")
"""Suffixes (lower case) of the pictures that are read."""

_UNREAD = (".pdf", ".doc", ".docx", ".tif", ".tiff")
_NAMED = frozenset((*filter(None, SUFFIXES), *PICTURES, *_UNREAD))
"""Suffixes by which a string is told to be meant for a file."""

_BYTE_ORDER_MARKS = {
    "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
    "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
}


def names_file(path_or_text: str | os.PathLike[str]) -> bool:
    r"""Whether a file is meant, and not the text itself.

    Args:
        path_or_text: A path object is a file. A string is one if there is a file of
            that name.

    Raises:
        FileNotFoundError: If a string of one line ends like the name of a document or
            picture, and there is no such file: a mistyped name must not become a text.
        IsADirectoryError: If a string names a folder.
        TypeError: If it is neither a string nor a path.

    Example:
        >>> names_file(Path("a")), names_file("It rained."), names_file("a.txt\nb.txt")
        (True, False, False)
    """
    if not isinstance(path_or_text, str | os.PathLike):
        raise TypeError(
            "A document is a text or the path of a file, got "
            f"{type(path_or_text).__name__}; for many files there is from_documents."
        )
    if not isinstance(path_or_text, str) or os.path.isfile(path_or_text):
        return True
    remedy = "If this is the text itself, use DocumentConverter().text(...)."
    if os.path.isdir(path_or_text):
        raise IsADirectoryError(
            f"{path_or_text!r} is a folder: convert it with from_documents. {remedy}"
        )
    lines = path_or_text.strip().splitlines()
    if len(lines) == 1 and Path(lines[0]).suffix.lower() in _NAMED:
        raise FileNotFoundError(f"There is no file {path_or_text!r}. {remedy}")
    return False


def detect_format(path: Path) -> str | None:
    """Return the format that the suffix of ``path`` stands for, or None.

    Example:
        >>> detect_format(Path("notes.TXT")), detect_format(Path("photo.png"))
        ('text', None)
    """
    return SUFFIXES.get(path.suffix.lower())


def check_format(name: str, format: str | None) -> str:
    """Return ``format`` if documents can be read from it.

    Args:
        name: Name of the document, for the error.
        format: Name of the format; None where it could not be told.

    Raises:
        ValueError: If the format is not known; says which ones are.
    """
    if format in FORMATS:
        return format
    supported = ", ".join(repr(known) for known in FORMATS)
    told = "unknown to the converter" if format is None else f"given as {format!r}"
    raise ValueError(
        f"The format of document {name!r} is {told}. "
        f"Supported: {supported}; format='text' reads the file as plain text."
    )


def decode(content: bytes, name: str, encoding: str = "utf-8") -> str:
    r"""Decode a text document; line endings stay, a byte order mark goes.

    Args:
        content: The bytes of the document.
        name: Name of the document, for errors.
        encoding: Name of the encoding, as Python knows it.

    Raises:
        ValueError: If the bytes are not in this encoding (names document and byte
            offset), the text holds a NUL (binary data), or the encoding is unknown.

    Example:
        >>> decode(b"\xef\xbb\xbfone\r\n", "a.txt")
        'one\r\n'
    """
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"Document {name!r} is not {encoding}: byte 0x{content[error.start]:02x} "
            f"at offset {error.start} ({error.reason}). {_remedy(content)}"
        ) from error
    except LookupError as error:
        raise ValueError(
            f"Document {name!r} cannot be read: {encoding!r} is no encoding that "
            "Python knows. Pass for example encoding='utf-8'."
        ) from error
    check_text(text, name)
    return text.removeprefix("\ufeff")


def check_text(text: str, name: str, format: str = "text") -> None:
    """Raise unless ``text`` is Unicode text that parsers and tokenizers can take.

    Args:
        text: The text.
        name: Name of the document, for errors.
        format: Its format: HTML has a rule of its own for NUL characters.

    Raises:
        ValueError: If it holds a NUL character or a lone surrogate.
    """
    nul = text.find("\0")
    if nul >= 0 and format != "html":
        raise ValueError(
            f"Document {name!r} is no text: it holds a NUL at character {nul}. It is "
            "binary data, or in another encoding: pass encoding= (such as 'utf-16')."
        )
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"Document {name!r} holds a lone surrogate at character {error.start}, "
            "which no tokenizer can take: decode it with errors='strict' or 'replace'."
        ) from error


def _remedy(content: bytes) -> str:
    for encoding, marks in _BYTE_ORDER_MARKS.items():
        if content.startswith(marks):
            return f"It starts as {encoding} does: pass encoding='{encoding}'."
    return "Pass encoding= (such as 'latin-1') if it is text, or leave the file out."
