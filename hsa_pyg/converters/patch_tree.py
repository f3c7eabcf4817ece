"""The tree over the patches of a picture: a grid, or quadrants within quadrants."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Tree = Literal["grid", "quadtree"]

_QUARTERS = tuple(itertools.product((0, 1), (0, 1)))
# Grids up to this size are kept: 65,536 patches take two megabytes.
_CACHED_PATCHES = 65_536


@dataclass(frozen=True, eq=False)
class PatchTree:
    """Parents and places of the quadrants and patches of one picture.

    Args:
        quadrant_parent: ``[num_quadrants]`` long, number of the parent quadrant; -1 is
            the image itself. Parents come before their children.
        quadrant_pos: ``[num_quadrants, 2]`` float, row and column among the siblings,
            0 or 1 each.
        patch_parent: ``[rows * cols]`` long, number of the quadrant; -1 is the image.
        patch_pos: ``[rows * cols, 2]`` float, row and column in the parent's grid.
    """

    quadrant_parent: Tensor
    quadrant_pos: Tensor
    patch_parent: Tensor
    patch_pos: Tensor


def patch_tree(rows: int, cols: int, tree: Tree) -> PatchTree:
    """Return the tree over a grid of patches, which are numbered row by row.

    ``"grid"`` hangs every patch from the image. ``"quadtree"`` splits the grid in
    halves, by rows and by columns, until a part holds at most 2 x 2 patches, which are
    its children: no family has more than four members. A part of a single patch is the
    patch itself, and a side of one patch is not split, so that a grid of any shape has
    its quadtree and no node has an only child but the image of one patch.

    Args:
        rows: Number of rows of patches.
        cols: Number of columns of patches.
        tree: ``"grid"`` or ``"quadtree"``.

    Raises:
        ValueError: If there is no patch, or ``tree`` is not known.

    Example:
        >>> found = patch_tree(3, 4, "quadtree")
        >>> found.quadrant_pos.tolist()
        [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
        >>> found.patch_parent.view(3, 4).tolist()
        [[0, 0, 1, 1], [0, 0, 1, 1], [2, 2, 3, 3]]
    """
    if rows < 1 or cols < 1:
        raise ValueError(f"A picture has a patch at least, not {rows} x {cols}.")
    if tree not in ("grid", "quadtree"):
        raise ValueError(f"tree={tree!r} is not known: use 'grid' or 'quadtree'.")
    if rows * cols > _CACHED_PATCHES:
        return _build(rows, cols, tree)
    kept = _kept(rows, cols, tree)
    # Copies: positions end up in signals, which their owners may edit in place.
    return PatchTree(
        kept.quadrant_parent.clone(),
        kept.quadrant_pos.clone(),
        kept.patch_parent.clone(),
        kept.patch_pos.clone(),
    )


def _build(rows: int, cols: int, tree: Tree) -> PatchTree:
    return _grid(rows, cols) if tree == "grid" else _quadtree(rows, cols)


_kept = functools.lru_cache(maxsize=64)(_build)


def _grid(rows: int, cols: int) -> PatchTree:
    places = torch.cartesian_prod(torch.arange(rows), torch.arange(cols))
    return PatchTree(
        torch.zeros(0, dtype=torch.long),
        torch.zeros(0, 2),
        torch.full((rows * cols,), -1),
        places.float(),
    )


def _quadtree(rows: int, cols: int) -> PatchTree:
    """Split level by level, all parts of a level at once."""
    patch_parent = torch.full((rows * cols,), -1)
    patch_pos = torch.zeros(rows * cols, 2)
    parents, places = [torch.zeros(0, dtype=torch.long)], [torch.zeros(0, 2)]
    num_quadrants = 0
    # A part is its first row, first column, height and width, in patches.
    parts, owner = torch.tensor([[0, 0, rows, cols]]), torch.tensor([-1])
    while len(parts) > 0:
        # Halves of a part of at most 2 x 2 are its patches.
        halves, owners, quarter = _split(parts, owner)
        is_patch = (halves[:, 2:] == 1).all(dim=1)
        patch = halves[is_patch, 0] * cols + halves[is_patch, 1]
        patch_parent[patch] = owners[is_patch]
        patch_pos[patch] = quarter[is_patch]
        parts, parent = halves[~is_patch], owners[~is_patch]
        parents.append(parent)
        places.append(quarter[~is_patch])
        owner = torch.arange(num_quadrants, num_quadrants + len(parts))
        num_quadrants += len(parts)
    return PatchTree(torch.cat(parents), torch.cat(places), patch_parent, patch_pos)


def _split(parts: Tensor, owner: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Halve parts by rows and columns; the quarters of one part stay together."""
    quarters = torch.tensor(_QUARTERS)
    first = (parts[:, 2:] + 1) // 2
    sizes = torch.stack([first, parts[:, 2:] - first], dim=1)  # [parts, half, axis]
    size = torch.stack([sizes[:, quarters[:, axis], axis] for axis in (0, 1)], dim=2)
    start = parts[:, None, :2] + quarters * first[:, None]
    halves = torch.cat([start, size], dim=2)
    kept = (size > 0).all(dim=2)
    return (
        halves[kept],
        owner[:, None].expand(-1, 4)[kept],
        quarters.float().expand(len(parts), 4, 2)[kept],
    )
