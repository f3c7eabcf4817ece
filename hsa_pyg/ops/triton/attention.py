"""Forward and backward pass of hierarchical self-attention in Triton kernels.

What every pass moves at least, in bytes, is in docs/performance.md. Nothing waits for
the device, so that a call with a fixed hierarchy can be captured in a CUDA graph (with
dropout the graph repeats its one pattern). No sum is made by atomic additions: the same
inputs give the same bits.

Half precision: scores, energies, weights and means are float32, matrix products of
leaves take half precision operands, those of means TensorFloat-32 ones. What a leaf
gets within its family waits in y, in y's dtype, for its weight and for what comes from
above: y is rounded twice, each time to half a unit in its last place.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import Tensor

from hsa_pyg.ops.passes import AttentionCall, Saved, allocate
from hsa_pyg.ops.triton.family_backward import (
    families_backward,
    keys_backward,
    queries_backward,
)
from hsa_pyg.ops.triton.family_forward import leaf_only_forward, mixed_forward
from hsa_pyg.ops.triton.launch import Launcher
from hsa_pyg.ops.triton.leaves import leaves_backward, leaves_forward
from hsa_pyg.ops.triton.plan import Kind
from hsa_pyg.ops.triton.tree_backward import (
    collect_upward,
    energy_downward,
    leaf_only_collect,
    means_downward,
)
from hsa_pyg.ops.triton.tree_forward import (
    contexts_downward,
    energy_upward,
    large_leaf_only_means,
    means_upward,
)


def forward(
    call: AttentionCall,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dtype: torch.dtype,
    tell_rest: bool,
) -> tuple[Tensor, Tensor | None, Saved]:
    """y [N, H, W] in ``v``'s dtype, and what the backward pass needs in ``dtype``.

    Between them is None: what gets lost by rounding y is not kept.

    Args:
        call: everything but q, k and v.
        q: [N, H, D] with any strides, as k; v [N, H, W].
        k: see q.
        v: see q.
        dtype: what is computed in: float32, or float64 for float64 inputs.
        tell_rest: what other backends ask.

    Raises:
        NotImplementedError: for ``top_k``, or heads of more than 256 channels.
    """
    _check(call, q, v)
    with _on_device(q):
        y, saved = _allocate(call, q, v, dtype)
        run = Launcher(call, q, k, v, y, saved.trimmed())
        run.tiles(leaf_only_forward, run.leaf_only)
        run.families(large_leaf_only_means, run.leaf_only.wide)
        if run.mixed.tiles > 0:
            run.upward(means_upward)
            run.tiles(mixed_forward, run.mixed)
            run.upward(energy_upward, rows=False)
        run.downward(contexts_downward)
        run.leaves(leaves_forward, leaf_only=True)
    return y, None, saved


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
    """Gradients of q, k, v and of position, if there is one.

    Args:
        call: that of the forward pass.
        q: [N, H, D] with any strides, as k; v [N, H, W].
        k: see q.
        v: see q.
        y: what a forward pass of any backend gave, contiguous.
        saved: what it left.
        grad_y: [N, H, W] with any strides, also 0.
        grad_phi: [M, H] or None.
        rest: what y lacks by rounding, or None.
    """
    with _on_device(q):
        if rest is not None:
            y = y.to(saved.mean.dtype) + rest
        run = Launcher(call, q, k, v, y, saved.trimmed(), grad_y, grad_phi)
        run.families(leaf_only_collect, run.leaf_only.numbers)
        run.upward(collect_upward)
        run.downward(energy_downward)
        _families_backward(run, run.mixed)
        run.downward(means_downward)
        _families_backward(run, run.leaf_only)
        run.leaves(leaves_backward, leaf_only=False)
        return run.gradients()


def _families_backward(run: Launcher, kind: Kind) -> None:
    """In one pass where tiles hold whole families, else in two."""
    if not kind.mode.LOOP:
        run.tiles(families_backward, kind)
        return
    run.tiles(queries_backward, kind)
    run.tiles(keys_backward, kind)


def _check(call: AttentionCall, q: Tensor, v: Tensor) -> None:
    """Refuse what the kernels do not have."""
    if call.focus is not None:
        raise NotImplementedError(
            "backend 'triton' has no top_k; choose backend='torch'"
        )
    if max(q.size(2), v.size(2)) > 256:
        raise NotImplementedError(
            "backend 'triton' takes heads of at most 256 channels; choose "
            "backend='torch'"
        )


def _on_device(q: Tensor) -> contextlib.AbstractContextManager[Any]:
    return torch.cuda.device(q.device) if q.is_cuda else contextlib.nullcontext()


def _allocate(
    call: AttentionCall, q: Tensor, v: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Saved]:
    """Room for y and the rest; zeros only where no kernel writes.

    That is in the spare rows, and in what members have and roots have not.
    """
    layout = call.layout
    inner = layout.internal_node.numel()
    entities = layout.entity_node.numel() - 1
    roots = int(layout.level_ptr[1]) if layout.level_ptr.numel() > 1 else 0
    saved = allocate(layout, q, v, dtype, zeros=False)
    unwritten = [
        saved.mean[inner:],
        saved.leaf_mass[-1:],
        saved.context[inner:],
        saved.mass[entities:],
        saved.brought[entities:],
        saved.gain[entities:],
        saved.log_weight[inner:],
        saved.mass[:roots],
        saved.brought[:roots],
    ]
    torch._foreach_zero_([x for x in unwritten if x.numel() > 0])
    y = v.new_empty(v.shape)
    return y, saved
