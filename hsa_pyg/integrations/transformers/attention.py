"""Hierarchical attention as an implementation in transformers' attention interface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from hsa_pyg.integrations.transformers.forward_trees import Form, Plan, leaf_rows
from hsa_pyg.integrations.transformers.masks import padding_mask
from hsa_pyg.nn.functional import hierarchical_attention

try:
    from transformers import AttentionInterface, AttentionMaskInterface
except ImportError as error:
    raise ImportError(
        "Replacing attention needs the attention and mask interfaces of transformers "
        '5.0 or later: pip install "hsa-pyg[transformers]".'
    ) from error

#: Name of the implementation. It is set by replace_attention, never by hand.
IMPLEMENTATION = "hsa_pyg"
#: Keyword under which a forward pass of the model hands its trees to the layers.
TREES = "hsa_pyg_trees"
#: Attribute of a replaced layer's configuration that holds its :class:`ReplacedLayer`.
LAYER = "hsa_pyg_layer"

# What attention functions are told besides, and this one cannot do.
_UNKNOWN = ("position_bias", "softcap", "sliding_window", "s_aux")


@dataclass
class ReplacedLayer:
    """What a replaced attention module knows besides its weights.

    Args:
        number: of the layer, from 0.
        form: how it attends.
        config: the configuration that it had and shares with its model.
    """

    number: int
    form: Form
    config: Any


def hierarchical_attention_forward(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """The function that the attention interface calls for a replaced layer.

    Args:
        module: the attention module.
        query: [B, H, L, D].
        key: [B, H, L, D].
        value: [B, H, L, W].
        attention_mask: as the mask interface made it.
        dropout: probability that a weight is dropped.
        scaling: factor of the scores.
        is_causal: whether the model hides later tokens.
        **kwargs: what else the model says, above all the trees of this pass.

    Returns:
        [B, L, H, W], zeros at padded places; and the weights [B, H, L, L] if
        ``output_attentions`` asks for them.

    Raises:
        RuntimeError: without trees.
        NotImplementedError: for what hierarchical attention cannot do.
    """
    layer = getattr(module.config, LAYER, None)
    trees = kwargs.get(TREES)
    if layer is None or trees is None:
        raise _without_trees(module, layer)
    form = layer.form
    _refuse_call(module, query, key, form, is_causal, kwargs)
    plan = trees.plan(layer.number, query, key, attention_mask)
    q, k, v = (leaf_rows(x, plan.rows) for x in (query, key, value))
    y = hierarchical_attention(
        q,
        k,
        v,
        plan.hierarchy,
        self_attention=form.self_attention,
        tie_queries=form.tie_queries,
        causal=form.causal,
        scale=scaling,
        dropout=float(dropout),
        backend=form.backend,
    )
    batch, _, length, _ = query.shape
    if plan.rows is not None:
        y = y.new_zeros(batch * length, *y.shape[1:]).index_copy(0, plan.rows, y)
    weights = None
    if trees.weights:
        weights = _weights(q, k, plan, form, scaling)
    return y.view(batch, length, *y.shape[1:]), weights


def _without_trees(module: nn.Module, layer: ReplacedLayer | None) -> RuntimeError:
    name = type(module).__name__
    if layer is None:
        return RuntimeError(
            f"{name} runs attn_implementation={IMPLEMENTATION!r}, which was set by "
            "hand or comes with the configuration of a replaced model; call "
            "model.set_attn_implementation('sdpa'), and then "
            "hsa_pyg.integrations.transformers.replace_attention(model)"
        )
    return RuntimeError(
        f"no trees reached layer {layer.number} ({name}): it was called outside the "
        "forward of its model, or the model does not hand keyword arguments on to its "
        "attention (older releases of transformers do not); call "
        "restore_attention(model)"
    )


def _refuse_call(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    form: Form,
    is_causal: bool | None,
    kwargs: dict[str, Any],
) -> None:
    name = type(module).__name__
    if is_causal and not form.causal:
        raise NotImplementedError(
            f"{name} is called as causal attention, which replace_attention did not "
            "expect; call restore_attention(model)"
        )
    if key.shape[:3] != query.shape[:3]:
        raise NotImplementedError(
            f"{name} got queries {tuple(query.shape)} and keys {tuple(key.shape)}: "
            "cross-attention, cached keys and grouped heads have no tree to share; "
            "call restore_attention(model)"
        )
    for word in _UNKNOWN:
        if kwargs.get(word) is not None:
            raise NotImplementedError(
                f"{name} attends with {word}, which hierarchical attention does not "
                "have; replace other layers, or call restore_attention(model)"
            )


@torch.compiler.disable
def _weights(
    q: Tensor, k: Tensor, plan: Plan, form: Form, scale: float | None
) -> Tensor:
    """Theta of every text, [B, H, L, L], zero at padded places."""
    from hsa_pyg.analysis import attention_matrix

    theta = attention_matrix(
        q,
        k,
        plan.hierarchy,
        self_attention=form.self_attention,
        scale=scale,
        tie_queries=form.tie_queries,
        causal=form.causal,
    )
    batch, length = plan.kept.shape
    weights = theta.new_zeros(batch, theta.size(0), length, length)
    text, place = plan.kept.nonzero(as_tuple=True)
    for number in range(batch):
        row = (text == number).nonzero()[:, 0]
        at = place[row]
        weights[number, :, at[:, None], at] = theta[:, row[:, None], row]
    return weights


AttentionInterface.register(IMPLEMENTATION, hierarchical_attention_forward)
AttentionMaskInterface.register(IMPLEMENTATION, padding_mask)
