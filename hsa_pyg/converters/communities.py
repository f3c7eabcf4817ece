"""Hierarchical communities: a graph > community > ... > community > vertex."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hsa_pyg.converters.partition import (
    Partition,
    WeightedGraph,
    chunks,
)

ROOT = -1

# A cut that leaves more than this share in one group, or makes more groups than this
# share of the nodes, hardly divides anything.
_HARDLY = 0.9
# So many of them in a row are allowed: a large and a tiny component are a fair cut.
_PATIENCE = 3


@dataclass(frozen=True)
class CommunityTree:
    """A tree over the vertices of a graph.

    Args:
        vertex_parent: community of each vertex, ``[num_vertices]`` long; -1 for a
            child of the root.
        community_parent: community that each community lies in, ``[num_communities]``
            long; -1 for a child of the root. Communities are numbered from the root
            down, those at one depth by their first vertex.
    """

    vertex_parent: Tensor
    community_parent: Tensor


def community_tree(
    edge_index: Tensor, num_nodes: int, weight: Tensor | None, partition: Partition
) -> CommunityTree:
    """Arrange the vertices of a graph in communities of communities.

    The whole graph is cut into communities. As long as they are too many for one
    family, the graph whose nodes they are, without the edges inside of them, is cut in
    turn; a community with too many members is cut into communities of its own. Where
    a method cannot divide (no edges, a star, a clique), neighbouring numbers go
    together, in chunks of even size. A community of one is left out: its only member
    takes its place.

    Args:
        edge_index: edges, ``[2, num_edges]`` long, in both directions or one.
        num_nodes: number of vertices.
        weight: weight of each edge, ``[num_edges]``, not negative; or None.
        partition: how to cut, and the largest family.

    Returns:
        The tree. No family, the root's included, exceeds ``partition.max_family``.

    .. code-block:: python

        >>> import torch
        >>> path = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
        >>> tree = community_tree(path, 6, None, Partition("metis", branching=2))
        >>> tree.vertex_parent
        tensor([0, 0, 0, 1, 1, 1])
        >>> tree.community_parent
        tensor([-1, -1])
    """
    row, col = edge_index.cpu().numpy()
    strength = np.ones(len(row))
    if weight is not None:
        strength = weight.detach().cpu().to(torch.float64).numpy()
    graph = WeightedGraph.of(row, col, strength, num_nodes)
    return _number(_without_chains(_divide(graph, partition), num_nodes), num_nodes)


def _divide(graph: WeightedGraph, partition: Partition) -> np.ndarray:
    """Parent of each vertex and then of each community, in the order they are found."""
    limit = partition.max_family
    parent = [ROOT] * graph.num_nodes
    todo = [(ROOT, np.arange(graph.num_nodes), graph, True, 0)]
    while todo:
        node, members, graph, whole, vain = todo.pop()
        fits = len(members) <= limit
        groups = None
        if not fits or whole:
            groups = partition(graph, whole) if vain < _PATIENCE else None
            groups = _useful(groups, fits)
        if groups is None and fits:
            for member in members.tolist():
                parent[member] = node
            continue
        if groups is None:
            groups = chunks(len(members), partition.num_parts(len(members)))
        number = int(groups.max()) + 1
        largest = np.bincount(groups).max()
        first = len(parent)
        parent.extend([node] * number)
        if number > limit:
            top = np.arange(first, first + number)
            todo.append((node, top, graph.contract(groups, number), True, vain))
        vain = vain + 1 if largest > _HARDLY * len(members) else 0
        for group, (inside, piece) in enumerate(graph.pieces(groups, number)):
            todo.append((first + group, members[inside], piece, False, vain))
    return np.asarray(parent)


def _useful(groups: np.ndarray | None, fits: bool) -> np.ndarray | None:
    """The groups, or None if they divide nothing."""
    if groups is None:
        return None
    number = int(groups.max()) + 1
    most = len(groups) - 1 if fits else _HARDLY * len(groups)
    return groups if 1 < number <= most else None


def _without_chains(parent: np.ndarray, num_vertices: int) -> np.ndarray:
    """Take out the communities with one child; they keep their number and get -2."""
    community = np.arange(num_vertices, len(parent))
    children = np.bincount(parent[parent >= 0], minlength=len(parent))
    alone = np.zeros(len(parent), dtype=bool)
    alone[community] = children[community] == 1
    # Their children move up; the root has two at least, since no cut makes one group.
    over = (parent >= 0) & alone[parent]
    while over.any():
        parent = np.where(over, parent[parent], parent)
        over = (parent >= 0) & alone[parent]
    parent[alone] = -2
    return parent


def _number(parent: np.ndarray, num_vertices: int) -> CommunityTree:
    """Number the communities from the root down."""
    kept = np.flatnonzero(parent[num_vertices:] != -2) + num_vertices
    depth = np.zeros(len(parent), dtype=np.int64)
    above = parent.copy()
    while (above >= 0).any():
        depth += above >= 0
        above = np.where(above >= 0, parent[above], ROOT)
    first = np.full(len(parent), num_vertices)
    placed = np.flatnonzero(parent[:num_vertices] >= 0)
    np.minimum.at(first, parent[placed], placed)
    for level in range(int(depth[kept].max(initial=0)), 0, -1):
        here = kept[depth[kept] == level]
        np.minimum.at(first, parent[here], first[here])
    order = kept[np.lexsort((first[kept], depth[kept]))]
    number = np.full(len(parent) + 1, ROOT)
    number[order] = np.arange(len(order))
    # The last entry is what -1 looks up: the root stays -1.
    return CommunityTree(
        torch.from_numpy(number[parent[:num_vertices]]),
        torch.from_numpy(number[parent[order]]),
    )
