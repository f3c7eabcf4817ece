"""Training as the protocol has it, epoch by epoch.

A loop of its own: what a general trainer does around each of the many small steps takes
a good part of the time of one (docs/experiments.md).
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hsa_pyg.analysis.score_statistics import QUANTITIES, score_statistics
from hsa_pyg.experiments.checkpoints import load_checkpoint
from hsa_pyg.experiments.semantic_focus.attention import (
    HEAD,
    BlockAttention,
    DenseAttention,
    Dropped,
    TreeAttention,
)
from hsa_pyg.experiments.semantic_focus.model import FocusTransformer, ModelShape
from hsa_pyg.experiments.semantic_focus.sequences import TokenRows
from hsa_pyg.experiments.semantic_focus.settings import FocusSettings
from hsa_pyg.hierarchy import SignalHierarchy
from hsa_pyg.ops.patterns import BlockLocal, Pattern, banded, blocklocal

#: About so many tokens are evaluated at a time.
_EVALUATED = 4_000
#: Up to this length all scores at once are faster than the kernels of trees.
_SHORT = 64
#: Sequences whose scores are logged.
_LOGGED = 25


def make_pattern(settings: FocusSettings) -> Pattern | None:
    """The fixed pattern of the settings; None for none."""
    kinds = {"banded": banded, "blocklocal": blocklocal}
    if settings.attention not in kinds:
        return None
    return kinds[settings.attention](settings.width or 1, settings.num_global or 0)


def attended_trees(
    settings: FocusSettings, data: TokenRows, rows: Sequence[int]
) -> SignalHierarchy:
    """The trees on which plain or top-k attention is what the settings ask for.

    Blocks without global tokens are trees of their own; for other patterns it is the
    whole sequences that are masked.
    """
    pattern = make_pattern(settings)
    if isinstance(pattern, BlockLocal) and pattern.num_global == 0:
        return pattern.hierarchy([data.tokens.size(1)] * len(rows))
    return data.hierarchy(rows)


def make_attention(
    settings: FocusSettings, data: TokenRows, rows: Sequence[int]
) -> BlockAttention:
    """The attention over some sequences, computed in the way that is fastest."""
    length, pattern = data.tokens.size(1), make_pattern(settings)
    masked = settings.attention == "banded" or bool(settings.num_global)
    short = settings.attention == "full" and length <= _SHORT
    if masked or short:
        return DenseAttention(len(rows), length, pattern)
    trees = attended_trees(settings, data, rows)
    return TreeAttention(trees, settings.dropout, settings.k)


class FocusTraining:
    """A model, its optimiser, and what they have come to.

    Args:
        settings: Complete ones.
        seed: Of the first weights, the order of sequences, and dropout.
        train: Training sequences.
        val: Holdout sequences.
    """

    def __init__(
        self, settings: FocusSettings, seed: int, train: TokenRows, val: TokenRows
    ) -> None:
        self.settings = settings
        self.seed = seed
        self.train = train
        self.val = val
        self.generator = torch.Generator().manual_seed(seed)
        shape = ModelShape(
            train.vocab_size,
            train.num_classes,
            settings.blocks or 1,
            settings.heads,
            settings.channels,
            settings.hidden,
            settings.activation,
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.model = FocusTransformer(shape, settings.dropout, self.generator)
        self.optimizer = _make_optimizer(settings, self.model)
        self.history: list[dict[str, float]] = []
        self.seconds = 0.0
        self._attentions: dict[tuple[str, int], BlockAttention] = {}

    @property
    def stopped_early(self) -> bool:
        """Whether the rule of ``stop_after`` has ended the training."""
        number, last = self.settings.stop_after, self.history
        if number is None or len(last) < number:
            return False
        right = all(row["val_accuracy"] == 1.0 for row in last[-number:])
        return right and last[-1]["train_loss"] < (self.settings.stop_loss or 0.0)

    @property
    def finished(self) -> bool:
        """Whether there is no further epoch to train."""
        return len(self.history) >= (self.settings.epochs or 0) or self.stopped_early

    def run_epoch(self) -> dict[str, float]:
        """Train for an epoch, evaluate, and return the new row of the history."""
        begin, processor = time.perf_counter(), time.process_time()
        lr = self._set_rate()
        self._train()
        trained = time.perf_counter()
        row: dict[str, float] = {"epoch": len(self.history), "lr": lr}
        for name, data in (("train", self.train), ("val", self.val)):
            loss, accuracy = self.evaluate(name, data)
            row |= {f"{name}_loss": loss, f"{name}_accuracy": accuracy}
        if self.settings.log_scores:
            row |= self.score_statistics()
        end = time.perf_counter()
        row |= {"seconds": trained - begin, "evaluation_seconds": end - trained}
        # Of both: what else the machine has to do adds nothing to them.
        row["processor_seconds"] = time.process_time() - processor
        self.history.append(row)
        self.seconds += end - begin
        return row

    def _set_rate(self) -> float:
        settings = self.settings
        lr = (settings.lr or 0.0) * (settings.decay or 1.0) ** len(self.history)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        return lr

    def _train(self) -> None:
        self.model.train()
        parameters = list(self.model.parameters())
        number = self.train.labels.numel()
        order = torch.randperm(number, generator=self.generator)
        for rows in order.split(self.settings.batch_size):
            attention = self._attention("train", self.train, rows, keep=False)
            logits = self.model(self.train.tokens[rows], attention)
            loss = F.cross_entropy(logits, self.train.labels[rows])
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, self.settings.clip)
            self.optimizer.step()
        if not torch.isfinite(loss):
            raise FloatingPointError(
                f"The training loss is {loss.item()} in epoch {len(self.history)}: "
                "lower lr."
            )

    @torch.no_grad()
    def evaluate(self, name: str, data: TokenRows) -> tuple[float, float]:
        """Mean loss and accuracy without dropout.

        Args:
            name: Of the split, by which compiled trees are kept.
            data: Its sequences.
        """
        self.model.eval()
        loss = torch.zeros((), dtype=torch.float64)
        right = 0
        number, length = data.tokens.shape
        size = max(_EVALUATED // length, 1)
        for rows in torch.arange(number).split(size):
            attention = self._attention(name, data, rows, keep=True)
            logits = self.model(data.tokens[rows], attention)
            target = data.labels[rows]
            loss += F.cross_entropy(logits, target, reduction="sum")
            right += int((logits.argmax(1) == target).sum())
        return float(loss) / number, right / number

    def _attention(
        self, name: str, data: TokenRows, rows: Tensor, keep: bool
    ) -> BlockAttention:
        """The attention of a batch, made anew only where its trees are others."""
        if data.same_trees:
            name, key, keep = "any", rows.numel(), True
        else:
            key = int(rows[0])
        if not keep:
            return make_attention(self.settings, data, rows.tolist())
        if (name, key) not in self._attentions:
            made = make_attention(self.settings, data, rows.tolist())
            self._attentions[name, key] = made
        return self._attentions[name, key]

    @torch.no_grad()
    def score_statistics(self) -> dict[str, float]:
        """How scores spread on the first sequences of the holdout, block by block.

        Means over queries and heads; see :mod:`hsa_pyg.analysis.score_statistics`.
        """
        self.model.eval()
        rows = list(range(min(_LOGGED, self.val.labels.numel())))
        recorder = _Recorder(make_attention(self.settings, self.val, rows))
        self.model(self.val.tokens[rows], recorder)
        hierarchy = self.val.hierarchy(rows)
        logged = {}
        for block, qkv in enumerate(recorder.seen):
            q, k, _ = qkv.view(qkv.size(0), 3, -1, HEAD).unbind(1)
            found = score_statistics(
                q,
                k,
                hierarchy,
                top_k=self.settings.k,
                top_k_includes_self=self.settings.k is not None,
                pattern=make_pattern(self.settings),
            ).summary()
            for quantity in QUANTITIES:
                mean = float(found[quantity].mean.mean())
                # JSON knows no NaN: what nothing was dropped by has no separation.
                if mean == mean:
                    logged[f"{quantity}_{block}"] = mean
        return logged

    def save(self, path: Path) -> None:
        """Write all that the next epoch needs, whole or not at all."""
        state = {
            "settings": asdict(self.settings),
            "seed": self.seed,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
            "history": self.history,
            "seconds": self.seconds,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        torch.save(state, partial)
        os.replace(partial, path)

    def load(self, path: Path) -> None:
        """Go on from what :meth:`save` has written.

        Raises:
            ValueError: if it is of other settings or another seed.
        """
        state: dict[str, Any] = load_checkpoint(path)
        if (state["settings"], state["seed"]) != (asdict(self.settings), self.seed):
            raise ValueError(f"{path} is of other settings or another seed: delete it.")
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])
        self.history = state["history"]
        self.seconds = state["seconds"]


class _Recorder:
    """Attention that remembers what it was given."""

    def __init__(self, attention: BlockAttention) -> None:
        self.attention = attention
        self.seen: list[Tensor] = []

    def num_weights(self, heads: int) -> int:
        return self.attention.num_weights(heads)

    def forward(self, qkv: Tensor, dropped: Dropped | None) -> tuple[Tensor, Any]:
        self.seen.append(qkv)
        return self.attention.forward(qkv, dropped)

    def backward(
        self, grad: Tensor, qkv: Tensor, kept: Any, dropped: Dropped | None
    ) -> Tensor:
        return self.attention.backward(grad, qkv, kept, dropped)


def _make_optimizer(settings: FocusSettings, model: nn.Module) -> torch.optim.Optimizer:
    if settings.optimizer == "adam":
        return torch.optim.Adam(model.parameters(), lr=settings.lr or 0.0, fused=True)
    return torch.optim.SGD(model.parameters(), lr=settings.lr or 0.0, fused=True)
