"""Hierarchical attention on the CPU, in C++: the two directions of the backend.

Everything happens in two calls of a compiled library, which gets raw pointers in one
structure; here are the tensors that they point to.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import torch
from torch import Tensor

from hsa_pyg.compilation import SPARE_ROWS
from hsa_pyg.ops.cpp.build import BuildError, library
from hsa_pyg.ops.passes import AttentionCall, Saved, allocate

_STORAGE = {
    torch.float32: 0,
    torch.float64: 1,
    torch.bfloat16: 2,
    torch.float16: 3,
}

#: Integers of the structure, in order, before two floats.
_SIZES = (
    "threads",
    "storage",
    "leaves",
    "families",
    "entities",
    "heads",
    "channels",
    "width",
    "position_channels",
    "position_heads",
    "levels",
    "roots_that_are_leaves",
    "spare_rows",
    "self_attention",
    "top_k",
    "includes_self",
    "seed",
)
#: Fields of the compiled forest, after the floats.
_LAYOUT = (
    "slot_member",
    "slot_family",
    "family_first",
    "family_size",
    "family_order",
    "tile_start",
    "kind_sizes",
    "internal_parent",
    "internal_count",
    "internal_share",
    "mixed_leaf",
    "mixed_leaf_parent",
    "mixed_leaf_share",
    "entity_log_count",
    "entity_node",
    "root_leaf",
    "level_ptr",
)
#: Tensors of any strides: a pointer and three strides each.
_STRIDED = ("q", "k", "v", "grad_y")
#: Contiguous tensors; those that a pass does not need are null.
_DENSE = (
    "position",
    "y",
    "rest",
    "grad_q",
    "grad_k",
    "grad_v",
    "leaf_context",
    "mean",
    "leaf_mass",
    "context",
    "mass",
    "brought",
    "gain",
    "log_weight",
    "outer_gain",
    "leaf_pull",
    "grad_entity",
    "grad_context",
    "grad_log_weight",
    "worth",
    "grad_gain",
    "offset",
    "leaf_worth",
    "grad_eps",
    "grad_leaf_eps",
    "threshold",
    "last_tie",
)


class _Strided(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("row", ctypes.c_int64),
        ("head", ctypes.c_int64),
        ("channel", ctypes.c_int64),
    )


class _Call(ctypes.Structure):
    """``Call`` of src/call.h."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in _SIZES),
        ("dropout", ctypes.c_double),
        ("scale", ctypes.c_double),
        *((name, ctypes.c_void_p) for name in (*_LAYOUT, "leaf_node")),
        *((name, _Strided) for name in _STRIDED),
        *((name, ctypes.c_void_p) for name in _DENSE),
    )


@cache
def _functions() -> tuple[Any, Any]:
    """The library's two passes.

    Raises:
        BuildError: if the library is not the one that belongs to this file.
    """
    found = library()
    found.hsa_call_size.restype = ctypes.c_int64
    if found.hsa_call_size() != ctypes.sizeof(_Call):
        raise BuildError("the compiled library and attention.py differ; reinstall")
    for function in (found.hsa_forward, found.hsa_backward):
        function.argtypes = [ctypes.POINTER(_Call)]
        function.restype = None
    return found.hsa_forward, found.hsa_backward


def _prepare(
    call: AttentionCall,
    strided: dict[str, Tensor],
    dense: dict[str, Tensor | None],
) -> _Call:
    """The structure for some tensors, which the caller keeps alive."""
    q, v, layout = strided["q"], strided["v"], call.layout
    position, families = dense["position"], layout.internal_node.numel()
    return _Call(
        threads=torch.get_num_threads(),
        storage=_STORAGE[q.dtype],
        leaves=q.size(0),
        families=families,
        entities=families + layout.mixed_leaf.numel(),
        heads=q.size(1),
        channels=q.size(2),
        width=v.size(2),
        position_channels=0 if position is None else position.size(2),
        position_heads=0 if position is None else position.size(1),
        levels=layout.level_ptr.numel() - 1,
        roots_that_are_leaves=layout.root_leaf.numel(),
        spare_rows=SPARE_ROWS,
        self_attention=call.self_attention,
        top_k=0 if call.focus is None else call.focus.top_k,
        includes_self=call.focus is not None and call.focus.includes_self,
        seed=call.seed,
        dropout=call.dropout,
        scale=call.scale,
        leaf_node=call.leaves.data_ptr(),
        **{name: getattr(layout, name).data_ptr() for name in _LAYOUT},
        **{name: _Strided(x.data_ptr(), *x.stride()) for name, x in strided.items()},
        **{name: None if x is None else x.data_ptr() for name, x in dense.items()},
    )


def _readable(*tensors: Tensor) -> list[Tensor]:
    """The tensors with their channels side by side: they are copied only if not.

    Raises:
        TypeError: for a dtype that the library has no kernels for.
    """
    if tensors[0].dtype not in _STORAGE:
        names = ", ".join(str(x) for x in _STORAGE)
        raise TypeError(
            f"backend 'cpp' takes {names}; got {tensors[0].dtype}: convert q, k and v "
            "with .to(dtype)"
        )
    return [x if x.stride(2) == 1 else x.contiguous() for x in tensors]


def _position(call: AttentionCall, dtype: torch.dtype) -> Tensor | None:
    return None if call.position is None else call.position.to(dtype).contiguous()


def _saved_tensors(saved: Saved) -> dict[str, Tensor | None]:
    names = ("mean", "leaf_mass", "context", "mass", "brought", "gain", "log_weight")
    return {name: getattr(saved, name) for name in names}


def forward(
    call: AttentionCall,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dtype: torch.dtype,
    tell_rest: bool,
) -> tuple[Tensor, Tensor | None, Saved]:
    """Outputs, and what the backward pass needs.

    Args:
        call: everything but q, k and v.
        q: [N, H, D], of any strides, as k; v [N, H, W]. All of one dtype.
        k: see q.
        v: see q.
        dtype: what is computed in, float64 if one of the inputs is, else float32.
        tell_rest: whether to tell what y lacks by rounding.

    Returns:
        y [N, H, W] in v's dtype; what it lacks by rounding, in the same, or None where
        that is nothing or not asked for; and :class:`~hsa_pyg.ops.passes.Saved` in
        ``dtype``.

    Raises:
        BuildError: if the library cannot be compiled.
        TypeError: for a dtype without kernels.
    """
    run, _ = _functions()
    q, k, v = _readable(q, k, v)
    saved = allocate(call.layout, q, v, dtype, zeros=False)
    y = v.new_empty(v.shape)
    inner = y if v.dtype == dtype else v.new_empty(v.shape, dtype=dtype)
    rest = v.new_empty(v.shape) if tell_rest and v.dtype != dtype else None
    dense = {
        "position": _position(call, dtype),
        "y": y,
        "rest": rest,
        "leaf_context": inner,
        **_saved_tensors(saved),
    }
    run(_prepare(call, {"q": q, "k": k, "v": v}, dense))
    return y, rest, saved


def backward(
    call: AttentionCall,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    y: Tensor,
    saved: Saved,
    grad_y: Tensor,
    grad_phi: Tensor | None,
    rest: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Gradients of q, k, v and of position.

    Args:
        call: as in the forward pass.
        q: as in the forward pass.
        k: as in the forward pass.
        v: as in the forward pass.
        y: [N, H, W], what the forward pass gave.
        saved: what it left.
        grad_y: [N, H, W], of any strides.
        grad_phi: [M, H] or None.
        rest: [N, H, W], what y lacks by rounding, or None.

    Returns:
        Gradients in their inputs' dtypes; of position None if there is none.

    Raises:
        BuildError: if the library cannot be compiled.
        TypeError: for a dtype without kernels.
    """
    _, run = _functions()
    layout, dtype = call.layout, saved.mean.dtype
    q, k, v = _readable(q, k, v)
    y, grad_y = y.contiguous(), grad_y.to(v.dtype)
    families, heads = layout.internal_node.numel(), q.size(1)
    entities = families + layout.mixed_leaf.numel()

    def room(*shape: int) -> Tensor:
        return q.new_empty(shape, dtype=dtype)

    grads = [x.new_empty(x.shape) for x in (q, k, v)]
    # Leaves of mixed families are gathered in place where that is exact.
    gathered = families if q.dtype == dtype else entities
    dense = {
        "position": _position(call, dtype),
        "y": y,
        "rest": None if rest is None else rest.contiguous(),
        **dict(zip(("grad_q", "grad_k", "grad_v"), grads, strict=True)),
        **_saved_tensors(saved),
        "grad_entity": room(gathered, heads, 2 * q.size(2) + v.size(2)),
        "grad_context": room(families, heads, v.size(2)),
        "leaf_worth": room(q.size(0), heads),
    }
    for name in ("grad_log_weight", "worth", "grad_gain", "offset"):
        dense[name] = room(entities, heads)
    if grad_phi is not None:
        pulls = torch.zeros(families + q.size(0) + 1, heads, dtype=dtype)
        pulls.index_add_(0, layout.node_energy, grad_phi.to(dtype)).neg_()
        dense["outer_gain"], dense["leaf_pull"] = pulls[:families], pulls[families:]
    if call.focus is not None:
        rows = max(q.size(0), entities)
        dense["threshold"] = room(rows, heads)
        dense["last_tie"] = torch.empty(rows, heads, dtype=torch.long)
    if (position := dense["position"]) is not None:
        shape = position.shape[1:]
        dense["grad_eps"] = position.new_zeros(entities, *shape)
        dense["grad_leaf_eps"] = position.new_zeros(q.size(0), *shape)
    run(_prepare(call, {"q": q, "k": k, "v": v, "grad_y": grad_y}, dense))
    return grads[0], grads[1], grads[2], _position_gradient(call, dense)


def _position_gradient(
    call: AttentionCall, dense: dict[str, Tensor | None]
) -> Tensor | None:
    """[M, 1 or H, P]: of nodes among siblings, and of leaves on themselves."""
    of_entities, of_leaves = dense.get("grad_eps"), dense.get("grad_leaf_eps")
    if call.position is None or of_entities is None or of_leaves is None:
        return None
    grad = torch.zeros_like(call.position, dtype=of_entities.dtype)
    grad.index_add_(0, call.layout.entity_node[:-1], of_entities)
    grad.index_add_(0, call.leaves, of_leaves)
    return grad.to(call.position.dtype)
