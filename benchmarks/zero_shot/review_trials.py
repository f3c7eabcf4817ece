"""Trials on a slice of reviews, which share what they compute alike."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from benchmarks.zero_shot.prefix import resumed, states_before
from benchmarks.zero_shot.records import Setting
from benchmarks.zero_shot.texts import Batches
from hsa_pyg.integrations.transformers import Sentences
from hsa_pyg.integrations.transformers.measure import Measurement, ReplacementTrials
from hsa_pyg.integrations.transformers.scores import Read
from hsa_pyg.integrations.transformers.trees import Builder


@dataclass(frozen=True)
class Outcome:
    """A measurement without its seconds, since trials share a part of their passes."""

    samples: int
    accuracy_before: float | None
    accuracy_after: float | None
    change: float | None
    change_error: float | None
    agreement: float
    divergence: float
    flops_before: float
    flops_after: float
    share: float
    model_share: float

    @classmethod
    def of(cls, measured: Measurement) -> Outcome:
        """What a measurement says besides."""
        return cls(**{name: getattr(measured, name) for name in _names()})


def _names() -> list[str]:
    return list(Outcome.__dataclass_fields__)


@contextlib.contextmanager
def precision(bfloat16: bool) -> Iterator[None]:
    """Matrix products of models in bfloat16, or else in float32."""
    with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
        yield


def builder(hierarchy: str) -> str | Builder:
    """Trees by name; sentences are those of the texts themselves."""
    return Sentences() if hierarchy == "sentences" else hierarchy


@dataclass
class ReviewTrials:
    """From a setting to what it does to a slice of reviews.

    Args:
        model: a BERT, or one with a head.
        batches: the reviews.
        read: of scores; None for logits.
        bfloat16: whether matrix products run in bfloat16.
    """

    model: nn.Module
    batches: Batches
    read: Read | None = None
    bfloat16: bool = True
    _trials: ReplacementTrials | None = None
    _states: dict[int, dict[int, Tensor]] = field(default_factory=dict)

    def __call__(self, setting: Setting) -> Outcome:
        """Measure a setting."""
        trials, first = self.trials(), min(setting.layers)
        with precision(self.bfloat16):
            if first not in self._states:
                # One at a time: they are large.
                self._states.clear()
                self._states[first] = states_before(
                    self.model, self.batches.batches, first
                )
            tree = builder(setting.hierarchy)
            with resumed(self.model, self._states[first], first):
                return Outcome.of(
                    trials.measure(setting.layers, tree, **setting.options)
                )

    def trials(self) -> ReplacementTrials:
        """The original's scores, computed when they are first asked for."""
        if self._trials is None:
            with precision(self.bfloat16):
                self._trials = ReplacementTrials(
                    self.model,
                    self.batches.batches,
                    self.batches.labels,
                    read=self.read,
                    progress=False,
                )
        return self._trials
