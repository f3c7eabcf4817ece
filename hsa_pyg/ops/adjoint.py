"""The transpose of the four passes: gradients of hierarchical self-attention.

The weights of each tile are computed again from the scores; nothing that grows with
pairs of leaves is kept between the passes. The legend of shapes is that of
:mod:`hsa_pyg.ops.passes`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hsa_pyg.compilation import FamilyLayout, with_spare_rows
from hsa_pyg.ops import levels
from hsa_pyg.ops.family import Tile
from hsa_pyg.ops.passes import (
    AttentionCall,
    Saved,
    parts_of,
    root_leaves,
    row_chunks,
)


@dataclass(frozen=True)
class TreeGradients:
    """Gradients of what the passes along the tree take from the families."""

    gain: Tensor  #: [E, H] of -phi
    brought: Tensor  #: [E, H, W] of m
    offset: Tensor  #: [E, H] of L, less <m, gradient of m>
    leaf_offset: Tensor  #: [N, H] the same of the leaves of leaf-only families
    self_weight: Tensor  #: [X, H] weight of the own value of a mixed family's leaf


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
    """Gradients of q, k, v and position; of y and phi, [N, H, W] and [M, H].

    ``rest`` is what y lacks by rounding: gradients of q and k are of y less the means
    of values, which may be a small difference.
    """
    saved = saved.trimmed()
    if rest is not None:
        y = y.to(saved.mean.dtype) + rest
    layout, dtype = call.layout, saved.mean.dtype
    count, leaves = layout.internal_node.numel(), q.size(0)
    rows = saved.gain.new_zeros(count + leaves + 1, q.size(1))
    if grad_phi is not None:
        rows.index_add_(0, layout.node_energy, grad_phi.to(dtype)).neg_()
    mixed_leaves = [x[layout.mixed_leaf].to(dtype) for x in (q, k, v, grad_y)]
    tree = _along_tree(call, saved, y, grad_y, rows[:count], *mixed_leaves[2:])
    joined = torch.cat(mixed_leaves[:3], -1)
    grad_entity, grad_eps = _mixed_families(call, saved, joined, tree, q.size(2))

    grad_mean = grad_entity[:count] / layout.internal_count.to(dtype)[:, None, None]
    levels.add_downward(layout, grad_mean)
    grads, grad_leaf_eps = _leaf_only_families(
        call, q, k, v, saved, grad_y, tree.leaf_offset, grad_mean
    )
    own = grad_entity[count:-1] + grad_mean[layout.mixed_leaf_parent]
    parts = list(parts_of(own, q.size(2)))
    own_pull = rows[count:-1]
    if call.self_attention:
        own_pull.index_add_(0, layout.mixed_leaf, tree.gain[count:])
        parts[2] = parts[2] + tree.self_weight[..., None] * mixed_leaves[3]
    else:
        own_pull.zero_()
    for grad, part in zip(grads, parts, strict=True):
        grad[layout.mixed_leaf] = part.to(grad.dtype)
        grad[layout.root_leaf] = 0
    root_grad = root_leaves(call, grad_y[layout.root_leaf].to(dtype))
    grads[2][layout.root_leaf] = root_grad.to(v.dtype)
    pulled = slice(None) if grad_phi is not None else layout.mixed_leaf
    pull = (own_pull[pulled] * call.scale)[..., None]
    grads[0][:-1][pulled] += (pull * k[pulled]).to(q.dtype)
    grads[1][:-1][pulled] += (pull * q[pulled]).to(k.dtype)
    grad_position = _position_gradient(call, grad_eps, grad_leaf_eps, own_pull)
    return grads[0][:-1], grads[1][:-1], grads[2][:-1], grad_position


def _along_tree(
    call: AttentionCall,
    saved: Saved,
    y: Tensor,
    grad_y: Tensor,
    grad_gain: Tensor,
    mixed_v: Tensor,
    mixed_grad: Tensor,
) -> TreeGradients:
    """Transpose of contexts and weights, leaves to roots, and of energies back down.

    Args:
        call: the call.
        saved: what the forward pass left.
        y: [N, H, W].
        grad_y: [N, H, W].
        grad_gain: [F, H], gradient of -phi from outside.
        mixed_v: [X, H, W], values of the leaves of mixed families.
        mixed_grad: [X, H, W], their rows of ``grad_y``.
    """
    layout, count = call.layout, grad_gain.size(0)
    log_mu, log_send = levels.split(saved.gain, saved.mass[:-1].squeeze(-1))
    mu, send = log_mu.exp(), log_send.exp()
    kept = call.kept_leaves(log_mu[count:], 2)
    weight = saved.log_weight.exp()
    above = weight[levels.entity_parent(layout)]
    above[:count].masked_fill_((layout.internal_parent < 0)[:, None], 0)
    sent = above * send
    grad_context, grad_log_weight, worth_of_leaf = _collect(
        layout, y, saved.context, grad_y
    )
    grad_context = torch.cat([grad_context, mixed_grad])
    worth = levels.contexts_transposed(
        layout, grad_context, grad_log_weight, sent, saved.brought[:-1]
    )
    # Nothing splits the weight of a root.
    grad_log_weight.masked_fill_((layout.internal_parent < 0)[:, None], 0)
    stays = above * mu
    own = stays[count:] * (mixed_grad * mixed_v).sum(-1) * kept
    turn = send * (torch.cat([grad_log_weight, own]) - stays * worth)
    gain, mass = turn.clone(), -turn
    gain[:count] += grad_gain
    levels.energy_transposed(layout, gain, mass, mu, send)
    # -phi of a leaf-only family is the mean of its log-sum-exps.
    share = gain[:count] / layout.internal_count.to(gain.dtype)[:, None]
    share = with_spare_rows(share, 1).index_select(0, layout.leaf_parent)
    return TreeGradients(
        gain=gain,
        brought=sent[..., None] * grad_context,
        offset=mass - sent * worth,
        leaf_offset=share - worth_of_leaf,
        self_weight=stays[count:] * kept,
    )


def _collect(
    layout: FamilyLayout, y: Tensor, context: Tensor, grad_y: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of ctx [F, H, W] and log w [F, H] from the leaves right below.

    The third result, [N, H], is what each leaf adds to the gradient of log w.
    """
    count, (leaves, heads, width) = layout.internal_node.numel(), grad_y.shape
    grad_context = context.new_zeros(count + 1, heads, width)
    grad_log_weight = context.new_zeros(count + 1, heads)
    worth = context.new_empty(leaves, heads)
    context = with_spare_rows(context, 1)
    for rows in row_chunks(leaves, heads * width, grad_y.is_cuda):
        parent, grad = layout.leaf_parent[rows], grad_y[rows].to(context.dtype)
        grad_context.index_add_(0, parent, grad)
        inner = y[rows] - context.index_select(0, parent)
        worth[rows] = inner.mul_(grad).sum(-1)
    grad_log_weight.index_add_(0, layout.leaf_parent, worth)
    return grad_context[:-1], grad_log_weight[:-1], worth


def _mixed_families(
    call: AttentionCall, saved: Saved, joined: Tensor, tree: TreeGradients, width: int
) -> tuple[Tensor, Tensor | None]:
    """Gradients of the means [E + 1, H, 2 D + W] and of eps [E + 1, 1 or H, P].

    ``joined`` [X, H, 2 D + W] holds q, k, v of the leaves of mixed families.
    """
    dtype, (entities, heads) = joined.dtype, tree.gain.shape
    entity = with_spare_rows(torch.cat([saved.mean, joined]), 1)
    grad_entity = torch.zeros_like(entity)
    outer = [with_spare_rows(x, 1) for x in (tree.brought, tree.offset[..., None])]
    competing = None
    if call.leaves_compete:
        competing = call.competing(call.mixed_self_scores(joined, width))
    attention = call.family_attention(True, dtype, competing)
    grad_eps = None
    if attention.eps is not None:
        grad_eps = torch.zeros_like(attention.eps, dtype=dtype)
    held = (*parts_of(entity, width), saved.mass, *outer)
    for tile in attention.tiles(entities, heads, entity.size(2)):
        own = _without_padding(tile, [tile.load(x, dtype) for x in held])
        *grads, pairs = attention.backward(tile, *own)
        tile.store(grad_entity, torch.cat(grads, -1))
        if grad_eps is not None and pairs is not None:
            tile.store(grad_eps, pairs)
    return grad_entity, grad_eps


def _leaf_only_families(
    call: AttentionCall,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    saved: Saved,
    grad_y: Tensor,
    offset: Tensor,
    grad_mean: Tensor,
) -> tuple[list[Tensor], Tensor | None]:
    """Gradients of q, k, v and eps in leaf-only families, with a spare row each.

    Rows of other leaves are not written. ``offset`` is that of :class:`TreeGradients`,
    ``grad_mean`` [F, H, 2 D + W] what every leaf below a node gets through the means.
    """
    dtype, leaves, heads = saved.mean.dtype, q.size(0), q.size(1)
    weight = saved.log_weight.exp()
    grads = [x.new_empty(leaves + 1, *x.shape[1:]) for x in (q, k, v)]
    attention = call.family_attention(False, dtype)
    grad_eps = None
    if attention.eps is not None:
        grad_eps = with_spare_rows(torch.zeros_like(attention.eps, dtype=dtype), 1)
    held = (q, k, v, saved.leaf_mass, grad_y, offset[..., None])
    for tile in attention.tiles(leaves, heads, saved.mean.size(2)):
        own = [tile.load(x, dtype) for x in held]
        own[4] = own[4] * weight[tile.family][:, :, None, None]
        *parts, pairs = attention.backward(tile, *_without_padding(tile, own))
        shift = parts_of(grad_mean[tile.family][:, :, None], q.size(2))
        for grad, part, mean in zip(grads, parts, shift, strict=True):
            tile.store(grad, part.add_(mean))
        if grad_eps is not None and pairs is not None:
            tile.store(grad_eps, pairs)
    return grads, grad_eps


def _without_padding(tile: Tile, own: list[Tensor]) -> list[Tensor]:
    """q, k, v, mass and two gradients, where padded members play no part.

    A padded query repeats one of its family but sees that one's own column: weighed by
    its mass, a large score would overflow, and infinity times no gradient is NaN.
    """
    if tile.real is None:
        return own
    padded = ~tile.real[:, None, :, None]
    q, k, v, mass, *grads = own
    mass = mass.masked_fill(padded, float("inf"))
    return [q, k, v, mass, *(x.masked_fill(padded, 0) for x in grads)]


def _position_gradient(
    call: AttentionCall,
    grad_eps: Tensor | None,
    grad_leaf_eps: Tensor | None,
    own_pull: Tensor,
) -> Tensor | None:
    """[M, 1 or H, P]: of the nodes among their siblings, and of leaves on themselves.

    ``own_pull`` [N, H] is the gradient of the self scores outside leaf-only families.
    """
    if call.position is None or grad_eps is None or grad_leaf_eps is None:
        return None
    grad = torch.zeros_like(call.position, dtype=grad_eps.dtype)
    grad.index_add_(0, call.layout.entity_node[:-1], grad_eps[:-1])
    if grad.size(1) == 1:
        own_pull = own_pull.sum(1, keepdim=True)
    own = 2 * own_pull[..., None] * call.position[call.leaves].to(grad.dtype)
    grad.index_add_(0, call.leaves, grad_leaf_eps[:-1] + own)
    return grad.to(call.position.dtype)
