"""Documents to signals: document > paragraph > sentence > token."""

from __future__ import annotations

import numbers
import os
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from hsa_pyg.converters.assemble import assemble, encode_blocks
from hsa_pyg.converters.blocks import parse_plain_text
from hsa_pyg.converters.formats import (
    SUFFIXES,
    check_format,
    check_text,
    decode,
    detect_format,
)
from hsa_pyg.converters.sentences import SentenceSplitter, sentence_splitter
from hsa_pyg.converters.tokenization import as_text_encoder
from hsa_pyg.data import Feature, NestedSignal, Schema
from hsa_pyg.hierarchy import CHILD_OF

_OFFSETS = {"span": Feature((2,), torch.long)}
_CHILD = {**_OFFSETS, "pos": Feature((1,), torch.float)}

DOCUMENT_SCHEMA = Schema(
    nodes={
        "document": _OFFSETS,
        "paragraph": _CHILD,
        "sentence": _CHILD,
        "token": {**_CHILD, "x": Feature((), torch.long)},
    },
    edges=[
        ("paragraph", CHILD_OF, "document"),
        ("sentence", CHILD_OF, "paragraph"),
        ("token", CHILD_OF, "sentence"),
    ],
)
"""Types and attributes of every signal that this module makes."""

Label = int | float | Tensor


class EmptyDocumentError(ValueError):
    """A document has no token, so that its tree would have no leaf."""


class DocumentConverter:
    r"""Turns documents into signals, all with the same settings.

    Every signal has the node types ``document``, ``paragraph``, ``sentence`` and
    ``token``, one level each, also for a document of one paragraph:

    - ``token.x``: token ids, ``[num_tokens]`` long;
    - ``pos`` of paragraph, sentence and token: place in the parent, ``[n, 1]`` float,
      counted from 0;
    - ``span`` of all types: first character and the one after the last in the
      document's text, ``[n, 2]`` long, so that
      ``text[start:stop]`` is what the node stands for;
    - ``y``: the label, if one was given; ``source``: name of the document.

    Args:
        tokenizer: A ``tokenizers.Tokenizer``, a fast tokenizer of transformers, or a
            callable as :class:`~hsa_pyg.converters.TextEncoder` describes it. Without
            one, :class:`~hsa_pyg.converters.HashedWords`.
        sentences: ``"prose"`` finds sentences in running text, ``"lines"`` takes one
            sentence a line; or a callable that gives the ``(start, stop)`` spans of
            the sentences of a paragraph.
        language: Language of the prose, as an ISO 639 code.
        encoding: Encoding of files.
        max_tokens: Keep the first so many tokens of a document; sentences and
            paragraphs after them are left out. None keeps the whole document.

    Raises:
        ValueError: If ``max_tokens`` is not positive or ``sentences`` is not known.
        TypeError: If ``tokenizer`` is none of the above.

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
        encoding: str = "utf-8",
        max_tokens: int | None = None,
    ) -> None:
        if max_tokens is not None and max_tokens < 1:
            raise ValueError(f"max_tokens must be positive, but is {max_tokens}.")
        self.encode = as_text_encoder(tokenizer)
        self.split = sentence_splitter(sentences, language)
        self.encoding = encoding
        self.max_tokens = max_tokens

    def text(self, text: str, source: str = "", y: Label | None = None) -> NestedSignal:
        """Convert a plain text.

        Args:
            text: The text.
            source: Name of the document, kept in the signal and used in errors.
            y: Label of the document: an int becomes ``[1]`` long, a float ``[1]``
                float, a tensor stays as it is.

        Raises:
            EmptyDocumentError: If the text has no token (a ValueError).
            TypeError: If the label is neither a number nor a tensor.
            ValueError: If the text is no text: NUL characters, lone surrogates.
        """
        name = source or "<text>"
        check_text(text, name)
        document = parse_plain_text(text, self.split)
        tokens = encode_blocks(document, text, self.encode, name, self.max_tokens)
        if not any(len(found.ids) for found in tokens.values()):
            raise EmptyDocumentError(
                f"Document {name!r} is empty: none of its {len(text)} characters "
                "gives a token, and a tree needs a leaf. Leave it out."
            )
        signal = assemble(document, tokens, DOCUMENT_SCHEMA)
        signal.source = source
        if y is not None:
            signal.y = _label(y, name)
        return signal

    def file(
        self,
        path: str | os.PathLike[str],
        format: str | None = None,
        y: Label | None = None,
    ) -> NestedSignal:
        """Convert a file; ``signal.source`` is its path.

        Args:
            path: The file.
            format: Name of the format, ``"text"``; by default told from the suffix.
            y: Label of the document.

        Raises:
            FileNotFoundError: If there is no such file.
            EmptyDocumentError: If the document has no token (a ValueError).
            NotImplementedError: If the format has no reader yet.
            ValueError: If the format is not known or the file is not in ``encoding``.
        """
        name = Path(path).as_posix()
        check_format(name, format or detect_format(Path(path)))
        return self.text(read_text(path, self.encoding), name, y)


def _label(y: Label, name: str) -> Tensor:
    if isinstance(y, Tensor):
        return y
    if isinstance(y, numbers.Real):
        return torch.tensor([y])
    raise TypeError(
        f"The label of document {name!r} is {y!r}: give a number, such as the place of "
        "its class in a list, or a tensor."
    )


def read_text(path: str | os.PathLike[str], encoding: str = "utf-8") -> str:
    """Return a document file's text exactly as the ``span`` of its signal counts it.

    Line endings are kept and a byte order mark is taken off.

    Raises:
        ValueError: If the file is not in this encoding, with the byte offset.
    """
    return decode(Path(path).read_bytes(), Path(path).as_posix(), encoding)


def from_document(
    path_or_text: str | os.PathLike[str],
    format: str | None = None,
    tokenizer: Any = None,
    *,
    sentences: Literal["prose", "lines"] | SentenceSplitter = "prose",
    language: str = "en",
    encoding: str = "utf-8",
    max_tokens: int | None = None,
    y: Label | None = None,
) -> NestedSignal:
    r"""Convert one document: document > paragraph > sentence > token.

    Args:
        path_or_text: A ``pathlib.Path`` is a file. A string is a file if there is one
            of that name, and the text itself otherwise. (``DocumentConverter().text``
            takes every string for text.)
        format: Name of the format, ``"text"``; by default told from the suffix.
        tokenizer: See :class:`DocumentConverter`, as for the arguments below.
        sentences: ``"prose"``, ``"lines"`` or a callable.
        language: Language of the prose.
        encoding: Encoding of the file.
        max_tokens: Keep the first so many tokens.
        y: Label of the document.

    Raises:
        FileNotFoundError: If there is no such file, also for a string that has no
            white space and ends like a document's name (``"report.txt"``).
        EmptyDocumentError: If the document has no token (a ValueError).
        NotImplementedError: If the format has no reader yet.
        ValueError: If the format is not known or the file is not in ``encoding``.

    Example:
        >>> signal = from_document("It rained. We read.", y=1)
        >>> signal["sentence"].num_nodes, signal.hierarchy.num_leaves
        (2, 6)
    """
    convert = DocumentConverter(
        tokenizer,
        sentences=sentences,
        language=language,
        encoding=encoding,
        max_tokens=max_tokens,
    )
    if _names_file(path_or_text):
        return convert.file(path_or_text, format, y)
    check_format("<text>", format or "text")
    return convert.text(os.fspath(path_or_text), y=y)


def _names_file(path_or_text: str | os.PathLike[str]) -> bool:
    if not isinstance(path_or_text, str) or os.path.isfile(path_or_text):
        return True
    if os.path.isdir(path_or_text):
        raise IsADirectoryError(
            f"{path_or_text!r} is a folder: convert it with from_documents."
        )
    # A mistyped name must not become a document of one word.
    is_one_word = len(path_or_text.split()) == 1
    suffix = Path(path_or_text).suffix.lower() if is_one_word else ""
    if suffix and suffix in SUFFIXES:
        raise FileNotFoundError(
            f"There is no file {path_or_text!r}. If this is the text itself, use "
            "DocumentConverter().text(...)."
        )
    return False
