"""Hierarchical self-attention in four passes, and their transpose (hsa.md, section 4).

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

from hsa_pyg.compilation import FamilyLayout
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
    """What the forward pass leaves for the backward pass: linear in the leaves."""

    mean: Tensor  #: [F, H, 2 D + W] mean q, k, v of the internal nodes
    leaf_mass: Tensor  #: [N + 1, H, 1] log-sum-exp in leaf-only families
    leaf_context: Tensor  #: [N + 1, H, W] what each leaf gets within its family
    mass: Tensor  #: [E + 1, H] L
    brought: Tensor  #: [E + 1, H, W] m
    gain: Tensor  #: [E, H] -phi
    log_weight: Tensor  #: [F, H] log w


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
    mean = q.new_zeros(count, heads, channels, dtype=dtype)
    gain = q.new_zeros(layout.entity_node.numel() - 1, heads, dtype=dtype)
    leaf_mass = q.new_empty(leaves + 1, heads, 1, dtype=dtype)
    leaf_context = v.new_empty(leaves + 1, heads, v.size(2), dtype=dtype)
    attention = call.family_attention(False, dtype)
    for tile in attention.tiles(leaves, heads, channels):
        own = [tile.load(x, dtype) for x in (q, k, v)]
        context, mass = attention.forward(tile, *own)
        tile.store(leaf_context, context)
        tile.store(leaf_mass, mass)
        gain[tile.family] = tile.total(mass.squeeze(-1)) / tile.sizes()
        mean[tile.family] = torch.cat([tile.total(x) for x in own], -1)

    joined = torch.cat([x[layout.mixed_leaf].to(dtype) for x in (q, k, v)], -1)
    mean.index_add_(0, layout.mixed_leaf_parent, joined)
    levels.sum_upward(layout, mean)
    mean /= layout.internal_count.to(dtype)[:, None, None]

    entity = torch.cat([mean, joined, joined.new_zeros(1, heads, channels)])
    mass = gain.new_zeros(gain.size(0) + 1, heads, 1)
    brought = gain.new_zeros(gain.size(0) + 1, heads, v.size(2))
    attention = call.family_attention(True, dtype)
    for tile in attention.tiles(gain.size(0), heads, channels):
        own = [tile.load(x, dtype) for x in _parts(entity, q.size(2))]
        context, log_sum = attention.forward(tile, *own)
        tile.store(brought, context)
        tile.store(mass, log_sum)

    mixed_q, mixed_k, mixed_v = _parts(entity[count:-1], q.size(2))
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
    leaf_context[layout.root_leaf] = _root_leaves(call, v[layout.root_leaf].to(dtype))
    in_place = not keep and v.dtype == dtype
    y = leaf_context[:-1] if in_place else torch.empty_like(v).contiguous()
    weight = _spare_row(log_weight).exp()[..., None]  # 1 for what has no parent
    context = _spare_row(context)
    for rows in _row_chunks(leaves, heads * v.size(2), y.is_cuda):
        parent = layout.leaf_parent[rows]
        outer = context.index_select(0, parent)
        outer.addcmul_(weight.index_select(0, parent), leaf_context[rows])
        y[rows] = outer
    saved = Saved(mean, leaf_mass, leaf_context, mass, brought, gain, log_weight)
    return y, saved


def energies(call: AttentionCall, q: Tensor, k: Tensor, saved: Saved) -> Tensor:
    """phi of every node: [M, H]; infinite for leaves without self-attention."""
    count = call.layout.internal_node.numel()
    gain, dtype = saved.gain, saved.gain.dtype
    leaf = call.self_scores(q.to(dtype), k.to(dtype), call.leaves)
    rows = torch.cat([gain[:count], leaf, gain.new_zeros(1, gain.size(1))])
    return rows.neg_()[call.layout.node_energy]


def backward(
    call: AttentionCall,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    saved: Saved,
    grad_y: Tensor,
    grad_phi: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Gradients of q, k, v and position."""
    layout, dtype = call.layout, saved.mean.dtype
    count, leaves, heads = layout.internal_node.numel(), q.size(0), q.size(1)
    entities, width = saved.gain.size(0), q.size(2)
    log_mu, log_send = levels.split(saved.gain, saved.mass[:-1])
    mu, send = log_mu.exp(), log_send.exp()
    weight = saved.log_weight.exp()
    grad_leaf_phi = None
    grad_gain = torch.zeros_like(saved.gain)
    if grad_phi is not None:
        rows = saved.gain.new_zeros(count + leaves + 1, heads)
        rows.index_add_(0, layout.node_energy, grad_phi.to(dtype)).neg_()
        grad_gain[:count] = rows[:count]
        grad_leaf_phi = rows[count:-1]

    # Contexts and weights, leaves to roots.
    channels = 2 * width + v.size(2)
    mixed_grad = grad_y[layout.mixed_leaf].to(dtype)
    mixed_v = v[layout.mixed_leaf].to(dtype)
    kept = call.kept_leaves(log_mu[count:], 2)
    grad_context, grad_weight = _collect(layout, grad_y, saved.leaf_context)
    grad_context = torch.cat([grad_context, mixed_grad])
    own = (mixed_grad * mixed_v).sum(-1) * kept
    grad_weight = torch.cat([grad_weight, own])
    worth = levels.contexts_transposed(
        layout, grad_context, grad_weight, mu, send, saved.brought[:-1]
    )
    above = weight[levels.entity_parent(layout)]
    above[:count].masked_fill_((layout.internal_parent < 0)[:, None], 0)
    turn = above * mu * send * (grad_weight - worth)
    grad_gain += turn
    grad_mass = -turn
    levels.energy_transposed(layout, grad_gain, grad_mass, mu, send)

    # Attention in mixed families.
    mixed_q, mixed_k = (x[layout.mixed_leaf].to(dtype) for x in (q, k))
    joined = torch.cat([mixed_q, mixed_k, mixed_v], -1)
    entity = torch.cat([saved.mean, joined, joined.new_zeros(1, heads, channels)])
    grad_entity = torch.zeros_like(entity)
    grad_brought = _spare_row((above * send)[..., None] * grad_context)
    grad_mass = _spare_row(grad_mass)
    mixed = call.family_attention(True, dtype)
    grad_eps = None if mixed.eps is None else torch.zeros_like(mixed.eps, dtype=dtype)
    for tile in mixed.tiles(entities, heads, channels):
        own = [tile.load(x, dtype) for x in _parts(entity, width)]
        own += [tile.load(x, dtype) for x in (saved.mass[..., None], saved.brought)]
        outer = [tile.load(x, dtype) for x in (grad_brought, grad_mass[..., None])]
        *grads, pairs = mixed.backward(tile, *own, *_without_padding(tile.real, outer))
        tile.store(grad_entity, torch.cat(grads, -1))
        if grad_eps is not None and pairs is not None:
            tile.store(grad_eps, pairs)

    # Means, roots to leaves; then attention in leaf-only families.
    grad_mean = grad_entity[:count] / layout.internal_count.to(dtype)[:, None, None]
    levels.add_downward(layout, grad_mean)
    grads = [x.new_empty(leaves + 1, *x.shape[1:]) for x in (q, k, v)]
    leaf_only = call.family_attention(False, dtype)
    grad_leaf_eps = None
    if leaf_only.eps is not None:
        grad_leaf_eps = torch.zeros_like(_spare_row(leaf_only.eps), dtype=dtype)
    for tile in leaf_only.tiles(leaves, heads, channels):
        held = (q, k, v, saved.leaf_mass, saved.leaf_context)
        own = [tile.load(x, dtype) for x in held]
        grad = tile.load(grad_y, dtype) * weight[tile.family][:, :, None, None]
        share = (grad_gain[tile.family] / tile.sizes())[:, :, None, None]
        share = share.expand(-1, -1, tile.width, -1)
        outer = _without_padding(tile.real, [grad, share])
        *parts, pairs = leaf_only.backward(tile, *own, *outer)
        shift = grad_mean[tile.family][:, :, None]
        for out, part, mean in zip(grads, parts, _parts(shift, width), strict=True):
            tile.store(out, part.add_(mean))
        if grad_leaf_eps is not None and pairs is not None:
            tile.store(grad_leaf_eps, pairs)

    # Leaves of mixed families, and leaves that are trees.
    own_grad = grad_entity[count:-1] + grad_mean[layout.mixed_leaf_parent]
    parts = list(_parts(own_grad, width))
    if call.self_attention:
        pull = (grad_gain[count:] * call.scale)[..., None]
        parts[0] = parts[0] + pull * mixed_k
        parts[1] = parts[1] + pull * mixed_q
        parts[2] = parts[2] + ((above * mu)[count:] * kept)[..., None] * mixed_grad
    for out, part in zip(grads, parts, strict=True):
        out[layout.mixed_leaf] = part.to(out.dtype)
        out[layout.root_leaf] = 0
    root_grad = _root_leaves(call, grad_y[layout.root_leaf].to(dtype))
    grads[2][layout.root_leaf] = root_grad.to(v.dtype)
    grad_q, grad_k, grad_v = (x[:-1] for x in grads)
    own_pull = saved.gain.new_zeros(leaves, heads)
    if call.self_attention:
        own_pull[layout.mixed_leaf] = grad_gain[count:]
        if grad_leaf_phi is not None:
            own_pull += grad_leaf_phi
            pull = (grad_leaf_phi * call.scale)[..., None]
            grad_q += (pull * k).to(q.dtype)
            grad_k += (pull * q).to(k.dtype)
    grad_position = _position_gradient(call, grad_eps, grad_leaf_eps, own_pull)
    return grad_q, grad_k, grad_v, grad_position


def _row_chunks(rows: int, channels: int, is_cuda: bool) -> list[slice]:
    """Runs of rows that stay in cache (all rows on an accelerator)."""
    step = rows if is_cuda else max(1, 2**18 // channels)
    return [slice(i, min(i + step, rows)) for i in range(0, rows, max(step, 1))]


def _collect(
    layout: FamilyLayout, grad_y: Tensor, leaf_context: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of ctx [F, H, W] and w [F, H] from the leaves right below."""
    count, (leaves, heads, width) = layout.internal_node.numel(), grad_y.shape
    grad_context = leaf_context.new_zeros(count + 1, heads, width)
    grad_weight = leaf_context.new_zeros(count + 1, heads)
    for rows in _row_chunks(leaves, heads * width, grad_y.is_cuda):
        parent, grad = layout.leaf_parent[rows], grad_y[rows].to(leaf_context.dtype)
        grad_context.index_add_(0, parent, grad)
        grad_weight.index_add_(0, parent, (grad * leaf_context[rows]).sum(-1))
    return grad_context[:-1], grad_weight[:-1]


def _parts(x: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """q, k and v of rows that hold them side by side."""
    return x[..., :width], x[..., width : 2 * width], x[..., 2 * width :]


def _spare_row(x: Tensor) -> Tensor:
    """``x`` with one more row of zeros, for padding."""
    return torch.cat([x, x.new_zeros(1, *x.shape[1:])])


def _without_padding(real: Tensor | None, grads: list[Tensor]) -> list[Tensor]:
    if real is None:
        return grads
    masks = (real.view(real.size(0), 1, -1, *[1] * (x.dim() - 3)) for x in grads)
    return [x.masked_fill(~mask, 0) for x, mask in zip(grads, masks, strict=True)]


def _root_leaves(call: AttentionCall, value: Tensor) -> Tensor:
    """A tree of one leaf gives its own value, or 0 where no leaf attends to itself."""
    if not call.self_attention:
        return torch.zeros_like(value)
    return value * call.kept_leaves(value[..., :1], 3)


def _position_gradient(
    call: AttentionCall,
    grad_eps: Tensor | None,
    grad_leaf_eps: Tensor | None,
    own_pull: Tensor,
) -> Tensor | None:
    if call.position is None or grad_eps is None or grad_leaf_eps is None:
        return None
    grad = torch.zeros_like(call.position, dtype=grad_eps.dtype)
    grad.index_add_(0, call.layout.entity_node[:-1], grad_eps[:-1])
    own = call.position[call.leaves].to(grad.dtype)
    if grad.size(1) == 1:
        own_pull = own_pull.sum(1, keepdim=True)
    grad.index_add_(
        0, call.leaves, grad_leaf_eps[:-1] + 2 * own_pull[..., None] * own
    )
    return grad.to(call.position.dtype)
