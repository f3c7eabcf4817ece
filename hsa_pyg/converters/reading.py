"""From the bytes of a document in any format to its tree of blocks."""

from __future__ import annotations

import os
from pathlib import Path

from hsa_pyg.converters.blocks import ParsedDocument, parse_plain_text
from hsa_pyg.converters.folder_files import read_file
from hsa_pyg.converters.formats import decode
from hsa_pyg.converters.images import PictureReader
from hsa_pyg.converters.resources import PictureFinder, PictureResolver
from hsa_pyg.converters.sentences import SentenceSplitter


class Reader:
    """Parses documents, all with the same settings.

    Args:
        split: Splits the text of a paragraph into sentences.
        encoding: Encoding of files; None for what they say themselves, or UTF-8.
        pictures: Decodes the pictures; None leaves them out.
        main_content: Whether to leave out the boilerplate of web pages.
    """

    def __init__(
        self,
        split: SentenceSplitter,
        *,
        encoding: str | None = None,
        pictures: PictureReader | None = None,
        main_content: bool = False,
    ) -> None:
        self.split = split
        self.encoding = encoding
        self.pictures = pictures
        self.main_content = main_content
        # One for all documents: the pages of a site show the same pictures.
        self._finder = None if pictures is None else PictureFinder(pictures, None)

    def parse_text(self, text: str, format: str, name: str) -> ParsedDocument:
        """Parse a document that is at hand as a string.

        Args:
            text: The document.
            format: A format that is written as text.
            name: Name of the document, for errors.

        Raises:
            ValueError: If the format is not written as text, or the text is broken.
        """
        if format == "text":
            return ParsedDocument(parse_plain_text(text, self.split), text)
        if format == "html":
            from hsa_pyg.converters.html import parse_html

            return parse_html(
                text,
                self.split,
                name=name,
                resolve=self._resolver(None, None),
                main_content=self.main_content,
            )
        if format == "markdown":
            from hsa_pyg.converters.markdown import parse_markdown

            return parse_markdown(
                text, self.split, name=name, resolve=self._resolver(None, None)
            )
        raise ValueError(
            f"Document {name!r} is of the format {format!r}, which is a file and no "
            "string: pass its path."
        )

    def parse_file(
        self,
        path: Path,
        format: str,
        name: str,
        root: str | os.PathLike[str] | None = None,
    ) -> ParsedDocument:
        """Parse a file.

        Args:
            path: The file.
            format: Its format.
            name: Name of the document, for errors.
            root: Folder outside of which no picture is read; by default the file's own.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If the file cannot be read as this format.
        """
        if format == "text":
            text = decode(read_file(path, name), name, self.encoding or "utf-8")
            return self.parse_text(text, format, name)
        resolve = self._resolver(path.parent, root)
        if format == "html":
            from hsa_pyg.converters.html import parse_html

            return parse_html(
                read_file(path, name),
                self.split,
                name=name,
                encoding=self.encoding,
                resolve=resolve,
                main_content=self.main_content,
                xhtml=_is_xhtml(path),
            )
        if format == "markdown":
            from hsa_pyg.converters.markdown import parse_markdown

            text = decode(read_file(path, name), name, self.encoding or "utf-8")
            return parse_markdown(text, self.split, name=name, resolve=resolve)
        from hsa_pyg.converters.epub import parse_epub

        return parse_epub(
            path, self.split, name=name, pictures=self.pictures, encoding=self.encoding
        )

    def parse_page(
        self, path: Path, name: str, root: str | os.PathLike[str]
    ) -> ParsedDocument:
        """Parse a page of a website; pictures are read once for all its pages.

        Args:
            path: The file.
            name: Name of the page, for errors.
            root: Folder of the website, outside of which no picture is read.

        Raises:
            FileNotFoundError: If there is no such file.
        """
        from hsa_pyg.converters.html import parse_html

        return parse_html(
            read_file(path, name),
            self.split,
            root="page",
            name=name,
            encoding=self.encoding,
            resolve=self._resolver(path.parent, root),
            main_content=self.main_content,
            xhtml=_is_xhtml(path),
        )

    def _resolver(
        self, folder: Path | None, root: str | os.PathLike[str] | None
    ) -> PictureResolver | None:
        return None if self._finder is None else self._finder.beside(folder, root)


def read_text(path: str | os.PathLike[str], encoding: str = "utf-8") -> str:
    r"""Return a text file's text exactly as the ``span`` of its signal counts it.

    Line endings are kept and a byte order mark is taken off.

    Raises:
        ValueError: If the file is not in this encoding, with the byte offset.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "a.txt")
        >>> _ = path.write_bytes(b"It rained.\r\nWe read.")
        >>> read_text(path)
        'It rained.\r\nWe read.'
    """
    name = Path(path).as_posix()
    return decode(read_file(Path(path), name), name, encoding)


def _is_xhtml(path: Path) -> bool | None:
    return True if path.suffix.lower() in (".xhtml", ".xht") else None
