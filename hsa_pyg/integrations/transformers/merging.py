"""Merge nodes that are alike, all groups of a batch at once, in few rounds."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hsa_pyg.compilation import follow

# Entries of the tables of costs that are held at one time.
_TABLE = 2**24
# Relative weight by which equal costs are told apart.
_TIE = 1e-6


@dataclass(frozen=True)
class Merges:
    """A binary forest over n nodes: nodes 0 to n - 1, then the merges in their order.

    Merges of each round follow those of the round before, so parts come before wholes.

    Args:
        above: [n + m] the merge that a node is part of; itself at the top.
        group: [n + m] the group that it lies in.
        size: [n + m] how much it holds: the sum of the sizes of its parts.
        height: [n + m] cost of the merge, at least those of its parts; 0 for nodes.
        left: [m] one part of each merge.
        right: [m] the other.
    """

    above: Tensor
    group: Tensor
    size: Tensor
    height: Tensor
    left: Tensor
    right: Tensor

    @property
    def num_nodes(self) -> int:
        """n."""
        return self.above.numel() - self.left.numel()

    def ranks(self, group: Tensor) -> tuple[Tensor, Tensor]:
        """The merges of each group in the order of their heights, parts before wholes.

        Args:
            group: [m] group of every merge.

        Returns:
            [m] long each: the merges group by group, and the rank of each of these
            within its group, from 0.
        """
        height = self.height[self.num_nodes :]
        order = torch.argsort(height, stable=True)
        order = order[torch.argsort(group[order], stable=True)]
        count = torch.bincount(group)
        first = count.cumsum(0) - count
        place = torch.arange(order.numel(), device=order.device)
        return order, place - first[group[order]]

    def cut(self, kept: Tensor) -> Tensor:
        """The largest merge that each node lies in, of those that are kept.

        Args:
            kept: bool [m]; with a merge its parts are kept, too.

        Returns:
            [n] long: a merge, or the node itself.
        """
        stays = torch.cat([kept.new_zeros(self.num_nodes), kept])
        node = torch.arange(self.above.numel(), device=self.above.device)
        target = torch.where(stays[self.above], self.above, node)
        return follow(target, target != node)[: self.num_nodes]


@dataclass
class _Front:
    """The nodes that are left: features, masses, sizes, heights, groups, ids."""

    x: Tensor
    mass: Tensor
    size: Tensor
    height: Tensor
    group: Tensor
    node: Tensor

    def place(self) -> Tensor:
        """Place of every node in its group."""
        count = torch.bincount(self.group)
        first = count.cumsum(0) - count
        index = torch.arange(self.group.numel(), device=self.group.device)
        return index - first[self.group]


def merge(
    x: Tensor,
    mass: Tensor,
    group: Tensor,
    size: Tensor,
    *,
    adjacent: bool,
    most: Tensor | None = None,
) -> Merges:
    r"""Merge nodes by Ward's criterion until one is left of a group, or none fits.

    Merging B and C costs :math:`w_B w_C / (w_B + w_C) \, |x_B - x_C|^2`, by which the
    weighted sum of squares about the means grows. All pairs that are each other's
    cheapest partner merge at once, which gives the tree that merging the cheapest pair
    of all again and again would give (without ``most``), in rounds whose number is
    mostly logarithmic. If it is not, neighbours merge as they come.

    Args:
        x: [n, F] features.
        mass: [n] weights w, positive.
        group: [n] long, ascending; nodes of different groups never merge.
        size: [n] long, what ``most`` counts.
        adjacent: only nodes next to each other in their group merge.
        most: [G] long, the largest size of a merge in each group, for adjacent nodes
            alone; None for any.
    """
    count = group.numel()
    index = torch.arange(count, device=x.device)
    front = _Front(_centred(x, group), mass, size, mass.new_zeros(count), group, index)
    longest = int(torch.bincount(group).max()) if count else 0
    patience = 3 * longest.bit_length()
    total, turn, idle = count, 0, 0
    above, groups, sizes, heights = [index], [group], [size], [front.height]
    lefts, rights = [index[:0]], [index[:0]]
    while idle < 2:
        forced = turn >= patience
        if adjacent:
            first, cost = _adjacent_pairs(front, most, turn if forced else None)
            second = first + 1
        else:
            first, second, cost = _mutual_pairs(front, forced)
        turn += 1
        # Forced pairs of neighbours alternate between even and odd places.
        idle = idle + 1 if first.numel() == 0 and forced and adjacent else 0
        if first.numel() == 0:
            if idle:
                continue
            break
        lefts.append(front.node[first])
        rights.append(front.node[second])
        front = _joined(front, first, second, cost, total)
        new = front.node >= total
        total += first.numel()
        above.append(front.node[new])
        groups.append(front.group[new])
        sizes.append(front.size[new])
        heights.append(front.height[new])
    left, right = torch.cat(lefts), torch.cat(rights)
    joined = torch.cat(above)
    merged = torch.arange(count, total, device=x.device)
    joined[left] = merged
    joined[right] = merged
    return Merges(
        joined, torch.cat(groups), torch.cat(sizes), torch.cat(heights), left, right
    )


def _centred(x: Tensor, group: Tensor) -> Tensor:
    """Features less their group's mean: squares of small numbers round off less."""
    if group.numel() == 0:
        return x
    count = torch.bincount(group)
    mean = x.new_zeros(count.numel(), x.size(1)).index_add_(0, group, x)
    return x - (mean / count.clamp(min=1)[:, None])[group]


def _joined(
    front: _Front, first: Tensor, second: Tensor, cost: Tensor, total: int
) -> _Front:
    """The front with each pair as one node, in the place of its first part."""
    stays = torch.ones_like(front.group, dtype=torch.bool)
    stays[second] = False
    mass = front.mass.index_add(0, first, front.mass[second])
    share = (front.mass[second] / mass[first])[:, None]
    x = front.x.index_copy(0, first, front.x[first].lerp(front.x[second], share))
    size = front.size.index_add(0, first, front.size[second])
    height = torch.maximum(front.height[first], front.height[second])
    height = front.height.index_copy(0, first, torch.maximum(height, cost))
    number = torch.arange(total, total + first.numel(), device=first.device)
    node = front.node.index_copy(0, first, number)
    parts = (x, mass, size, height, front.group, node)
    return _Front(*(part[stays] for part in parts))


def _adjacent_pairs(
    front: _Front, most: Tensor | None, turn: int | None
) -> tuple[Tensor, Tensor]:
    """First nodes of the pairs of neighbours that merge, and their costs."""
    x, mass = front.x, front.mass
    if front.group.numel() < 2:
        return front.group[:0], mass[:0]
    reduced = mass[1:] * mass[:-1] / (mass[1:] + mass[:-1])
    cost = reduced * (x[1:] - x[:-1]).square().sum(1)
    fits = front.group[1:] == front.group[:-1]
    if most is not None:
        fits &= front.size[1:] + front.size[:-1] <= most[front.group[1:]]
    odd = front.place()[:-1] % 2
    if turn is not None:
        chosen = fits & (odd == turn % 2)
    else:
        ranked = cost * (1 + _TIE * odd) + torch.finfo(cost.dtype).tiny * odd
        ranked = ranked.masked_fill(~fits, float("inf"))
        edge = ranked.new_full((1,), float("inf"))
        before = torch.cat([edge, ranked[:-1]])
        after = torch.cat([ranked[1:], edge])
        # Of equal neighbours the earlier one.
        chosen = fits & (ranked < before) & (ranked <= after)
    first = chosen.nonzero()[:, 0]
    return first, cost[first]


def _mutual_pairs(front: _Front, forced: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Pairs of nodes that are each other's cheapest partner, and their costs."""
    place, group = front.place(), front.group
    count = torch.bincount(group) if group.numel() else group
    widest = int(count.max()) if group.numel() else 0
    if widest < 2:
        return group[:0], group[:0], front.mass[:0]
    first = count.cumsum(0) - count
    if forced:
        partner, cost = place ^ 1, front.height
        partner = torch.where(partner < count[group], partner, place)
    else:
        partner, cost = _cheapest(front, place, count.numel(), widest)
    partner = first[group] + partner
    index = torch.arange(group.numel(), device=group.device)
    pair = ((partner[partner] == index) & (index < partner)).nonzero()[:, 0]
    return pair, partner[pair], cost[pair]


def _cheapest(
    front: _Front, place: Tensor, groups: int, widest: int
) -> tuple[Tensor, Tensor]:
    """Place of every node's cheapest partner (its own if alone), and the cost."""
    x = front.x.new_zeros(groups, widest, front.x.size(1))
    x[front.group, place] = front.x
    mass = front.mass.new_zeros(groups, widest)
    mass[front.group, place] = front.mass
    column = torch.arange(widest, device=x.device)
    apart = column[:, None] ^ column
    best, cost = [], []
    step = max(1, _TABLE // widest**2)
    for x_part, mass_part in zip(x.split(step), mass.split(step), strict=True):
        value, index = _table(x_part, mass_part, apart).min(2)
        best.append(torch.where(value.isfinite(), index, column))
        cost.append(value)
    at = (front.group, place)
    return torch.cat(best)[at], torch.cat(cost)[at]


def _table(x: Tensor, mass: Tensor, apart: Tensor) -> Tensor:
    """Costs of all pairs [G, P, P], infinite where there is none."""
    square = x.square().sum(2)
    cost = torch.baddbmm(square[:, None, :], x, x.mT, alpha=-2)
    cost = cost.add_(square[:, :, None]).clamp_(min=0)
    inverse = mass.reciprocal()  # infinite where there is no node
    cost = cost / (inverse[:, :, None] + inverse[:, None, :])
    # Of equal partners the one whose number differs in the lowest bits: were they all
    # alike, then they would all pair off, where one for all would give one pair.
    scale = _TIE * (square * mass).mean(1)[:, None, None] + torch.finfo(x.dtype).tiny
    cost = cost + scale * (apart / apart.size(0))
    absent = mass == 0
    cost = cost.masked_fill_(absent[:, :, None] | absent[:, None, :], float("inf"))
    cost.diagonal(dim1=1, dim2=2).fill_(float("inf"))
    return cost
