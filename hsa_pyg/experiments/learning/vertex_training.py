"""Training on one graph, whose vertices are the samples."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hsa_pyg.experiments.checkpoints import load_checkpoint
from hsa_pyg.integrations.memory import return_free_memory
from hsa_pyg.integrations.warming import warm_up


class VertexTask(ABC):
    """A graph, the classes of its vertices in three parts, and a model of them.

    Every vertex is seen in training, with its edges; the classes of the validation and
    test parts are not.

    Args:
        model: What is trained, a :class:`torch.nn.Module`.
        y: [n] class of each vertex.
        parts: Masks [n] bool of ``"train"``, ``"val"`` and ``"test"``.
        facts: What the results file shall tell of the data.
    """

    def __init__(
        self,
        model: Any,
        y: Tensor,
        parts: Mapping[str, Tensor],
        facts: Mapping[str, Any],
    ) -> None:
        self.model = model
        self.y = y
        self.parts = dict(parts)
        self.facts = dict(facts)

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return int(self.y.max()) + 1

    @abstractmethod
    def batches(self) -> Iterator[Tensor]:
        """The vertices of each step of an epoch, as long ids."""

    @abstractmethod
    def logits(self, vertices: Tensor) -> Tensor:
        """Logits [k, num_classes] of k vertices, in training."""

    @abstractmethod
    def all_logits(self) -> Tensor:
        """Logits [n, num_classes] of all vertices, as the weights are now."""

    @abstractmethod
    def num_leaves(self) -> int:
        """Leaves that an epoch trains on."""

    @abstractmethod
    def attention_flops(self) -> int:
        """FLOPs of attention's matrix products in an epoch, evaluation included."""

    def state(self) -> dict[str, Any]:
        """What an epoch leaves to the next one besides the weights."""
        return {}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take up what :meth:`state` gave."""
        if state:
            raise ValueError(f"{type(self).__name__} has no state, got {list(state)}.")


@dataclass
class _Progress:
    """What a training has come to; what a checkpoint keeps beside the weights."""

    history: list[dict[str, float]] = field(default_factory=list)
    best: int = -1
    best_weights: dict[str, Tensor] = field(default_factory=dict)
    best_state: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


class VertexTraining:
    """Trains until the validation part gets no better, and tests the best epoch once.

    AdamW, decay on matrices alone, at a constant rate. The best epoch has the highest
    validation accuracy, of equal ones the lowest validation loss.

    Random numbers are those of torch's global generator, which the caller seeds; a
    checkpoint has its state.

    Args:
        task: What to train.
        lr: Learning rate.
        weight_decay: Decay of parameters with two dimensions.
        epochs: Most epochs.
        patience: Epochs without a better one after which training ends; 0 for all.
        clip: Largest norm of a gradient; 0 for none.
    """

    def __init__(
        self,
        task: VertexTask,
        *,
        lr: float,
        weight_decay: float,
        epochs: int,
        patience: int,
        clip: float = 1.0,
    ) -> None:
        self.task = task
        self.epochs = epochs
        self.patience = patience
        self.clip = clip
        self.done = _Progress()
        warm_up(task.model)
        parameters = list(task.model.parameters())
        groups: list[dict[str, Any]] = [
            {"params": [p for p in parameters if p.ndim >= 2]},
            {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(
            groups, lr=lr, weight_decay=weight_decay, fused=True
        )

    @property
    def history(self) -> list[dict[str, float]]:
        """A row of numbers for each epoch."""
        return self.done.history

    @property
    def stopped_early(self) -> bool:
        """Whether patience has ended the training."""
        waited = len(self.history) - 1 - self.done.best
        return self.patience > 0 and waited >= self.patience

    @property
    def finished(self) -> bool:
        """Whether there is no further epoch to train."""
        return len(self.history) >= self.epochs or self.stopped_early

    def run_epoch(self) -> dict[str, float]:
        """Train for an epoch, validate, and return the new row of the history.

        Raises:
            FloatingPointError: if the loss is not finite.
        """
        begin, processor = time.perf_counter(), time.process_time()
        row: dict[str, float] = {
            "epoch": len(self.history),
            "train_loss": self._train(),
        }
        row["seconds"] = time.perf_counter() - begin
        row["processor_seconds"] = time.process_time() - processor
        return_free_memory()
        logits = self.task.all_logits()
        for part in ("train", "val"):
            mask = self.task.parts[part]
            right = logits[mask].argmax(1) == self.task.y[mask]
            row[f"{part}_accuracy"] = float(right.float().mean())
        mask = self.task.parts["val"]
        row["val_loss"] = float(F.cross_entropy(logits[mask], self.task.y[mask]))
        self.history.append(row)
        if self._is_best(row):
            self.done.best = len(self.history) - 1
            self.done.best_weights = deepcopy(self.task.model.state_dict())
            self.done.best_state = deepcopy(self.task.state())
        self.done.seconds += time.perf_counter() - begin
        return row

    def test(self) -> dict[str, float]:
        """Scores of the best epoch's weights, the only look at the test part."""
        from torchmetrics.functional.classification import multiclass_f1_score

        begin = time.perf_counter()
        self.task.model.load_state_dict(self.done.best_weights)
        self.task.load_state(self.done.best_state)
        mask = self.task.parts["test"]
        guess, y = self.task.all_logits()[mask].argmax(1), self.task.y[mask]
        f1 = multiclass_f1_score(guess, y, self.task.num_classes, average="macro")
        self.done.seconds += time.perf_counter() - begin
        best = self.history[self.done.best]
        return {
            "test_accuracy": float((guess == y).float().mean()),
            "test_macro_f1": float(f1),
            "val_accuracy": best["val_accuracy"],
            "best_epoch": self.done.best,
        }

    def save(self, path: Path) -> None:
        """Write a checkpoint, whole or not at all."""
        state = {
            **vars(self.done),
            "weights": self.task.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "state": self.task.state(),
            "random": torch.get_rng_state(),
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        torch.save(state, partial)
        os.replace(partial, path)

    def load(self, path: Path) -> None:
        """Go on from a checkpoint; the global generator's state is set to its own."""
        found = load_checkpoint(path)
        self.task.model.load_state_dict(found.pop("weights"))
        self.optimizer.load_state_dict(found.pop("optimizer"))
        self.task.load_state(found.pop("state"))
        torch.set_rng_state(found.pop("random"))
        self.done = _Progress(**found)

    def _train(self) -> float:
        model, task = self.task.model, self.task
        model.train()
        total, number = 0.0, 0
        for vertices in task.batches():
            known = vertices[task.parts["train"][vertices]]
            if known.numel() == 0:
                continue
            self.optimizer.zero_grad()
            logits = task.logits(vertices)[task.parts["train"][vertices]]
            loss = F.cross_entropy(logits, task.y[known])
            if not torch.isfinite(loss):
                raise FloatingPointError(
                    f"The training loss is {loss.item()} in epoch {len(self.history)}: "
                    "lower the learning rate."
                )
            loss.backward()
            if self.clip > 0:
                torch.nn.utils.clip_grad_norm_(model.parameters(), self.clip)
            self.optimizer.step()
            total += loss.item() * known.numel()
            number += known.numel()
        return total / max(number, 1)

    def _is_best(self, row: Mapping[str, float]) -> bool:
        if self.done.best < 0:
            return True
        best = self.history[self.done.best]
        return (row["val_accuracy"], -row["val_loss"]) > (
            best["val_accuracy"],
            -best["val_loss"],
        )
