"""Other trees over the same leaves, to tell what the own tree is good for."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from hsa_pyg.cli import SettingsError
from hsa_pyg.data import Feature, NestedSignal, Schema
from hsa_pyg.experiments.learning.settings import LearningSettings
from hsa_pyg.hierarchy import CHILD_OF

ROOT, NODE = "tree", "node"
_TOP = -1
_PLACE = {"pos": Feature((1,), torch.float)}

Ints = NDArray[np.int64]


def renest(
    signals: Sequence[NestedSignal], schema: Schema, settings: LearningSettings
) -> tuple[Sequence[NestedSignal], Schema]:
    """The signals with the tree that the settings ask for, and their schema.

    But for the own and the random tree, the nodes are of the types ``tree`` (the root),
    ``node`` and that of the leaves; ``pos`` is the place among the siblings, in the
    order of the leaves.

    Args:
        signals: Signals with leaves of one type, in reading order.
        schema: Their schema.
        settings: Complete ones.

    Raises:
        SettingsError: if there are leaves of several types.
    """
    changed = settings.tree in ("windows", "flat") or settings.depth or settings.group
    if settings.tree != "random" and not changed:
        return signals, schema
    if len(schema.leaf_types) != 1:
        raise SettingsError(
            f"The leaves are of the types {schema.leaf_types}; another tree than the "
            "own one takes leaves of one type."
        )
    (leaf,) = schema.leaf_types
    if settings.tree == "random":
        return [
            _permuted(signal, leaf, number) for number, signal in enumerate(signals)
        ], schema
    other = _schema(schema, leaf)
    return [
        _built(signal, leaf, other, *_parents(signal, settings)) for signal in signals
    ], other


def _permuted(signal: NestedSignal, leaf: str, number: int) -> NestedSignal:
    """The leaves at places that are drawn, the same in every run."""
    out = copy.copy(signal)
    x = signal[leaf].x
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(number))
    out[leaf].x = x[order]
    return out


def _schema(schema: Schema, leaf: str) -> Schema:
    return Schema(
        nodes={ROOT: {}, NODE: _PLACE, leaf: {"x": schema.nodes[leaf]["x"], **_PLACE}},
        edges=[
            (child, CHILD_OF, top) for child in (NODE, leaf) for top in (ROOT, NODE)
        ],
        graph={"y": schema.graph["y"]} if "y" in schema.graph else {},
    )


def _parents(signal: NestedSignal, settings: LearningSettings) -> tuple[Ints, Ints]:
    """Parent of each leaf and of each inner node among these; -1 is the root."""
    if settings.tree == "own":
        above, parents = _kept(signal, settings.depth or 0)
        if settings.group:
            parents = _grouped(above, parents, settings.group)
        return above, parents
    (leaf,) = signal.hierarchy.leaf_slices
    number = len(signal[leaf].x)
    widths = settings.windows if settings.tree == "windows" else []
    above, parents = np.full(number, _TOP), np.zeros(0, dtype=np.int64)
    # From the bottom up: the last made nodes are put into the next wider windows.
    level, first = np.arange(number), 0
    for depth, width in enumerate(widths):
        place = np.arange(len(level)) // width
        if depth == 0:
            above = place
        else:
            parents[first:] = len(parents) + place
            first += len(level)
        level = np.arange(place[-1] + 1)
        parents = np.concatenate([parents, np.full(len(level), _TOP)])
    return above, parents


def _kept(signal: NestedSignal, depth: int) -> tuple[Ints, Ints]:
    """The own tree above a depth."""
    hierarchy = signal.hierarchy
    parent, level = hierarchy.parent.numpy(), hierarchy.depth.numpy()
    leaves = hierarchy.leaves.numpy()
    inner = np.ones(len(parent), dtype=bool)
    inner[leaves] = False
    inner &= level > 0
    if depth:
        inner &= level < depth
    number = np.cumsum(inner) - 1
    # The nearest node above that is kept; the root is not numbered.
    nearest = np.where(inner, number, _TOP)
    above = parent.copy()
    for _ in range(int(level.max(initial=0))):
        skip = (above >= 0) & ~inner[above] & (parent[above] >= 0)
        if not skip.any():
            break
        above = np.where(skip, parent[above], above)
    found = np.where(above >= 0, nearest[above], _TOP)
    return found[leaves], found[inner]


def _grouped(above: Ints, parents: Ints, size: int) -> Ints:
    """Inner nodes put under new ones, where more than ``size`` are below one node."""
    first = _first_leaf(above, parents)
    out = parents.copy()
    new: list[int] = []
    for top in np.unique(parents):
        children = np.flatnonzero(parents == top)
        if len(children) <= size:
            continue
        children = children[np.argsort(first[children], kind="stable")]
        out[children] = len(parents) + len(new) + np.arange(len(children)) // size
        new += [top] * -(-len(children) // size)
    return np.concatenate([out, np.array(new, dtype=np.int64)])


def _first_leaf(above: Ints, parents: Ints) -> Ints:
    """The first leaf below each inner node; the number of leaves if there is none."""
    first = np.full(len(parents), len(above))
    rows = np.flatnonzero(above >= 0)
    np.minimum.at(first, above[rows], rows)
    below = np.flatnonzero(parents >= 0)
    while True:
        before = first.copy()
        np.minimum.at(first, parents[below], first[below])
        if np.array_equal(first, before):
            return first


def _built(
    signal: NestedSignal, leaf: str, schema: Schema, above: Ints, parents: Ints
) -> NestedSignal:
    """The signal of these parents, without inner nodes that have no leaf below."""
    first = _first_leaf(above, parents)
    full = first < len(above)
    number = np.append(np.cumsum(full) - 1, _TOP)
    above, parents, first = number[above], number[parents[full]], first[full]
    out = NestedSignal(schema=schema)
    out[ROOT].num_nodes = 1
    out[NODE].num_nodes = len(parents)
    out[leaf].x = signal[leaf].x
    key = np.concatenate([np.arange(len(above)), first])
    # Of nodes that begin with one leaf, the higher one is never a sibling.
    parent = np.concatenate([above, parents])
    order = np.lexsort((key, parent))
    opens = np.flatnonzero(np.diff(parent[order], prepend=_TOP - 1))
    sizes = np.diff(opens, append=len(order))
    place = np.empty((len(order), 1), dtype=np.float32)
    place[order, 0] = np.arange(len(order)) - np.repeat(opens, sizes)
    out[leaf].pos = torch.from_numpy(place[: len(above)])
    out[NODE].pos = torch.from_numpy(place[len(above) :])
    for child, tops in ((leaf, above), (NODE, parents)):
        for kind, here in ((ROOT, tops < 0), (NODE, tops >= 0)):
            children = np.flatnonzero(here)
            edge = np.stack([children, np.maximum(tops[children], 0)])
            out[child, CHILD_OF, kind].edge_index = torch.from_numpy(edge)
    if "y" in signal:
        out.y = signal.y
    return out
