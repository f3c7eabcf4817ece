"""Trees for the benchmarks, by number of leaves and size of the families."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hsa_pyg import SignalHierarchy


@dataclass(frozen=True)
class Tree:
    """A tree, or a batch of them, by what describes it.

    Attributes:
        leaves: leaves of each tree.
        smallest: size of the smallest family, the last of each level aside.
        largest: size of the largest family.
        caterpillar: every family is a leaf and the rest of the tree.
        number: trees in the batch; their leaves vary by a quarter around ``leaves``.
    """

    leaves: int
    smallest: int = 16
    largest: int = 16
    caterpillar: bool = False
    number: int = 1

    def parents(self) -> Tensor:
        """The parent of every node, -1 for roots."""
        if self.number > 1:
            return forest(self.trees())
        if self.caterpillar:
            return caterpillar(self.leaves)
        return parents(self.leaves, self.smallest, self.largest)

    def trees(self) -> list[Tensor]:
        """The parents of the trees of a batch, one by one."""
        ends = torch.linspace(0.75, 1.25, self.number) * self.leaves
        return [parents(int(n), self.smallest, self.largest) for n in ends.tolist()]

    def hierarchy(self) -> SignalHierarchy:
        """The compiled forest."""
        return SignalHierarchy.from_parents(self.parents())


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


def caterpillar(num_leaves: int) -> Tensor:
    """Parents of a tree with a leaf at each of ``num_leaves - 1`` depths, two below."""
    spine = torch.arange(num_leaves - 1)
    leaf_parents = torch.cat([spine, spine[-1:]])
    return torch.cat([spine - 1, leaf_parents])


def forest(trees: list[Tensor]) -> Tensor:
    """Parents of several trees side by side."""
    parts, first = [], 0
    for parent in trees:
        parts.append(torch.where(parent >= 0, parent + first, -1))
        first += parent.numel()
    return torch.cat(parts)
