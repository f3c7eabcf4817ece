"""Getting raw files into a data set's folder: whole, or not at all."""

from __future__ import annotations

import bz2
import filecmp
import gzip
import lzma
import os
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import IO, cast

from torch_geometric.data import download_url

TAR_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2")
"""Names of archives that :func:`reading_tar` reads end like this."""

BROKEN = (
    tarfile.TarError,
    EOFError,
    lzma.LZMAError,
    zlib.error,
    gzip.BadGzipFile,
)
"""What is raised where an archive or a packed file is broken or a part of one."""


def part_of(path: Path) -> Path:
    """Where to write a file before it is moved to its place.

    Each process has its own place, since several may process one data set at once.
    """
    return path.with_name(f"{path.name}.{os.getpid()}.part")


def copy_whole(source: Path, target: Path) -> None:
    """Copy a file so that ``target`` is never there in part."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = part_of(target)
    shutil.copyfile(source, part)
    os.replace(part, target)


def check_same(given: Path, kept: Path, argument: str) -> None:
    """Raise a ValueError if a file is given and another one is kept already.

    Args:
        given: The file that the user names.
        kept: The one in the data set's raw folder.
        argument: Name of the argument, for the error.
    """
    if not filecmp.cmp(given, kept, shallow=False):
        raise ValueError(
            f"{kept.as_posix()!r} is another file than {argument}="
            f"{given.as_posix()!r}: use another root, or delete this one."
        )


def check_same_files(given: Path, kept: Path, names: Iterable[str]) -> None:
    """As :func:`check_same`, for the files of those names that are in both folders."""
    for name in names:
        if (given / name).is_file() and (kept / name).is_file():
            check_same(given / name, kept / name, "raw_dir")


def check_same_archive(given: Path, stamp: Path) -> None:
    """Raise a ValueError if files were taken out of another archive than a given one.

    Args:
        given: The archive that the user names.
        stamp: Holds that archive's :func:`digest_of`; without it nothing is checked.
    """
    if not stamp.is_file() or not given.is_file():
        return
    if stamp.read_text(encoding="utf-8") != digest_of(given):
        raise ValueError(
            f"The files in {stamp.parent.as_posix()!r} are of another archive than "
            f"raw_archive={given.as_posix()!r}: use another root, or delete them and "
            "what was made of them."
        )


def sizes_of(files: Iterable[Path]) -> dict[str, int]:
    """Bytes of each file by its name, to be kept with what is made of them."""
    return {path.name: path.stat().st_size for path in files}


def check_same_sizes(
    files: Iterable[Path], kept: dict[str, int] | None, root: str | os.PathLike[str]
) -> None:
    """Raise a ValueError if files are not those that something was made of.

    Args:
        files: What is there now.
        kept: What :func:`sizes_of` gave then; None if it was not kept.
        root: Folder of the data set, for the error.
    """
    found = sizes_of(files)
    if kept is not None and found != kept:
        raise ValueError(
            f"{os.fspath(root)!r} was made of other files: bytes were {kept}, are "
            f"{found}. Use another root, or delete it."
        )


def digest_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    found = sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()


def fetch(
    url: str, folder: Path, remedy: str, check: Callable[[Path], object], log: bool
) -> Path:
    """Download a file; if that fails nothing stays behind.

    Args:
        url: Where the publication says the file is.
        folder: Where to put it, under its own name.
        remedy: What to do without a network, for the error.
        check: Called on the file; raises if it is not what it should be.
        log: Say that it is downloaded.

    Raises:
        FileNotFoundError: If it cannot be downloaded; says what to do.
    """
    name = url.rpartition("/")[2]
    part = part_of(folder / name)
    part.unlink(missing_ok=True)
    try:
        download_url(url, os.fspath(folder), log=log, filename=part.name)
        check(part)
        os.replace(part, folder / name)
    except OSError as error:
        raise FileNotFoundError(
            f"{(folder / name).as_posix()!r} is not there and cannot be downloaded "
            f"from {url} ({error}). {remedy}"
        ) from error
    finally:
        part.unlink(missing_ok=True)
    return folder / name


@contextmanager
def reading_tar(path: Path) -> Iterator[tarfile.TarFile]:
    """Open a tar archive, packed or not, to be read once from its start.

    Raises:
        ValueError: If it is no archive or a part of one.
        FileNotFoundError: If there is no such file.
    """
    try:
        with _unpacked(path) as file, tarfile.open(fileobj=file, mode="r|") as archive:
            yield archive
    except BROKEN as error:
        raise ValueError(
            f"{path.as_posix()!r} is no tar archive, or a part of one ({error}): "
            "fetch it again."
        ) from error


@contextmanager
def reading_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive, whose members may be broken too.

    Raises:
        ValueError: If it is no archive, a part of one or broken.
        FileNotFoundError: If there is no such file.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (zipfile.BadZipFile, NotImplementedError, EOFError, zlib.error) as error:
        raise ValueError(
            f"{path.as_posix()!r} is no zip archive, or a part of one ({error}): "
            "fetch it again."
        ) from error


def _unpacked(path: Path) -> IO[bytes]:
    """Open an archive below its compression.

    tarfile does so too, but takes a part of a gzip file for a shorter archive.
    """
    with path.open("rb") as file:
        start = file.read(6)
    if start.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], gzip.open(path))
    if start.startswith(b"\xfd7zXZ\0"):
        return lzma.open(path)
    if start.startswith(b"BZh"):
        return bz2.open(path)
    if not _has_end(path):
        raise tarfile.ReadError("the blocks that end an archive are missing")
    return path.open("rb")


def _has_end(path: Path) -> bool:
    """Whether an archive that is not packed is whole, which tarfile does not tell."""
    size = 2 * tarfile.BLOCKSIZE
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - size))
        return file.read() == bytes(size)
