"""The data sets that ``hsa-pyg train`` knows by name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from hsa_pyg.cli import SettingsError
from hsa_pyg.data import NestedSignal, Schema
from hsa_pyg.datasets import FakeNestedDataset, MovieReviews


@dataclass(frozen=True)
class Source:
    """A data set in three parts, and what a model has to know of it.

    Args:
        train: Training signals.
        val: Validation signals.
        test: Test signals.
        num_classes: Number of classes of ``signal.y``.
        schema: Node types, widths and dtypes that all signals share.
        vocab_sizes: Vocabulary size of each leaf type that holds token ids.
    """

    train: Sequence[NestedSignal]
    val: Sequence[NestedSignal]
    test: Sequence[NestedSignal]
    num_classes: int
    schema: Schema
    vocab_sizes: dict[str, int]


def load_source(
    name: str, root: Path, max_tokens: int | None = None, train_size: int | None = None
) -> Source:
    """Load a data set by its name on the command line.

    Args:
        name: ``"movie-reviews"`` or ``"fake"``.
        root: Folder under which processed data is kept.
        max_tokens: Tokens after which a document is cut.
        train_size: Number of training signals to keep, drawn at random with a fixed
            seed: runs that differ in their own seed train on the same signals.

    Raises:
        SettingsError: If the name is not known, an option does not fit the data set, or
            it has fewer than ``train_size`` training signals.
    """
    if name not in SOURCES:
        raise SettingsError(
            f"There is no data set {name!r}; these are known: {', '.join(SOURCES)}."
        )
    source = SOURCES[name](root, max_tokens)
    if train_size is None:
        return source
    if train_size > len(source.train):
        raise SettingsError(
            f"{name} has {len(source.train)} training signals, not {train_size}."
        )
    order = torch.randperm(
        len(source.train), generator=torch.Generator().manual_seed(0)
    )
    chosen = [source.train[i] for i in order[:train_size].tolist()]
    return replace(source, train=chosen)


def _movie_reviews(root: Path, max_tokens: int | None) -> Source:
    folder = root / "movie_reviews"
    train, val, test = (
        MovieReviews(folder, split, max_tokens=max_tokens)
        for split in ("train", "val", "test")
    )
    return Source(
        train,
        val,
        test,
        num_classes=len(MovieReviews.classes),
        schema=train[0].schema,
        vocab_sizes={"token": train.vocab_size},
    )


def _fake(root: Path, max_tokens: int | None) -> Source:
    if max_tokens is not None:
        raise SettingsError(
            "The data set 'fake' has no documents to cut by max_tokens."
        )
    signals = FakeNestedDataset(num_samples=200)
    return Source(
        signals[:120],
        signals[120:160],
        signals[160:],
        num_classes=signals.num_classes,
        schema=signals.schema,
        vocab_sizes=signals.vocab_sizes,
    )


SOURCES: dict[str, Callable[[Path, int | None], Source]] = {
    "movie-reviews": _movie_reviews,
    "fake": _fake,
}
