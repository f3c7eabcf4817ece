"""Trees for the benchmarks, by number of leaves and size of the families."""

from __future__ import annotations

import torch
from torch import Tensor


def parents(num_leaves: int, smallest: int, largest: int, seed: int = 0) -> Tensor:
    """Parents of a balanced tree: leaves first, then level after level.

    Args:
        num_leaves: leaves, all at one depth.
        smallest: size of the smallest family, the last of each level aside.
        largest: size of the largest family; equal to ``smallest`` in a regular tree.
        seed: seed of the sizes.
    """
    generator = torch.Generator().manual_seed(seed)
    levels, count, first = [], num_leaves, 0
    while count > 1:
        sizes = torch.randint(smallest, largest + 1, (count,), generator=generator)
        ends = sizes.cumsum(0)
        families = int((ends < count).sum()) + 1
        sizes = sizes[:families].clone()
        sizes[-1] -= ends[families - 1] - count
        family = torch.arange(families) + first + count
        levels.append(family.repeat_interleave(sizes))
        first, count = first + count, families
    return torch.cat([*levels, torch.tensor([-1])])


def forest(trees: list[Tensor]) -> Tensor:
    """Parents of several trees side by side."""
    parts, first = [], 0
    for parent in trees:
        parts.append(torch.where(parent >= 0, parent + first, -1))
        first += parent.numel()
    return torch.cat(parts)
