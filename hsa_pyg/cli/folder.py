"""The files of a folder that can be converted."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from hsa_pyg.cli.paths import KIND_OF_SUFFIX, sniff_kind


@dataclass
class FolderFiles:
    """The files of a folder.

    Attributes:
        files: Path and kind of each file that can be converted, sorted.
        failed: Path and reason of those that are there but cannot be read.
        skipped: How many files of each suffix no converter knows.
    """

    files: list[tuple[Path, str]] = field(default_factory=list)
    failed: list[tuple[Path, str]] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)


def find_files(folder: Path, kind: str | None = None) -> FolderFiles:
    """Find the files below a folder that can be converted.

    Names that start with a dot are left alone. Links to folders are not followed, nor
    are links to files outside of the folder.

    Args:
        folder: The folder.
        kind: Take the files for this kind; by default each is told from its suffix.
    """
    found = FolderFiles()
    top = folder.resolve()
    for here, folders, names in os.walk(folder, followlinks=False):
        folders.sort()
        for name in [name for name in folders if name.startswith(".")]:
            folders.remove(name)
        for name in folders:
            path = Path(here, name)
            if path.is_symlink():
                found.failed.append((path, "a link to a folder, which is not followed"))
        for name in sorted(names):
            if not name.startswith("."):
                _sort_in(Path(here, name), kind, top, found)
    found.files.sort()
    found.failed.sort()
    return found


def _sort_in(path: Path, kind: str | None, top: Path, found: FolderFiles) -> None:
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError):
        found.failed.append((path, "a link that leads nowhere"))
        return
    if not real.is_relative_to(top):
        found.failed.append((path, "a link out of the folder, which is not followed"))
        return
    if not real.is_file():
        found.failed.append((path, "no regular file"))
        return
    try:
        told = kind or (
            KIND_OF_SUFFIX.get(path.suffix.lower()) if path.suffix else sniff_kind(path)
        )
    except OSError as error:
        found.failed.append((path, error.strerror or str(error)))
        return
    if told is None or told == "signals":
        found.skipped[path.suffix.lower() or "no suffix"] += 1
    else:
        found.files.append((path, told))
