"""Files of word vectors: texts of numbers, and arrays with an index of words."""

from __future__ import annotations

import codecs
import gzip
import json
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

import numpy as np
import torch
from torch import Tensor

_BROKEN = (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile)


def find_in_text(
    path: Path, wanted: Collection[str], member: str | None = None
) -> dict[str, Tensor]:
    """Read vectors from a text file of a word and its numbers a line.

    Args:
        path: The file, which may be packed (``.gz``, ``.zip``).
        wanted: The words to look for; the numbers of others are not read.
        member: Name of the file within a ``.zip``.

    Returns:
        A vector [D] float32 for each word found, the first one of words that are there
        twice.

    Raises:
        ValueError: if the file is broken; it names the line.
        FileNotFoundError: if there is no such file.
    """
    # Words may hold spaces: the search is for what stands before the first one. And
    # they are compared as bytes, since files hold words that are no UTF-8.
    words = {word.encode(): word for word in wanted}
    starts = {word.partition(b" ")[0] for word in words}
    found: dict[str, Tensor] = {}
    with _opened(path, member) as lines:
        header, width, number = None, 0, 0
        for number, line in enumerate(_lines(lines, path), 1):
            if number == 1:
                header = _header(line)
                if header is not None:
                    width = header[1]
                    continue
            width = width or len(line.split(b" ")) - 1
            if line.partition(b" ")[0] not in starts:
                continue
            word, *numbers = line.rsplit(b" ", width)
            word = word.rstrip(b" ")
            if word in words and words[word] not in found:
                where = f"line {number} of {path.as_posix()!r}"
                found[words[word]] = _vector(numbers, width, where)
        count = number - 1
        if header is not None and header[0] != count:
            raise ValueError(
                f"{path.as_posix()!r} says that it has {header[0]} words, but has "
                f"{count}: it is a part of a file; fetch it again"
            )
    return found


def _lines(lines: IO[bytes], path: Path) -> Iterator[bytes]:
    """Lines without what stands at their end, until an empty one."""
    try:
        for number, line in enumerate(lines):
            line = line.rstrip(b" \r\n")
            if number == 0:  # some editors put a byte order mark there
                line = line.removeprefix(codecs.BOM_UTF8)
            if line:
                yield line
    except _BROKEN as error:
        raise ValueError(
            f"{path.as_posix()!r} is broken, or a part of a file ({error}); fetch it "
            "again"
        ) from error


def _header(line: bytes) -> tuple[int, int] | None:
    """Numbers of words and channels, if the first line has them."""
    parts = line.split()
    if len(parts) == 2 and all(part.isdigit() for part in parts):
        return int(parts[0]), int(parts[1])
    return None


def _vector(numbers: list[bytes], width: int, where: str) -> Tensor:
    try:
        vector = np.array(numbers, dtype=np.float32)
    except ValueError as error:
        raise ValueError(
            f"{where} does not end in {width} numbers: {error}; are the vectors those "
            "of GloVe, word2vec (as text) or fastText?"
        ) from error
    if width == 0 or len(vector) != width or not np.isfinite(vector).all():
        raise ValueError(
            f"{where} should have {width or 'some'} finite numbers behind its word, "
            f"but has {len(vector)} or others; fetch the file again"
        )
    return torch.from_numpy(vector)


@contextmanager
def _opened(path: Path, member: str | None) -> Iterator[IO[bytes]]:
    if member is not None and path.suffix != ".zip":
        raise ValueError(f"member= is for .zip files, but the vectors are in {path}")
    if path.suffix == ".gz":
        with gzip.open(path) as file:
            yield cast(IO[bytes], file)
    elif path.suffix == ".zip":
        try:
            archive = zipfile.ZipFile(path)
        except zipfile.BadZipFile as error:
            raise ValueError(f"{path.as_posix()!r} is no zip archive") from error
        with archive, archive.open(_member(archive, path, member)) as file:
            yield file
    else:
        with path.open("rb") as file:
            yield file


def _member(archive: zipfile.ZipFile, path: Path, member: str | None) -> str:
    names = [name for name in archive.namelist() if not name.endswith("/")]
    if member is None and len(names) == 1:
        return names[0]
    if member is None or member not in names:
        raise ValueError(
            f"{path.as_posix()!r} has {'no ' + repr(member) if member else 'several'} "
            f"files; pass member= with one of {names}"
        )
    return member


def find_in_array(
    path: Path, index: Path, wanted: Collection[str]
) -> dict[str, Tensor]:
    """Read vectors from the rows of a ``.npy`` array.

    Args:
        path: The array [K, D]; only the rows that are wanted are read.
        index: The file of its K words, see
            :func:`~hsa_pyg.nn.word_vectors.read_word_vectors`.
        wanted: The words to look for.

    Raises:
        ValueError: if array and index do not fit, or are of another kind.
        FileNotFoundError: if one of them is not there.
        ImportError: if the index is a Parquet file and PyArrow is not installed.
    """
    try:
        array = np.load(path, mmap_mode="r")
    except ValueError as error:
        raise ValueError(f"{path.as_posix()!r} is no .npy array: {error}") from error
    if array.ndim != 2 or not np.issubdtype(array.dtype, np.floating):
        raise ValueError(
            f"{path.as_posix()!r} should hold a vector a row, [words, channels], but "
            f"has {array.dtype} of shape {array.shape}"
        )
    row_of = _rows(index, len(array))
    # In the order of the rows, which is that of the file.
    rows = sorted((row_of[word], word) for word in wanted if word in row_of)
    found = {}
    for row, word in rows:
        vector = np.array(array[row], dtype=np.float32)
        if not np.isfinite(vector).all():
            raise ValueError(
                f"row {row} of {path.as_posix()!r}, the vector of {word!r}, has "
                "numbers that are not finite; fetch the file again"
            )
        found[word] = torch.from_numpy(vector)
    return found


def _rows(index: Path, count: int) -> dict[str, int]:
    """The row of each word, the first one of words that are there twice."""
    if index.suffix == ".json":
        words = _read_json(index)
    elif index.suffix == ".parquet":
        words = _read_parquet(index)
    else:
        # By line feeds alone: words hold characters that str.splitlines takes for ends.
        text = index.read_bytes().decode("utf-8-sig")
        words = [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")]
    if isinstance(words, dict):
        row_of = words
        outside = [word for word, row in row_of.items() if not 0 <= row < count]
    else:
        row_of, outside = {}, words[count:]
        for row, word in enumerate(words):
            row_of.setdefault(word, row)
    if outside or (isinstance(words, list) and len(words) < count):
        raise ValueError(
            f"{index.as_posix()!r} has {len(words)} words"
            + (f", such as {outside[0]!r}" if outside else "")
            + f", and the array {count} rows: they do not belong together"
        )
    return row_of


def _read_json(index: Path) -> list[str] | dict[str, int]:
    """A list of words, or the row of each."""
    try:
        words = json.loads(index.read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise ValueError(f"{index.as_posix()!r} is no JSON: {error}") from error
    rows = words.values() if isinstance(words, dict) else ()
    if not isinstance(words, list | dict) or any(type(row) is not int for row in rows):
        raise ValueError(
            f"{index.as_posix()!r} should hold a JSON list of words, or an object from "
            "each word to the integer of its row"
        )
    return words


def _read_parquet(index: Path) -> list[str]:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(
            f'Reading {index.name!r} needs PyArrow: pip install "hsa-pyg[vectors]".'
        ) from error
    table = parquet.read_table(index)
    if table.num_columns != 1:
        raise ValueError(
            f"{index.as_posix()!r} should have one column, the words, but has "
            f"{table.column_names}"
        )
    return table.column(0).to_pylist()
