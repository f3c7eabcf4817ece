"""Registers the four passes as differentiable operators with ``torch.library``.

The compiled hierarchy travels as a list of tensors, so that ``torch.compile`` sees one
opaque operator whose sizes are sizes of its inputs, whatever the shape of the trees.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from hsa_pyg.compilation import SPARE_ROWS, FamilyLayout
from hsa_pyg.hierarchy import SignalHierarchy
from hsa_pyg.ops import passes
from hsa_pyg.ops.backends import implementation
from hsa_pyg.ops.focus import Focus
from hsa_pyg.ops.numbers import compute_dtype
from hsa_pyg.ops.patterns import make_pattern

_LAYOUT_FIELDS = tuple(field.name for field in fields(FamilyLayout))
_SAVED_FIELDS = tuple(field.name for field in fields(passes.Saved))


def flatten(hierarchy: SignalHierarchy) -> list[Tensor]:
    """The tensors of a compiled hierarchy, as the operators take them."""
    layout = [getattr(hierarchy.padded_layout, name) for name in _LAYOUT_FIELDS]
    return [hierarchy.leaves, *layout]


def _call(
    hierarchy: list[Tensor],
    position: Tensor | None,
    seed: Tensor,
    scale: float,
    self_attention: bool,
    top_k: int,
    top_k_includes_self: bool,
    dropout: float,
    pattern: tuple[str, int, int],
) -> passes.AttentionCall:
    return passes.AttentionCall(
        layout=FamilyLayout(*hierarchy[1:]).trimmed(),
        leaves=hierarchy[0],
        position=position,
        scale=scale,
        self_attention=self_attention,
        dropout=dropout,
        seed=int(seed) if dropout > 0 else 0,
        focus=Focus(top_k, top_k_includes_self) if top_k > 0 else None,
        pattern=make_pattern(*pattern),
    )


@torch.library.custom_op("hsa_pyg::hierarchical_attention", mutates_args=())
def attention_forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    position: Tensor | None,
    hierarchy: list[Tensor],
    seed: Tensor,
    scale: float,
    self_attention: bool,
    top_k: int,
    top_k_includes_self: bool,
    dropout: float,
    backend: str,
    energy: bool,
    keep: bool,
    *,
    pattern: str = "",
    pattern_width: int = 0,
    num_global: int = 0,
) -> tuple[
    Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor
]:
    """y, phi (no rows unless ``energy``), rest, and the tensors of ``passes.Saved``.

    ``rest`` is what y lacks by rounding, in its dtype, where a backend tells it; else
    it has no rows (:func:`_has_rest`). Without it gradients of half precision queries
    would be no better than y less the mean of the values, a small difference.

    ``top_k`` 0 keeps all siblings, ``pattern`` "" shows all. A backend ``"auto"`` is
    chosen here, where the inputs are at hand, also under ``torch.compile``. Unless
    ``keep``, the saved tensors are empty and the call cannot be differentiated.
    """
    focus = top_k, top_k_includes_self
    seen = pattern, pattern_width, num_global
    form = scale, self_attention, *focus, dropout, seen
    call = _call(hierarchy, position, seed, *form)
    with torch.autocast(q.device.type, enabled=False):
        dtype = compute_dtype(q, k, v)
        tell_rest = keep and _has_rest(v, dtype, backend)
        y, rest, saved = implementation(backend, call, q, v).forward(
            call, q, k, v, dtype, tell_rest
        )
        if rest is None:
            rest = y.new_empty(0)
        phi = saved.gain.new_empty(0, q.size(1))
        if energy:
            phi = passes.energies(call, q, k, saved)
    held = [getattr(saved, name) for name in _SAVED_FIELDS]
    if not keep:
        held = [y.new_empty(0) for _ in held]
    return (y, phi, rest, *held)


def _has_rest(v: Tensor, dtype: torch.dtype, backend: str) -> bool:
    """By what is known of a call before it is made: the kernels of GPUs tell none."""
    exact = v.dtype == dtype
    return not exact and (backend == "torch" or (v.is_cpu and backend != "triton"))


@attention_forward.register_fake
def _(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    position: Tensor | None,
    hierarchy: list[Tensor],
    seed: Tensor,
    scale: float,
    self_attention: bool,
    top_k: int,
    top_k_includes_self: bool,
    dropout: float,
    backend: str,
    energy: bool,
    keep: bool,
    *,
    pattern: str = "",
    pattern_width: int = 0,
    num_global: int = 0,
) -> Any:
    layout, dtype = FamilyLayout(*hierarchy[1:]), compute_dtype(q, k, v)
    (rows, heads, width), value = q.shape, v.size(2)
    # With their spare rows, like the tensors of Saved.
    inner = layout.internal_node.size(0)
    entities = layout.entity_node.size(0)
    nodes = layout.node_energy.size(0) - SPARE_ROWS if energy else 0
    y, phi = v.new_empty(rows, heads, value), q.new_empty(nodes, heads, dtype=dtype)
    if not keep:
        return (y, phi, *(y.new_empty(0) for _ in range(1 + len(_SAVED_FIELDS))))
    return (
        y,
        phi,
        v.new_empty(v.shape if _has_rest(v, dtype, backend) else 0),
        q.new_empty(inner, heads, 2 * width + value, dtype=dtype),
        q.new_empty(rows + 1, heads, 1, dtype=dtype),
        q.new_empty(inner, heads, value, dtype=dtype),
        q.new_empty(entities, heads, 1, dtype=dtype),
        q.new_empty(entities, heads, value, dtype=dtype),
        q.new_empty(entities - 1, heads, dtype=dtype),
        q.new_empty(inner, heads, dtype=dtype),
    )


@torch.library.custom_op("hsa_pyg::hierarchical_attention_backward", mutates_args=())
def attention_backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    y: Tensor,
    rest: Tensor,
    position: Tensor | None,
    hierarchy: list[Tensor],
    saved: list[Tensor],
    grad_y: Tensor,
    grad_phi: Tensor | None,
    seed: Tensor,
    scale: float,
    self_attention: bool,
    top_k: int,
    top_k_includes_self: bool,
    dropout: float,
    backend: str,
    *,
    pattern: str = "",
    pattern_width: int = 0,
    num_global: int = 0,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of q, k, v and of position (no rows without position)."""
    focus = top_k, top_k_includes_self
    seen = pattern, pattern_width, num_global
    form = scale, self_attention, *focus, dropout, seen
    call = _call(hierarchy, position, seed, *form)
    with torch.autocast(q.device.type, enabled=False):
        *grads, grad_position = implementation(backend, call, q, v).backward(
            *(call, q, k, v, y, passes.Saved(*saved), grad_y, grad_phi),
            rest=rest if rest.numel() > 0 else None,
        )
    if grad_position is None:
        grad_position = q.new_empty(0)
    return (*grads, grad_position)  # type: ignore[return-value]


@attention_backward.register_fake
def _(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    y: Tensor,
    rest: Tensor,
    position: Tensor | None,
    hierarchy: list[Tensor],
    saved: list[Tensor],
    grad_y: Tensor,
    grad_phi: Tensor | None,
    seed: Tensor,
    scale: float,
    self_attention: bool,
    top_k: int,
    top_k_includes_self: bool,
    dropout: float,
    backend: str,
    *,
    pattern: str = "",
    pattern_width: int = 0,
    num_global: int = 0,
) -> Any:
    grads = [x.new_empty(x.shape) for x in (q, k, v)]
    grad_position = q.new_empty(0) if position is None else torch.empty_like(position)
    return (*grads, grad_position)


def _setup_context(
    ctx: Any,
    inputs: tuple[Any, ...],
    keyword_only_inputs: dict[str, Any],
    output: Any,
) -> None:
    q, k, v, position, hierarchy, seed, *options, energy, keep = inputs
    ctx.options, ctx.energy, ctx.lengths = options, energy, len(hierarchy)
    ctx.pattern = keyword_only_inputs
    ctx.keep = keep
    ctx.has_position = position is not None
    held = [] if position is None else [position]
    y, _, rest, *saved = output
    ctx.save_for_backward(q, k, v, y, rest, *held, seed, *hierarchy, *saved)
    ctx.mark_non_differentiable(*output[2:])
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, grad_y: Tensor | None, grad_phi: Any, *_: Any) -> Any:
    q, k, v, y, rest, *others = ctx.saved_tensors
    position = others.pop(0) if ctx.has_position else None
    seed = others.pop(0)
    hierarchy, saved = others[: ctx.lengths], others[ctx.lengths :]
    none = [None] * ctx.lengths
    if not ctx.keep:
        raise RuntimeError("attention_forward(keep=False) cannot be differentiated")
    if grad_y is None and grad_phi is None:
        return None, None, None, None, none, *[None] * 9
    if grad_y is None:
        grad_y = torch.zeros_like(v)
    grads = attention_backward(
        q,
        k,
        v,
        y,
        rest,
        position,
        hierarchy,
        saved,
        grad_y,
        grad_phi if ctx.energy else None,
        seed,
        *ctx.options,
        **ctx.pattern,
    )
    grad_position = grads[3] if ctx.has_position else None
    return *grads[:3], grad_position, none, *[None] * 9


def refuse_second_derivative(ctx: Any, *grads: Any) -> Any:
    """Say what to do in place of PyTorch, which knows of no formula only."""
    raise NotImplementedError(
        "the fast backends have no second derivative (create_graph=True); use "
        "backend='reference'"
    )


attention_forward.register_autograd(_backward, setup_context=_setup_context)
attention_backward.register_autograd(refuse_second_derivative)
