"""Documents to signals: document > section > block > paragraph > sentence > token."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any, Literal

from hsa_pyg.converters.assemble import (
    BEYOND,
    TreeOfPatches,
    assemble,
    encode_blocks,
)
from hsa_pyg.converters.blocks import Block, ParsedDocument
from hsa_pyg.converters.document_schema import document_schema, text_schema
from hsa_pyg.converters.formats import (
    check_format,
    check_text,
    detect_format,
    names_file,
)
from hsa_pyg.converters.images import PictureReader, picture_reader
from hsa_pyg.converters.labels import Label, label_tensor
from hsa_pyg.converters.reading import Reader
from hsa_pyg.converters.sentences import SentenceSplitter, sentence_splitter
from hsa_pyg.converters.tokenization import EncodedText, as_text_encoder
from hsa_pyg.data import NestedSignal, Schema


class EmptyDocumentError(ValueError):
    """A document has no token and no picture, so that its tree would have no leaf."""


class DocumentConverter:
    r"""Turns documents into signals, all with the same settings.

    A plain text has the node types ``document``, ``paragraph``, ``sentence`` and
    ``token``, one level each, also for a document of one paragraph. A document in HTML,
    Markdown or EPUB has these and

    - ``section``: what stands below a heading, nested by its ``level`` (``[n]`` long);
    - ``block``: a list, item, table, row, cell, quote or figure;
    - ``image`` with ``size``, ``scaled`` and ``patch_shape`` as
      :func:`~hsa_pyg.converters.from_image` has them, below the first figure that shows
      it, and its leaves of type ``patch``; edges ``("block", "shows", "image")`` lead
      from every figure to its picture.

    All its types are there in each of them, empty where the document has no such node.
    ``hsa_pyg.data.unify`` gives them to plain texts too. The attributes are

    - ``token.x``: token ids, ``[num_tokens]`` long;
    - ``patch.x``: pixels in 0 to 1, ``[num_patches, width]`` float, see
      :class:`~hsa_pyg.converters.PictureReader`;
    - ``pos``: place in the parent, ``[n, 1]`` float, counted from 0; of patches and
      quadrants row and column, ``[n, 2]``;
    - ``role`` of paragraphs and blocks: ``[n]`` long, numbers of
      ``hsa_pyg.converters.ROLES`` (``"heading"``, ``"caption"``, ``"list"``, ...);
    - ``span`` of all types of text: first character and the one after the last in the
      document's text, ``[n, 2]`` long, so that ``text[start:stop]`` is what the node
      stands for;
    - ``document.text``: a list of the one text that spans count in: the file's own for
      plain text, what a reader sees for other formats;
    - ``y``: the label, if one was given; ``source``: name of the document; ``dropped``:
      a list of what was left out, ``(reason, count)``.

    Args:
        tokenizer: A ``tokenizers.Tokenizer``, a fast tokenizer of transformers, a
            callable as :class:`~hsa_pyg.converters.TextEncoder` describes it, or
            ``"characters"``. Without one, :class:`~hsa_pyg.converters.HashedWords`.
        sentences: ``"prose"`` finds sentences in running text, ``"lines"`` takes one
            sentence a line; or a callable that gives the ``(start, stop)`` spans of
            the sentences of a paragraph.
        language: Language of the prose, as an ISO 639 code.
        encoding: Encoding of files. None stands for UTF-8, and for what the file itself
            declares in HTML and EPUB.
        max_tokens: Keep the first so many tokens of a document; what comes after them
            is left out. None keeps the whole document.
        images: A :class:`~hsa_pyg.converters.PictureReader` for the pictures of HTML,
            Markdown and EPUB; True stands for one with its defaults. False leaves the
            pictures out, but not the words beside them.
        main_content: Leave out navigation, advertisements and other boilerplate of web
            pages.
        keep_text: Keep the text in the signal.

    Raises:
        ValueError: If ``max_tokens`` is not positive or ``sentences`` is not known.
        TypeError: If ``tokenizer`` or ``images`` is none of the above.

    Example:
        >>> convert = DocumentConverter()
        >>> signal = convert.text("It rained. We read.\n\nThen the sun came.")
        >>> [signal[kind].num_nodes for kind in ("paragraph", "sentence", "token")]
        [2, 3, 11]
        >>> signal["sentence"].span.tolist()
        [[0, 10], [11, 19], [21, 39]]
    """

    def __init__(
        self,
        tokenizer: Any = None,
        *,
        sentences: Literal["prose", "lines"] | SentenceSplitter = "prose",
        language: str = "en",
        encoding: str | None = None,
        max_tokens: int | None = None,
        images: bool | PictureReader = True,
        main_content: bool = False,
        keep_text: bool = True,
    ) -> None:
        if max_tokens is not None and max_tokens < 1:
            raise ValueError(f"max_tokens must be positive, but is {max_tokens}.")
        self.encode = as_text_encoder(tokenizer)
        self.split = sentence_splitter(sentences, language)
        self.encoding = encoding
        self.max_tokens = max_tokens
        self.images = picture_reader(images)
        self.main_content = main_content
        self.keep_text = keep_text
        self.reader = Reader(
            self.split,
            encoding=encoding,
            pictures=self.images,
            main_content=main_content,
        )

    def schema(self, format: str = "text") -> Schema:
        """Schema of the signals that documents of ``format`` become."""
        if format == "text":
            return text_schema(self.keep_text)
        return self.rich_schema()

    def rich_schema(
        self, root: Literal["document", "page"] = "document", website: bool = False
    ) -> Schema:
        """Schema of documents with sections, blocks and pictures.

        Args:
            root: Type of a document's root.
            website: Whether the documents are pages below one ``website``.
        """
        return document_schema(
            root=root,
            patch_width=None if self.images is None else self.images.width,
            tree=self.tree,
            website=website,
            keep_text=self.keep_text,
        )

    @property
    def tree(self) -> TreeOfPatches:
        """How the patches of a picture are nested."""
        return "grid" if self.images is None else self.images.tree

    def text(
        self,
        text: str,
        source: str = "",
        y: Label | None = None,
        format: str = "text",
    ) -> NestedSignal:
        """Convert a document that is at hand as a string.

        Args:
            text: The document.
            source: Name of the document, kept in the signal and used in errors.
            y: Label of the document: an int becomes ``[1]`` long, a float ``[1]``
                float, a tensor stays as it is.
            format: ``"text"``, ``"html"`` or ``"markdown"``. Pictures that are files
                cannot be found without a file and are left out.

        Raises:
            EmptyDocumentError: If the text has no token (a ValueError).
            TypeError: If the label is neither a number nor a tensor.
            ValueError: If the text is no text: NUL characters, lone surrogates; or the
                format is not known.
        """
        name = source or "<text>"
        check_format(name, format)
        check_text(text, name, format)
        parsed = self.reader.parse_text(text, format, name)
        return self.parsed(parsed, format, source, y)

    def file(
        self,
        path: str | os.PathLike[str],
        format: str | None = None,
        y: Label | None = None,
        root: str | os.PathLike[str] | None = None,
    ) -> NestedSignal:
        """Convert a file; ``signal.source`` is its path.

        Args:
            path: The file.
            format: ``"text"``, ``"html"``, ``"markdown"`` or ``"epub"``; by default
                told from the suffix.
            y: Label of the document.
            root: Folder outside of which no picture is read; by default the file's own.

        Raises:
            FileNotFoundError: If there is no such file.
            EmptyDocumentError: If the document has no leaf (a ValueError).
            ValueError: If the format is not known or the file is not in ``encoding``.
        """
        name = Path(path).as_posix()
        format = check_format(name, format or detect_format(Path(path)))
        return self.parsed(self.read(path, format, root), format, name, y)

    def read(
        self,
        path: str | os.PathLike[str],
        format: str | None = None,
        root: str | os.PathLike[str] | None = None,
    ) -> ParsedDocument:
        """Read a file without tokenizing it, for instance to count its words.

        Args:
            path: The file.
            format: Its format; by default told from the suffix.
            root: Folder outside of which no picture is read; by default the file's own.

        Returns:
            The tree of its blocks and, as ``text``, what a reader sees of it.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If the format is not known or the file is not in ``encoding``.
        """
        name = Path(path).as_posix()
        format = check_format(name, format or detect_format(Path(path)))
        return self.reader.parse_file(Path(path), format, name, root)

    def parsed(
        self,
        parsed: ParsedDocument,
        format: str,
        source: str = "",
        y: Label | None = None,
    ) -> NestedSignal:
        """Convert what a reader of documents made of one.

        Args:
            parsed: The tree of blocks and its text.
            format: Format of the document, which decides the schema.
            source: Name of the document.
            y: Label of the document.
        """
        name = source or "<text>"
        schema = self.schema(format)
        tokens, dropped = self.encoded(parsed, name)
        signal = assemble(parsed.block, tokens, schema, self.tree, BEYOND in dropped)
        if not any(signal[kind].x.size(0) for kind in schema.leaf_types):
            raise EmptyDocumentError(
                f"Document {name!r} is empty: none of its {len(parsed.text)} "
                "characters gives a token, and a tree needs a leaf. Leave it out."
            )
        if self.keep_text:
            signal["document"].text = [parsed.text]
        signal.source = source
        signal.dropped = sorted(dropped.items())
        if y is not None:
            signal.y = label_tensor(y, f"document {name!r}")
        return signal

    def encoded(
        self, parsed: ParsedDocument, name: str
    ) -> tuple[dict[Block, EncodedText], Counter[str]]:
        """Tokenize what a reader of documents made of one.

        Args:
            parsed: The tree of blocks and its text.
            name: Name of the document, for errors.

        Returns:
            The tokens of its sentences, and what was left out in all.
        """
        dropped = Counter(parsed.dropped)
        tokens = encode_blocks(
            parsed.block, parsed.text, self.encode, name, self.max_tokens, dropped
        )
        return tokens, dropped


def from_document(
    path_or_text: str | os.PathLike[str],
    format: str | None = None,
    tokenizer: Any = None,
    *,
    sentences: Literal["prose", "lines"] | SentenceSplitter = "prose",
    language: str = "en",
    encoding: str | None = None,
    max_tokens: int | None = None,
    images: bool | PictureReader = True,
    main_content: bool = False,
    keep_text: bool = True,
    root: str | os.PathLike[str] | None = None,
    y: Label | None = None,
) -> NestedSignal:
    r"""Convert one document in plain text, HTML, Markdown or EPUB.

    Args:
        path_or_text: A ``pathlib.Path`` is a file. A string is a file if there is one
            of that name, and the text itself otherwise. For texts of a data set use
            ``DocumentConverter().text``, which takes every string for text.
        format: ``"text"``, ``"html"``, ``"markdown"`` or ``"epub"``; by default told
            from the suffix of a file, and ``"text"`` for a string.
        tokenizer: See :class:`DocumentConverter`, as for the arguments below.
        sentences: ``"prose"``, ``"lines"`` or a callable.
        language: Language of the prose.
        encoding: Encoding of the file.
        max_tokens: Keep the first so many tokens.
        images: True, False or a :class:`~hsa_pyg.converters.PictureReader`.
        main_content: Leave out the boilerplate of web pages.
        keep_text: Keep the text in the signal.
        root: Folder outside of which no picture is read; by default the file's own.
        y: Label of the document.

    Raises:
        FileNotFoundError: If there is no such file, also for a string of one line
            that ends like the name of a document or picture (``"my report.txt"``).
        IsADirectoryError: If it is a string that names a folder, such as ``"."``.
        EmptyDocumentError: If the document has no token (a ValueError).
        ValueError: If the format is not known or the file is not in ``encoding``.

    Example:
        >>> signal = from_document("It rained. We read.", y=1)
        >>> signal["sentence"].num_nodes, signal.hierarchy.num_leaves
        (2, 6)
        >>> page = from_document("<h1>Rain</h1><p>It rained.", format="html")
        >>> page["section"].level.tolist(), page["paragraph"].num_nodes
        ([1], 2)
    """
    convert = DocumentConverter(
        tokenizer,
        sentences=sentences,
        language=language,
        encoding=encoding,
        max_tokens=max_tokens,
        images=images,
        main_content=main_content,
        keep_text=keep_text,
    )
    if names_file(path_or_text):
        return convert.file(path_or_text, format, y, root)
    return convert.text(os.fspath(path_or_text), y=y, format=format or "text")


def from_html(
    path_or_html: str | os.PathLike[str], tokenizer: Any = None, **settings: Any
) -> NestedSignal:
    r"""Convert one page: :func:`from_document` with ``format="html"``.

    Pages that link to one another are converted by
    :func:`~hsa_pyg.converters.from_website`.

    Args:
        path_or_html: A file, or the HTML itself.
        tokenizer: See :class:`DocumentConverter`.
        **settings: As of :func:`from_document`.

    Raises:
        FileNotFoundError: If there is no such file.
        EmptyDocumentError: If nothing is to be seen on the page (a ValueError).

    Example:
        >>> from hsa_pyg.converters import ROLES
        >>> page = from_html("<ul><li>It rained.<li>We read.</ul>")
        >>> [ROLES[role] for role in page["block"].role.tolist()]
        ['list', 'item', 'item']
    """
    return from_document(path_or_html, "html", tokenizer, **settings)
