"""Ways to cut a graph into communities: Leiden, Louvain, METIS, bisection, your own."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

Membership = np.ndarray
Method = (
    Literal["leiden", "louvain", "metis", "bisection"]
    | Callable[[Tensor, int, int], Tensor]
)
METHODS = ("leiden", "louvain", "metis", "bisection")

# Weights that METIS is given are integers up to this, so that their sums fit its ints.
_METIS_SCALE = 1000
# igraph has one random generator for the whole process.
_igraph_lock = threading.Lock()


@dataclass(frozen=True)
class WeightedGraph:
    """An undirected graph without loops: every pair of neighbours once, row < col.

    Args:
        num_nodes: number of nodes.
        row: first node of each edge, ``[num_edges]``.
        col: second node of each edge, ``[num_edges]``.
        weight: weight of each edge, ``[num_edges]``, positive.
    """

    num_nodes: int
    row: np.ndarray
    col: np.ndarray
    weight: np.ndarray

    @classmethod
    def of(
        cls, row: np.ndarray, col: np.ndarray, weight: np.ndarray, num_nodes: int
    ) -> WeightedGraph:
        """Leave out directions, loops and edges of weight 0; add up parallel edges."""
        kept = (row != col) & (weight > 0)
        pair = (np.minimum(row, col) * num_nodes + np.maximum(row, col))[kept]
        pair, place = np.unique(pair, return_inverse=True)
        total = np.bincount(place.reshape(-1), weight[kept], minlength=len(pair))
        return cls(num_nodes, pair // num_nodes, pair % num_nodes, total)

    @property
    def connected(self) -> np.ndarray:
        """Whether each node has a neighbour, ``[num_nodes]``."""
        mask = np.zeros(self.num_nodes, dtype=bool)
        mask[self.row] = mask[self.col] = True
        return mask

    def contract(self, membership: Membership, num_groups: int) -> WeightedGraph:
        """The graph of the groups; what is inside of a group plays no part in it."""
        return WeightedGraph.of(
            membership[self.row], membership[self.col], self.weight, num_groups
        )

    def pieces(
        self, membership: Membership, num_groups: int
    ) -> list[tuple[np.ndarray, WeightedGraph]]:
        """The members of each group, ascending, and the graph among them."""
        order = np.argsort(membership, kind="stable")
        bounds = np.searchsorted(membership[order], np.arange(num_groups + 1))
        place = np.empty_like(order)
        place[order] = np.arange(len(order)) - bounds[membership[order]]
        inside = np.flatnonzero(membership[self.row] == membership[self.col])
        group = membership[self.row[inside]]
        inside = inside[np.argsort(group, kind="stable")]
        cuts = np.searchsorted(np.sort(group), np.arange(num_groups + 1))
        out = []
        for number in range(num_groups):
            nodes = order[bounds[number] : bounds[number + 1]]
            edges = inside[cuts[number] : cuts[number + 1]]
            row, col = place[self.row[edges]], place[self.col[edges]]
            out.append((nodes, WeightedGraph(len(nodes), row, col, self.weight[edges])))
        return out


@dataclass(frozen=True)
class Partition:
    """Cuts a graph into groups by one method, always with the same settings.

    Args:
        method: as in :func:`~hsa_pyg.converters.from_graph`.
        max_family: the largest number of children of a node; METIS makes so many parts
            that a tree of few levels results.
        branching: number of parts of ``"metis"`` and ``"bisection"``.
        seed: every cut starts from this seed, so none depends on an earlier one.

    Raises:
        ValueError: if a setting is out of range or the method is not known.
        TypeError: if the method is neither a name nor callable.
    """

    method: Method = "leiden"
    max_family: int = 64
    branching: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not callable(self.method) and not isinstance(self.method, str):
            raise TypeError(
                f"method must be one of {METHODS} or a callable (edge_index, "
                f"num_nodes, seed) -> membership, got a {type(self.method).__name__}"
            )
        if isinstance(self.method, str) and self.method not in METHODS:
            raise ValueError(
                f"method={self.method!r} is not known: use one of {METHODS}, or a "
                "callable (edge_index, num_nodes, seed) -> membership"
            )
        _check_integer("max_family", self.max_family, 2)
        _check_integer("seed", self.seed, 0)
        if self.branching is None:
            return
        if self.method not in ("metis", "bisection"):
            raise ValueError(
                f"branching={self.branching!r} sets the number of parts of the methods "
                f"'metis' and 'bisection'; {self.method!r} finds it by itself"
            )
        _check_integer("branching", self.branching, 2)
        if self.branching > self.max_family:
            raise ValueError(
                f"branching={self.branching} exceeds max_family={self.max_family}: a "
                "cut would make a family that is too large; raise max_family"
            )

    def __call__(self, graph: WeightedGraph, whole: bool) -> Membership | None:
        """Cut a graph.

        Args:
            graph: the graph.
            whole: whether this is a whole graph, and not a part of a community. Its
                isolated nodes become one group, and the methods look at the others.

        Returns:
            The group of each node, ``[num_nodes]``, numbered without gaps; None if a
            graph has no edge to go by.
        """
        if len(graph.row) == 0 and not callable(self.method):
            return None
        connected = graph.connected
        if callable(self.method) or connected.all() or not whole:
            return self._cut(graph)
        _, core = graph.pieces(1 - connected.astype(np.int64), 2)[0]
        membership = np.zeros(graph.num_nodes, dtype=np.int64)
        membership[connected] = 1 + self._cut(core)
        return membership

    def num_parts(self, num_nodes: int, slack: float = 1.0) -> int:
        """Number of parts for a cut that the graph itself does not tell.

        Args:
            num_nodes: number of nodes of the graph, above ``max_family``.
            slack: how much larger than the mean a part may come out.
        """
        if self.method == "bisection" or self.branching is not None:
            return min(self.branching or 2, num_nodes)
        return even_parts(num_nodes, self.max_family, slack)

    def _cut(self, graph: WeightedGraph) -> Membership:
        if callable(self.method):
            groups = _by_callable(graph, self.method, self.seed)
        elif self.method == "leiden":
            groups = _by_igraph(
                graph, "community_leiden", self.seed, objective_function="modularity"
            )
        elif self.method == "louvain":
            groups = _by_igraph(graph, "community_multilevel", self.seed)
        else:
            # METIS lets a part exceed the mean by a few percent.
            parts = self.num_parts(graph.num_nodes, slack=1.05)
            exact = self.method == "bisection"
            groups = _by_metis(graph, parts, self.seed, exact)
        return np.unique(groups, return_inverse=True)[1].reshape(-1).astype(np.int64)


def even_parts(num_nodes: int, max_family: int, slack: float = 1.0) -> int:
    """Number of parts to cut a set in, so that a tree of few, even levels results.

    Args:
        num_nodes: size of the set.
        max_family: largest number of children that a node of the tree may have.
        slack: how much larger than the mean a part may come out.
    """
    levels = 1
    while max_family**levels < num_nodes * slack:
        levels += 1
    parts = 2
    while parts**levels < num_nodes * slack and parts < max_family:
        parts += 1
    return min(parts, num_nodes)


def chunks(num_nodes: int, num_parts: int) -> Membership:
    """Groups of neighbouring numbers whose sizes differ by one at most."""
    return np.arange(num_nodes) * num_parts // num_nodes


def _by_igraph(graph: WeightedGraph, call: str, seed: int, **options: Any) -> Any:
    try:
        import igraph
    except ImportError as error:
        raise ImportError(
            'Communities need igraph: pip install "hsa-pyg[graph]".'
        ) from error
    network = igraph.Graph(
        n=graph.num_nodes, edges=np.stack([graph.row, graph.col], axis=1)
    )
    with _igraph_lock:
        igraph.set_random_number_generator(random.Random(seed))
        try:
            found = getattr(network, call)(weights=graph.weight.tolist(), **options)
        finally:
            # What igraph starts with; it does not tell which one was set.
            igraph.set_random_number_generator(random)
    return np.asarray(found.membership)


def _by_metis(graph: WeightedGraph, num_parts: int, seed: int, exact: bool) -> Any:
    try:
        import pymetis
    except ImportError as error:
        raise ImportError(
            'METIS partitions need pymetis: pip install "hsa-pyg[graph]".'
        ) from error
    num_parts = min(num_parts, graph.num_nodes)
    row = np.concatenate([graph.row, graph.col])
    col = np.concatenate([graph.col, graph.row])
    order = np.lexsort((col, row))
    starts = np.searchsorted(row[order], np.arange(graph.num_nodes + 1))
    weight = graph.weight / graph.weight.max()
    scaled = np.maximum(1, np.rint(weight * _METIS_SCALE)).astype(np.int64)
    _, part = pymetis.part_graph(
        num_parts,
        pymetis.CSRAdjacency(starts, col[order]),
        eweights=None if (weight == 1).all() else np.tile(scaled, 2)[order],
        recursive=exact or num_parts <= 8,
        options=pymetis.Options(seed=seed % 2**31),
    )
    membership = np.asarray(part, dtype=np.int64)
    return _even_out(graph, membership, num_parts) if exact else membership


def _even_out(graph: WeightedGraph, part: Membership, num_parts: int) -> Membership:
    """Move the least attached nodes until the sizes differ by one at most.

    METIS balances within a tolerance, which a small graph feels.
    """
    same = part[graph.row] == part[graph.col]
    ends = np.concatenate([graph.row[same], graph.col[same]])
    held = np.bincount(ends, np.tile(graph.weight[same], 2), minlength=graph.num_nodes)
    sizes = np.bincount(part, minlength=num_parts)
    room = np.full(num_parts, graph.num_nodes // num_parts)
    room[np.argsort(-sizes, kind="stable")[: graph.num_nodes % num_parts]] += 1
    order = np.lexsort((-held, part))
    rank = np.arange(graph.num_nodes) - np.searchsorted(part[order], part[order])
    moved = order[rank >= room[part[order]]]
    out = part.copy()
    out[moved] = np.repeat(np.arange(num_parts), np.maximum(room - sizes, 0))
    return out


def _by_callable(
    graph: WeightedGraph, method: Callable[[Tensor, int, int], Tensor], seed: int
) -> Any:
    edges = np.stack([graph.row, graph.col])
    edge_index = torch.from_numpy(np.concatenate([edges, edges[::-1]], axis=1))
    membership = method(edge_index, graph.num_nodes, seed)
    try:
        given = torch.as_tensor(membership)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"the method gave a {type(membership).__name__} that is no tensor of "
            f"integers ({error}): it must give every node the number of its community"
        ) from error
    if (
        given.shape != (graph.num_nodes,)
        or given.is_floating_point()
        or given.is_complex()
    ):
        raise ValueError(
            f"the method gave a membership of {given.dtype} in the shape "
            f"{list(given.shape)} for {graph.num_nodes} nodes: it must give every node "
            f"the number of its community, integers in the shape [{graph.num_nodes}]"
        )
    return given.detach().cpu().numpy()


def _check_integer(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
