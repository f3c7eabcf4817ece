"""The experiment ``semantic-focus``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from hsa_pyg.analysis.counted_flops import counted_flops
from hsa_pyg.experiments.experiment import Experiment, Outcome, Progress
from hsa_pyg.experiments.records import Record
from hsa_pyg.experiments.semantic_focus.attention import HEAD
from hsa_pyg.experiments.semantic_focus.report import write_report
from hsa_pyg.experiments.semantic_focus.sequences import TokenRows, load_rows
from hsa_pyg.experiments.semantic_focus.settings import (
    FocusSettings,
    complete_settings,
)
from hsa_pyg.experiments.semantic_focus.training import (
    FocusTraining,
    attended_trees,
)

#: Sequences whose mean cost stands for that of all.
_SAMPLE = 200


class SemanticFocus(Experiment):
    """How many epochs attention takes to learn a task, by what it attends to."""

    name: ClassVar[str] = "semantic-focus"
    settings: ClassVar[type] = FocusSettings
    naming: ClassVar[tuple[str, ...]] = ("task", "attention")

    def complete(self, settings: Any) -> Any:
        """See :func:`complete_settings`."""
        return complete_settings(settings)

    def run(
        self,
        settings: Any,
        seed: int,
        checkpoint: Path,
        tell: Callable[[Progress], None],
    ) -> Outcome:
        """Train and evaluate, epoch by epoch."""
        train, val = (load_rows(settings, split, seed) for split in ("train", "val"))
        training = FocusTraining(settings, seed, train, val)
        if checkpoint.exists():
            training.load(checkpoint)
        while not training.finished:
            row = training.run_epoch()
            training.save(checkpoint)
            text = (
                f"loss {row['train_loss']:.3f} {row['val_loss']:.3f}, "
                f"holdout {row['val_accuracy']:.1%}"
            )
            tokens = train.tokens.numel() / row["seconds"]
            epoch = len(training.history)
            tell(Progress(epoch, settings.epochs, text, tokens))
        last = training.history[-1]
        parts = ("train_loss", "train_accuracy", "val_loss", "val_accuracy")
        flops = _attention_flops(settings, train, val)
        return Outcome(
            history=training.history,
            final={name: last[name] for name in parts},
            attention_flops=flops * len(training.history),
            seconds=training.seconds,
            facts={
                "parameters": sum(p.numel() for p in training.model.parameters()),
                "stopped_early": training.stopped_early,
                "classes": train.num_classes,
                "vocabulary": train.vocab_size,
                "padded_length": train.tokens.size(1),
            },
        )

    def work(self, settings: Any) -> float:
        """FLOPs of matrix products: linear layers and attention."""
        small = _sample(settings)
        rows = load_rows(small, "train", 0)
        wide = HEAD * settings.heads
        weights = settings.channels * (4 * wide + 2 * settings.hidden)
        linear = 2 * weights * rows.tokens.size(1) * settings.blocks
        sequences = 4 * settings.train_size + settings.val_size
        attention = _attention_flops(settings, rows, rows)
        return settings.epochs * (float(linear) * sequences + attention)

    def page(self, records: Sequence[Record], images: Path, configuration: str) -> str:
        """See :func:`write_report`."""
        return write_report(records, images, configuration)


def _sample(settings: FocusSettings) -> FocusSettings:
    from dataclasses import replace

    return replace(settings, train_size=min(settings.train_size, _SAMPLE))


def _attention_flops(settings: FocusSettings, train: TokenRows, val: TokenRows) -> int:
    """Of an epoch: training, and the evaluation of both splits.

    Products that are computed are counted, whether a mask hides them or not.
    """

    def mean(data: TokenRows, backward: bool) -> float:
        number = min(data.labels.numel(), _SAMPLE)
        hierarchy = attended_trees(settings, data, range(number))
        wide = HEAD * settings.heads
        found = counted_flops(hierarchy, wide, settings.heads, backward=backward)
        return found.hsa / number

    forward, backward = mean(train, False), mean(train, True)
    each = settings.train_size * (2 * forward + backward)
    each += settings.val_size * mean(val, False)
    return round(each * (settings.blocks or 1))
