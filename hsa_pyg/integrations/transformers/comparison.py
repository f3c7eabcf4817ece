"""The same batches through a model as it is and with some of its layers replaced."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from hsa_pyg.analysis.flops import attention_flops, window_attention_flops
from hsa_pyg.hierarchy import SignalHierarchy
from hsa_pyg.integrations.transformers.forward_trees import checked_forest
from hsa_pyg.integrations.transformers.layers import Layers, attention_layers
from hsa_pyg.integrations.transformers.replace import (
    original_text,
    replace_attention,
    replaced_layers,
    restore_attention,
)
from hsa_pyg.integrations.transformers.trees import Builder, Tokens, make_builder

Batch = Mapping[str, Any]

# Keys of a batch that are for tree builders and not for the model.
TEXTS, OFFSETS = "texts", "offset_mapping"


def check_batches(batches: Iterable[Batch]) -> list[Batch]:
    """The batches as a list, each a mapping of the model's keyword arguments.

    Raises:
        TypeError: for a batch that is no mapping, or batches that are one.
        ValueError: for no batches, or texts without the characters of their tokens.
    """
    if isinstance(batches, Mapping) or not isinstance(batches, Iterable):
        raise TypeError(
            "batches must be a list of mappings of the model's keyword arguments, got "
            f"{type(batches).__name__}; a single batch is [batch]"
        )
    given = list(batches)
    if not given:
        raise ValueError("batches are empty; give at least one batch of inputs")
    for batch in given:
        if not isinstance(batch, Mapping):
            raise TypeError(
                f"a batch must be a mapping of the model's keyword arguments, such as "
                f"a tokenizer returns, got {type(batch).__name__}"
            )
        if (TEXTS in batch) != (OFFSETS in batch):
            here, missing = (TEXTS, OFFSETS) if TEXTS in batch else (OFFSETS, TEXTS)
            raise ValueError(
                f"a batch holds {here!r} but not {missing!r}; give both, so that "
                "sentences are found in the texts themselves, or neither"
            )
    return given


def check_original(model: nn.Module) -> None:
    """Raise a ValueError if layers of the model are replaced already."""
    if replaced_layers(model):
        raise ValueError(
            f"layers {replaced_layers(model)} are replaced already, and changes are "
            "measured from the original model; call restore_attention(model) first"
        )


@torch.no_grad()
def run_batch(model: nn.Module, batch: Batch) -> Any:
    """The model's output, without gradients.

    ``texts`` and ``offset_mapping`` of the batch are not passed to the model: they are
    what :func:`~hsa_pyg.integrations.transformers.original_text` gives to the trees of
    replaced layers.
    """
    inputs = {key: x for key, x in batch.items() if key not in (TEXTS, OFFSETS)}
    if TEXTS not in batch or not replaced_layers(model):
        return model(**inputs)
    with original_text(model, batch[TEXTS], batch[OFFSETS]):
        return model(**inputs)


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """In evaluation mode within; every module's own mode afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


@contextlib.contextmanager
def replaced(
    model: nn.Module,
    layers: Layers,
    hierarchy: str | Builder,
    options: Mapping[str, Any],
) -> Iterator[FlopCount]:
    """With replaced layers within, as it was afterwards; counts FLOPs meanwhile.

    Args:
        model: the original model.
        layers: as ``replace_attention`` takes them.
        hierarchy: likewise.
        options: its other options.
    """
    builder = make_builder(hierarchy, options.get("tokenizer"))
    config = attention_layers(model)[0].module.config
    count = FlopCount(
        builder,
        config.hidden_size,
        config.num_attention_heads,
        bool(options.get("tie_queries", True)),
    )
    replace_attention(model, layers, count, **options)
    try:
        yield count
    finally:
        restore_attention(model)


@dataclass
class FlopCount:
    """A tree builder that counts the FLOPs of attention over its forests.

    They are counted as :func:`~hsa_pyg.analysis.attention_flops` does, softmax
    attention's over the texts, in however many trees the builder puts one.

    Args:
        builder: the builder.
        channels: of all heads together.
        heads: their number.
        tie_queries: as the layers attend.
        hsa: FLOPs of hierarchical attention, by layer.
        softmax: FLOPs of softmax attention, by layer.
        texts: texts (images) seen, by layer.
    """

    builder: Builder
    channels: int
    heads: int
    tie_queries: bool = True
    hsa: dict[int, int] = field(default_factory=dict)
    softmax: dict[int, int] = field(default_factory=dict)
    texts: dict[int, int] = field(default_factory=dict)

    @property
    def needs_scores(self) -> bool:
        """Whether it is asked in every layer; else once for all of them."""
        return bool(getattr(self.builder, "needs_scores", False))

    def __call__(self, tokens: Tokens) -> SignalHierarchy:
        """Build the forest."""
        hierarchy = checked_forest(self.builder, tokens)
        channels, heads = self.channels, self.heads
        flops = attention_flops(
            hierarchy, channels, heads, tie_queries=self.tie_queries
        )
        pair = window_attention_flops(1, channels=channels, heads=heads).softmax
        length = tokens.kept.sum(1)
        for counts, number in (
            (self.hsa, flops.hsa),
            (self.softmax, pair * int(length.square().sum())),
            (self.texts, length.numel()),
        ):
            counts[tokens.layer] = counts.get(tokens.layer, 0) + number
        return hierarchy

    def clear(self) -> None:
        """Begin anew."""
        for counts in (self.hsa, self.softmax, self.texts):
            counts.clear()

    def share(self) -> float:
        """Mean share of softmax attention's FLOPs in the layers that asked."""
        return _mean_ratio(self.hsa, self.softmax)

    def per_text(self) -> tuple[float, float]:
        """FLOPs of softmax and of hierarchical attention, mean per text and layer."""
        return _mean_ratio(self.softmax, self.texts), _mean_ratio(self.hsa, self.texts)


def _mean_ratio(above: Mapping[int, int], below: Mapping[int, int]) -> float:
    each: Sequence[float] = [above[at] / max(1, below[at]) for at in above]
    return sum(each) / max(1, len(each))
