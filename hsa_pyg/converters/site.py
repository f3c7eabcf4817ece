"""The pages of a folder and the links between them."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tqdm import tqdm

from hsa_pyg.converters.formats import detect_format
from hsa_pyg.converters.page_head import read_head
from hsa_pyg.converters.resources import ResourceError, locate, with_base

BEYOND = "pages beyond max_pages"
WITHIN_PAGE = "links within a page"
LEFT_OUT = "links to pages left out"
NO_PAGE = "links to files that are no pages"


@dataclass
class Site:
    """Pages of a folder, and which page links to which.

    Args:
        root: The folder.
        paths: Path of every page below ``root``, in POSIX form.
        titles: Title of every page, empty where it has none.
        links: Number of links from a page to another one, by their numbers.
        dropped: What was left out, by its reason, with the number of times.
    """

    root: Path
    paths: list[str] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)
    links: Counter[tuple[int, int]] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)


def scan_site(
    root: str | os.PathLike[str],
    start: str | os.PathLike[str] | None = None,
    max_pages: int | None = None,
    encoding: str | None = None,
    progress: bool = False,
) -> Site:
    """Find the pages of a folder and the links between them.

    Each page is read once for its links and title; only these are kept.

    A link counts from a page to another page of the folder, whatever its fragment or
    query. A page that only sends its readers on (``<meta http-equiv="refresh">``) stays
    a page, but links to it lead where it sends them.

    Args:
        root: The folder. No file outside of it is read, also not through links of the
            file system.
        start: A page below ``root``: only what can be reached from it by links is
            taken, the nearest first. None takes all pages, sorted by their paths.
        max_pages: Take the first so many pages.
        encoding: Encoding of the pages; None for what they declare.
        progress: Show a progress bar.

    Raises:
        FileNotFoundError: If there is no such folder or no such page.
        ValueError: If the folder has no page, ``start`` lies outside of it, or
            ``max_pages`` is not positive.
    """
    if max_pages is not None and max_pages < 1:
        raise ValueError(f"max_pages must be positive, but is {max_pages}.")
    folder = Path(root)
    if not folder.is_dir():
        raise FileNotFoundError(
            f"There is no folder {folder.as_posix()!r}. A single page is converted "
            "with from_html."
        )
    scanner = _Scanner(folder.resolve(), encoding)
    if start is None:
        scanner.read_all(max_pages, progress)
    else:
        scanner.crawl(_start_page(folder, start), max_pages, progress)
    if not scanner.pages:
        raise ValueError(
            f"The folder {folder.as_posix()!r} has no page: no file below it ends in "
            ".html, .htm, .xhtml or .xht."
        )
    return scanner.site(folder)


def find_pages(root: Path) -> tuple[list[str], Counter[str]]:
    """Return the paths of the HTML files below a folder, and what was left out.

    The paths are sorted and relative to ``root``. Names that start with a dot are left
    alone, links of the file system are not followed out of the folder, and a file that
    has several names is one page.
    """
    dropped: Counter[str] = Counter()
    top = root.resolve()
    found: dict[Path, str] = {}
    for folder, folders, files in os.walk(top, followlinks=False):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            path = Path(folder, name)
            if name.startswith(".") or detect_format(path) != "html":
                continue
            real = path.resolve()
            if not real.is_relative_to(top):
                dropped["pages outside the folder"] += 1
            elif not real.is_file():
                dropped["pages that cannot be read"] += 1
            else:
                own = path.relative_to(top).as_posix()
                found[real] = min(found.get(real, own), own)
    return sorted(found.values()), dropped


def _start_page(folder: Path, start: str | os.PathLike[str]) -> Path:
    top = folder.resolve()
    file = (top / start).resolve()
    if not file.is_relative_to(top):
        raise ValueError(
            f"The first page {os.fspath(start)!r} lies outside of "
            f"{folder.as_posix()!r}: give a path below it."
        )
    if not file.is_file():
        raise FileNotFoundError(
            f"There is no page {os.fspath(start)!r} in {folder.as_posix()!r}."
        )
    return file


@dataclass
class _Page:
    path: str
    title: str
    # Files of the folder that links lead to, with the number of the links.
    targets: Counter[Path]
    refresh: Path | None

    def next_files(self) -> list[Path]:
        """Where its readers may go from here."""
        return [*self.targets, *([self.refresh] if self.refresh else [])]


class _Scanner:
    """Reads pages and keeps what their heads and links say."""

    def __init__(self, root: Path, encoding: str | None) -> None:
        self.root = root
        self.encoding = encoding
        # By the file itself, which may have several names.
        self.pages: dict[Path, _Page] = {}
        self.dropped: Counter[str] = Counter()
        self._found: dict[tuple[Path, str], Path | str] = {}

    def read_all(self, max_pages: int | None, progress: bool) -> None:
        """Read the pages in the order of their paths."""
        paths, self.dropped = find_pages(self.root)
        if max_pages is not None and len(paths) > max_pages:
            self.dropped[BEYOND] += len(paths) - max_pages
            paths = paths[:max_pages]
        for path in _with_bar(paths, progress):
            self._read((self.root / path).resolve(), path)

    def crawl(self, start: Path, max_pages: int | None, progress: bool) -> None:
        """Read the pages that links lead to, the nearest first."""
        queue = deque([start])
        seen = {start}

        def frontier() -> Iterator[Path]:
            while queue and (max_pages is None or len(self.pages) < max_pages):
                yield queue.popleft()

        for file in _with_bar(frontier(), progress):
            page = self._read(file, file.relative_to(self.root).as_posix())
            for target in page.next_files() if page else ():
                if target not in seen and detect_format(target) == "html":
                    seen.add(target)
                    queue.append(target)
        if queue:
            self.dropped[BEYOND] += len(queue)

    def site(self, folder: Path) -> Site:
        """Number the pages and resolve the links between them."""
        number = {file: place for place, file in enumerate(self.pages)}
        links: Counter[tuple[int, int]] = Counter()
        for source, page in enumerate(self.pages.values()):
            for target, count in page.targets.items():
                final = self._follow(target)
                if final not in number:
                    no_page = detect_format(final) != "html"
                    self.dropped[NO_PAGE if no_page else LEFT_OUT] += count
                elif number[final] == source:
                    self.dropped[WITHIN_PAGE] += count
                else:
                    links[source, number[final]] += count
        return Site(
            folder,
            [page.path for page in self.pages.values()],
            [page.title for page in self.pages.values()],
            Counter(dict(sorted(links.items()))),
            self.dropped,
        )

    def _follow(self, target: Path) -> Path:
        """Go on from pages that send their readers on, to where that ends."""
        seen = set()
        while target not in seen:
            seen.add(target)
            page = self.pages.get(target)
            if page is None or page.refresh is None:
                return target
            target = page.refresh
        # They send their readers round in a circle: any of them is as good.
        return target

    def _read(self, file: Path, path: str) -> _Page | None:
        try:
            content = file.read_bytes()
        except OSError:
            self.dropped["pages that cannot be read"] += 1
            return None
        head = read_head(content, path, self.encoding)
        folder = (self.root / path).parent
        targets = Counter(self._located(head.links, head.base, folder))
        refresh = None
        if head.refresh:
            refresh = next(self._located([head.refresh], head.base, folder), None)
        page = _Page(path, head.title, targets, None if refresh == file else refresh)
        self.pages[file] = page
        return page

    def _located(self, links: list[str], base: str, folder: Path) -> Iterator[Path]:
        """Yield the files that links lead to; count the others by what they are."""
        for link in links:
            found = self._locate(link, base, folder)
            if isinstance(found, Path):
                yield found
            else:
                self.dropped[found] += 1

    def _locate(self, link: str, base: str, folder: Path) -> Path | str:
        """Return the file that a link leads to, or why it leads to none."""
        try:
            url = with_base(link, base).partition("#")[0]
        except ResourceError as error:
            return f"links {error.reason}"
        # Pages have most of their links in common, and looking at files takes time.
        if (folder, url) not in self._found:
            try:
                self._found[folder, url] = locate(url, folder, self.root)
            except ResourceError as error:
                within = error.reason == "within the same page"
                reason = WITHIN_PAGE if within else f"links {error.reason}"
                self._found[folder, url] = reason
        return self._found[folder, url]


Item = TypeVar("Item")


def _with_bar(pages: Iterable[Item], progress: bool) -> Iterable[Item]:
    return tqdm(pages, desc="Reading links", unit="page", disable=not progress)
