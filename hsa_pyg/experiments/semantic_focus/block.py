"""A pre-norm transformer block whose backward pass is written out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from hsa_pyg.experiments.semantic_focus.attention import BlockAttention, Dropped

_EPS = 1e-5


def _relu_backward(grad: Tensor, z: Tensor) -> Tensor:
    return torch.ops.aten.threshold_backward(grad, z, 0.0)


_Function = Callable[[Tensor], Tensor]
_Backward = Callable[[Tensor, Tensor], Tensor]
#: Each activation, and its derivative times a gradient.
ACTIVATIONS: dict[str, tuple[_Function, _Backward]] = {
    "relu": (F.relu, _relu_backward),
    "gelu": (F.gelu, torch.ops.aten.gelu_backward),
    "mish": (F.mish, torch.ops.aten.mish_backward),
}


class BlockFunction(torch.autograd.Function):
    """One block as one node of the autograd graph.

    ``x1 = x + drop(W_o attention(W_qkv norm(x)))``, then
    ``x1 + drop(W_2 act(drop(W_1 norm(x1))))``. Norms have no parameters.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        attention: BlockAttention,
        activation: str,
        dropped: Dropped | None,
        *weights: Tensor,
    ) -> Tensor:
        """The block's output ``[num_tokens, channels]``.

        Args:
            ctx: Autograd's.
            x: ``[num_tokens, channels]``.
            attention: Attention of this batch.
            activation: One of :data:`ACTIVATIONS`.
            dropped: What dropout hits; None in evaluation.
            weights: Matrix and bias of qkv, projection, hidden and output layer.
        """
        w_qkv, b_qkv, w_o, b_o, w_1, b_1, w_2, b_2 = weights
        normed = _norm(x)
        qkv = F.linear(normed[0], w_qkv, b_qkv)
        mixed, kept = attention.forward(qkv, dropped)
        scale = 1.0 if dropped is None else dropped.scale
        update = F.linear(mixed, w_o, b_o)
        if dropped is not None:
            _zero(update, dropped.projection)
        x1 = torch.add(x, update, alpha=scale)
        normed1 = _norm(x1)
        z = F.linear(normed1[0], w_1, b_1)
        if dropped is not None:
            _zero(z.mul_(scale), dropped.hidden)
        hidden = ACTIVATIONS[activation][0](z)
        update = F.linear(hidden, w_2, b_2)
        if dropped is not None:
            _zero(update, dropped.output)
        # Nothing here is an input or output that autograd would watch; x1 lives on.
        ctx.held = (x, qkv, mixed, kept, x1, z, hidden, normed, normed1)
        ctx.call = (attention, activation, dropped)
        ctx.save_for_backward(*weights)
        return torch.add(x1, update, alpha=scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> Any:
        """Gradients of x and of the weights."""
        grad = grads[0].contiguous()
        w_qkv, _, w_o, _, w_1, _, w_2, _ = ctx.saved_tensors
        x, qkv, mixed, kept, x1, z, hidden, normed, normed1 = ctx.held
        attention, activation, dropped = ctx.call
        del ctx.held

        g = _drop(grad, dropped, "output")
        g_hidden, g_w2, g_b2 = _linear_backward(g, hidden, w_2)
        g = ACTIVATIONS[activation][1](g_hidden, z)
        if dropped is not None:
            _zero(g.mul_(dropped.scale), dropped.hidden)
        g_normed, g_w1, g_b1 = _linear_backward(g, normed1[0], w_1)
        g_x1 = _norm_backward(g_normed, x1, normed1).add_(grad)

        g = _drop(g_x1, dropped, "projection")
        g_mixed, g_wo, g_bo = _linear_backward(g, mixed, w_o)
        g_qkv = attention.backward(g_mixed, qkv, kept, dropped)
        g_normed, g_wqkv, g_bqkv = _linear_backward(g_qkv, normed[0], w_qkv)
        g_x = _norm_backward(g_normed, x, normed).add_(g_x1)
        weights = (g_wqkv, g_bqkv, g_wo, g_bo, g_w1, g_b1, g_w2, g_b2)
        return g_x, None, None, None, *weights


def _norm(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return torch.native_layer_norm(x, [x.size(1)], None, None, _EPS)


def _norm_backward(
    grad: Tensor, x: Tensor, normed: tuple[Tensor, Tensor, Tensor]
) -> Tensor:
    _, mean, rstd = normed
    return torch.ops.aten.native_layer_norm_backward(
        grad, x, [x.size(1)], mean, rstd, None, None, [True, False, False]
    )[0]


def _drop(grad: Tensor, dropped: Dropped | None, site: str) -> Tensor:
    if dropped is None:
        return grad
    return _zero(grad * dropped.scale, getattr(dropped, site))


def _zero(x: Tensor, places: Tensor) -> Tensor:
    """Drop places of a tensor, in place."""
    x.view(-1).index_fill_(0, places, 0.0)
    return x


def _linear_backward(
    grad: Tensor, inputs: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    return grad @ weight, grad.t() @ inputs, grad.sum(0)
