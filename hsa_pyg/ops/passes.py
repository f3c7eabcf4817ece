"""Hierarchical self-attention in four passes (hsa.md, section 4).

Plain functions on plain tensors without autograd; :mod:`hsa_pyg.ops.library` makes one
differentiable operator of them. Nothing here waits for the device: all sizes come from
the compiled hierarchy.

Legend: N leaf rows, M nodes, F internal nodes, E entities (internal nodes, then the
leaves of mixed families), H heads, D and W channels of a query and of a value.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hsa_pyg.compilation import SPARE_ROWS, FamilyLayout, with_spare_rows
from hsa_pyg.ops import levels
from hsa_pyg.ops.family import FamilyAttention


@dataclass(frozen=True)
class AttentionCall:
    """Everything but q, k and v.

    Args:
        layout: the compiled forest.
        leaves: [N] node ids of the leaves.
        position: [M, 1 or H, P] or None.
        scale: the factor c of the scores.
        self_attention: whether a leaf attends to itself.
        dropout: probability that an attention weight is dropped.
        seed: what dropout is drawn from.
    """

    layout: FamilyLayout
    leaves: Tensor
    position: Tensor | None
    scale: float
    self_attention: bool
    dropout: float
    seed: int

    def family_attention(self, mixed: bool, dtype: torch.dtype) -> FamilyAttention:
        """The pass over mixed families, or over leaf-only ones."""
        eps = None
        if self.position is not None:
            nodes = self.layout.entity_node if mixed else self.leaves
            eps = self.position.index_select(0, nodes)
        return FamilyAttention(
            layout=self.layout,
            mixed=mixed,
            own_column=self.self_attention and not mixed,
            scale=self.scale,
            eps=eps,
            dropout=self.dropout,
            seed=self.seed * 4 + int(mixed),
            dtype=dtype,
        )

    def kept_leaves(self, like: Tensor, number: int) -> Tensor:
        """Dropout's factors for the self weights of some leaves, like ``like``."""
        if self.dropout == 0.0:
            return torch.ones_like(like)
        generator = torch.Generator(like.device).manual_seed(self.seed * 4 + number)
        kept = torch.empty_like(like)
        kept.bernoulli_(1 - self.dropout, generator=generator)
        return kept.div_(1 - self.dropout) if self.dropout < 1 else kept

    def self_scores(self, q: Tensor, k: Tensor, nodes: Tensor) -> Tensor:
        """s(i, i) of leaves, given their q, k [rows, H, D] and node ids: [rows, H]."""
        if not self.self_attention:
            return torch.full_like(q[..., 0], float("-inf"))
        score = (q * k).sum(-1) * self.scale
        if self.position is not None:
            score = score + self.position[nodes].to(q.dtype).square().sum(-1)
        return score


@dataclass(frozen=True)
class Saved:
    """What the forward pass leaves for the backward pass: linear in the leaves.

    Like the operator's inputs, what is not as long as the leaves has S =
    :data:`~hsa_pyg.compilation.SPARE_ROWS` more rows than it needs.
    """

    mean: Tensor  #: [F + S, H, 2 D + W] mean q, k, v of the internal nodes
    leaf_mass: Tensor  #: [N + 1, H, 1] log-sum-exp in leaf-only families
    leaf_context: Tensor  #: [N + 1, H, W] what each leaf gets within its family
    mass: Tensor  #: [E + 1 + S, H] L
    brought: Tensor  #: [E + 1 + S, H, W] m
    gain: Tensor  #: [E + S, H] -phi
    log_weight: Tensor  #: [F + S, H] log w

    def trimmed(self) -> Saved:
        """Views without the spare rows."""
        return Saved(
            self.mean[:-SPARE_ROWS],
            self.leaf_mass,
            self.leaf_context,
            self.mass[:-SPARE_ROWS],
            self.brought[:-SPARE_ROWS],
            self.gain[:-SPARE_ROWS],
            self.log_weight[:-SPARE_ROWS],
        )


def forward(
    call: AttentionCall,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dtype: torch.dtype,
    keep: bool,
) -> tuple[Tensor, Saved]:
    """y [N, H, W] in ``v``'s dtype, and what the backward pass needs in ``dtype``.

    Unless ``keep``, y is written over ``leaf_context`` where the dtypes allow it.
    """
    layout = call.layout
    count, leaves, heads = layout.internal_node.numel(), q.size(0), q.size(1)
    channels = 2 * q.size(2) + v.size(2)
    entities = layout.entity_node.numel() - 1
    held_mean = q.new_zeros(count + SPARE_ROWS, heads, channels, dtype=dtype)
    held_gain = q.new_zeros(entities + SPARE_ROWS, heads, dtype=dtype)
    mean, gain = held_mean[:count], held_gain[:entities]
    leaf_mass = q.new_zeros(leaves + 1, heads, 1, dtype=dtype)
    leaf_context = v.new_empty(leaves + 1, heads, v.size(2), dtype=dtype)
    leaf_context[leaves] = 0  # not written unless a bucket is padded
    attention = call.family_attention(False, dtype)
    for tile in attention.tiles(leaves, heads, channels):
        own = [tile.load(x, dtype) for x in (q, k, v)]
        context, mass = attention.forward(tile, *own)
        tile.store(leaf_context, context)
        tile.store(leaf_mass, mass)
        gain[tile.family] = tile.total(mass).squeeze(-1) / tile.sizes()
        mean[tile.family] = torch.cat([tile.total(x) for x in own], -1)

    joined = torch.cat([x[layout.mixed_leaf].to(dtype) for x in (q, k, v)], -1)
    mean.index_add_(0, layout.mixed_leaf_parent, joined)
    levels.sum_upward(layout, mean)
    mean /= layout.internal_count.to(dtype)[:, None, None]

    entity = torch.cat([mean, joined, joined.new_zeros(1, heads, channels)])
    held_mass = gain.new_zeros(entities + 1 + SPARE_ROWS, heads, 1)
    held_brought = gain.new_zeros(entities + 1 + SPARE_ROWS, heads, v.size(2))
    mass, brought = held_mass[: entities + 1], held_brought[: entities + 1]
    attention = call.family_attention(True, dtype)
    for tile in attention.tiles(entities, heads, channels):
        own = [tile.load(x, dtype) for x in parts_of(entity, q.size(2))]
        context, log_sum = attention.forward(tile, *own)
        tile.store(brought, context)
        tile.store(mass, log_sum)

    mixed_q, mixed_k, mixed_v = parts_of(entity[count:-1], q.size(2))
    mixed_nodes = call.leaves[layout.mixed_leaf]
    gain[count:] = call.self_scores(mixed_q, mixed_k, mixed_nodes)
    mass = mass.squeeze(-1)
    levels.energy_upward(layout, gain, mass[:-1])
    log_mu, log_send = levels.split(gain, mass[:-1])
    log_weight, context = levels.contexts_downward(
        layout, log_mu, log_send, brought[:-1]
    )

    kept = log_mu[count:].exp() * call.kept_leaves(log_mu[count:], 2)
    sent = log_send[count:].exp()[..., None] * brought[count:-1]
    leaf_context[layout.mixed_leaf] = sent.addcmul_(kept[..., None], mixed_v)
    leaf_context[layout.root_leaf] = root_leaves(call, v[layout.root_leaf].to(dtype))
    in_place = not keep and v.dtype == dtype
    y = leaf_context[:-1] if in_place else torch.empty_like(v).contiguous()
    weight = with_spare_rows(log_weight, 1).exp()[..., None]  # 1 for what has no parent
    context = with_spare_rows(context, 1)
    for rows in row_chunks(leaves, heads * v.size(2), y.is_cuda):
        parent = layout.leaf_parent[rows]
        outer = context.index_select(0, parent)
        outer.addcmul_(weight.index_select(0, parent), leaf_context[rows])
        y[rows] = outer
    return y, Saved(
        held_mean,
        leaf_mass,
        leaf_context,
        held_mass.squeeze(-1),
        held_brought,
        held_gain,
        with_spare_rows(log_weight),
    )


def energies(call: AttentionCall, q: Tensor, k: Tensor, saved: Saved) -> Tensor:
    """phi of every node: [M, H]; infinite for leaves without self-attention."""
    count = call.layout.internal_node.numel()
    gain, dtype = saved.gain, saved.gain.dtype
    leaf = call.self_scores(q.to(dtype), k.to(dtype), call.leaves)
    rows = torch.cat([gain[:count], leaf, gain.new_zeros(1, gain.size(1))])
    return rows.neg_()[call.layout.node_energy]


def row_chunks(rows: int, channels: int, is_cuda: bool) -> list[slice]:
    """Runs of rows that stay in cache (all rows on an accelerator)."""
    step = rows if is_cuda else max(1, 2**18 // channels)
    return [slice(i, min(i + step, rows)) for i in range(0, rows, max(step, 1))]


def parts_of(x: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """q, k and v of rows that hold them side by side."""
    return x[..., :width], x[..., width : 2 * width], x[..., 2 * width :]


def root_leaves(call: AttentionCall, value: Tensor) -> Tensor:
    """A tree of one leaf gives its own value, or 0 where no leaf attends to itself."""
    if not call.self_attention:
        return torch.zeros_like(value)
    return value * call.kept_leaves(value[..., :1], 3)
