"""The experiment ``learning``."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch_geometric.data import Batch

from hsa_pyg.cli import SettingsError
from hsa_pyg.data import complete as complete_signal
from hsa_pyg.experiments.experiment import Experiment, Outcome, Progress
from hsa_pyg.experiments.learning.building import attention_flops, build_model
from hsa_pyg.experiments.learning.report import write_report
from hsa_pyg.experiments.learning.settings import (
    BAG_OF_WORDS,
    LearningSettings,
    complete_settings,
)
from hsa_pyg.experiments.learning.task import OF_DATA, Task, drawn, load_task
from hsa_pyg.experiments.models import count_parameters
from hsa_pyg.experiments.records import Record

#: Signals whose mean cost stands for that of all.
_SAMPLE = 100


def data_folder() -> Path:
    """Folder of raw data that do not come with the package: HSA_PYG_DATA, or data."""
    return Path(os.environ.get("HSA_PYG_DATA", "data"))


def cache_folder() -> Path:
    """Folder of processed data: HSA_PYG_CACHE, or runs/data."""
    return Path(os.environ.get("HSA_PYG_CACHE", "runs/data"))


class Learning(Experiment):
    """How well models learn a task from nested signals, all in the same way."""

    name: ClassVar[str] = "learning"
    settings: ClassVar[type] = LearningSettings
    naming: ClassVar[tuple[str, ...]] = ("task", "model")

    def __init__(self) -> None:
        self._loaded: tuple[list[Any], Task] | None = None

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
        """Train, choose the best epoch by the validation, and test that once."""
        if settings.model != BAG_OF_WORDS:
            # Lightning is not needed to read settings or to report.
            from hsa_pyg.experiments.learning.training import check_precision

            check_precision(settings)
        task = load_task(settings, data_folder(), cache_folder())
        if settings.model == BAG_OF_WORDS:
            return _fit_bag_of_words(settings, seed, task, tell)
        return _train(settings, seed, task, checkpoint, tell)

    def work(self, settings: Any) -> float:
        """FLOPs of matrix products: linear layers and attention."""
        task = self._task(settings)
        if settings.model == BAG_OF_WORDS:
            return _counting_work(settings, task)
        model = build_model(settings, task)
        leaves = _leaves(task)
        parameters = count_parameters(model).body
        forward, backward = _costs(settings, task, model)
        linear = 2.0 * parameters * leaves
        tested = len(task.val) * settings.epochs + len(task.test)
        trained = len(task.train) * settings.epochs
        return trained * (3 * linear + forward + backward) + tested * (linear + forward)

    def _task(self, settings: LearningSettings) -> Task:
        """The task, of the last settings again if these have the same data."""
        asked = [getattr(settings, name) for name in OF_DATA]
        if self._loaded is None or self._loaded[0] != asked:
            self._loaded = None  # two need not be in memory at once
            self._loaded = asked, load_task(settings, data_folder(), cache_folder())
        return self._loaded[1]

    def page(self, records: Sequence[Record], images: Path, configuration: str) -> str:
        """See :func:`write_report`."""
        return write_report(records, images, configuration)


def _train(
    settings: LearningSettings,
    seed: int,
    task: Task,
    checkpoint: Path,
    tell: Callable[[Progress], None],
) -> Outcome:
    from hsa_pyg.experiments.learning.training import TaskTraining
    from hsa_pyg.integrations.memory import resident_memory

    base_memory = resident_memory()
    training = TaskTraining(settings, seed, task, checkpoint, tell)
    forward, backward = _costs(settings, task, training.model)
    training.fit()
    scores, test_seconds = training.test()
    history = [_plain(row) for row in training.history.rows]
    epochs = len(history)
    parameters = count_parameters(training.model)
    flops = epochs * (len(task.train) * (forward + backward) + len(task.val) * forward)
    seconds = sum(row["seconds"] + row["evaluation_seconds"] for row in history)
    best = history[training.best_epoch]
    return Outcome(
        history=history,
        final={
            **_plain(scores),
            **{key: best[key] for key in best if key.startswith("val_")},
            "best_epoch": training.best_epoch,
        },
        attention_flops=round(flops + len(task.test) * forward),
        seconds=seconds + test_seconds,
        facts={
            "attention_flops_per_example": round(forward),
            "parameters": parameters.total,
            "parameters_of_encoder": parameters.encoder,
            "train_leaves": training.leaves,
            "test_seconds": round(test_seconds, 2),
            "base_memory": base_memory,
            "stopped_early": epochs < (settings.epochs or 0),
            "score": task.score,
            "device": training.device,
            **task.facts,
        },
    )


def _fit_bag_of_words(
    settings: LearningSettings,
    seed: int,
    task: Task,
    tell: Callable[[Progress], None],
) -> Outcome:
    """The floor, with its one number chosen within the training texts.

    Validation texts are left out of the fit, as they are for the other models; phrases
    hold one another, so that only these texts can choose.
    """
    from torchmetrics.functional.classification import multiclass_f1_score

    from hsa_pyg.experiments.models import bag_of_words

    train, val, test = _texts(settings, task)
    classes = task.outputs
    begin, processor = time.perf_counter(), time.process_time()
    judges = (val.texts, val.labels) if settings.each_phrase else None
    fitted = bag_of_words(train.texts, train.labels, seed=seed, validation=judges)
    clocks = {
        "seconds": time.perf_counter() - begin,
        "processor_seconds": time.process_time() - processor,
    }

    def scores(part: str, texts: Any) -> dict[str, float]:
        found, labels = fitted.predict(texts.texts), texts.labels
        f1 = multiclass_f1_score(found, labels, classes, average="macro")
        return {
            f"{part}_accuracy": float((found == labels).double().mean()),
            f"{part}_macro_f1": float(f1),
        }

    row = {"epoch": 0, **clocks, **scores("val", val)}
    tell(Progress(1, 1, f"val/accuracy {row['val_accuracy']:.3f}", 0.0))
    return Outcome(
        history=[row],
        final={**scores("test", test), **scores("val", val), "best_epoch": 0},
        attention_flops=0,
        seconds=time.perf_counter() - begin,
        facts={
            "attention_flops_per_example": 0,
            "parameters": fitted.num_features
            * (1 if task.outputs == 2 else task.outputs),
            "C": fitted.C,
            "stopped_early": False,
            "device": "cpu",
            **task.facts,
        },
    )


def _texts(settings: LearningSettings, task: Task) -> tuple[Any, Any, Any]:
    if task.texts is None:
        raise SettingsError(f"{settings.task} has no texts for a bag of words.")
    return task.texts()


def _counting_work(settings: LearningSettings, task: Task) -> float:
    """The seconds that a bag of words was seen to take, as if they were products.

    Two classes are fitted in the time of counting; more take one that grows with both.
    """
    train, _, _ = _texts(settings, task)
    work = 1.5e5 * sum(map(len, train.texts))
    return work if task.outputs == 2 else work + 1e7 * len(train.texts) * task.outputs


def _plain(row: Mapping[str, float]) -> dict[str, float]:
    return {key.replace("/", "_"): value for key, value in row.items()}


def _sample(task: Task) -> Batch:
    chosen = drawn(len(task.train), min(_SAMPLE, len(task.train)), "training")
    signals = [complete_signal(task.train[i], task.schema) for i in chosen]
    return Batch.from_data_list(signals)


def _leaves(task: Task) -> float:
    """Leaves of a signal, in the mean."""
    return _sample(task).hierarchy.num_leaves / min(_SAMPLE, len(task.train))


def _costs(
    settings: LearningSettings, task: Task, model: torch.nn.Module
) -> tuple[float, float]:
    """FLOPs of attention for one signal, in the mean: forward, and backward."""
    batch = _sample(task)
    number = batch.num_graphs
    forward, backward = (
        attention_flops(settings, model, batch.hierarchy, backward=one) / number
        for one in (False, True)
    )
    return forward, backward
