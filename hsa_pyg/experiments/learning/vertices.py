"""The experiment ``vertices``: samples that are the vertices of one graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from statistics import fmean, median
from typing import Any, ClassVar

import torch

from hsa_pyg.experiments.experiment import Experiment, Outcome, Progress
from hsa_pyg.experiments.learning.clocks import epoch_seconds
from hsa_pyg.experiments.learning.experiment import cache_folder, data_folder
from hsa_pyg.experiments.learning.preparation import alone
from hsa_pyg.experiments.learning.vertex_settings import (
    VertexSettings,
    complete_settings,
)
from hsa_pyg.experiments.learning.vertex_training import VertexTask, VertexTraining
from hsa_pyg.experiments.page import (
    by_setting,
    compare,
    mean_and_deviation,
    provenance,
    table,
)
from hsa_pyg.experiments.records import Record
from hsa_pyg.experiments.reproduction import reproduction
from hsa_pyg.integrations.memory import peak_memory, resident_memory

#: Function of each task, by module below this package.
_LOADERS = {
    "cora": ("cora", "load_cora"),
    "sqlite-site": ("website", "sqlite_site"),
    "gimp-manual": ("website", "gimp_manual"),
}
#: Vertices of each task, for an estimate of the time alone.
_VERTICES = {"cora": 2_708, "sqlite-site": 766, "gimp-manual": 685}
_EXPLAINED = (
    "Scores of the best validation epoch; the difference from the setting `hsa` of the "
    "same seed, with its standard error; seconds of an epoch's training, evaluation "
    "left out (median); what training adds to the memory of the process at most; FLOPs "
    "of attention's matrix products in an epoch, evaluation included."
)


class Vertices(Experiment):
    """Classes of papers by citations, and of pages by links."""

    name: ClassVar[str] = "vertices"
    settings: ClassVar[type] = VertexSettings
    naming: ClassVar[tuple[str, ...]] = ("task", "model")

    def complete(self, settings: Any) -> Any:
        """See :func:`~.vertex_settings.complete_settings`."""
        return complete_settings(settings)

    def run(
        self,
        settings: Any,
        seed: int,
        checkpoint: Path,
        tell: Callable[[Progress], None],
    ) -> Outcome:
        """Train and validate, epoch by epoch, and test once."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            task = load_vertices(settings, data_folder(), cache_folder())
            return self._run(task, settings, checkpoint, tell)

    def _run(
        self,
        task: VertexTask,
        settings: VertexSettings,
        checkpoint: Path,
        tell: Callable[[Progress], None],
    ) -> Outcome:
        base = resident_memory()
        training = VertexTraining(
            task,
            lr=settings.lr or 0.0,
            weight_decay=settings.weight_decay or 0.0,
            epochs=settings.epochs or 1,
            patience=settings.patience or 0,
        )
        if checkpoint.exists():
            training.load(checkpoint)
        leaves = task.num_leaves()
        while not training.finished:
            row = training.run_epoch()
            training.save(checkpoint)
            text = f"loss {row['train_loss']:.3f}, val {row['val_accuracy']:.1%}"
            epoch = len(training.history)
            rate = leaves / row["seconds"]
            tell(Progress(epoch, settings.epochs or 1, text, rate))
        final = training.test()
        epochs = len(training.history)
        seconds = [row["seconds"] for row in training.history]
        return Outcome(
            history=training.history,
            final={**final, "epochs": epochs},
            attention_flops=task.attention_flops() * epochs,
            seconds=training.done.seconds,
            facts={
                **task.facts,
                "parameters": sum(p.numel() for p in task.model.parameters()),
                "seconds per epoch": round(median(seconds), 4),
                "leaves per second": round(leaves / median(seconds)),
                # What training has added to the interpreter, libraries and data.
                "memory of training": max(peak_memory() - base, 0),
                "stopped_early": training.stopped_early,
            },
        )

    def work(self, settings: Any) -> float:
        """FLOPs of matrix products of linear layers, which are most of them."""
        channels, layers = settings.channels or 1, settings.layers or 1
        if settings.model == "words":
            # A row of the table for each id of the vocabulary, for each page.
            leaves, weights = _VERTICES[settings.task], channels * 8_192
        else:
            leaves = _VERTICES[settings.task] * (settings.max_tokens or 1)
            weights = channels**2 * (5 + 2 * (settings.expansion or 1)) * layers
        # There, back (twice as much), and an evaluation.
        return 8.0 * leaves * weights * (settings.epochs or 1)

    def page(self, records: Sequence[Record], images: Path, configuration: str) -> str:
        """A table for each task, and where the numbers are from."""
        parts = [f"## {configuration}"]
        for task in _LOADERS:
            chosen = [one for one in records if one.configuration["task"] == task]
            if chosen:
                parts += [f"### {task}", _EXPLAINED, _table(task, chosen)]
        command = reproduction(records, configuration)
        return "\n\n".join([*parts, command, provenance(records)])


def load_vertices(settings: VertexSettings, data: Path, cache: Path) -> VertexTask:
    """The task that complete settings ask for.

    Of several processes that prepare its data, one does and the others wait.

    Args:
        settings: Complete ones.
        data: Folder of the raw data.
        cache: Folder for processed data.

    Raises:
        SettingsError: if the data are not there.
    """
    module, function = _LOADERS[settings.task]
    loaded = import_module(f"hsa_pyg.experiments.learning.{module}")
    with alone(settings.task, cache):
        return getattr(loaded, function)(settings, data, cache)


def _table(task: str, records: Sequence[Record]) -> str:
    """A row for each setting, compared with hierarchical attention as it is usual."""
    groups = by_setting(records)
    usual = groups.get(f"{task}-hsa", [])
    reference = _by_seed(usual)
    seconds, clock = epoch_seconds(groups)
    rows = []
    for name, group in groups.items():
        scores = _by_seed(group)
        against = None
        # Of another share of the vertices, others are tested.
        if name != f"{task}-hsa" and _share(group) == _share(usual):
            against = compare(scores, reference)
        rows.append(
            (
                name.removeprefix(f"{task}-"),
                str(len(group)),
                *(
                    mean_and_deviation([one.final[key] for one in group])
                    for key in ("test_accuracy", "test_macro_f1", "val_accuracy")
                ),
                "" if against is None else str(against),
                f"{group[0].facts['parameters']:,}",
                f"{seconds[name]:.3f}",
                f"{max(one.facts['memory of training'] for one in group) / 2**20:,.0f}",
                f"{_flops_per_epoch(group) / 1e9:,.2f}",
            )
        )
    header = (
        "setting",
        "seeds",
        "test accuracy",
        "macro F1",
        "validation",
        "test - hsa",
        "parameters",
        f"{clock} an epoch",
        "MiB",
        "GFLOPs of attention an epoch",
    )
    return table(header, rows)


def _by_seed(records: Sequence[Record]) -> dict[int, float]:
    return {one.seed: one.final["test_accuracy"] for one in records}


def _share(records: Sequence[Record]) -> float | None:
    """Of the vertices that are trained on; None without records."""
    return records[0].configuration["train_share"] if records else None


def _flops_per_epoch(records: Sequence[Record]) -> float:
    return fmean(one.attention_flops / one.final["epochs"] for one in records)
