"""EPUB books to a tree of blocks: one section a chapter, in reading order."""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from hsa_pyg.converters.assemble import walk
from hsa_pyg.converters.blocks import Block, ParsedDocument, Picture
from hsa_pyg.converters.html import parse_html
from hsa_pyg.converters.images import PictureReader
from hsa_pyg.converters.resources import PictureFinder, ResourceError, candidates
from hsa_pyg.converters.sentences import SentenceSplitter

MAX_BYTES = 1 << 29
"""Books whose files are larger than this when unpacked are refused."""

_FONTS = (b"http://www.idpf.org/2008/embedding", b"http://ns.adobe.com/pdf/enc#RC")
_ALGORITHM = re.compile(
    rb"<(?:\w+:)?EncryptionMethod\b[^>]*?Algorithm\s*=\s*[\"']([^\"']*)"
)
_SEPARATOR = "\n\n"


def parse_epub(
    path: str | os.PathLike[str],
    split: SentenceSplitter,
    *,
    name: str = "<epub>",
    pictures: PictureReader | None = None,
    encoding: str | None = None,
) -> ParsedDocument:
    """Parse a book; its chapters as :func:`~hsa_pyg.converters.html.parse_html` does.

    Every chapter becomes a section of level 1, in the order of the spine. A chapter
    that is one section by its own headings is that section. One without any heading
    gets its title from the table of contents as one, unless it starts with these words.
    Pictures are read from the book itself. The title is that of the metadata.

    The books are read with EbookLib, which is under the licence AGPL-3.0: mind its
    terms where you pass it on or offer it as a service. It is not installed but with
    the extra ``epub``.

    Args:
        path: The book.
        split: Splits the text of a paragraph into sentences.
        name: Name of the book, for errors.
        pictures: Decodes the pictures; None leaves them out.
        encoding: Encoding of the chapters, if it is not what they declare themselves.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is no EPUB, is broken or encrypted (DRM), names files outside
            of itself, or unpacks to more than :data:`MAX_BYTES`.
        ImportError: If EbookLib or selectolax is not installed.
    """
    dropped: Counter[str] = Counter()
    _check_archive(path, name)
    book = _read_book(path, name)
    titles = _titles(book.toc)
    finder = None if pictures is None else _BookPictures(pictures, book.items)
    texts: list[str] = []
    chapters: list[Block] = []
    length = 0
    for item in _spine(book, dropped):
        if finder is not None:
            finder.chapter = item.file_name
        page = parse_html(
            item.content,
            split,
            name=f"{name}: {item.file_name}",
            encoding=encoding,
            resolve=finder,
            xhtml=item.media_type != "text/html",
        )
        dropped.update(page.dropped)
        if not page.block.children:
            dropped["chapters without text and pictures"] += 1
            continue
        chapter, text = _chapter(page, titles.get(_plain(item.file_name), ""), split)
        length += len(_SEPARATOR) if texts else 0
        _shift(chapter, length)
        length += len(text)
        texts.append(text)
        chapters.append(chapter)
    root = Block("document", 0, length, tuple(chapters))
    title = " ".join((book.title or "").split())
    return ParsedDocument(root, _SEPARATOR.join(texts), dropped, title)


def _check_archive(path: str | os.PathLike[str], name: str) -> None:
    """Raise a ValueError unless a file is an archive that is safe to read."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            protected = _is_protected(archive)
    except FileNotFoundError:
        raise
    except Exception as error:  # zipfile raises a dozen types for broken files
        raise ValueError(
            f"Document {name!r} is no EPUB: its archive is broken ({error})."
        ) from error
    for entry in entries:
        if _leads_outside(entry.filename):
            raise ValueError(
                f"Document {name!r} is refused: its archive names the file "
                f"{entry.filename!r}, which lies outside of it."
            )
    if protected or any(entry.flag_bits & 1 for entry in entries):
        raise ValueError(
            f"Document {name!r} is encrypted (DRM): only books without protection can "
            "be read."
        )
    size = sum(entry.file_size for entry in entries)
    if size > MAX_BYTES:
        raise ValueError(
            f"Document {name!r} is refused: it unpacks to {size} bytes, more than the "
            f"{MAX_BYTES} of hsa_pyg.converters.epub.MAX_BYTES."
        )


def _leads_outside(file_name: str) -> bool:
    names = file_name.replace("\\", "/")
    return names.startswith("/") or ".." in names.split("/") or names[1:2] == ":"


def _is_protected(archive: zipfile.ZipFile) -> bool:
    """Whether more than fonts is encrypted."""
    try:
        entry = archive.getinfo("META-INF/encryption.xml")
    except KeyError:
        return False
    if entry.file_size > MAX_BYTES:
        return False  # refused for its size
    algorithms = _ALGORITHM.findall(archive.read(entry))
    return any(algorithm not in _FONTS for algorithm in algorithms)


def _read_book(path: str | os.PathLike[str], name: str) -> Any:
    try:
        from ebooklib import epub
    except ImportError as error:
        raise ImportError(
            'Reading EPUB needs EbookLib: pip install "hsa-pyg[epub]".'
        ) from error

    class LenientReader(epub.EpubReader):
        """Reads books that lack a font or a table of contents, as readers do."""

        def read_file(self, name: str) -> bytes:
            try:
                return super().read_file(name)
            except KeyError:
                if name in ("META-INF/container.xml", self.opf_file):
                    raise
                return b""

        def _parse_nav(self, *args: Any, **kwargs: Any) -> None:
            with contextlib.suppress(Exception):
                super()._parse_nav(*args, **kwargs)

        def _parse_ncx(self, data: bytes) -> None:
            with contextlib.suppress(Exception):
                super()._parse_ncx(data)

    reason = ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            book = LenientReader(os.fspath(path)).load()
        if not any(book.get_item_with_id(key) for key, _ in book.spine):
            reason = "its spine names no chapter"
    except Exception as error:  # EbookLib fails in many ways on broken books
        reason = str(error).strip("'\"") or type(error).__name__
        raise ValueError(f"Document {name!r} is no readable EPUB: {reason}.") from error
    if reason:
        raise ValueError(f"Document {name!r} is no readable EPUB: {reason}.")
    return book


def _spine(book: Any, dropped: Counter[str]) -> Iterator[Any]:
    """Yield the chapters in reading order, each one once."""
    seen = set()
    for key, _ in book.spine:
        item = book.get_item_with_id(key)
        if item is None or not item.content:
            dropped["chapters missing"] += 1
        elif key in seen:
            dropped["chapters repeated"] += 1
        else:
            seen.add(key)
            yield item


def _titles(toc: Any) -> dict[str, str]:
    """Return the titles in a table of contents by the name of the file."""
    titles: dict[str, str] = {}
    stack = [toc]
    while stack:
        entry = stack.pop()
        if isinstance(entry, list | tuple):
            stack.extend(reversed(entry))
        elif getattr(entry, "href", None):
            title = " ".join((entry.title or "").split())
            titles.setdefault(_plain(entry.href.partition("#")[0]), title)
    return titles


def _plain(file_name: str) -> str:
    return posixpath.normpath(unquote(file_name))


def _chapter(
    page: ParsedDocument, title: str, split: SentenceSplitter
) -> tuple[Block, str]:
    """Return a chapter as one section, and its text."""
    children = list(page.block.children)
    if len(children) == 1 and children[0].kind == "section":
        return children[0], page.text
    chapter = Block("section", 0, len(page.text), tuple(children), level=1)
    has_heading = any(child.kind == "section" for child in children)
    start = "".join(page.text[: 4 * len(title)].split()).casefold()
    if has_heading or not title or start.startswith("".join(title.split()).casefold()):
        return chapter, page.text
    sentences = tuple(Block("sentence", *span) for span in split(title))
    heading = Block("paragraph", 0, len(title), sentences, role="heading")
    _shift(chapter, len(title) + len(_SEPARATOR))
    chapter.start = 0
    chapter.children = (heading, *children)
    return chapter, _SEPARATOR.join([title, page.text])


def _shift(top: Block, offset: int) -> None:
    for block in walk(top):
        block.start += offset
        block.stop += offset


class _BookPictures(PictureFinder):
    """Finds the pictures of a book among its items.

    Args:
        reader: Decodes the pictures.
        items: Items of the book.
    """

    def __init__(self, reader: PictureReader, items: list[Any]) -> None:
        super().__init__(reader, None)
        # The addresses of the book start from a folder of a file system of its own.
        self._items = {_in_book(item.file_name): item for item in items}
        self.chapter = ""

    def _read_file(self, src: str) -> Picture:
        folder = _in_book(self.chapter).parent
        for place in candidates(src, folder, Path("/")):
            if place in self._items:
                return self._cache.decoded(self._items[place].content, src)
        raise ResourceError(src, "missing")


def _in_book(file_name: str) -> Path:
    return Path(posixpath.normpath(f"/book/{file_name}"))
