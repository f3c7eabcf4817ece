"""The point-wise MLP of a transformer block, run in chunks of rows on a CPU."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn.dense.linear import Linear

from hsa_pyg.nn.by_hand import (
    fits_by_hand,
    gradients_by_autograd,
    has_hooks,
    row_chunks,
    wants_gradient,
)


class PointwiseMLP(torch.nn.Sequential):
    r"""A linear map, GELU and another linear map.

    On a CPU it goes through the rows in chunks whose hidden layer stays in the cache,
    forward and backward, and computes GELU's output again in the backward pass instead
    of keeping it. A step then writes half as many numbers to memory, which takes as
    long as the matrix products of narrow models. It does so whenever nothing could tell
    the difference: not with hooks on its parts or other modules in their place, in
    compiled models, under autocast, transforms of :mod:`torch.func` or forward-mode
    differentiation.

    Args:
        channels: Size of the input and the output.
        hidden: Size of the hidden layer.

    Shapes:
        - **input:** :math:`(*, F)`
        - **output:** :math:`(*, F)`
    """

    def __init__(self, channels: int, hidden: int) -> None:
        super().__init__(
            Linear(channels, hidden), torch.nn.GELU(), Linear(hidden, channels)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map the rows of ``x``."""
        if not self._is_plain():
            return super().forward(x)
        first, _, last = self
        parameters: list[Any] = [first.weight, first.bias, last.weight, last.bias]
        if not fits_by_hand(x, *parameters) or x.size(1) != parameters[0].size(1):
            return super().forward(x)
        if wants_gradient(x, *parameters):
            return _ChunkedMLP.apply(x, *parameters)
        return _forward(x, *parameters)

    def _is_plain(self) -> bool:
        """Whether the parts are those of the constructor, and no hook waits for one."""
        if [type(part) for part in self] != [Linear, torch.nn.GELU, Linear]:
            return False
        return self[1].approximate == "none" and not has_hooks(*self)


def _plain(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    return F.linear(F.gelu(F.linear(x, w1, b1)), w2, b2)


def _forward(
    x: Tensor,
    w1: Tensor,
    b1: Tensor,
    w2: Tensor,
    b2: Tensor,
    kept: Tensor | None = None,
) -> Tensor:
    """The output; ``kept`` [rows, hidden] receives the input of GELU."""
    rows, hidden = x.size(0), w1.size(0)
    chunks = row_chunks(rows, hidden)
    y = x.new_empty(rows, w2.size(0))
    room = x.new_empty(chunks[0].stop if chunks else 0, hidden)
    for chunk in chunks:
        active = room[: chunk.stop - chunk.start]
        before = active if kept is None else kept[chunk]
        torch.addmm(b1, x[chunk], w1.t(), out=before)
        torch.ops.aten.gelu.out(before, out=active)
        torch.addmm(b2, active, w2.t(), out=y[chunk])
    return y


class _ChunkedMLP(torch.autograd.Function):
    """The MLP with a backward pass in chunks."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor
    ) -> Tensor:
        before = x.new_empty(x.size(0), w1.size(0))
        ctx.save_for_backward(x, w1, b1, w2, b2, before)
        return _forward(x, w1, b1, w2, b2, before)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        *inputs, before = ctx.saved_tensors
        wanted = ctx.needs_input_grad
        if torch.is_grad_enabled():  # gradients of gradients are asked for
            return gradients_by_autograd(_plain, inputs, [grad], wanted)
        x, w1, _, w2, _ = inputs
        rows, hidden = before.shape
        chunks = row_chunks(rows, hidden)
        grad_x = torch.empty_like(x) if wanted[0] else None
        grad_w1, grad_b1, grad_w2, grad_b2 = (
            torch.zeros_like(p) if asked else None
            for p, asked in zip(inputs[1:], wanted[1:], strict=True)
        )
        room = x.new_empty(2, chunks[0].stop if chunks else 0, hidden)
        for chunk in chunks:
            active, inner = room[:, : chunk.stop - chunk.start]
            outer = grad[chunk]
            if grad_w2 is not None:
                torch.ops.aten.gelu.out(before[chunk], out=active)
                grad_w2.addmm_(outer.t(), active)
            if grad_b2 is not None:
                grad_b2.add_(outer.sum(0))
            torch.mm(outer, w2, out=inner)
            torch.ops.aten.gelu_backward.grad_input(
                inner, before[chunk], grad_input=inner
            )
            if grad_w1 is not None:
                grad_w1.addmm_(inner.t(), x[chunk])
            if grad_b1 is not None:
                grad_b1.add_(inner.sum(0))
            if grad_x is not None:
                torch.mm(inner, w1, out=grad_x[chunk])
        return grad_x, grad_w1, grad_b1, grad_w2, grad_b2
