"""Folders of linked pages to signals: website > page > section > block > ..."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, overload

import torch
from tqdm import tqdm

from hsa_pyg.converters.assemble import BEYOND, SignalBuilder
from hsa_pyg.converters.blocks import Block, ParsedDocument
from hsa_pyg.converters.document import DocumentConverter
from hsa_pyg.converters.document_schema import LINKS_TO
from hsa_pyg.converters.images import PictureReader
from hsa_pyg.converters.labels import Label, label_tensor
from hsa_pyg.converters.main_content import MainContentError
from hsa_pyg.converters.sentences import SentenceSplitter
from hsa_pyg.converters.site import scan_site
from hsa_pyg.converters.tokenization import EncodedText
from hsa_pyg.data import NestedSignal, Schema

_PAGE: Literal["page"] = "page"


class Website:
    r"""A folder of linked pages, whose signals are made one page at a time.

    It is a sequence of signals: ``len(site)``, ``site[0]``, ``for page in site``. Each
    is read from its file when it is asked for, so that no more than one page needs to
    be in memory; a DataLoader of several workers can read from it. Every one has the
    types of :class:`~hsa_pyg.converters.DocumentConverter`, with the root ``page``
    instead of ``document``, which has ``title`` and ``path``. A page without a leaf is
    there, too. :meth:`signal` makes one signal of the whole site.

    Args:
        root: The folder. No file outside of it is read, also not through links of the
            file system, and nothing is fetched from a network.
        start: A page below ``root``: only what can be reached from it by links is
            taken, the nearest first. None takes all pages, sorted by their paths.
        max_pages: Take the first so many pages; with ``start`` they hang together.
        tokenizer: See :class:`~hsa_pyg.converters.DocumentConverter`, as for the
            arguments below.
        sentences: ``"prose"``, ``"lines"`` or a callable.
        language: Language of the prose.
        encoding: Encoding of the pages; None for what they declare.
        max_tokens: Keep the first so many tokens of each page.
        images: True, False or a :class:`~hsa_pyg.converters.PictureReader`.
        main_content: Leave out navigation and other boilerplate; pages in which no main
            content is found are empty then, and counted.
        keep_text: Keep the text of the pages in their signals.
        progress: Show a progress bar while the links are read.

    Attributes:
        paths: Path of every page below ``root``.
        titles: Title of every page.
        links: Links between pages, ``[2, num_links]`` long: numbers of the page that
            has the link and of the one that it leads to, without repetition.
        link_counts: How often each of them stands in its page, ``[num_links]`` long.
        dropped: What was left out when the links were read, by its reason.

    Raises:
        FileNotFoundError: If there is no such folder or no such page.
        ValueError: If the folder has no page, or an argument is out of its range.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "a.html").write_text("<p>See <a href='b.html'>b</a>.")
        >>> _ = (folder / "b.html").write_text("<title>B</title><p>Seen.")
        >>> site = Website(folder, progress=False)
        >>> site.links.tolist(), site[1]["page"].title
        ([[0], [1]], ['B'])
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        start: str | os.PathLike[str] | None = None,
        max_pages: int | None = None,
        tokenizer: Any = None,
        *,
        sentences: Literal["prose", "lines"] | SentenceSplitter = "prose",
        language: str = "en",
        encoding: str | None = None,
        max_tokens: int | None = None,
        images: bool | PictureReader = True,
        main_content: bool = False,
        keep_text: bool = True,
        progress: bool = True,
    ) -> None:
        self.root = Path(root)
        self._convert = DocumentConverter(
            tokenizer,
            sentences=sentences,
            language=language,
            encoding=encoding,
            max_tokens=max_tokens,
            images=images,
            main_content=main_content,
            keep_text=keep_text,
        )
        site = scan_site(root, start, max_pages, encoding, progress)
        self.paths, self.titles = site.paths, site.titles
        self.links = torch.tensor(list(site.links), dtype=torch.long).view(-1, 2).T
        self.links = self.links.contiguous()
        self.link_counts = torch.tensor(list(site.links.values()), dtype=torch.long)
        self.dropped = site.dropped

    def schema(self, whole: bool = False) -> Schema:
        """Schema of the signals of the pages, or of that of the whole site."""
        return self._convert.rich_schema(_PAGE, website=whole)

    def __len__(self) -> int:
        return len(self.paths)

    @overload
    def __getitem__(self, number: int) -> NestedSignal: ...

    @overload
    def __getitem__(self, number: slice) -> list[NestedSignal]: ...

    def __getitem__(self, number: int | slice) -> NestedSignal | list[NestedSignal]:
        """The signal of a page, or a list of the signals of several.

        Raises:
            IndexError: If there is no such page.
        """
        if isinstance(number, slice):
            return [self[page] for page in range(len(self))[number]]
        try:
            number = range(len(self))[number]
        except IndexError:
            raise IndexError(
                f"There is no page {number}: the site has {len(self)} pages."
            ) from None
        parsed, tokens, dropped = self._parse(number)
        builder = SignalBuilder(self.schema(), self._convert.tree)
        builder.add_document(parsed.block, tokens, cut=BEYOND in dropped)
        signal = builder.signal()
        self._describe(signal, [number], [parsed.text])
        signal.dropped = sorted(dropped.items())
        return signal

    def __iter__(self) -> Iterator[NestedSignal]:
        for number in range(len(self)):
            yield self[number]

    def signal(self, progress: bool = True) -> NestedSignal:
        """One signal of all pages; see :func:`from_website`.

        Args:
            progress: Show a progress bar.

        Raises:
            ValueError: If no page has a leaf.
        """
        builder = SignalBuilder(self.schema(whole=True), self._convert.tree)
        site = builder.add_root("website")
        dropped = Counter(self.dropped)
        texts = []
        numbers = tqdm(
            range(len(self)), desc="Converting", unit="page", disable=not progress
        )
        for number in numbers:
            parsed, tokens, dropped_here = self._parse(number)
            cut = BEYOND in dropped_here
            builder.add_document(parsed.block, tokens, ("website", site), cut)
            dropped.update(dropped_here)
            if self._convert.keep_text:
                texts.append(parsed.text)
        signal = builder.signal()
        if not any(signal[kind].x.size(0) for kind in signal.schema.leaf_types):
            raise ValueError(
                f"The pages of {self.root.as_posix()!r} are empty: none has a word or "
                "a picture, and a tree needs a leaf."
            )
        self._describe(signal, range(len(self)), texts)
        links = signal[_PAGE, LINKS_TO, _PAGE]
        links.edge_index, links.count = self.links, self.link_counts
        signal.source = self.root.as_posix()
        signal.dropped = sorted(dropped.items())
        return signal

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.root.as_posix()!r}, pages={len(self)}, "
            f"links={self.links.size(1)})"
        )

    def _parse(
        self, number: int
    ) -> tuple[ParsedDocument, dict[Block, EncodedText], Counter[str]]:
        path = self.paths[number]
        try:
            parsed = self._convert.reader.parse_page(self.root / path, path, self.root)
        except MainContentError:
            # A page that is a list of links must not end the conversion of its site.
            page = Block(_PAGE, 0, 0)
            parsed = ParsedDocument(
                page, "", Counter({"pages without main content": 1})
            )
        return parsed, *self._convert.encoded(parsed, path)

    def _describe(
        self, signal: NestedSignal, numbers: range | list[int], texts: list[str]
    ) -> None:
        pages = signal[_PAGE]
        pages.path = [self.paths[number] for number in numbers]
        pages.title = [self.titles[number] for number in numbers]
        if self._convert.keep_text:
            pages.text = texts


def from_website(
    root: str | os.PathLike[str],
    start: str | os.PathLike[str] | None = None,
    max_pages: int | None = None,
    tokenizer: Any = None,
    *,
    sentences: Literal["prose", "lines"] | SentenceSplitter = "prose",
    language: str = "en",
    encoding: str | None = None,
    max_tokens: int | None = None,
    images: bool | PictureReader = True,
    main_content: bool = False,
    keep_text: bool = True,
    progress: bool = True,
    y: Label | None = None,
) -> NestedSignal:
    r"""Convert a folder of linked pages to one signal: website > page > section > ...

    Below a page stand the types of :class:`~hsa_pyg.converters.DocumentConverter`. In
    addition there are

    - edges ``("page", "links_to", "page")`` with ``count``, the number of such links in
      the page; links within a page and out of the folder are counted in ``dropped``;
    - ``page.path``, ``page.title`` and ``page.text``, lists with an entry per page;
    - pictures that several pages show: stored once, as children of the website. The
      edges ``("block", "shows", "image")`` tell where each one is shown.

    The same files give the same tensors. For a site that does not fit into memory use
    :class:`Website`, which makes one page's signal at a time.

    Args:
        root: The folder; see :class:`Website`, as for the arguments below.
        start: The page to follow links from; None takes all pages.
        max_pages: Take the first so many pages.
        tokenizer: A tokenizer.
        sentences: ``"prose"``, ``"lines"`` or a callable.
        language: Language of the prose.
        encoding: Encoding of the pages; None for what they declare.
        max_tokens: Keep the first so many tokens of each page.
        images: True, False or a :class:`~hsa_pyg.converters.PictureReader`.
        main_content: Leave out navigation and other boilerplate; pages in which no main
            content is found are empty then, and counted.
        keep_text: Keep the text of the pages.
        progress: Show progress bars.
        y: Label of the site, or labels of its pages.

    Raises:
        FileNotFoundError: If there is no such folder or no such page.
        ValueError: If the folder has no page, or no page has a leaf.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "a.html").write_text("<p>See <a href='b.html'>b</a>.")
        >>> _ = (folder / "b.html").write_text("<p>Back to <a href='a.html#top'>a</a>.")
        >>> site = from_website(folder, progress=False)
        >>> site["page", "links_to", "page"].edge_index.tolist()
        [[0, 1], [1, 0]]
        >>> site["page"].path, site.hierarchy.num_leaves
        (['a.html', 'b.html'], 7)
    """
    site = Website(
        root,
        start,
        max_pages,
        tokenizer,
        sentences=sentences,
        language=language,
        encoding=encoding,
        max_tokens=max_tokens,
        images=images,
        main_content=main_content,
        keep_text=keep_text,
        progress=progress,
    )
    signal = site.signal(progress)
    if y is not None:
        signal.y = label_tensor(y, f"website {signal.source!r}")
    return signal
