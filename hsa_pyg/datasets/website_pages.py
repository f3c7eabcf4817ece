"""The pages of a website, kept on disk."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from tqdm import tqdm

from hsa_pyg.converters import PictureReader
from hsa_pyg.converters.website import Website
from hsa_pyg.data import NestedSignal
from hsa_pyg.datasets.signals_on_disk import SignalsOnDisk


class WebsitePages(SignalsOnDisk):
    r"""The pages of a folder, a signal each, converted once and kept on disk.

    Unlike :func:`~hsa_pyg.converters.from_website`, which makes one signal of all
    pages, this holds one page in memory at a time, so that a site may have any size.
    The links between the pages stay at hand, in :attr:`links` or as a graph of pages
    in :meth:`page_graph`.

    Args:
        root: Folder for the processed data.
        site: The folder of pages. It is not needed again once it is processed.
        start: A page to follow links from; None takes all pages.
        max_pages: Take the first so many pages.
        tokenizer: A ``tokenizers.Tokenizer``, a fast tokenizer of transformers,
            ``"characters"``, or None for :class:`~hsa_pyg.converters.HashedWords`.
        max_tokens: Keep the first so many tokens of each page.
        images: True, False or a :class:`~hsa_pyg.converters.PictureReader`.
        main_content: Leave out navigation and other boilerplate.
        keep_text: Keep the texts in the signals.
        transform: Called on each signal at every access.
        force_reload: Process the pages again.
        log: Show progress bars while processing.

    Raises:
        FileNotFoundError: If there is no such folder or no such page.
        ValueError: If the folder has no page.

    Attributes:
        paths: Path of every page below the site's folder.
        titles: Title of every page.
        links: ``[2, num_links]`` long, see :class:`~hsa_pyg.converters.Website`.
        link_counts: ``[num_links]`` long.
        dropped: What was left out in all, by its reason.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        site: str | os.PathLike[str],
        *,
        start: str | os.PathLike[str] | None = None,
        max_pages: int | None = None,
        tokenizer: Any = None,
        max_tokens: int | None = None,
        images: bool | PictureReader = True,
        main_content: bool = False,
        keep_text: bool = True,
        transform: Callable | None = None,
        force_reload: bool = False,
        log: bool = True,
    ) -> None:
        self.site = Path(site)
        self._settings: dict[str, Any] = {
            "start": start,
            "max_pages": max_pages,
            "max_tokens": max_tokens,
            "images": images,
            "main_content": main_content,
            "keep_text": keep_text,
        }
        self._tokenizer = tokenizer
        super().__init__(root, transform, force_reload=force_reload, log=log)
        kept = torch.load(self.processed_paths[1], weights_only=True)
        self.paths: list[str] = kept["paths"]
        self.titles: list[str] = kept["titles"]
        self.links: Tensor = kept["links"]
        self.link_counts: Tensor = kept["link_counts"]
        self.dropped: dict[str, int] = kept["dropped"]

    @property
    def processed_file_names(self) -> list[str]:
        """Signals and links; each combination of settings has its own."""
        return self._file_names()

    def process(self) -> None:
        """Convert the pages one by one."""
        website = Website(
            self.site, tokenizer=self._tokenizer, progress=self.log, **self._settings
        )
        dropped = website.dropped
        for page in tqdm(
            website, desc="Converting pages", unit="page", disable=not self.log
        ):
            dropped.update(dict(page.dropped))
            self.append(self._labelled(page))
        self.close()
        kept = {
            "paths": website.paths,
            "titles": website.titles,
            "links": website.links,
            "link_counts": website.link_counts,
            "dropped": dict(dropped),
        }
        torch.save(kept, self.processed_paths[1])

    def page_graph(self) -> Data:
        """The graph of the pages: ``edge_index`` and, as ``edge_weight``, the counts.

        Its nodes are numbered as the data set's signals are; give it one row per page,
        such as the readout of a model over the pages, for ``x``.
        """
        return Data(
            edge_index=self.links,
            edge_weight=self.link_counts.to(torch.float),
            num_nodes=len(self.paths),
        )

    def _labelled(self, page: NestedSignal) -> NestedSignal:
        """Add to a page what a data set knows of it."""
        return page

    def _file_names(self) -> list[str]:
        words = _faithful_name(self._tokenizer)
        key = repr((sorted(self._settings.items()), words, type(self).__name__))
        digest = hashlib.sha256(key.encode()).hexdigest()[:12]
        return [f"pages_{digest}.db", f"links_{digest}.pt"]


def _faithful_name(tokenizer: Any) -> str:
    """Tell tokenizers apart by what they do, in every process alike."""
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    name = backend.to_str() if hasattr(backend, "to_str") else repr(tokenizer)
    if " at 0x" in name:
        raise TypeError(
            f"tokenizer is {name}, which a later run cannot tell from another one: "
            "pass a tokenizers.Tokenizer, or a callable object whose repr tells all "
            "its settings."
        )
    return name
