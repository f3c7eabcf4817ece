"""Families one after the other, cut into tiles: what fused kernels run on."""

from __future__ import annotations

import torch
from torch import Tensor

#: Slots in a tile, at most: the rows of a block that a fused kernel works on.
TILE_SLOTS = 64


def lay_out_slots(slot: Tensor, family: Tensor, mixed: Tensor) -> dict[str, Tensor]:
    """The slot fields of :class:`~hsa_pyg.compilation.FamilyLayout`.

    Args:
        slot: [S] leaf row or entity of every member, family by family.
        family: [S] family of every member, ascending.
        mixed: [F] whether a family is mixed.

    Returns:
        Tensors by the names of the fields.
    """
    size = torch.bincount(family, minlength=mixed.numel())
    order = torch.argsort(mixed.long(), stable=True)
    by_kind = torch.argsort(mixed[family].long(), stable=True)
    ordered = size[order]
    first = torch.empty_like(size)
    first[order] = ordered.cumsum(0) - ordered
    leaf_families = mixed.numel() - int(mixed.sum())
    leaf_slots = int(ordered[:leaf_families].sum())
    start, leaf_tiles = cut_into_tiles(ordered, leaf_families)
    return {
        "slot_member": slot[by_kind],
        "slot_family": family[by_kind],
        "family_first": first,
        "family_size": size,
        "family_order": order,
        "tile_start": start,
        "kind_sizes": torch.tensor(
            [
                [leaf_families, leaf_slots, leaf_tiles],
                [
                    mixed.numel() - leaf_families,
                    slot.numel() - leaf_slots,
                    start.numel() - 1 - leaf_tiles,
                ],
            ]
        ),
    }


def cut_into_tiles(size: Tensor, leaf_families: int) -> tuple[Tensor, int]:
    """First slot of every tile, and the number of slots at the end; greedily.

    A tile holds whole families of one kind, as many as fit in :data:`TILE_SLOTS`, or a
    piece of one family that is larger.

    Args:
        size: [F] members of the families, in the order of the slots.
        leaf_families: how many of the first are leaf-only.

    Returns:
        [T + 1], and how many tiles are of leaf-only families.
    """
    pieces = (size + TILE_SLOTS - 1) // TILE_SLOTS
    owner = torch.arange(size.numel(), device=size.device).repeat_interleave(pieces)
    first = size.cumsum(0) - size
    nth = torch.arange(owner.numel(), device=size.device)
    nth = nth - (pieces.cumsum(0) - pieces)[owner]
    begin = first[owner] + nth * TILE_SLOTS
    end = torch.minimum(begin + TILE_SLOTS, (first + size)[owner])
    # Where a tile that starts at a unit has to end: the first unit that does not fit,
    # and before a piece of a large family, behind it, and between the kinds.
    fits = torch.searchsorted(end, begin + TILE_SLOTS, right=True)
    large = pieces[owner] > 1
    wall = large.clone()
    wall[1:] |= large[:-1]
    leaf_units = int(pieces[:leaf_families].sum())
    if leaf_units < owner.numel():
        wall[leaf_units] = True
    walls = wall.nonzero().view(-1)
    unit = torch.arange(owner.numel(), device=size.device)
    limit = torch.cat([walls, walls.new_full((1,), owner.numel())])
    next_wall = limit[torch.searchsorted(walls, unit, right=True)]
    following = torch.minimum(fits, next_wall).tolist()
    units, leaf_tiles, at = [], 0, 0
    while at < len(following):
        units.append(at)
        leaf_tiles += at < leaf_units
        at = following[at]
    chosen = torch.tensor(units, dtype=torch.long, device=size.device)
    return torch.cat([begin[chosen], size.sum().view(1)]), leaf_tiles
