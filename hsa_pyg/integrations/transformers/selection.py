"""Which layers to replace: those whose replacement changes the output least."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, kl_div
from tqdm import tqdm

from hsa_pyg.integrations.transformers.comparison import (
    check_batches,
    check_original,
    evaluating,
    replaced,
    run_batch,
)
from hsa_pyg.integrations.transformers.layers import (
    Layers,
    attention_layers,
    choose_layers,
    why_not,
)
from hsa_pyg.integrations.transformers.scores import Read, mean_state
from hsa_pyg.integrations.transformers.trees import DEFAULT_TREES, Builder, make_builder


@dataclass(frozen=True)
class Trial:
    """What replacing some layers did.

    Args:
        layers: the layers, ascending.
        change: mean change of the output of a sample, 0 if there is none.
        share: FLOPs of the attention of the whole model, of those of softmax.
    """

    layers: tuple[int, ...]
    change: float
    share: float


@dataclass(frozen=True)
class LayerSelection:
    """The layers that :func:`select_layers` chose, and what it tried.

    Args:
        layers: to be passed to ``replace_attention(layers=...)``, ascending.
        change: what replacing them changes; 0 if there are none.
        share: FLOPs of the attention that is left, of those of softmax.
        trials: all that was tried: each layer alone, then sets of layers.
    """

    layers: list[int]
    change: float
    share: float
    trials: tuple[Trial, ...]

    def __str__(self) -> str:
        lines = ["| layers | change | attention FLOPs |", "|---|---|---|"]
        lines += [
            f"| {', '.join(map(str, x.layers))} | {x.change:.4g} | {x.share:.1%} |"
            for x in self.trials
        ]
        return "\n".join([*lines, f"chosen: {self.layers}"])


def select_layers(
    model: nn.Module,
    batches: Iterable[Mapping[str, Any]],
    budget: int | float,
    hierarchy: str | Builder = DEFAULT_TREES,
    *,
    candidates: Layers = "all",
    read: Read | None = None,
    tries: int = 4,
    progress: bool = True,
    **options: Any,
) -> LayerSelection:
    """Choose the layers of a pretrained model whose attention can be replaced.

    Layers differ by far: one of them can cost half of the accuracy and the next one
    nothing. No labels are needed: what is measured is how much the output changes. Each
    layer is replaced alone first. Then the set grows by the layer, of the ``tries``
    that changed least alone, that changes least together with those chosen.

    Args:
        model: as for
            :func:`~hsa_pyg.integrations.transformers.replace_attention`; it is left as
            it was. Its attention must not be replaced yet.
        batches: keyword arguments for some forward passes, as a tokenizer gives them,
            on the model's device. Some hundred samples do. A batch may also hold
            ``texts`` and their ``offset_mapping``, which
            :func:`~hsa_pyg.integrations.transformers.original_text` gives to the trees.
        budget: how many layers to replace, as an integer; or the part of the FLOPs of
            the model's attention that may be left, as a float below 1: layers are
            chosen until it is reached.
        hierarchy: the trees, as for ``replace_attention``.
        candidates: the layers to choose from, as ``replace_attention(layers=...)``
            names them. Of ``"all"``, those that cannot be replaced are left out.
        read: function from the model's output and the batch to what must not change,
            [samples, ..., channels], which is compared by its cosine. By default the
            logits, by KL divergence, or the mean of the last hidden states over the
            tokens that are no padding, by its cosine.
        tries: layers tried in each step after the first.
        progress: whether to show a progress bar.
        **options: of ``replace_attention``: ``tie_queries`` and so on.

    Returns:
        The layers and the table of what was tried; ``print`` shows it.

    Raises:
        TypeError: for batches that are no mappings, or a budget that is no number.
        ValueError: for no batches, a budget out of range or that replacing all
            candidates does not reach, an output that ``read`` is needed for, or an
            attention that is replaced already.
        NotImplementedError: if no layer can be replaced.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> bert = BertModel(BertConfig(num_hidden_layers=3, vocab_size=99)).eval()
        >>> batches = [{"input_ids": torch.randint(1, 99, (2, 30))}]
        >>> found = select_layers(bert, batches, budget=2, progress=False)
        >>> len(found.layers), len(found.trials)  # alone: 3; then 2 pairs
        (2, 5)
    """
    numbers = _candidates(model, candidates, bool(options.get("tie_queries", True)))
    count = _check_budget(budget, len(numbers))
    if isinstance(tries, bool) or not isinstance(tries, int) or tries < 1:
        raise ValueError(f"tries must be a positive integer, got {tries!r}")
    check_original(model)
    given = check_batches(batches)
    builder = make_builder(hierarchy, options.get("tokenizer"))
    run = _Runs(model, given, builder, read, options)
    # Each step tries as many as are left, or ``tries`` of them.
    steps = range(1, count if isinstance(budget, int) else len(numbers))
    total = len(numbers) + sum(min(tries, len(numbers) - at) for at in steps)
    with evaluating(model), tqdm(total=total, disable=not progress) as bar:
        bar.set_description("layers")
        run.remember()
        return _grow(run, numbers, budget, tries, bar)


def _grow(
    run: _Runs, numbers: Sequence[int], budget: int | float, tries: int, bar: Any
) -> LayerSelection:
    """Try each layer alone, then add layers one by one."""

    def attempt(layers: Iterable[int]) -> Trial:
        trial = run.attempt(tuple(sorted(layers)))
        trials.append(trial)
        bar.update()
        return trial

    trials: list[Trial] = []
    alone = [attempt([number]) for number in numbers]
    ranked = sorted(alone, key=lambda trial: (trial.change, trial.layers))
    order = [trial.layers[0] for trial in ranked]
    best = ranked[0]
    while not _reached(best, budget):
        left = [number for number in order if number not in best.layers]
        if not left:
            raise ValueError(
                f"replacing all {len(numbers)} candidates leaves {best.share:.1%} of "
                f"the attention's FLOPs, more than the budget {budget:.1%}; give a "
                "larger budget, more candidates or a hierarchy of smaller families"
            )
        grown = [attempt([*best.layers, number]) for number in left[:tries]]
        best = min(grown, key=lambda trial: (trial.change, trial.layers))
    return LayerSelection(list(best.layers), best.change, best.share, tuple(trials))


def _reached(trial: Trial, budget: int | float) -> bool:
    if isinstance(budget, int):
        return len(trial.layers) >= budget
    return trial.share <= budget


class _Runs:
    """Forward passes with some layers replaced, compared with the original ones.

    Args:
        model: the model.
        batches: inputs of the passes.
        builder: of the trees.
        read: what is compared, or None for the default.
        options: of ``replace_attention``.
    """

    def __init__(
        self,
        model: nn.Module,
        batches: Sequence[Mapping[str, Any]],
        builder: Builder,
        read: Read | None,
        options: Mapping[str, Any],
    ) -> None:
        self.model, self.batches, self.builder = model, batches, builder
        self.read, self.options = read, options
        self.layers = len(attention_layers(model))
        self.original: list[Tensor] = []
        self.by_divergence = False

    def remember(self) -> None:
        """Run the original model."""
        self.original = [self._output(batch) for batch in self.batches]

    def attempt(self, layers: tuple[int, ...]) -> Trial:
        """Replace ``layers``, run, and put them back."""
        change, samples = 0.0, 0
        with replaced(self.model, layers, self.builder, self.options) as count:
            for batch, original in zip(self.batches, self.original, strict=True):
                now = self._output(batch)
                change += float(self._change(original, now, batch).sum())
                samples += original.size(0)
        if not math.isfinite(change):
            raise ValueError(
                f"with layers {list(layers)} replaced the output, or the original one, "
                "is not finite; look at the inputs and the dtype of the model"
            )
        share = 1 - len(layers) * (1 - count.share()) / self.layers
        return Trial(layers, change / max(1, samples), share)

    @torch.no_grad()
    def _output(self, batch: Mapping[str, Any]) -> Tensor:
        output = run_batch(self.model, batch)
        if self.read is not None:
            read = self.read(output, batch)
            if not isinstance(read, Tensor) or read.dim() < 2:
                got = tuple(read.shape) if isinstance(read, Tensor) else type(read)
                raise ValueError(
                    f"read must give a tensor [samples, ..., channels], got {got}"
                )
            return read.detach().float()
        logits = getattr(output, "logits", None)
        if isinstance(logits, Tensor):
            if logits.size(-1) < 2:
                raise ValueError(
                    f"{type(output).__name__} has logits of {logits.size(-1)} class, "
                    "and softmax of one says nothing; pass read=, a function from the "
                    "output and the batch to what must not change, such as "
                    "output.hidden_states[-1][:, 0]"
                )
            self.by_divergence = True
            return logits.float()
        return mean_state(output, batch)

    def _change(
        self, original: Tensor, now: Tensor, batch: Mapping[str, Any]
    ) -> Tensor:
        """[samples] KL divergence from the original, or 1 - cosine."""
        if original.shape != now.shape:
            raise ValueError(
                f"the output has shape {tuple(now.shape)}, that of the original model "
                f"{tuple(original.shape)}; read must not depend on the run"
            )
        if self.by_divergence:
            old, new = original.log_softmax(-1), now.log_softmax(-1)
            each = kl_div(new, old, reduction="none", log_target=True).sum(-1)
        else:
            each = 1 - cosine_similarity(original, now, dim=-1)
        each = each.double()
        kept = batch.get("attention_mask")
        if self.by_divergence and isinstance(kept, Tensor) and kept.shape == each.shape:
            # A score for each token: those of padding say nothing.
            weight = kept.to(each)
            return (each * weight).sum(1) / weight.sum(1).clamp(min=1)
        return each.reshape(each.size(0), -1).mean(1)


def _candidates(model: nn.Module, layers: Layers, tied: bool) -> list[int]:
    found = attention_layers(model)
    chosen = choose_layers(found, layers)
    reasons = {layer.number: why_not(layer, tied) for layer in chosen}
    refused = [layer for layer in chosen if reasons[layer.number] is not None]
    if refused and (layers != "all" or len(refused) == len(chosen)):
        raise NotImplementedError(f"{refused[0]} {reasons[refused[0].number]}")
    return [layer.number for layer in chosen if reasons[layer.number] is None]


def _check_budget(budget: int | float, candidates: int) -> int:
    """The number of layers it asks for, or all candidates."""
    if isinstance(budget, bool) or not isinstance(budget, (int, float)):
        raise TypeError(
            "budget must be a number of layers or a part of the FLOPs below 1, got "
            f"{budget!r}"
        )
    if isinstance(budget, int):
        if not 1 <= budget <= candidates:
            raise ValueError(
                f"budget={budget} layers are to be replaced, but there are "
                f"{candidates} to choose from; give a number from 1 to {candidates}"
            )
        return budget
    if not 0 < budget < 1:
        raise ValueError(
            f"budget={budget} is a part of the attention's FLOPs and must lie between "
            "0 and 1; a number of layers is an integer"
        )
    return candidates
