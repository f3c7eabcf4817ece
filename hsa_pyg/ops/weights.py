"""The attention weights themselves: one per pair of siblings, one per leaf.

This path materialises every pair and is differentiated by autograd. It is for looking
at attention; :func:`hsa_pyg.ops.hierarchical_attention` never builds these numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from hsa_pyg.compilation import FamilyLayout
from hsa_pyg.hierarchy import SignalHierarchy
from hsa_pyg.ops.focus import Focus
from hsa_pyg.ops.levels import levels
from hsa_pyg.ops.patterns import Pattern


class FamilyWeights(NamedTuple):
    r"""Hierarchical attention as edges and weights.

    With C = ``pair_index[0]`` and B = ``pair_index[1]`` siblings, every leaf under B
    puts the weight ``pair_weight`` on the leaves under C together, so that
    :math:`\theta_{ij}` is ``pair_weight`` :math:`/ n_C`; :math:`\theta_{ii}` is
    ``self_weight``.
    """

    pair_index: Tensor  #: [2, S] node ids: the attended sibling, the attending one
    pair_weight: Tensor  #: [S, H] total weight on the block
    self_weight: Tensor  #: [N, H] weight of each leaf row on itself


@dataclass(frozen=True)
class SiblingScores:
    """The scores of all pairs of siblings, and of the leaves with themselves.

    Members of families are the internal nodes followed by the leaf rows.
    """

    parent: Tensor  #: [F + N] internal number of each member's parent, -1 for roots
    node: Tensor  #: [F + N] node id that meets the siblings
    count: Tensor  #: [F + N] leaves below
    target: Tensor  #: [S] the attending member
    source: Tensor  #: [S] the attended sibling
    seen: Tensor  #: [S] whether a pattern shows the one to the other
    pair: Tensor  #: [S, H] s(B, C) + log n_C
    own: Tensor  #: [N, H] s(i, i), -infinity where no leaf attends to itself

    def kept(self, focus: Focus | None) -> tuple[Tensor, Tensor]:
        """``pair`` and ``own`` with -infinity for what is not seen, or not kept."""
        pair, own = self.pair, self.own
        if not bool(self.seen.all()):
            pair = pair.masked_fill(~self.seen[:, None], float("-inf"))
        if focus is None:
            return pair, own
        place = self.node[self.source]
        return _focus(pair, own, self.target, place, self.node, focus)


def sibling_scores(
    q: Tensor,
    k: Tensor,
    hierarchy: SignalHierarchy,
    *,
    self_attention: bool = True,
    position: Tensor | None = None,
    scale: float = 1.0,
    pattern: Pattern | None = None,
) -> SiblingScores:
    """The scores between siblings; arguments are those of :func:`family_weights`.

    Raises:
        ValueError: for rows or shapes that do not fit.
    """
    _check(q, k, hierarchy, position)
    layout = hierarchy.layout
    parent, node, target, source, seen = _pairs(hierarchy, pattern)
    count = torch.cat([layout.internal_count, torch.ones_like(hierarchy.leaves)])
    q_mean = _means(layout, q, parent)
    k_mean = _means(layout, k, parent)
    s = (q_mean[target] * k_mean[source]).sum(-1) * scale
    own = (q * k).sum(-1) * scale
    if position is not None:
        eps = position[node]
        s = s + (eps[target] * eps[source]).sum(-1)
        own = own + position[hierarchy.leaves].square().sum(-1)
    if not self_attention:
        own = torch.full_like(own, float("-inf"))
    s = s + count[source].to(s.dtype).log()[:, None]
    return SiblingScores(parent, node, count, target, source, seen, s, own)


def family_weights(
    q: Tensor,
    k: Tensor,
    hierarchy: SignalHierarchy,
    *,
    self_attention: bool = True,
    position: Tensor | None = None,
    scale: float = 1.0,
    focus: Focus | None = None,
    pattern: Pattern | None = None,
) -> FamilyWeights:
    r"""Attention weights between siblings and of leaves on themselves.

    Memory grows with the number of pairs of siblings, :math:`\sum b^2`.

    Args:
        q: queries of the leaves, [N, H, D].
        k: keys of the leaves, [N, H, D].
        hierarchy: the forest of M nodes and N leaves.
        self_attention: whether a leaf attends to itself.
        position: positional embeddings, [M, 1 or H, P], or None.
        scale: the factor c of the scores.
        focus: what a query keeps of its siblings; None keeps all.
        pattern: what a node sees of its family; only these pairs are in the result.

    Raises:
        ValueError: for rows or shapes that do not fit.
    """
    scores = sibling_scores(
        q,
        k,
        hierarchy,
        self_attention=self_attention,
        position=position,
        scale=scale,
        pattern=pattern,
    )
    s, own = scores.kept(focus)
    parent, node, count = scores.parent, scores.node, scores.count
    target, source = scores.target, scores.source
    if pattern is not None:
        target, source, s = (x[scores.seen] for x in (target, source, s))
    layout = hierarchy.layout
    inner = layout.internal_node.numel()
    top = s.new_full((inner + q.size(0), q.size(1)), float("-inf"))
    top = top.scatter_reduce(0, target[:, None].expand_as(s), s.detach(), "amax")
    top = top.masked_fill(torch.isinf(top), 0)  # roots have no siblings
    total = torch.zeros_like(top).index_add(0, target, (s - top[target]).exp())
    has_siblings = total > 0
    mass = top + torch.where(has_siblings, total, 1).log()
    unseeing = ~has_siblings & (parent >= 0)[:, None]
    mass = mass.masked_fill(unseeing, float("-inf"))

    gain = torch.cat([own.new_zeros(inner, q.size(1)), own])
    share = 1 / layout.internal_count.to(s.dtype)[:, None]
    child = (parent[inner:] >= 0).nonzero().view(-1) + inner
    steps = [(child, parent[child])]
    steps += [
        (torch.arange(nodes.start, nodes.stop, device=parent.device), parent[nodes])
        for nodes, _, _ in levels(layout, upward=True)
    ]
    for nodes, above in steps:
        term = torch.logaddexp(gain[nodes], mass[nodes]) * count[nodes][:, None]
        # In place, as a copy for each level would be quadratic in a path.
        gain.index_add_(0, above, term * share[above])

    log_mu, log_send = logsigmoid(gain - mass), logsigmoid(mass - gain)
    outer = torch.zeros_like(mass)  # log weight of the parent; 0 above roots
    down = [
        (torch.arange(nodes.start, nodes.stop, device=parent.device), parent[nodes])
        for nodes, _, _ in levels(layout, upward=False)
    ]
    for nodes, above in [*down, steps[0]]:
        at_top = (parent[above] < 0)[:, None]
        inside = torch.where(at_top, 0, outer[above] + log_mu[above])
        outer.index_copy_(0, nodes, inside)
    pair = (s - mass[target] + outer[target] + log_send[target]).exp()
    own_weight = (outer + log_mu)[inner:].exp()
    alone = (parent[inner:] < 0)[:, None]
    own_weight = torch.where(alone, float(self_attention), own_weight)
    return FamilyWeights(torch.stack([node[source], node[target]]), pair, own_weight)


def _focus(
    s: Tensor,
    own: Tensor,
    target: Tensor,
    place: Tensor,
    node: Tensor,
    focus: Focus,
) -> tuple[Tensor, Tensor]:
    """Scores of pairs [S, H] and of leaves with themselves [N, H], -inf if not kept.

    Args:
        s: scores of the pairs.
        own: scores of the leaves with themselves.
        target: [S] the attending member of each pair, F + N of them.
        place: [S] node id of the attended one, by which equal scores are told apart.
        node: [F + N] node id of each member.
        focus: what is kept.
    """
    limit = s.new_full((node.numel(), s.size(1)), focus.top_k, dtype=torch.long)
    if focus.includes_self:
        leaf = node.numel() - own.size(0)
        rival = torch.cat([own.new_full((leaf, own.size(1)), float("inf")), own])
        ahead = (s > rival[target]) | (
            (s == rival[target]) & (place < node[target])[:, None]
        )
        better = torch.zeros_like(limit).index_add(0, target, ahead.long())
        kept = better[leaf:] < focus.top_k
        own = torch.where(kept, own, float("-inf"))
        limit[leaf:] -= kept.long()
    # By target, and for each by falling scores, equal ones by their place.
    order = torch.argsort(place, stable=True)
    order = order[s[order].argsort(dim=0, descending=True, stable=True)]
    order = order.gather(0, target[order].argsort(dim=0, stable=True))
    sorted_target = target[order]
    size = torch.bincount(target, minlength=node.numel())
    first = size.cumsum(0) - size
    rank = torch.arange(s.size(0), device=s.device)[:, None] - first[sorted_target]
    keep = torch.empty_like(s, dtype=torch.bool)
    keep.scatter_(0, order, rank < limit.gather(0, sorted_target))
    return torch.where(keep, s, float("-inf")), own


def _check(
    q: Tensor, k: Tensor, hierarchy: SignalHierarchy, position: Tensor | None
) -> None:
    if q.dim() != 3 or q.shape != k.shape:
        raise ValueError(
            f"q {tuple(q.shape)} and k {tuple(k.shape)} must have the same shape "
            "[num_leaves, heads, channels]"
        )
    nodes, leaves, heads = hierarchy.num_nodes, hierarchy.num_leaves, q.size(1)
    if q.size(0) != leaves:
        raise ValueError(
            f"q has {q.size(0)} rows, but the hierarchy has {leaves} leaves; give one "
            "row per leaf, in the order of hierarchy.leaves"
        )
    if position is not None and (
        position.dim() != 3
        or position.size(0) != nodes
        or position.size(1) not in (1, heads)
    ):
        raise ValueError(
            f"position must have shape [{nodes}, 1 or {heads}, P], got "
            f"{tuple(position.shape)}"
        )


def _pairs(
    hierarchy: SignalHierarchy, pattern: Pattern | None
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """All pairs of siblings among the internal nodes followed by the leaf rows.

    Returns:
        ``parent`` [F + N], internal number of the parent or -1; ``node`` [F + N], the
        node id that meets the siblings; ``target`` and ``source`` [S], and whether the
        pattern shows the one to the other [S].
    """
    layout = hierarchy.layout
    inner = layout.internal_node.numel()
    entity = torch.cat([torch.arange(inner).to(layout.mixed_leaf), layout.mixed_leaf])
    entity[inner:] += inner
    entity_parent = torch.cat([layout.internal_parent, layout.mixed_leaf_parent])
    parent = torch.full((inner + hierarchy.num_leaves,), -1).to(entity)
    parent[entity] = entity_parent
    node = torch.cat([layout.internal_node, hierarchy.leaves])
    node[entity] = layout.entity_node[:-1]
    targets, sources, seen = [entity[:0]], [entity[:0]], [entity[:0] == 0]
    for mixed, width, families, member, family, _, _ in layout.buckets.tolist():
        grid = layout.bucket_member[member : member + families * width]
        grid = grid.view(families, width)
        real = grid < (entity.numel() if mixed else hierarchy.num_leaves)
        grid = torch.where(real, grid, 0)
        grid = entity[grid] if mixed else grid + inner
        owner = layout.bucket_family[family : family + families, None]
        parent[grid[real]] = owner.expand(-1, width)[real]
        other = ~torch.eye(width, dtype=torch.bool, device=grid.device)
        both = real[:, :, None] & real[:, None, :] & other
        mask = other
        if pattern is not None:
            place, size = torch.arange(width, device=grid.device), real.sum(1)
            mask = pattern.mask(place[:, None], place, size[:, None, None])
        seen.append(mask.expand_as(both)[both])
        targets.append(grid[:, :, None].expand(-1, -1, width)[both])
        sources.append(grid[:, None, :].expand(-1, width, -1)[both])
    return parent, node, torch.cat(targets), torch.cat(sources), torch.cat(seen)


def _means(layout: FamilyLayout, x: Tensor, parent: Tensor) -> Tensor:
    """Means over leaves of the internal nodes, followed by the leaves: [F + N, ...]."""
    inner = layout.internal_node.numel()
    child = (parent[inner:] >= 0).nonzero().view(-1)
    total = x.new_zeros(inner, *x.shape[1:])
    total = total.index_add(0, parent[inner:][child], x[child])
    for nodes, _, _ in levels(layout, upward=True):
        total.index_add_(0, parent[nodes], total[nodes].clone())
    return torch.cat([total / layout.internal_count.to(x.dtype)[:, None, None], x])
