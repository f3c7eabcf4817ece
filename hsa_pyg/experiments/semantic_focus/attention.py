"""The attention of one block, forward and backward, on a batch of tokens.

Both classes take what one fused projection gives, and take the same backward pass back
to it: autograd's bookkeeping around attention costs more than attention on so little.
They are held to :func:`hsa_pyg.hierarchical_attention`, which they are parts of.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from hsa_pyg.experiments.semantic_focus.dropping import Dropper
from hsa_pyg.hierarchy import SignalHierarchy
from hsa_pyg.nn.functional import make_focus
from hsa_pyg.ops.backends import implementation
from hsa_pyg.ops.numbers import compute_dtype
from hsa_pyg.ops.passes import AttentionCall
from hsa_pyg.ops.patterns import Pattern

#: Channels of a head.
HEAD = 64
_SCALE = 1.0 / math.sqrt(HEAD)


@dataclass(frozen=True)
class Dropped:
    """What dropout hits in one block.

    Args:
        attention: Places among the attention weights, where these are drawn here.
        projection: Places in the output of the attention's projection.
        hidden: Places in the hidden layer of the MLP.
        output: Places in its output.
        scale: What is kept is multiplied by it.
        seed: What kernels draw from that choose among the attention weights themselves.
    """

    attention: Tensor
    projection: Tensor
    hidden: Tensor
    output: Tensor
    scale: float
    seed: int


class BlockAttention(Protocol):
    """Attention over the tokens of a batch."""

    def num_weights(self, heads: int) -> int:
        """Attention weights to draw dropout for; 0 if a seed is wanted."""

    def forward(self, qkv: Tensor, dropped: Dropped | None) -> tuple[Tensor, Any]:
        """Attend.

        Args:
            qkv: ``[num_tokens, 3 * heads * 64]``: all queries, all keys, all values.
            dropped: Of these weights; None in evaluation.

        Returns:
            ``[num_tokens, heads * 64]``, and what the backward pass needs.
        """

    def backward(
        self, grad: Tensor, qkv: Tensor, kept: Any, dropped: Dropped | None
    ) -> Tensor:
        """The gradient of ``qkv``."""


class TreeAttention:
    """Hierarchical self-attention over the trees of a batch.

    Args:
        hierarchy: The trees; their leaves are the tokens in order.
        dropout: Probability that a weight is dropped.
        top_k: How many siblings a node keeps, a leaf itself among them; None keeps all.
        pattern: What a node sees of its family by its place in it.
        backend: As of :func:`hsa_pyg.hierarchical_attention`.
    """

    def __init__(
        self,
        hierarchy: SignalHierarchy,
        dropout: float = 0.0,
        top_k: int | None = None,
        pattern: Pattern | None = None,
        backend: str = "auto",
    ) -> None:
        self.hierarchy = hierarchy
        self.backend = backend
        self.dropout = dropout
        self._call = AttentionCall(
            layout=hierarchy.layout,
            leaves=hierarchy.leaves,
            position=None,
            scale=_SCALE,
            self_attention=True,
            dropout=0.0,
            seed=0,
            focus=make_focus(top_k, top_k is not None, True),
            pattern=pattern,
        )

    def num_weights(self, heads: int) -> int:
        """0: the kernels draw what they drop from a seed."""
        return 0

    def forward(self, qkv: Tensor, dropped: Dropped | None) -> tuple[Tensor, Any]:
        """See :class:`BlockAttention`."""
        call = self._seeded(dropped)
        q, k, v = _apart(qkv)
        run = implementation(self.backend, call, q, v)
        y, _, saved = run.forward(call, q, k, v, compute_dtype(q, k, v), True)
        return y.flatten(1), (y, saved)

    def backward(
        self, grad: Tensor, qkv: Tensor, kept: Any, dropped: Dropped | None
    ) -> Tensor:
        """See :class:`BlockAttention`."""
        call, (y, saved) = self._seeded(dropped), kept
        q, k, v = _apart(qkv)
        run = implementation(self.backend, call, q, v)
        grads = run.backward(call, q, k, v, y, saved, grad.view_as(y), None)
        return torch.cat([g.flatten(1) for g in grads[:3] if g is not None], 1)

    def _seeded(self, dropped: Dropped | None) -> AttentionCall:
        if dropped is None or self.dropout == 0.0:
            return self._call
        return replace(self._call, dropout=self.dropout, seed=dropped.seed)


class DenseAttention:
    """Softmax attention over sequences of one length, each a tree of one family.

    Args:
        number: Sequences of the batch.
        length: Their length.
        pattern: What a token sees, by its place; None shows all.
    """

    def __init__(
        self, number: int, length: int, pattern: Pattern | None = None
    ) -> None:
        self.number = number
        self.length = length
        self._bias: Tensor | None = None
        if pattern is not None:
            place = torch.arange(length)
            seen = pattern.mask(place[:, None], place[None], torch.tensor(length))
            bias = torch.zeros(1, length, length)
            self._bias = bias.masked_fill_(~seen, float("-inf"))

    def num_weights(self, heads: int) -> int:
        """All pairs of tokens of a sequence, for each head."""
        return self.number * heads * self.length**2

    def forward(self, qkv: Tensor, dropped: Dropped | None) -> tuple[Tensor, Any]:
        """See :class:`BlockAttention`."""
        q, k, v = self._by_head(qkv)
        bias = self._bias
        scores = torch.baddbmm(
            q.new_empty(1) if bias is None else bias.to(q),
            q,
            k.transpose(1, 2),
            beta=0.0 if bias is None else 1.0,
            alpha=_SCALE,
        )
        weights = torch.softmax(scores, -1)
        kept = None
        if dropped is None:
            y = torch.bmm(weights, v)
        else:
            flat = weights.view(-1)
            kept = flat.take(dropped.attention)
            flat.index_fill_(0, dropped.attention, 0.0)
            y = _scaled_product(weights, v, dropped.scale)
        # [number * heads, length, 64] -> [number, length, heads, 64]
        out = y.unflatten(0, (self.number, -1)).transpose(1, 2).contiguous().flatten(2)
        return out.flatten(0, 1), (weights, kept)

    def backward(
        self, grad: Tensor, qkv: Tensor, kept: Any, dropped: Dropped | None
    ) -> Tensor:
        """See :class:`BlockAttention`."""
        weights, held = kept
        q, k, v = self._by_head(qkv)
        (g,) = self._by_head(grad, 1)
        scale = 1.0 if dropped is None else dropped.scale
        grad_v = _scaled_product(weights.transpose(1, 2), g, scale)
        grad_w = _scaled_product(g, v.transpose(1, 2), scale)
        if dropped is not None:
            grad_w.view(-1).index_fill_(0, dropped.attention, 0.0)
            # The softmax is differentiated where nothing has been dropped.
            weights.view(-1).index_put_((dropped.attention,), held)
        grad_s = torch._softmax_backward_data(grad_w, weights, -1, weights.dtype)
        if dropped is not None:
            weights.view(-1).index_fill_(0, dropped.attention, 0.0)
        grad_q = _scaled_product(grad_s, k, _SCALE)
        grad_k = _scaled_product(grad_s.transpose(1, 2), q, _SCALE)
        out = torch.empty_like(qkv)
        parts = self._by_head(out, 3, view=True)
        for part, one in zip(parts, (grad_q, grad_k, grad_v), strict=True):
            part.copy_(one.view(part.shape))
        return out

    def _by_head(
        self, x: Tensor, parts: int = 3, view: bool = False
    ) -> tuple[Tensor, ...]:
        """[number * heads, length, 64] of each part, or views with the heads apart."""
        x = x.view(self.number, self.length, parts, -1, HEAD)
        each = (x[:, :, part].transpose(1, 2) for part in range(parts))
        if view:
            return tuple(each)
        return tuple(one.flatten(0, 1) for one in each)


def _scaled_product(a: Tensor, b: Tensor, scale: float) -> Tensor:
    return torch.baddbmm(a.new_empty(1), a, b, beta=0.0, alpha=scale)


def _apart(qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = qkv.view(qkv.size(0), 3, -1, HEAD).unbind(1)
    return q, k, v


def draw_dropped(
    dropper: Dropper, attention: BlockAttention, shape: tuple[int, int, int], heads: int
) -> tuple[Tensor, list[Dropped]]:
    """What dropout hits in the embedding and in each block.

    Args:
        dropper: What is drawn from.
        attention: Of all blocks.
        shape: Tokens, channels and blocks.
        heads: Number of heads.
    """
    tokens, channels, blocks = shape
    each = tokens * channels
    weights = attention.num_weights(heads)
    embedding, *places = dropper.draw([each, *[weights, each, each, each] * blocks])
    return embedding, [
        Dropped(
            attention=places[i],
            projection=places[i + 1],
            hidden=places[i + 2],
            output=places[i + 3],
            scale=dropper.scale,
            seed=0 if weights else dropper.draw_seed(),
        )
        for i in range(0, 4 * blocks, 4)
    ]
