"""Pictures in a signal: which leaves are their patches, and where each one lies."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from hsa_pyg.data import NestedSignal

if TYPE_CHECKING:
    from hsa_pyg.analysis.viewer.contents import TreeOrder

#: Side in pixels down to which patches are scaled, as a page shows them small.
MAX_SIDE = 16


def find_pictures(signal: NestedSignal, order: TreeOrder) -> list[dict[str, Any]]:
    """The pictures of a signal.

    A picture is a node whose leaves are vectors with a place ``pos`` [n, 2] in a grid,
    or in quadrants that have such a place themselves.

    Args:
        signal: a signal of one tree.
        order: the order of its nodes.

    Returns:
        For each picture its place ``node``, its ``rows`` and ``cols`` of patches, the
        places ``cells`` [rows * cols] of its leaves (-1 where there is none), and its
        ``channels`` and ``side`` with ``pixels`` [leaves, side, side, channels] of 8
        bits, in the order of the cells; ``side`` 0 if the leaves are no pixels.
    """
    count = signal.hierarchy.num_nodes
    place = np.zeros((count, 2), dtype=np.int64)
    in_grid = np.zeros(count, dtype=bool)
    slices = signal.hierarchy.node_slices
    for name, (start, stop) in slices.items():
        store = signal[name]
        x, pos = store.get("x"), store.get("pos")
        is_patch = x is None or (x.dim() == 2 and x.is_floating_point())
        if isinstance(pos, Tensor) and pos.dim() == 2 and pos.size(1) == 2 and is_patch:
            place[start:stop] = pos.cpu().round().long().numpy()
            in_grid[start:stop] = True
    place, in_grid = place[order.node], in_grid[order.node]
    is_leaf = np.zeros(count, dtype=bool)
    is_leaf[order.number[signal.hierarchy.leaves.cpu().numpy()]] = True
    pictures = []
    for root, members in _members(order.parent, in_grid).items():
        found = _lay_out(root, members, order.parent, place)
        leaves = [node for node in found if is_leaf[node]]
        if leaves:
            pictures.append(_picture(signal, order, root, found, leaves))
    return pictures


def _members(parent: np.ndarray, in_grid: np.ndarray) -> dict[int, list[int]]:
    """The nodes of each grid, in their order, by the node that the grid hangs from."""
    root = np.full(parent.size, -1, dtype=np.int64)
    grids: dict[int, list[int]] = {}
    for node in np.flatnonzero(in_grid).tolist():
        above = int(parent[node])
        if above < 0:
            continue
        root[node] = root[above] if in_grid[above] and root[above] >= 0 else above
        grids.setdefault(int(root[node]), []).append(node)
    return grids


def _lay_out(
    root: int, members: list[int], parent: np.ndarray, place: np.ndarray
) -> dict[int, tuple[int, int]]:
    """Row and column in the whole picture of each node: its upper left corner."""
    below: dict[int, list[int]] = {}
    for node in members:
        below.setdefault(int(parent[node]), []).append(node)
    size = dict.fromkeys(members, (1, 1))
    tracks: dict[int, tuple[list[int], list[int]]] = {}
    # Children come after their parents: sizes from the back, corners from the front.
    for node in [*reversed(members), root]:
        if node not in below:
            continue
        starts = []
        for axis in (0, 1):
            extent: dict[int, int] = {}
            for child in below[node]:
                at = int(place[child, axis])
                extent[at] = max(extent.get(at, 0), size[child][axis])
            last = max(extent)
            widths = [extent.get(at, 1) for at in range(last + 1)]
            starts.append(np.append(0, np.cumsum(widths)).tolist())
        tracks[node] = (starts[0], starts[1])
        size[node] = (starts[0][-1], starts[1][-1])
    corner = {root: (0, 0)}
    for node in members:
        above = int(parent[node])
        row, column = corner[above]
        rows, columns = tracks[above]
        corner[node] = (
            row + rows[int(place[node, 0])],
            column + columns[int(place[node, 1])],
        )
    return corner


def _picture(
    signal: NestedSignal,
    order: TreeOrder,
    root: int,
    corner: dict[int, tuple[int, int]],
    leaves: list[int],
) -> dict[str, Any]:
    rows = 1 + max(corner[node][0] for node in leaves)
    cols = 1 + max(corner[node][1] for node in leaves)
    cells = np.full(rows * cols, -1, dtype=np.int32)
    for node in leaves:
        row, column = corner[node]
        cells[row * cols + column] = node
    shown = cells[cells >= 0]
    x = _features(signal, order.node[shown])
    channels, side = (0, 0) if x is None else _format(x, signal, order, root, rows)
    pixels = np.zeros(0, dtype=np.uint8)
    if x is not None and side:
        image = x.view(-1, channels, side, side)
        if side > MAX_SIDE:
            image = avg_pool2d(image, -(-side // MAX_SIDE))
            side = image.size(-1)
        image = (image.clamp(0, 1) * 255).round().to(torch.uint8)
        pixels = image.permute(0, 2, 3, 1).contiguous().numpy()
    return {
        "node": root,
        "rows": rows,
        "cols": cols,
        "cells": cells,
        "channels": channels,
        "side": side,
        "pixels": pixels,
    }


def _features(signal: NestedSignal, nodes: np.ndarray) -> Tensor | None:
    """Features of leaves that are all of one type; None if they are not."""
    for name in signal.hierarchy.leaf_slices:
        start, stop = signal.hierarchy.node_slices[name]
        if start <= nodes.min() and nodes.max() < stop:
            x = signal[name].x.detach().cpu().float()
            return x[torch.from_numpy(nodes - start)]
    return None


def _format(
    x: Tensor, signal: NestedSignal, order: TreeOrder, root: int, rows: int
) -> tuple[int, int]:
    """Channels and side of patches; (0, 0) if their features are no pixels."""
    if not bool(((x >= 0) & (x <= 1)).all()):
        return 0, 0
    shape = _of_root(signal, order, root, "patch_shape")
    if shape is not None and shape.tolist()[1:] == [int(shape[1])] * 2:
        return int(shape[0]), int(shape[1])
    fits = []
    for channels in (3, 1, 4):
        side = math.isqrt(x.size(1) // channels)
        if side > 0 and channels * side * side == x.size(1):
            fits.append((channels, side))
    # A grey patch of 2p x 2p has as many numbers as one of p x p with alpha.
    size = _of_root(signal, order, root, "size")
    told = [fit for fit in fits if size is not None and -(-size[0] // fit[1]) == rows]
    return (told or fits or [(0, 0)])[0]


def _of_root(
    signal: NestedSignal, order: TreeOrder, root: int, attribute: str
) -> Tensor | None:
    """An attribute [n, ...] of the node that a picture hangs from."""
    node = int(order.node[root])
    for name, (start, stop) in signal.hierarchy.node_slices.items():
        value = signal[name].get(attribute)
        if start <= node < stop and isinstance(value, Tensor) and value.dim() == 2:
            return value[node - start].cpu()
    return None
