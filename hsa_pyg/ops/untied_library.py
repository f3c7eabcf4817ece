"""Registers attention with untied queries as a differentiable operator."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hsa_pyg.compilation import SPARE_ROWS, FamilyLayout
from hsa_pyg.ops import untied, untied_adjoint
from hsa_pyg.ops.library import refuse_second_derivative
from hsa_pyg.ops.numbers import compute_dtype


def _call(
    hierarchy: list[Tensor],
    position: Tensor | None,
    seed: Tensor,
    scale: float,
    self_attention: bool,
    causal: bool,
    dropout: float,
) -> untied.UntiedCall:
    return untied.UntiedCall(
        layout=FamilyLayout(*hierarchy[1:]).trimmed(),
        leaves=hierarchy[0],
        position=position,
        scale=scale,
        self_attention=self_attention,
        causal=causal,
        dropout=dropout,
        seed=int(seed) if dropout > 0 else 0,
    )


@torch.library.custom_op("hsa_pyg::untied_attention", mutates_args=())
def untied_forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    position: Tensor | None,
    hierarchy: list[Tensor],
    seed: Tensor,
    scale: float,
    self_attention: bool,
    causal: bool,
    dropout: float,
    energy: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """y [N, H, W], phi [M, H] (no rows unless ``energy``), log-sum-exps [N, H], rest.

    The last is what y lacks by rounding, [N, H, W] in its dtype, without rows where
    that is nothing.
    """
    call = _call(hierarchy, position, seed, scale, self_attention, causal, dropout)
    dtype = compute_dtype(q, k, v)
    with torch.autocast(q.device.type, enabled=False):
        wide = [x.to(dtype) for x in (q, k, v)]
        y, mass, gain = untied.forward(call, *wide)
        phi = gain.new_empty(0, q.size(1))
        if energy:
            own = call.self_scores(*wide[:2])
            rows = torch.cat([gain, own, own.new_zeros(1, q.size(1))])
            phi = rows.neg_()[call.layout.node_energy]
        rounded = y.to(v.dtype, copy=True)
        rest = v.new_empty(0) if v.dtype == dtype else (y - rounded).to(v.dtype)
    return rounded, phi, mass.clone(), rest


@untied_forward.register_fake
def _(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    position: Tensor | None,
    hierarchy: list[Tensor],
    seed: Tensor,
    scale: float,
    self_attention: bool,
    causal: bool,
    dropout: float,
    energy: bool,
) -> Any:
    layout, dtype = FamilyLayout(*hierarchy[1:]), compute_dtype(q, k, v)
    nodes = layout.node_energy.size(0) - SPARE_ROWS if energy else 0
    return (
        v.new_empty(v.shape),
        q.new_empty(nodes, q.size(1), dtype=dtype),
        q.new_empty(q.size(0), q.size(1), dtype=dtype),
        v.new_empty(0 if v.dtype == dtype else v.shape),
    )


@torch.library.custom_op("hsa_pyg::untied_attention_backward", mutates_args=())
def untied_backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    y: Tensor,
    mass: Tensor,
    rest: Tensor,
    position: Tensor | None,
    hierarchy: list[Tensor],
    grad_y: Tensor,
    grad_phi: Tensor | None,
    seed: Tensor,
    scale: float,
    self_attention: bool,
    causal: bool,
    dropout: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of q, k, v and of position (no rows without position)."""
    call = _call(hierarchy, position, seed, scale, self_attention, causal, dropout)
    dtype, inner = compute_dtype(q, k, v), call.layout.internal_count.numel()
    grad_gain = grad_own = None
    with torch.autocast(q.device.type, enabled=False):
        if grad_phi is not None:
            rows = mass.new_zeros(inner + q.size(0) + 1, q.size(1))
            rows.index_add_(0, call.layout.node_energy, grad_phi.to(dtype)).neg_()
            grad_gain, grad_own = rows[:inner], rows[inner:-1]
        *grads, grad_position = untied_adjoint.backward(
            call,
            q.to(dtype),
            k.to(dtype),
            v.to(dtype),
            y.to(dtype) + rest if rest.numel() > 0 else y.to(dtype),
            mass,
            grad_y.to(dtype),
            grad_gain,
            grad_own,
        )
    if grad_position is None or position is None:
        grad_position = q.new_empty(0)
    else:
        grad_position = grad_position.to(position.dtype)
    narrow = [x.to(y.dtype, copy=True) for x in grads]
    return (*narrow, grad_position)  # type: ignore[return-value]


@untied_backward.register_fake
def _(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    y: Tensor,
    mass: Tensor,
    rest: Tensor,
    position: Tensor | None,
    hierarchy: list[Tensor],
    grad_y: Tensor,
    grad_phi: Tensor | None,
    seed: Tensor,
    scale: float,
    self_attention: bool,
    causal: bool,
    dropout: float,
) -> Any:
    grads = [x.new_empty(x.shape) for x in (q, k, v)]
    grad_position = q.new_empty(0) if position is None else torch.empty_like(position)
    return (*grads, grad_position)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    q, k, v, position, hierarchy, seed, *options, energy = inputs
    ctx.options, ctx.energy, ctx.lengths = options, energy, len(hierarchy)
    ctx.has_position = position is not None
    held = [] if position is None else [position]
    y, _, mass, rest = output
    ctx.save_for_backward(q, k, v, y, mass, rest, *held, seed, *hierarchy)
    ctx.mark_non_differentiable(mass, rest)
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, grad_y: Tensor | None, grad_phi: Any, *_: Any) -> Any:
    q, k, v, y, mass, rest, *others = ctx.saved_tensors
    position = others.pop(0) if ctx.has_position else None
    seed, *hierarchy = others
    none = [None] * ctx.lengths
    if grad_y is None and grad_phi is None:
        return None, None, None, None, none, *[None] * 6
    if grad_y is None:
        grad_y = torch.zeros_like(v)
    grads = untied_backward(
        q,
        k,
        v,
        y,
        mass,
        rest,
        position,
        hierarchy,
        grad_y,
        grad_phi if ctx.energy else None,
        seed,
        *ctx.options,
    )
    grad_position = grads[3] if ctx.has_position else None
    return *grads[:3], grad_position, none, *[None] * 6


untied_forward.register_autograd(_backward, setup_context=_setup_context)
untied_backward.register_autograd(refuse_second_derivative)
