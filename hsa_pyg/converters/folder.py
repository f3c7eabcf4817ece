"""Many documents at once."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from tqdm import tqdm

from hsa_pyg.converters.document import DocumentConverter, EmptyDocumentError
from hsa_pyg.converters.folder_files import files_below
from hsa_pyg.converters.formats import detect_format
from hsa_pyg.converters.images import PictureReader
from hsa_pyg.converters.labels import Labels, labels_of_files
from hsa_pyg.converters.sentences import SentenceSplitter
from hsa_pyg.data import NestedSignal, unify


def from_documents(
    paths_or_folder: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    format: str | None = None,
    tokenizer: Any = None,
    *,
    labels: Labels = None,
    sentences: Literal["prose", "lines"] | SentenceSplitter = "prose",
    language: str = "en",
    encoding: str | None = None,
    max_tokens: int | None = None,
    images: bool | PictureReader = True,
    main_content: bool = False,
    keep_text: bool = True,
    progress: bool = True,
) -> list[NestedSignal]:
    r"""Convert the documents of a folder, or a list of files.

    A folder is searched with its subfolders, in sorted order; names that start with a
    dot are left alone. Documents without a leaf are left out, and so are files of a
    folder whose format has no reader: one warning names them all. Documents of unlike
    formats get all the types of the richer ones, so that they can be batched.

    Args:
        paths_or_folder: A folder, or the files themselves.
        format: Format of all the files, ``"text"``, ``"html"``, ``"markdown"`` or
            ``"epub"``; by default told from each suffix.
        tokenizer: See :class:`~hsa_pyg.converters.DocumentConverter`, as for the
            arguments below. To train one on the files:
            ``train_word_tokenizer(DocumentConverter().read(path).text for path in
            paths)``.
        labels: ``"folder"`` numbers the names of the folders that the documents lie
            in, sorted (``neg``, ``pos``: 0, 1); a callable gives the label of a path.
        sentences: ``"prose"``, ``"lines"`` or a callable.
        language: Language of the prose.
        encoding: Encoding of the files.
        max_tokens: Keep the first so many tokens of each document.
        images: True, False or a :class:`~hsa_pyg.converters.PictureReader`. No picture
            is read from outside of the folder, or of a listed file's own folder.
        main_content: Leave out the boilerplate of web pages.
        keep_text: Keep the texts in the signals.
        progress: Show a progress bar.

    Returns:
        One signal a document, in order. ``signal.source`` is its path.

    Raises:
        FileNotFoundError: If a file or the folder does not exist.
        ValueError: If no document is left, a listed file's format is not known, or a
            document is not in ``encoding``.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> for label in ("neg", "pos"):
        ...     (folder / label).mkdir()
        ...     _ = (folder / label / "a.txt").write_text(f"A {label} review.")
        >>> signals = from_documents(folder, labels="folder", progress=False)
        >>> [int(signal.y) for signal in signals]
        [0, 1]
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
    paths, unreadable = _find(paths_or_folder, format)
    label_of = labels_of_files(labels, paths)
    root = paths_or_folder if isinstance(paths_or_folder, str | os.PathLike) else None
    signals, empty = [], []
    for path in tqdm(paths, desc="Converting", unit="doc", disable=not progress):
        try:
            signals.append(convert.file(path, format, label_of(path), root))
        except EmptyDocumentError:
            empty.append(path)
    _warn_skipped(empty, unreadable)
    if not signals:
        raise ValueError(
            f"There is no document to convert in {paths_or_folder!r}: "
            f"{len(empty)} empty, {len(unreadable)} of unsupported formats."
        )
    return unify(signals)


def _find(
    paths_or_folder: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    format: str | None,
) -> tuple[list[Path], list[Path]]:
    """Return the files to convert, and those without a reader or outside."""
    if not isinstance(paths_or_folder, str | os.PathLike):
        paths = [Path(path) for path in paths_or_folder]
        for path in paths:
            if not path.exists():
                raise FileNotFoundError(
                    f"There is no file {path.as_posix()!r}. from_documents takes "
                    "paths; a text itself is converted with from_document."
                )
        return paths, []
    folder = Path(paths_or_folder)
    if not folder.is_dir():
        raise FileNotFoundError(
            f"There is no folder {folder.as_posix()!r}. "
            "A single file is converted with from_document."
        )
    found, outside = files_below(folder)
    readable = [
        path for path in found if format is not None or detect_format(path) is not None
    ]
    return readable, sorted({*found, *outside} - {*readable})


def _warn_skipped(empty: list[Path], unreadable: list[Path]) -> None:
    reasons = []
    for count, what in (
        (empty, "empty"),
        (unreadable, "of an unsupported format or outside the folder"),
    ):
        if count:
            names = ", ".join(repr(path.as_posix()) for path in count)
            reasons.append(f"{len(count)} {what}: {names}")
    if reasons:
        # Three levels up is the caller of from_documents.
        warnings.warn("Documents left out, " + "; ".join(reasons), stacklevel=3)
