"""Files on disk: those below a folder, and their bytes."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def files_below(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the files below a folder, sorted, and links that lead out of it.

    Names that start with a dot are left alone. Links of the file system are files of
    the folder if they lead to one inside of it; links to folders are not followed.

    Args:
        folder: The folder.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> for name in ("b.txt", "a.txt", ".hidden"):
        ...     _ = (folder / name).write_text("It rained.")
        >>> [path.name for path in files_below(folder)[0]]
        ['a.txt', 'b.txt']
    """
    top = folder.resolve()
    inside: list[Path] = []
    outside: list[Path] = []
    for here, folders, names in os.walk(folder, followlinks=False):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(here, name)
            if name.startswith(".") or not path.is_file():
                continue
            real = path.resolve()
            (inside if real.is_relative_to(top) else outside).append(path)
    return sorted(inside), sorted(outside)


def read_file(path: Path, name: str) -> bytes:
    """Return the bytes of a regular file.

    Args:
        path: The file.
        name: What errors call it.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is a device or a pipe, from which reading might never end.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):
        what = "a folder" if path.is_dir() else "a device, a pipe or the like"
        raise ValueError(f"{name!r} is no regular file but {what}: pass a file.")
    return path.read_bytes()
