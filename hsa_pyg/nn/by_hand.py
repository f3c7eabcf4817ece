"""When a layer may run, forward and backward, as written out by hand for a CPU.

Such code must give what the modules that it replaces would, to everybody who looks: to
hooks, compilers, transforms and gradients of gradients. Where it cannot, it stays out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.autograd import forward_ad

#: Numbers that a chunk of rows holds, so that they stay in the cache.
_CHUNK = 2**18
#: Shorter chunks leave the matrix products too little to do.
_LEAST_ROWS = 1024


def row_chunks(rows: int, width: int) -> list[slice]:
    """Runs of rows, for a layer that holds ``width`` numbers of each for a moment."""
    step = max(_LEAST_ROWS, _CHUNK // width)
    return [slice(i, min(i + step, rows)) for i in range(0, rows, step)]


def has_hooks(*modules: torch.nn.Module) -> bool:
    """Whether somebody waits for a module to be called."""
    return torch.nn.modules.module._has_any_global_hook() or any(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        for module in modules
    )


def fits_by_hand(x: Tensor, *parameters: Tensor | None) -> bool:
    """Whether rows ``x`` [N, F] and parameters are plain tensors of a CPU.

    Not so in compiled models, under autocast and within transforms of
    :mod:`torch.func`, and with tangents of forward-mode differentiation.
    """
    return (
        not torch.compiler.is_compiling()
        and x.dim() == 2
        and x.device.type == "cpu"
        and x.dtype in (torch.float32, torch.float64)
        and not torch.is_autocast_enabled("cpu")
        and not torch._C._are_functorch_transforms_active()
        and all(
            w is not None and w.dtype == x.dtype and w.device == x.device
            for w in parameters
        )
        and all(
            t is not None and forward_ad.unpack_dual(t).tangent is None
            for t in (x, *parameters)
        )
    )


def wants_gradient(*tensors: Tensor) -> bool:
    """Whether autograd would record something of a function of these."""
    return torch.is_grad_enabled() and any(t.requires_grad for t in tensors)


def gradients_by_autograd(
    function: Callable[..., Tensor | tuple[Tensor, ...]],
    inputs: Sequence[Tensor],
    cotangents: Sequence[Tensor],
    wanted: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    """Gradients that can be differentiated once more.

    Args:
        function: Computes by differentiable operations what was computed by hand.
        inputs: Its arguments.
        cotangents: Gradients of its results.
        wanted: Of which arguments gradients are wanted.
    """
    with torch.enable_grad():
        results = function(*inputs)
    results = (results,) if isinstance(results, Tensor) else results
    asked = [t for t, needed in zip(inputs, wanted, strict=True) if needed]
    grads = iter(torch.autograd.grad(results, asked, cotangents, create_graph=True))
    return tuple(next(grads) if needed else None for needed in wanted)
