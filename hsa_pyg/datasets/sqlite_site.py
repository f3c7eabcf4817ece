"""The documentation of SQLite: a real website, whose pages are of five kinds."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import torch

from hsa_pyg.converters import PictureReader
from hsa_pyg.data import NestedSignal
from hsa_pyg.datasets.raw_files import BROKEN, part_of
from hsa_pyg.datasets.shipped import shipped_file
from hsa_pyg.datasets.website_pages import WebsitePages

ARCHIVE_NAME = "sqlite_site.tar.xz"


class SqliteSite(WebsitePages):
    r"""Pages of the documentation of SQLite 3.40, with the links between them.

    The authors of SQLite have placed it in the public domain
    (https://sqlite.org/copyright.html). 81 pages and their pictures come with this
    package; ``raw_archive`` names the whole site, 766 pages with some 54,000 links,
    which is the folder that Debian's package sqlite3-doc installs, as a tar archive.

    Each page is a signal page > section > block > paragraph > sentence > token, see
    :class:`~hsa_pyg.converters.Website`. ``y`` is ``[1]`` long: which part of the
    documentation the page is from, the folder that it lies in.

    Args:
        root: Folder for raw and processed data.
        raw_archive: The archive of a site, if it is not to be the shipped one.
        tokenizer: See :class:`~hsa_pyg.datasets.WebsitePages`, as for the arguments
            below.
        max_tokens: Keep the first so many tokens of each page.
        images: True, False or a :class:`~hsa_pyg.converters.PictureReader`.
        main_content: Leave out navigation and other boilerplate.
        keep_text: Keep the texts in the signals.
        transform: Called on each signal at every access.
        force_reload: Process the pages again.
        log: Show progress bars while processing.

    Raises:
        FileNotFoundError: If there is no such archive.
        ValueError: If the archive is broken or holds no page.
    """

    classes = ("manual", "c3ref", "releaselog", "session", "syntax")

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        raw_archive: str | os.PathLike[str] | None = None,
        tokenizer: Any = None,
        max_tokens: int | None = None,
        images: bool | PictureReader = True,
        main_content: bool = False,
        keep_text: bool = True,
        transform: Callable | None = None,
        force_reload: bool = False,
        log: bool = True,
    ) -> None:
        archive = Path(raw_archive or shipped_file("sqlite_site", ARCHIVE_NAME))
        if not archive.is_file():
            raise FileNotFoundError(f"There is no archive {archive.as_posix()!r}.")
        super().__init__(
            root,
            _unpacked(archive, Path(root) / "raw"),
            tokenizer=tokenizer,
            max_tokens=max_tokens,
            images=images,
            main_content=main_content,
            keep_text=keep_text,
            transform=transform,
            force_reload=force_reload,
            log=log,
        )

    @property
    def num_classes(self) -> int:
        """Number of parts of the documentation."""
        return len(self.classes)

    def _labelled(self, page: NestedSignal) -> NestedSignal:
        page.y = torch.tensor([page_class(page["page"].path[0])])
        return page

    def _file_names(self) -> list[str]:
        # The shipped pages and the whole site may share a root.
        return [f"{self.site.name}_{name}" for name in super()._file_names()]


def page_class(path: str) -> int:
    """Return the number of the part that a page belongs to.

    Args:
        path: Path of the page below the site's folder.

    Raises:
        ValueError: If the site is another one, which has other folders.

    Example:
        >>> page_class("index.html"), page_class("c3ref/open.html")
        (0, 1)
    """
    folder = PurePosixPath(path).parts[:-1]
    if not folder:
        return 0
    if folder[0] not in SqliteSite.classes:
        raise ValueError(
            f"The page {path!r} is of no known part of the documentation of SQLite: "
            f"the folders are {', '.join(SqliteSite.classes[1:])}. Other websites are "
            "read by WebsitePages."
        )
    return SqliteSite.classes.index(folder[0])


def _unpacked(archive: Path, raw: Path) -> Path:
    """Unpack the archive below ``raw``, unless it is there already."""
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()[:12]
    folder = raw / f"site_{digest}"
    if folder.is_dir():
        return folder
    part = part_of(folder)
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        with tarfile.open(archive) as files:
            # "data" refuses what would be written outside of the folder.
            files.extractall(part, filter="data")
    except (*BROKEN, OSError) as error:
        raise ValueError(
            f"{archive.as_posix()!r} is no tar archive, or a part of one ({error}): "
            "fetch it again."
        ) from error
    try:
        os.replace(part, folder)
    except OSError:
        # Another process may have been faster.
        if not folder.is_dir():
            raise
        shutil.rmtree(part)
    return folder
