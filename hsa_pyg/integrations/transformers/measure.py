"""What replacing attention does to a model's answers, its FLOPs and its time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

from hsa_pyg.integrations.transformers.comparison import (
    Batch,
    FlopCount,
    check_batches,
    check_original,
    evaluating,
    replaced,
    run_batch,
)
from hsa_pyg.integrations.transformers.layers import Layers, attention_layers
from hsa_pyg.integrations.transformers.replace import replaced_layers
from hsa_pyg.integrations.transformers.scores import (
    Decide,
    Read,
    check_classes,
    check_labels,
    check_scores,
    divergence,
    logits,
)
from hsa_pyg.integrations.transformers.trees import DEFAULT_TREES, Builder


@dataclass(frozen=True)
class Measurement:
    """What replacing some layers did to the answers of a model, and what it saved.

    FLOPs are counted as the paper counts them: 4 C + H for each pair of C channels and
    H heads. Trees are counted as they were built, averaged over texts and replaced
    layers; with ``tie_queries=False`` every leaf pays for the families on its path.

    Attributes:
        layers: the replaced layers, ascending.
        samples: S, the number of samples.
        accuracy_before: part of the labels that the original model got right; None
            without labels.
        accuracy_after: likewise with replaced layers.
        change: ``accuracy_after - accuracy_before``, on the same samples.
        change_error: standard error of that paired difference; None for one sample.
        agreement: part of the samples whose prediction is unchanged.
        divergence: mean KL(before || after) of the softmax of the scores, in nats.
        flops_before: softmax attention of one replaced layer, mean per text and layer.
        flops_after: hierarchical attention instead, likewise.
        share: ``flops_after / flops_before``.
        model_share: FLOPs of the attention of all layers, after / before.
        seconds_before: wall clock of the forward passes over all batches.
        seconds_after: likewise with replaced layers, building trees included.
    """

    layers: tuple[int, ...]
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
    seconds_before: float
    seconds_after: float


@dataclass(frozen=True)
class Attempt:
    """A run with replaced layers, to be compared with the original one.

    Attributes:
        layers: the replaced layers, ascending.
        scores: [S, classes].
        seconds: of the forward passes.
        count: FLOPs of attention over the trees that were built.
    """

    layers: tuple[int, ...]
    scores: Tensor
    seconds: float
    count: FlopCount


class ReplacementTrials:
    """Trials of several replacements on the same samples.

    The original model runs once; each trial is compared with its scores. Layers can be
    tried without labels: agreement and divergence need none.

    Args:
        model: as for
            :func:`~hsa_pyg.integrations.transformers.replace_attention`, its attention
            not replaced. Between calls it is as it was; it runs in evaluation mode.
        batches: keyword arguments of the forward passes, as a tokenizer gives them, on
            the model's device. A batch may also hold ``texts`` and their
            ``offset_mapping``: these are not passed to the model but given to the trees
            by :func:`~hsa_pyg.integrations.transformers.original_text`.
        labels: [S], in the order of the samples; or None.
        read: function from the model's output and the batch to scores [B, classes]; by
            default ``output.logits``, with [B, C, ...] flattened.
        decide: function from scores [S, classes] to predictions [S]; by default the
            place of the largest.
        progress: whether to show progress bars.

    Attributes:
        scores: [S, classes] of the original model, on the CPU, in float32 or wider.
        predictions: [S], what ``decide`` makes of them.
        seconds: of its forward passes, after a warm-up.

    Raises:
        TypeError: for batches that are no mappings, or labels that are no integers.
        ValueError: for no samples, an attention that is replaced already, scores or
            predictions of a wrong shape, scores that are not finite, or labels that
            do not fit the samples.
        NotImplementedError: for a model without replaceable layers.

    Example:
        >>> from transformers import BertConfig, BertForSequenceClassification
        >>> config = BertConfig(num_hidden_layers=2, vocab_size=99, num_labels=3)
        >>> bert = BertForSequenceClassification(config)
        >>> batches = [{"input_ids": torch.randint(1, 99, (4, 32))}]
        >>> trials = ReplacementTrials(bert, batches, [0, 1, 2, 0], progress=False)
        >>> one, other = (trials.measure([1], b) for b in ("window:4", "flat"))
        >>> round(one.share, 3), other.share, other.agreement
        (0.16, 1.0, 1.0)
    """

    def __init__(
        self,
        model: nn.Module,
        batches: Iterable[Batch],
        labels: Sequence[int] | Tensor | None = None,
        *,
        read: Read | None = None,
        decide: Decide | None = None,
        progress: bool = True,
    ) -> None:
        self._num_layers = len(attention_layers(model))
        check_original(model)
        self.model, self.batches = model, check_batches(batches)
        self.progress = progress
        self._read = logits if read is None else read
        self._decide = _largest if decide is None else decide
        self._warm: set[bool] = set()
        with evaluating(model):
            run_batch(model, self.batches[0])  # a warm-up
            self.scores, self.seconds = self._run("original")
        self.predictions = self._predict(self.scores)
        self.labels = None if labels is None else check_labels(labels, self.scores)
        if self.labels is not None and decide is None:
            check_classes(self.labels, self.scores)

    def measure(
        self,
        layers: Layers = "all",
        hierarchy: str | Builder = DEFAULT_TREES,
        **options: Any,
    ) -> Measurement:
        """Replace layers, run all batches, and say what that changed.

        The layers are put back, also after an error.

        Args:
            layers: as ``replace_attention`` takes them.
            hierarchy: likewise.
            **options: of ``replace_attention``: ``tie_queries`` and so on.

        Raises:
            ValueError: if the scores are not finite, or as ``replace_attention``.
            TypeError: as ``replace_attention``.
            NotImplementedError: as ``replace_attention``.
        """
        return self.compare(self.attempt(layers, hierarchy, **options))

    def attempt(
        self, layers: Layers, hierarchy: str | Builder, **options: Any
    ) -> Attempt:
        """The run of :meth:`measure`, for other comparisons than its own."""
        check_original(self.model)
        tied = bool(options.get("tie_queries", True))
        with (
            replaced(self.model, layers, hierarchy, options) as count,
            evaluating(self.model),
        ):
            numbers = tuple(replaced_layers(self.model))
            if tied not in self._warm:  # kernels are compiled on first use
                run_batch(self.model, self.batches[0])
                self._warm.add(tied)
                count.clear()
            scores, seconds = self._run(f"layers {list(numbers)}")
        return Attempt(numbers, scores, seconds, count)

    def _run(self, description: str) -> tuple[Tensor, float]:
        """Scores of all samples, and the seconds of the forward passes alone."""
        scores: list[Tensor] = []
        seconds = 0.0
        for batch in tqdm(
            self.batches, description, leave=False, disable=not self.progress
        ):
            begin = _now()
            output = run_batch(self.model, batch)
            seconds += _now() - begin
            with torch.no_grad():
                scores.append(check_scores(self._read(output, batch), scores))
        found = torch.cat(scores)
        if found.size(0) == 0:
            raise ValueError("the batches hold no samples; give at least one")
        if not bool(found.isfinite().all()):
            raise ValueError(
                f"{description}: the scores of "
                f"{int((~found.isfinite()).any(1).sum())} of {found.size(0)} samples "
                "are not finite; look at the inputs and the dtype of the model"
            )
        return found, seconds

    def _predict(self, scores: Tensor) -> Tensor:
        made = self._decide(scores)
        if not isinstance(made, Tensor) or made.shape != scores.shape[:1]:
            shape = tuple(made.shape) if isinstance(made, Tensor) else type(made)
            raise ValueError(
                f"decide must make one prediction of each of the {scores.size(0)} "
                f"samples, a tensor [{scores.size(0)}], got {shape}"
            )
        return made.cpu()

    def compare(self, attempt: Attempt) -> Measurement:
        """What :meth:`measure` says of a run of :meth:`attempt`."""
        layers, scores, count = attempt.layers, attempt.scores, attempt.count
        if scores.shape != self.scores.shape:
            raise ValueError(
                f"the scores have shape {tuple(scores.shape)}, those of the original "
                f"model {tuple(self.scores.shape)}; read must not depend on the run"
            )
        made, samples = self._predict(scores), scores.size(0)
        before = after = change = error = None
        if self.labels is not None:
            right = [(x == self.labels).double() for x in (self.predictions, made)]
            before, after = (float(x.mean()) for x in right)
            difference = right[1] - right[0]
            change = float(difference.mean())
            if samples > 1:
                error = float(difference.std()) / samples**0.5
        share = count.share()
        flops_before, flops_after = count.per_text()
        return Measurement(
            layers=layers,
            samples=samples,
            accuracy_before=before,
            accuracy_after=after,
            change=change,
            change_error=error,
            agreement=float((made == self.predictions).double().mean()),
            divergence=divergence(self.scores, scores),
            flops_before=flops_before,
            flops_after=flops_after,
            share=share,
            model_share=1 - len(layers) * (1 - share) / self._num_layers,
            seconds_before=self.seconds,
            seconds_after=attempt.seconds,
        )


def measure_replacement(
    model: nn.Module,
    batches: Iterable[Batch],
    labels: Sequence[int] | Tensor | None = None,
    layers: Layers = "all",
    hierarchy: str | Builder = DEFAULT_TREES,
    *,
    read: Read | None = None,
    decide: Decide | None = None,
    progress: bool = True,
    **options: Any,
) -> Measurement:
    """Measure one replacement; for several see :class:`ReplacementTrials`.

    Args:
        model: as for :class:`ReplacementTrials`, like the next two.
        batches: keyword arguments of the forward passes.
        labels: [S], or None.
        layers: as ``replace_attention`` takes them.
        hierarchy: likewise.
        read: from output and batch to scores.
        decide: from scores to predictions.
        progress: whether to show progress bars.
        **options: of ``replace_attention``.

    Raises:
        TypeError: as :class:`ReplacementTrials`.
        ValueError: likewise.
        NotImplementedError: likewise.
    """
    trials = ReplacementTrials(
        model, batches, labels, read=read, decide=decide, progress=progress
    )
    return trials.measure(layers, hierarchy, **options)


def _largest(scores: Tensor) -> Tensor:
    return scores.argmax(1)


def _now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()
