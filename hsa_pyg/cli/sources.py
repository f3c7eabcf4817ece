"""What ``hsa-pyg train`` trains on: data sets with a name, and texts of the user's."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from hsa_pyg.cli import SettingsError
from hsa_pyg.cli.labelled_texts import some_labels
from hsa_pyg.cli.own_texts import OwnTexts, read_own_texts
from hsa_pyg.data import NestedSignal, Schema
from hsa_pyg.datasets import FakeNestedDataset, MovieReviews

#: Names of the columns of texts and of labels.
COLUMNS = ("text", "label")


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a model has to know of a data set.

    Args:
        classes: Names of the classes of ``signal.y``.
        schema: Node types, widths and dtypes that all signals share.
        vocab_sizes: Vocabulary size of each leaf type that holds token ids.
        tokenizer: What the token ids are of; None if there are none.
        digest: A hash of the user's texts and labels; None for data sets with a name.
    """

    classes: Sequence[str]
    schema: Schema
    vocab_sizes: dict[str, int]
    tokenizer: Any = None
    digest: str | None = None

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)


@dataclass(frozen=True, kw_only=True)
class Source(Facts):
    """A data set in three parts.

    Args:
        train: Training signals.
        val: Validation signals.
        test: Test signals.
    """

    train: Sequence[NestedSignal]
    val: Sequence[NestedSignal]
    test: Sequence[NestedSignal]


def full_name(name: str) -> str:
    """The name of a data set as it is, and a path as it is in every working folder.

    Warns:
        UserWarning: If a file or folder has the name of a data set.
    """
    if name in SOURCES and Path(name).exists():
        warnings.warn(
            f"{name!r} is taken for the data set of that name; ./{name} is the file or "
            "folder.",
            stacklevel=2,
        )
    if name in SOURCES or not name or not Path(name).exists():
        return name
    return Path(name).resolve().as_posix()


def load_facts(
    name: str,
    root: Path,
    max_tokens: int | None = None,
    columns: tuple[str, str] = COLUMNS,
) -> Facts:
    """What :func:`load_source` says of a data set; texts are read, not converted.

    Args:
        name: As there.
        root: As there.
        max_tokens: As there.
        columns: As there.

    Raises:
        SettingsError: As there.
    """
    if name in SOURCES:
        return load_source(name, root, max_tokens, columns=columns)
    return Facts(**_text_facts(_own_texts(name, columns)))


def load_source(
    name: str,
    root: Path,
    max_tokens: int | None = None,
    train_size: int | None = None,
    columns: tuple[str, str] = COLUMNS,
) -> Source:
    """Load a data set by its name on the command line.

    Args:
        name: ``"movie-reviews"``, ``"fake"``, or else the path of labelled texts.
        root: Folder under which processed data is kept.
        max_tokens: Tokens after which a document is cut.
        train_size: Number of training signals to keep, drawn at random with a fixed
            seed: runs that differ in their own seed train on the same signals.
        columns: Names of the columns of texts and labels, of a path.

    Raises:
        SettingsError: If the name is not known, an option does not fit the data set,
            texts cannot be trained on, or there are fewer than ``train_size`` training
            signals.
    """
    if name not in SOURCES:
        texts = _own_texts(name, columns)
        parts = texts.convert(max_tokens)
        source = Source(
            train=parts["train"],
            val=parts["val"],
            test=parts["test"],
            **_text_facts(texts),
        )
    elif columns != COLUMNS:
        raise SettingsError(
            f"The data set {name!r} has no columns to name; leave out --text-column "
            "and --label-column."
        )
    else:
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
    seen = {int(signal.y) for signal in chosen}
    unseen = [one for i, one in enumerate(source.classes) if i not in seen]
    if unseen:
        raise SettingsError(
            f"Of the {train_size} training signals that are drawn, none is of the "
            f"{len(unseen)} classes {some_labels(unseen)}: raise --train-size."
        )
    return replace(source, train=chosen)


def _own_texts(name: str, columns: tuple[str, str]) -> OwnTexts:
    if Path(name).is_absolute() and not Path(name).exists():
        raise SettingsError(
            f"The file or folder of texts {name!r} is not there: put it back, or "
            "correct its name."
        )
    if not name or not Path(name).exists():
        raise SettingsError(
            f"There is no data set {name!r}; these are known: {', '.join(SOURCES)}. "
            "Nor is there a file or folder of that name, with texts of your own."
        )
    return read_own_texts(Path(name), *columns)


def _text_facts(texts: OwnTexts) -> dict[str, Any]:
    return {
        "classes": texts.classes,
        "schema": texts.schema,
        "vocab_sizes": {"token": texts.tokenizer.vocab_size},
        "tokenizer": texts.tokenizer,
        "digest": texts.digest,
    }


def _movie_reviews(root: Path, max_tokens: int | None) -> Source:
    folder = root / "movie_reviews"
    train, val, test = (
        MovieReviews(folder, split, max_tokens=max_tokens)
        for split in ("train", "val", "test")
    )
    return Source(
        train=train,
        val=val,
        test=test,
        classes=MovieReviews.classes,
        schema=train[0].schema,
        vocab_sizes={"token": train.vocab_size},
        tokenizer=train.tokenizer,
    )


def _fake(root: Path, max_tokens: int | None) -> Source:
    if max_tokens is not None:
        raise SettingsError(
            "The data set 'fake' has no documents to cut by max_tokens."
        )
    signals = FakeNestedDataset(num_samples=200)
    return Source(
        train=signals[:120],
        val=signals[120:160],
        test=signals[160:],
        classes=[f"class {number}" for number in range(signals.num_classes)],
        schema=signals.schema,
        vocab_sizes=signals.vocab_sizes,
    )


SOURCES: dict[str, Callable[[Path, int | None], Source]] = {
    "movie-reviews": _movie_reviews,
    "fake": _fake,
}
