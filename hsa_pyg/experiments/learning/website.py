"""Websites: which part of a site a page belongs to, from the page and its links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Batch

from hsa_pyg.analysis.counted_flops import counted_flops
from hsa_pyg.cli import SettingsError
from hsa_pyg.converters import HashedWords, PictureReader
from hsa_pyg.converters.tokenization import EncodedText
from hsa_pyg.data import NestedSignal
from hsa_pyg.datasets import SqliteSite, WebsitePages
from hsa_pyg.datasets.class_words import class_words, singular
from hsa_pyg.datasets.splits import hash_split
from hsa_pyg.datasets.sqlite_site import page_class
from hsa_pyg.experiments.learning.building import softmax_flops
from hsa_pyg.experiments.learning.vertex_settings import VertexSettings
from hsa_pyg.experiments.learning.vertex_training import VertexTask
from hsa_pyg.experiments.models import LinkedPages
from hsa_pyg.nn import HierarchicalPosition, HSATransformer

#: Ids that words are hashed to.
VOCABULARY = 8_192
#: Of pictures: side of a patch, and of the picture, in pixels.
PATCH, SIDE = 8, 32
POSITION_CHANNELS = 16
#: Kinds of pages of the manual with fewer pages are one kind together.
FEWEST = 12
OTHER = "other"
_VALIDATED = 0.2
_DOMAINS = {
    **dict.fromkeys(("page", "section", "block", "paragraph", "sentence"), "sequence"),
    **dict.fromkeys(("image", "quadrant"), "grid"),
}


class WordsWithout(HashedWords):
    """Hashed words without those that would tell the label.

    Args:
        words: What :func:`~hsa_pyg.datasets.class_words.class_words` gives.
        vocab_size: Number of ids.
    """

    def __init__(self, words: Sequence[str], vocab_size: int = VOCABULARY) -> None:
        super().__init__(vocab_size)
        self.words = sorted(words)
        self._words = frozenset(words)

    def __call__(self, texts: Sequence[str], /) -> list[EncodedText]:
        """Encode each text, without these words."""
        encoded = super().__call__(texts)
        return [
            self._without(text, one) for text, one in zip(texts, encoded, strict=True)
        ]

    def _without(self, text: str, encoded: EncodedText) -> EncodedText:
        kept = [
            (number, (start, stop))
            for number, (start, stop) in zip(*encoded, strict=True)
            if singular(text[start:stop]) not in self._words
        ]
        return EncodedText([number for number, _ in kept], [span for _, span in kept])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.words}, vocab_size={self.vocab_size})"


class PagesOfSite(VertexTask):
    r"""The pages of a site and the links between them.

    A step trains on some pages, whose vectors are made anew; those of all other pages
    are remembered from when they were last made, after M. Fey et al., "GNNAutoScale:
    Scalable and Expressive Graph Neural Networks via Historical Embeddings", 2021
    (https://arxiv.org/abs/2106.05609). Evaluation makes all of them anew.

    Args:
        settings: Complete ones.
        pages: Signals of the pages.
        links: [2, L] pages that link and those that they lead to.
        labels: Name of the class of each page, by its path, in the order of the pages.
    """

    def __init__(
        self,
        settings: VertexSettings,
        pages: Sequence[NestedSignal],
        links: Tensor,
        labels: Mapping[str, str],
    ) -> None:
        self.settings = settings
        self.pages = list(pages)
        self.links = links
        classes = sorted(set(labels.values()))
        y = torch.tensor([classes.index(label) for label in labels.values()])
        share = settings.train_share or 0.4
        shares = {"train": share, "val": _VALIDATED, "test": 1 - share - _VALIDATED}
        part_of = hash_split(labels, shares)
        parts = {
            part: torch.tensor([part_of[path] == part for path in labels])
            for part in shares
        }
        self.words = _word_weights(self.pages) if settings.model == "words" else None
        super().__init__(
            _model(settings, self.pages[0], len(classes)),
            y,
            parts,
            {
                **{f"{part} pages": int(mask.sum()) for part, mask in parts.items()},
                "classes": dict(sorted(Counter(labels.values()).items())),
                "links": links.size(1),
                "leaves": self.num_leaves(),
            },
        )
        self.remembered = torch.zeros(len(self.pages), settings.channels or 1)

    def batches(self) -> Iterator[Tensor]:
        """All pages in random order."""
        order = torch.randperm(len(self.pages))
        if not self.history_is_there:
            # Nothing is remembered yet: fill it in, so that no page sees zeros.
            self.remembered = self._vectors()
            self.model.train()
        yield from order.split(self.settings.batch_size or 64)

    @property
    def history_is_there(self) -> bool:
        """Whether vectors of the pages have been made."""
        return bool(self.remembered.any())

    def logits(self, vertices: Tensor) -> Tensor:
        """Logits [k, num_classes] of k pages, in training."""
        x = self.model.encode(self._batch(vertices))
        everything = self.remembered.index_put((vertices,), x)
        self.remembered[vertices] = x.detach()
        return self.model.classify(everything, self.links)[vertices]

    @torch.no_grad()
    def all_logits(self) -> Tensor:
        """Logits [n, num_classes] of all pages."""
        return self.model.classify(self._vectors(), self.links)

    def num_leaves(self) -> int:
        """Tokens and patches of all pages."""
        return sum(
            store.x.size(0)
            for page in self.pages
            for store in page.node_stores
            if "x" in store
        )

    def attention_flops(self) -> int:
        """Of an epoch: there and back in training, and an evaluation."""
        if self.settings.model not in ("hsa", "flat"):
            return 0
        channels, heads = self.settings.channels or 1, self.settings.heads or 1
        total = 0
        for start in range(0, len(self.pages), 64):
            hierarchy = Batch.from_data_list(self.pages[start : start + 64]).hierarchy
            for backward in (False, False, True):
                if self.settings.model == "flat":
                    sizes = hierarchy.leaf_counts[hierarchy.roots]
                    total += softmax_flops(sizes, channels, channels, backward=backward)
                    continue
                total += counted_flops(
                    hierarchy,
                    channels,
                    heads,
                    position_channels=channels,
                    backward=backward,
                ).hsa
        return total * (self.settings.layers or 1)

    def state(self) -> dict[str, Any]:
        """The remembered vectors."""
        return {"remembered": self.remembered}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take up remembered vectors."""
        self.remembered = state["remembered"].clone()

    @torch.no_grad()
    def _vectors(self) -> Tensor:
        self.model.eval()
        pages = torch.arange(len(self.pages)).split(self.settings.batch_size or 64)
        return torch.cat([self.model.encode(self._batch(some)) for some in pages])

    def _batch(self, vertices: Tensor) -> Any:
        if self.words is not None:
            return self.words[vertices]
        return Batch.from_data_list([self.pages[page] for page in vertices.tolist()])


def _model(
    settings: VertexSettings, page: NestedSignal, num_classes: int
) -> LinkedPages:
    channels, dropout = settings.channels or 1, settings.dropout or 0.0
    pages: torch.nn.Module
    if settings.model == "words":
        pages = torch.nn.Sequential(
            torch.nn.Dropout(dropout), torch.nn.Linear(VOCABULARY, channels)
        )
    else:
        attention = "none" if settings.model == "deepset" else settings.model
        pages = HSATransformer.from_schema(
            page.schema,
            channels,
            channels,
            vocab_sizes={"token": VOCABULARY},
            num_layers=settings.layers or 1,
            heads=settings.heads or 1,
            attention=attention,
            expansion=settings.expansion or 1,
            dropout=dropout,
            position=HierarchicalPosition(_DOMAINS, POSITION_CHANNELS),
        )
    links: Any = settings.links
    return LinkedPages(
        pages,
        channels,
        num_classes,
        links=links,
        num_layers=settings.link_layers or 1,
        heads=settings.heads or 1,
        dropout=dropout,
    )


def _word_weights(pages: Sequence[NestedSignal]) -> Tensor:
    """The tf-idf weights [P, VOCABULARY] of the words of each page, of length 1."""
    counts = torch.stack(
        [torch.bincount(page["token"].x, minlength=VOCABULARY) for page in pages]
    ).float()
    present = (counts > 0).sum(0)
    rarity = torch.log((1 + len(pages)) / (1 + present)) + 1
    return torch.nn.functional.normalize(torch.log1p(counts) * rarity, dim=1)


def sqlite_site(settings: VertexSettings, data: Path, cache: Path) -> PagesOfSite:
    """The documentation of SQLite: the folder of a page is its class.

    The whole site, if ``data/sqlite_site`` has it, or the pages that come with the
    package.
    """
    archive = data / "sqlite_site" / "sqlite_site.tar.xz"
    site = SqliteSite(
        cache / "sqlite_site",
        raw_archive=archive if archive.is_file() else None,
        **_reading(settings, class_words(SqliteSite.classes)),
    )
    labels = {path: SqliteSite.classes[page_class(path)] for path in site.paths}
    return PagesOfSite(settings, list(site), site.links, labels)


def gimp_manual(settings: VertexSettings, data: Path, cache: Path) -> PagesOfSite:
    """The manual of GIMP: the beginning of a page's file name is its class.

    Raises:
        SettingsError: if ``data/gimp-help-en`` is not there.
    """
    folder = data / "gimp-help-en"
    pages = next((path.parent for path in sorted(folder.rglob("index.html"))), None)
    if pages is None:
        raise SettingsError(
            f"There is no page {folder / 'index.html'}: unpack Debian's package "
            "gimp-help-en, and put its folder usr/share/gimp/2.0/help/en there."
        )
    kinds = page_kinds(sorted(path.name for path in pages.glob("*.html")))
    words = class_words(kinds.values())
    site = WebsitePages(cache / "gimp_manual", pages, **_reading(settings, words))
    labels = {path: kinds[Path(path).name] for path in site.paths}
    return PagesOfSite(settings, list(site), site.links, labels)


def page_kinds(names: Sequence[str]) -> dict[str, str]:
    """The kind of each page: the first two words of its file name.

    Args:
        names: File names such as ``gimp-tool-crop.html``.

    Returns:
        Name to kind; kinds of fewer than :data:`FEWEST` pages are :data:`OTHER`.

    Example:
        >>> found = page_kinds([f"gimp-tool-{i}.html" for i in range(12)] + ["a.html"])
        >>> sorted(set(found.values()))
        ['gimp-tool', 'other']
    """
    kinds = {name: "-".join(Path(name).stem.split("-")[:2]) for name in names}
    pages = Counter(kinds.values())
    return {
        name: kind if pages[kind] >= FEWEST else OTHER for name, kind in kinds.items()
    }


def _reading(settings: VertexSettings, words: frozenset[str]) -> dict[str, Any]:
    images: bool | PictureReader = False
    if settings.images:
        images = PictureReader(PATCH, "quadtree", max_size=SIDE)
    return {
        "tokenizer": WordsWithout(sorted(words)),
        "max_tokens": settings.max_tokens,
        "images": images,
        # Without it, the path to a page stands on it, link by link.
        "main_content": True,
        "keep_text": False,
        "log": False,
    }
