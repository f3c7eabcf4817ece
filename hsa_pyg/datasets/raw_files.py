"""Getting raw files into a data set's folder: whole, or not at all."""

from __future__ import annotations

import filecmp
import gzip
import lzma
import os
import shutil
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from torch_geometric.data import download_url

TAR_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2")
"""Names of archives that :func:`reading_tar` reads end like this."""

_BROKEN = (
    tarfile.TarError,
    EOFError,
    lzma.LZMAError,
    zlib.error,
    gzip.BadGzipFile,
)


def copy_whole(source: Path, target: Path) -> None:
    """Copy a file so that ``target`` is never there in part."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    shutil.copyfile(source, part)
    os.replace(part, target)


def check_same(given: Path, kept: Path, argument: str) -> None:
    """Raise a ValueError if an archive is given and another one is kept already.

    Args:
        given: The archive that the user names.
        kept: The one in the data set's raw folder.
        argument: Name of the argument, for the error.
    """
    if not filecmp.cmp(given, kept, shallow=False):
        raise ValueError(
            f"{kept.as_posix()!r} is another archive than {argument}="
            f"{given.as_posix()!r}: use another root, or delete this one."
        )


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
    part = folder / f"{name}.part"
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
        if path.suffix == ".tar" and not _has_end(path):
            raise tarfile.ReadError("the blocks that end an archive are missing")
        with tarfile.open(path, "r|*") as archive:
            yield archive
    except _BROKEN as error:
        raise ValueError(
            f"{path.as_posix()!r} is no tar archive, or a part of one ({error}): "
            "fetch it again."
        ) from error


def _has_end(path: Path) -> bool:
    """Whether an archive that is not packed is whole, which tarfile does not tell."""
    size = 2 * tarfile.BLOCKSIZE
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - size))
        return file.read() == bytes(size)
