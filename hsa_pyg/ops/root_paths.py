"""Leaves beside the families on their root paths: what untied queries run on.

In the order of :class:`RootPaths` the leaves below any node follow one another. A *run*
is a stretch of leaves below one family; every leaf of it looks at the members of that
family but the one that it lies in.

Legend of shapes: T runs in a tile, r leaves in each, b members of each family.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from hsa_pyg.compilation import FamilyLayout

#: Leaves in a run, at most.
_RUN = 64
#: Numbers in the working set of a tile, as in :mod:`hsa_pyg.ops.family`.
_CPU_TILE = 2**19
_CUDA_TILE = 2**25


@dataclass(frozen=True)
class Run:
    """A tile of runs: families of one level and kind, padded to one width."""

    number: int  #: distinct in a call, so that dropout can be repeated
    mixed: bool  #: whether members are entities rather than leaf rows
    family: Tensor  #: [T] internal numbers
    member: Tensor  #: [T, b] members; padding repeats the last
    hidden: Tensor  #: [T, b] which members are padding
    leaf: Tensor  #: [T, r] leaf rows; padding is N, one behind the last
    own: Tensor  #: [T, r] place of the member that each leaf lies in


class RootPaths:
    """Where the leaves below every family are, for the tiles of a call.

    Args:
        layout: the compiled forest.
        leaves: N.
    """

    def __init__(self, layout: FamilyLayout, leaves: int) -> None:
        self.layout, self.leaves = layout, leaves
        count, inner = layout.internal_count, layout.internal_count.numel()
        member, family = layout.slot_member, layout.slot_family
        leaf_slots = int(layout.kind_sizes[0, 1])
        below = torch.ones_like(member)
        mixed_member = member[leaf_slots:]
        size = torch.cat([count, torch.ones_like(layout.mixed_leaf)])
        below[leaf_slots:] = size[mixed_member]
        before = below.cumsum(0) - below
        #: [S] leaves of the family before each slot's own.
        self.offset = before - before[layout.family_first[family]]
        entity_offset = torch.zeros_like(size)
        entity_offset[mixed_member] = self.offset[leaf_slots:]
        #: [F] place of the first leaf below every internal node.
        self.first = torch.zeros_like(count)
        bounds = layout.level_ptr.tolist()
        for level, (start, stop) in enumerate(pairwise(bounds)):
            if level == 0:
                self.first[start:stop] = count[start:stop].cumsum(0) - count[start:stop]
                continue
            parent = layout.internal_parent[start:stop]
            self.first[start:stop] = self.first[parent] + entity_offset[start:stop]
        #: [N + 1] leaf row at every place; N at the end.
        self.row_at = count.new_full((leaves + 1,), leaves)
        leaf_only = self.first[family[:leaf_slots]] + self.offset[:leaf_slots]
        self.row_at[leaf_only] = member[:leaf_slots]
        place = self.first[layout.mixed_leaf_parent] + entity_offset[inner:]
        self.row_at[place] = layout.mixed_leaf

    def levels(self, upward: bool) -> Iterator[tuple[slice, list[tuple[int, ...]]]]:
        """Families of each level, and groups of them that are alike.

        A group is (mixed, width, run, number of families, first place in
        ``self.grouped``).
        """
        bounds = self.layout.level_ptr.tolist()
        depth = range(len(bounds) - 1)
        groups = self._groups()
        for level in reversed(depth) if upward else depth:
            yield slice(bounds[level], bounds[level + 1]), groups.get(level, [])

    def leaves_below(self, nodes: slice) -> tuple[Tensor, Tensor]:
        """Number of a node among ``nodes``, and leaf row, of every leaf below them."""
        count = self.layout.internal_count[nodes]
        node = torch.arange(count.numel(), device=count.device)
        node = node.repeat_interleave(count)
        within = torch.arange(node.numel(), device=count.device)
        within = within - (count.cumsum(0) - count)[node]
        return node, self.row_at[self.first[nodes][node] + within]

    def _groups(self) -> dict[int, list[tuple[int, ...]]]:
        layout = self.layout
        width = torch.zeros_like(layout.internal_count)
        mixed = torch.zeros_like(width)
        for kind, b, families, _, start, _, _ in layout.buckets.tolist():
            chosen = layout.bucket_family[start : start + families]
            width[chosen], mixed[chosen] = b, kind
        run = 2 ** (layout.internal_count.clamp(max=_RUN) - 1).double().log2().floor()
        run = torch.where(layout.internal_count > 1, 2 * run, 1).long().clamp(max=_RUN)
        depth = torch.bucketize(
            torch.arange(width.numel()), layout.level_ptr[1:], right=True
        ).to(width)
        key = torch.stack([depth, mixed, width, run], 1)
        kinds, inverse, number = torch.unique(
            key, dim=0, return_inverse=True, return_counts=True
        )
        self.grouped = torch.argsort(inverse, stable=True)
        found: dict[int, list[tuple[int, ...]]] = {}
        at = 0
        for (level, *kind), families in zip(
            kinds.tolist(), number.tolist(), strict=True
        ):
            found.setdefault(level, []).append((*kind, families, at))
            at += families
        return found

    def runs(self, groups: list[tuple[int, ...]], channels: int) -> Iterator[Run]:
        """The tiles of some groups of one level, in a fixed order.

        Args:
            groups: from :meth:`levels`.
            channels: numbers that a tile holds per leaf or member, pairs aside.
        """
        layout = self.layout
        budget = _CUDA_TILE if layout.internal_count.is_cuda else _CPU_TILE
        for mixed, width, run, families, at in groups:
            family = self.grouped[at : at + families]
            pieces = (layout.internal_count[family] + run - 1) // run
            nth = torch.arange(int(pieces.sum()), device=family.device)
            nth = nth - (pieces.cumsum(0) - pieces).repeat_interleave(pieces)
            family = family.repeat_interleave(pieces)
            step = max(1, budget // ((width + run) * channels + width * run))
            for start in range(0, family.numel(), step):
                part = slice(start, start + step)
                shape = (at << 24) + start, bool(mixed), width, run
                yield self._run(*shape, family[part], nth[part])

    def _run(
        self,
        number: int,
        mixed: bool,
        width: int,
        run: int,
        family: Tensor,
        nth: Tensor,
    ) -> Run:
        layout = self.layout
        size = layout.family_size[family, None]
        column = torch.arange(width, device=family.device)
        slot = layout.family_first[family, None] + torch.minimum(column, size - 1)
        within = nth[:, None] * run + torch.arange(run, device=family.device)
        inside = within < layout.internal_count[family, None]
        place = torch.where(inside, self.first[family, None] + within, self.leaves)
        hidden = column >= size
        offset = self.offset[slot].masked_fill(hidden, self.leaves + 1)
        own = torch.searchsorted(offset, within, right=True) - 1
        return Run(
            number=number,
            mixed=mixed,
            family=family,
            member=layout.slot_member[slot],
            hidden=hidden,
            leaf=self.row_at[place],
            own=own.clamp(max=width - 1),
        )
