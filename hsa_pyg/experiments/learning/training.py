"""Training of a model on a task: Lightning, with checkpoints that lose nothing."""

from __future__ import annotations

import logging
import math
import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import HeteroData
from torchmetrics import MetricCollection
from torchmetrics.classification import MulticlassAUROC

from hsa_pyg.cli import SettingsError
from hsa_pyg.experiments.checkpoints import load_checkpoint
from hsa_pyg.experiments.experiment import TERMINATED, Progress
from hsa_pyg.experiments.learning.building import build_model
from hsa_pyg.experiments.learning.settings import LearningSettings
from hsa_pyg.experiments.learning.task import Task
from hsa_pyg.hierarchy import SignalHierarchy
from hsa_pyg.integrations.history import History
from hsa_pyg.integrations.lightning import (
    SignalClassifier,
    SignalDataModule,
    SignalModule,
    SignalRegressor,
    Stage,
    pl,
)
from hsa_pyg.integrations.seeded_epochs import SeededEpochs
from hsa_pyg.integrations.training import PRECISIONS
from hsa_pyg.integrations.warming import warm_up
from hsa_pyg.loader import DataLoader
from hsa_pyg.nn.readout import leaf_means

_IGNORED = -100


class TaskClassifier(SignalClassifier):
    """A classifier that may learn from labels of all nodes besides.

    For two classes the area under the ROC curve is among its scores.

    Args:
        model: Maps a batch of signals to logits.
        num_classes: Number of classes.
        node_weight: Weight of the mean loss over all labelled nodes. A linear head of
            its own reads the mean over the leaves below each: most phrases are neutral
            and most sentences are not, which one head would have to average.
        **kwargs: As for :class:`~hsa_pyg.integrations.lightning.SignalClassifier`.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        num_classes: int,
        node_weight: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(model, num_classes, **kwargs)
        self.num_classes = num_classes
        self.node_weight = node_weight
        if node_weight:
            width: int = model.head.in_channels  # type: ignore[union-attr, assignment]
            self.node_head = torch.nn.Linear(width, num_classes)

    def make_scores(self, num_classes: int) -> MetricCollection:
        """Accuracy, macro F1 and, for two classes, the area under the ROC curve."""
        scores = super().make_scores(num_classes)
        if num_classes == 2:
            scores.add_metrics({"roc_auc": MulticlassAUROC(2)})
        return scores

    def compute_loss(self, batch: HeteroData, stage: Stage) -> tuple[Tensor, Tensor]:
        """Cross entropy of the trees and, in training, of all their nodes."""
        if not self.node_weight or stage != "train":
            return super().compute_loss(batch, stage)
        model: Any = self.model
        x, hierarchy = model.embed(batch)
        logits = model.head(model.dropout(model.readout(x, hierarchy)))
        nodes = self.node_head(model.dropout(leaf_means(x, hierarchy)))
        labels = node_labels(batch, hierarchy, self.num_classes)
        loss = F.cross_entropy(logits, batch.y.view(-1))
        beside = F.cross_entropy(nodes, labels, ignore_index=_IGNORED)
        return loss + self.node_weight * beside, logits


def node_labels(
    batch: HeteroData, hierarchy: SignalHierarchy, num_classes: int
) -> Tensor:
    """The class [M] of every node, from five grades of sentiment; -100 for none.

    Of two classes, the middle grade is none.
    """
    labels = torch.cat(
        [
            batch[kind].y
            for kind, (start, stop) in hierarchy.node_slices.items()
            if stop > start
        ]
    )
    if num_classes == 2:
        middle = labels == 2
        labels = torch.where(middle, _IGNORED, (labels > 2).long())
    return labels


class KeptEpochs(pl.callbacks.Checkpoint):
    """After each epoch, keeps the best weights and all that the next epoch needs.

    Both files are whole or not there.

    Args:
        history: Has the epoch's row by then.
        checkpoint: File of the last epoch.
        score: Column of the history by which the best epoch is chosen.
        mode: ``"max"`` or ``"min"``.
        tell: Called with the history at the very end.
    """

    def __init__(
        self,
        history: History,
        checkpoint: Path,
        score: str,
        mode: str,
        tell: Callable[[Sequence[Mapping[str, float]]], None],
    ) -> None:
        self.history = history
        self.checkpoint = checkpoint
        self.score = score
        self.mode = mode
        self.tell = tell
        self._start = 0.0

    @property
    def best_weights(self) -> Path:
        """File of the best epoch's weights."""
        return self.checkpoint.with_name("best.pt")

    def on_train_start(self, trainer: pl.Trainer, module: Any) -> None:
        """Start the clock: in a resumed epoch, the next hook is not called."""
        self._start = time.perf_counter()

    def on_train_epoch_start(self, trainer: pl.Trainer, module: Any) -> None:
        """Start the clock."""
        self._start = time.perf_counter()

    def on_train_epoch_end(self, trainer: pl.Trainer, module: Any) -> None:
        """Write the files, then tell.

        Raises:
            FloatingPointError: if a loss or score is not finite.
        """
        rows = self.history.rows
        row = rows[-1]
        for name, value in row.items():
            if not math.isfinite(value):
                raise FloatingPointError(
                    f"{name} is {value} after epoch {len(rows)}: lower lr, or look for "
                    "features that are not finite."
                )
        self.checkpoint.parent.mkdir(parents=True, exist_ok=True)
        row["evaluation_seconds"] = time.perf_counter() - self._start - row["seconds"]
        if best_epoch(rows, self.score, self.mode) == len(rows) - 1:
            part = self.best_weights.with_suffix(".partial")
            torch.save(module.state_dict(), part)
            os.replace(part, self.best_weights)
        part = self.checkpoint.with_suffix(".partial")
        trainer.save_checkpoint(part)
        os.replace(part, self.checkpoint)
        self.tell(rows)


def best_epoch(rows: Sequence[Mapping[str, float]], score: str, mode: str) -> int:
    """The epoch with the best score, the first of equals."""
    sign = 1.0 if mode == "max" else -1.0
    return max(range(len(rows)), key=lambda i: (sign * rows[i][score], -i))


class TaskTraining:
    """A model on a task: trained, and tested once.

    Args:
        settings: Complete ones.
        seed: Of weights, order and dropout.
        task: The task.
        checkpoint: File of the last epoch; ``best.pt`` lies beside it.
        tell: Called after each epoch.
    """

    def __init__(
        self,
        settings: LearningSettings,
        seed: int,
        task: Task,
        checkpoint: Path,
        tell: Callable[[Progress], None],
    ) -> None:
        _quieten()
        self.settings = settings
        self.checkpoint = checkpoint
        self._tell = tell
        classes = task.kind == "classification"
        self.score = f"val/{task.score}"
        self.mode = "max" if classes else "min"
        pl.seed_everything(seed, workers=True, verbose=False)
        self.model = build_model(settings, task)
        options = {
            name: getattr(settings, name)
            for name in ("lr", "weight_decay", "warmup", "schedule")
        }
        self.module: SignalModule = (
            TaskClassifier(
                self.model, task.outputs, settings.phrase_weight or 0.0, **options
            )
            if classes
            else SignalRegressor.from_targets(
                self.model, torch.cat([one.y for one in task.train]), **options
            )
        )
        self.data = SignalDataModule(
            task.train,
            task.val,
            task.test,
            batch_size=settings.batch_size or 1,
            seed=seed,
            loader=partial(DataLoader, schema=task.schema),
        )
        #: Leaves of the training signals.
        self.leaves = int(self.data.sampler.sizes.sum())
        self.history = History()
        self._kept = KeptEpochs(
            self.history, checkpoint, self.score, self.mode, self._say
        )
        self._seeded = SeededEpochs(seed)
        self._trainer = self._make_trainer()

    @property
    def best_epoch(self) -> int:
        """Of those that were trained."""
        return best_epoch(self.history.rows, self.score, self.mode)

    @property
    def device(self) -> str:
        """Where the model was trained."""
        device = self._trainer.strategy.root_device
        return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"

    def fit(self) -> None:
        """Train, on from the checkpoint if there is one.

        Raises:
            FloatingPointError: if the loss stops being finite.
            KeyboardInterrupt: as it comes; Lightning would leave the program.
        """
        resumed = self.checkpoint.exists()
        if resumed:
            self.history.rows = _rows(self.checkpoint)
            if self._ended():
                return
            # Lightning draws the first batch before it tells the sampler its epoch.
            self.data.sampler.set_epoch(len(self.history.rows))
        warm_up(self.model, self._trainer.strategy.root_device)
        try:
            path = str(self.checkpoint) if resumed else None
            self._trainer.fit(self.module, self.data, ckpt_path=path)
        except SystemExit as error:
            if isinstance(error.__context__, KeyboardInterrupt):
                raise KeyboardInterrupt from error
            # Lightning's way out after SIGTERM says that all is well.
            raise SystemExit(error.code or TERMINATED) from error

    def test(self) -> tuple[dict[str, float], float]:
        """The scores of the best epoch's weights on the test signals, and seconds."""
        weights = load_checkpoint(self._kept.best_weights)
        self.module.load_state_dict(weights)
        begin = time.perf_counter()
        (scores,) = self._trainer.test(self.module, self.data, verbose=False)
        return dict(scores), time.perf_counter() - begin

    def _ended(self) -> bool:
        rows, patience = self.history.rows, self.settings.patience
        waited = len(rows) - 1 - self.best_epoch
        return len(rows) >= (self.settings.epochs or 0) or (
            bool(patience) and waited >= (patience or 0)
        )

    def _make_trainer(self) -> pl.Trainer:
        settings = self.settings
        callbacks: list[pl.Callback] = [self.history, self._seeded]
        if settings.patience:
            callbacks.append(
                pl.callbacks.EarlyStopping(
                    self.score, patience=settings.patience, mode=self.mode
                )
            )
        return pl.Trainer(
            max_epochs=settings.epochs,
            accelerator="auto",
            devices=1,
            precision=PRECISIONS[settings.precision or "32"],
            accumulate_grad_batches=settings.accumulate or 1,
            gradient_clip_val=settings.clip or None,
            callbacks=[*callbacks, self._kept],
            logger=False,
            enable_model_summary=False,
            enable_progress_bar=False,
            num_sanity_val_steps=0,
        )

    def _say(self, rows: Sequence[Mapping[str, float]]) -> None:
        row = rows[-1]
        text = f"loss {row['train/loss']:.3f}, {self.score} {row[self.score]:.3f}"
        rate = self.leaves / row["seconds"]
        self._tell(Progress(len(rows), self.settings.epochs or 0, text, rate))


def check_precision(settings: LearningSettings) -> None:
    """Refuse a precision that this machine lacks, before any data are prepared.

    Raises:
        SettingsError: if Lightning would take another one here.
    """
    _quieten()
    precision = PRECISIONS[settings.precision or "32"]
    here = pl.Trainer(
        accelerator="auto",
        devices=1,
        precision=precision,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    ).precision
    if here != precision:
        raise SettingsError(
            f"precision={settings.precision} needs a GPU: here it would be {here}. "
            "Use bf16 or 32."
        )


def _rows(checkpoint: Path) -> list[dict[str, float]]:
    """The history in a checkpoint."""
    state = load_checkpoint(checkpoint, weights_only=False)
    return list(state["callbacks"][History().state_key]["rows"])


def _quieten() -> None:
    # Tips and notes on absent accelerators are no news on a plain computer.
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    for message in (
        ".*does not have many workers",
        ".*LeafSpec.* is deprecated",
        "The number of training batches",
        "No (positive|negative) samples in targets",
    ):
        warnings.filterwarnings("ignore", message=message)
