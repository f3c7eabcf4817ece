"""Halve groups of points until each is small."""

from __future__ import annotations

import torch
from torch import Tensor


def halve(x: Tensor, group: Tensor, most: int) -> Tensor:
    """Halve groups across the direction in which they vary most, again and again.

    The direction is that of the point farthest from the mean, turned once towards the
    direction of largest variance. Linear in the points, for each halving.

    Args:
        x: [n, F] points.
        group: [n] long, the group of every point.
        most: points that a part may have.

    Returns:
        [n] long: part of every point, numbered from 0 group by group.
    """
    while group.numel():
        count = torch.bincount(group)
        if int(count.max()) <= most:
            break
        long = (count > most)[group].nonzero()[:, 0]
        upper = _upper_half(x[long], torch.unique(group[long], return_inverse=True)[1])
        number = 2 * group
        number[long] += upper.long()
        group = torch.unique(number, return_inverse=True)[1]
    return group


def _upper_half(x: Tensor, group: Tensor) -> Tensor:
    """[n] bool: whether a point is in the upper half of its group."""
    count = torch.bincount(group)
    zero = x.new_zeros(count.numel(), x.size(1))
    mean = zero.index_add(0, group, x) / count[:, None]
    x = x - mean[group]
    far = torch.argsort(x.square().sum(1), stable=True)
    far = far[torch.argsort(group[far], stable=True)]
    start = x[far[count.cumsum(0) - 1]]
    along = (x * start[group]).sum(1)
    axis = zero.index_add(0, group, x * along[:, None])
    along = (x * axis[group]).sum(1)
    order = torch.argsort(along, stable=True)
    order = order[torch.argsort(group[order], stable=True)]
    first = count.cumsum(0) - count
    place = torch.empty_like(group)
    place[order] = torch.arange(group.numel(), device=group.device)
    return place - first[group] >= (count[group] + 1) // 2
