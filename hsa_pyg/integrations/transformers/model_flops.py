"""What the attention of a model costs, layer by layer, for inputs that are at hand."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from hsa_pyg.analysis import attention_flops, counted_flops
from hsa_pyg.hierarchy import SignalHierarchy
from hsa_pyg.integrations.transformers.attention import LAYER
from hsa_pyg.integrations.transformers.comparison import evaluating, run_batch
from hsa_pyg.integrations.transformers.forward_trees import Form
from hsa_pyg.integrations.transformers.layers import (
    AttentionLayer,
    attention_layers,
    is_causal_tower,
)
from hsa_pyg.integrations.transformers.masks import kept_places
from hsa_pyg.integrations.transformers.trees import Builder, Flat, Tokens
from hsa_pyg.ops import last_backend


@dataclass(frozen=True)
class SoftmaxAndActual:
    """FLOPs of attention over the same tokens.

    Attributes:
        softmax: of softmax attention.
        actual: of the attention that the layer runs.
    """

    softmax: int = 0
    actual: int = 0

    @property
    def share(self) -> float:
        """``actual / softmax``."""
        return self.actual / max(1, self.softmax)

    def __add__(self, other: SoftmaxAndActual) -> SoftmaxAndActual:
        return SoftmaxAndActual(
            self.softmax + other.softmax, self.actual + other.actual
        )


@dataclass(frozen=True)
class LayerFlops:
    """FLOPs of one attention layer for a batch, projections not included.

    Attributes:
        number: of the layer, from 0.
        name: where its module is within the model.
        replaced: whether it attends hierarchically.
        paper: as :func:`~hsa_pyg.analysis.attention_flops` counts; padded tokens do not
            count.
        counted: of the matrix products, as :func:`~hsa_pyg.analysis.counted_flops`
            counts; padded tokens do not count.
        padded: the same with all that is padded: tokens in softmax attention, as torch
            counts it, and families on the backend "torch". What ``FlopCounterMode``
            finds when the model runs.
    """

    number: int
    name: str
    replaced: bool
    paper: SoftmaxAndActual
    counted: SoftmaxAndActual
    padded: SoftmaxAndActual


_HEADER = (
    "| layer | attention | softmax | as it is | share | softmax, counted | as it is, "
    "counted | softmax, padded | as it is, padded |"
)


@dataclass(frozen=True)
class ModelAttentionFlops:
    """FLOPs of all attention layers; ``str`` gives a Markdown table in MFLOPs."""

    layers: tuple[LayerFlops, ...]

    @property
    def paper(self) -> SoftmaxAndActual:
        """Of all layers by the paper's accounting."""
        return sum((x.paper for x in self.layers), SoftmaxAndActual())

    @property
    def counted(self) -> SoftmaxAndActual:
        """Of all layers' matrix products."""
        return sum((x.counted for x in self.layers), SoftmaxAndActual())

    @property
    def padded(self) -> SoftmaxAndActual:
        """Of all layers' matrix products, padding included."""
        return sum((x.padded for x in self.layers), SoftmaxAndActual())

    def __str__(self) -> str:
        kinds = {True: "HSA", False: "softmax"}
        rows = [(str(x.number), kinds[x.replaced], x) for x in self.layers]
        return "\n".join(
            [
                _HEADER,
                "|---:|---|" + "---:|" * 7,
                *(_row(number, kind, flops) for number, kind, flops in rows),
                _row("all", "", self),
            ]
        )


def _row(number: str, kind: str, flops: LayerFlops | ModelAttentionFlops) -> str:
    paper, counted, padded = flops.paper, flops.counted, flops.padded
    cells = [
        *(_mega(x) for x in (paper.softmax, paper.actual)),
        f"{paper.share:.1%}",
        *(_mega(x) for x in (counted.softmax, counted.actual)),
        *(_mega(x) for x in (padded.softmax, padded.actual)),
    ]
    return f"| {number} | {kind} | {' | '.join(cells)} |"


def _mega(flops: int) -> str:
    return f"{flops / 1e6:,.3f}"


def model_attention_flops(
    model: nn.Module, batch: Mapping[str, Any]
) -> ModelAttentionFlops:
    """Count the FLOPs of every attention layer of a model, replaced or not.

    The model runs once, so that trees that depend on its queries and keys are those of
    this very batch. Softmax attention counts all pairs of tokens also where the model
    is causal, as torch and the paper do.

    Args:
        model: a model of transformers, as it is or after
            :func:`~hsa_pyg.integrations.transformers.replace_attention`.
        batch: keyword arguments for one forward pass, as a tokenizer gives them. Under
            "texts" and "offset_mapping" it may hold what tree builders need of texts.

    Returns:
        A row a layer; a module that stands for several layers is one row with all of
        them. ``print`` shows the table.

    Raises:
        TypeError: if ``model`` is no model, or ``batch`` no mapping.
        NotImplementedError: for a model whose attention does not go through
            transformers' attention interface, or with cross-attention.

    Example:
        >>> import torch
        >>> from transformers import BertConfig, BertModel
        >>> from hsa_pyg.integrations.transformers import replace_attention
        >>> bert = BertModel(BertConfig(num_hidden_layers=2, vocab_size=99)).eval()
        >>> bert = replace_attention(bert, [1], "window:4", specials="inside")
        >>> flops = model_attention_flops(bert, {"input_ids": torch.ones(1, 64).long()})
        >>> [f"{layer.paper.share:.1%}" for layer in flops.layers]
        ['100.0%', '8.2%']
    """
    if not isinstance(batch, Mapping):
        raise TypeError(
            "batch must be a mapping of the model's keyword arguments, such as a "
            f"tokenizer returns, got {type(batch).__name__}"
        )
    layers = attention_layers(model)
    model = getattr(model, "_orig_mod", model)
    counts = [_LayerCount(layer) for layer in layers]
    forms = {id(x): x for x in (count.form() for count in counts) if x is not None}
    with contextlib.ExitStack() as stack:
        recorders = {
            number: stack.enter_context(_recording(form))
            for number, form in forms.items()
        }
        for count in counts:
            count.recorder = recorders.get(id(count.form()))
            handle = count.layer.module.register_forward_hook(count, with_kwargs=True)
            stack.callback(handle.remove)
        stack.enter_context(evaluating(model))
        run_batch(model, batch)
    return ModelAttentionFlops(tuple(count.result() for count in counts))


class _Recorder:
    """A tree builder that keeps the forest that it built last."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.latest: Any = None

    @property
    def needs_scores(self) -> bool:
        """Whether it is asked in every layer."""
        return bool(getattr(self.builder, "needs_scores", False))

    def __call__(self, tokens: Tokens) -> SignalHierarchy:
        """Build the forest."""
        self.latest = self.builder(tokens)
        return self.latest


@contextlib.contextmanager
def _recording(form: Form) -> Iterator[_Recorder]:
    recorder, builder = _Recorder(form.builder), form.builder
    form.builder = recorder
    try:
        yield recorder
    finally:
        form.builder = builder


class _LayerCount:
    """A hook of an attention module that adds up what its calls cost."""

    def __init__(self, layer: AttentionLayer) -> None:
        self.layer = layer
        self.recorder: _Recorder | None = None
        self.paper = self.counted = self.padded = SoftmaxAndActual()

    def form(self) -> Form | None:
        """How the layer attends hierarchically, if it does."""
        replaced = getattr(self.layer.module.config, LAYER, None)
        return None if replaced is None else replaced.form

    def __call__(
        self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> None:
        """After a call of the module."""
        given = dict(zip(("hidden_states", "attention_mask"), args, strict=False))
        given.update(kwargs)
        if (
            "CrossAttention" in type(module).__name__
            or given.get("key_value_states") is not None
            or given.get("encoder_hidden_states") is not None
        ):
            raise NotImplementedError(
                f"{self.layer} is cross-attention, over two sets of tokens; count one "
                "tower, as in model_attention_flops(model.get_encoder(), batch)"
            )
        batch, length = given["hidden_states"].shape[:2]
        heads, width = _heads(module)
        channels, form = heads * width, self.form()
        tree = None if form is None or self.recorder is None else self.recorder.latest
        tied = form is None or form.tie_queries
        if tree is None:
            mask = given.get("attention_mask")
            causal = _is_causal(module)
            device = given["hidden_states"].device
            kept = kept_places(mask, batch, length, causal, device)
            tree = Flat()(Tokens(kept, kept & False))
        paper = attention_flops(tree, channels, heads, tie_queries=tied)
        counted = counted_flops(tree, channels, heads, tie_queries=tied)
        softmax = 4 * channels * batch * length**2
        actual = softmax
        if form is not None:
            padded = last_backend() == "torch"
            actual = counted.hsa_padded if padded else counted.hsa
        self.paper += SoftmaxAndActual(paper.softmax, paper.hsa)
        self.counted += SoftmaxAndActual(counted.softmax, counted.hsa)
        self.padded += SoftmaxAndActual(softmax, actual)

    def result(self) -> LayerFlops:
        """The layer's row."""
        layer, replaced = self.layer, self.form() is not None
        counts = self.paper, self.counted, self.padded
        return LayerFlops(layer.number, layer.name, replaced, *counts)


def _heads(module: Any) -> tuple[int, int]:
    """Heads of an attention module, and channels of one."""
    config = module.config
    heads = config.num_attention_heads
    for name in ("head_dim", "attention_head_size"):
        if isinstance(width := getattr(module, name, None), int):
            return heads, width
    return heads, config.hidden_size // heads


def _is_causal(module: Any) -> bool:
    own = any(getattr(module, name, False) for name in ("is_causal", "is_decoder"))
    return own or is_causal_tower(module.config)
