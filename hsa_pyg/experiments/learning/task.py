"""What a task is: a data set in three parts, with what a model has to know of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from hsa_pyg.cli import SettingsError
from hsa_pyg.data import NestedSignal, Schema
from hsa_pyg.datasets.text_dataset import RawTexts
from hsa_pyg.experiments.checks import check_name
from hsa_pyg.experiments.learning.preparation import alone
from hsa_pyg.nn import LeafEncoder

if TYPE_CHECKING:
    from hsa_pyg.experiments.learning.settings import LearningSettings

#: Module, below this package, and function of each task; loaded when it is asked for.
TASKS: dict[str, tuple[str, str]] = {
    "movie-reviews": ("texts", "movie_reviews"),
    "imdb": ("texts", "imdb"),
    "elec": ("texts", "elec"),
    "sst": ("phrases", "sst"),
    "list-ops": ("expressions", "list_ops"),
    "emoji": ("items", "emoji"),
    "clip-art": ("items", "clip_art"),
    "n24news": ("items", "n24news"),
    "bbbp": ("molecules", "bbbp"),
    "esol": ("molecules", "esol"),
}

#: Settings that decide what :func:`load_task` gives.
OF_DATA = (
    *("task", "fold", "binary", "each_phrase", "parts", "target", "length"),
    *("train_size", "val_size", "test_size", "max_tokens"),
    *("features", "tune_vectors", "vectors"),
    *("tree", "windows", "depth", "group"),
)


@dataclass(frozen=True)
class Task:
    """A data set in three parts, and what a model and its training have to know of it.

    Args:
        train: Training signals.
        val: Validation signals, by which the best epoch is chosen.
        test: Test signals, looked at once.
        schema: Node types, widths and dtypes that all signals share.
        vocab_sizes: Vocabulary size of each leaf type that holds token ids; a list for
            rows of several ids.
        outputs: Classes, or 1 for regression.
        kind: What is predicted, from ``signal.y``: a class ``[1]`` long, or a number
            ``[1]`` float.
        domains: Of :class:`~hsa_pyg.nn.HierarchicalPosition`, per parent type: a name,
            or what makes a module of a size.
        encoder: Makes the leaf encoder of a width; None for the schema's own.
        model: Makes the model of a name, with the arguments of
            :func:`~hsa_pyg.experiments.models.make_model`; None for that one.
        score: By which the best epoch is chosen and runs are judged: ``"accuracy"``,
            ``"macro_f1"``, of two classes ``"roc_auc"``, or of a regression ``"rmse"``
            or ``"mae"``.
        texts: Texts and labels of the three parts, for a bag of words; None if the task
            has none.
        facts: What the results file shall tell of the data: sizes, what was left out,
            coverage of word vectors.
    """

    train: Sequence[NestedSignal]
    val: Sequence[NestedSignal]
    test: Sequence[NestedSignal]
    schema: Schema
    vocab_sizes: Mapping[str, int | Sequence[int]]
    outputs: int
    kind: Literal["classification", "regression"] = "classification"
    domains: Mapping[str, Any] = field(default_factory=dict)
    encoder: Callable[[int], LeafEncoder] | None = None
    model: Callable[..., torch.nn.Module] | None = None
    score: Literal["accuracy", "macro_f1", "roc_auc", "rmse", "mae"] = "accuracy"
    texts: Callable[[], tuple[RawTexts, RawTexts, RawTexts]] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


def load_task(settings: LearningSettings, data: Path, cache: Path) -> Task:
    """The task that complete settings ask for.

    Of several processes that prepare its data, one does and the others wait.

    Args:
        settings: Complete ones.
        data: Folder of the raw data that do not come with the package.
        cache: Folder under which processed data are kept.

    Raises:
        SettingsError: if the data are not there, or do not fit the settings.
    """
    check_name("task", settings.task, TASKS)
    module, function = TASKS[settings.task]
    loaded = import_module(f"hsa_pyg.experiments.learning.{module}")
    with alone(settings.task, cache):
        return getattr(loaded, function)(settings, data, cache)


def drawn(number: int, size: int | None, part: str) -> list[int]:
    """Places of ``size`` of ``number`` samples, drawn at random, in ascending order.

    The draw is the same for every run: runs that differ in their seed or their model
    see the same samples.

    Args:
        number: Samples that there are.
        size: Samples to draw; 0 or None for all.
        part: What they are for, for the error.

    Raises:
        SettingsError: if there are fewer.
    """
    if not size:
        return list(range(number))
    if size > number:
        raise SettingsError(f"There are {number} {part} samples, not {size}.")
    order = torch.randperm(number, generator=torch.Generator().manual_seed(0))
    return sorted(order[:size].tolist())
