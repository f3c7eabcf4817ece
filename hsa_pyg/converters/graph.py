"""Graphs to signals: graph > community > ... > community > vertex."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from hsa_pyg.converters.communities import CommunityTree, community_tree
from hsa_pyg.converters.graph_columns import (
    GraphColumns,
    Level,
    read_data,
    refuse_mangled_names,
    store_attributes,
)
from hsa_pyg.converters.labels import Label
from hsa_pyg.converters.networkx_graph import read_networkx
from hsa_pyg.converters.partition import Method, Partition
from hsa_pyg.data import NestedSignal
from hsa_pyg.hierarchy import CHILD_OF

GRAPH, COMMUNITY, VERTEX = "graph", "community", "vertex"
EDGE = (VERTEX, "to", VERTEX)

EDGE_WEIGHT = "edge_weight"

_FLOATS = (torch.float, torch.double, torch.half, torch.bfloat16)

Features = Literal["ones", "degree"] | Sequence[str] | None


def from_graph(
    graph: Any,
    method: Method = "leiden",
    *,
    max_family: int = 64,
    branching: int | None = None,
    seed: int = 0,
    features: Features = "degree",
    weight: str | None = EDGE_WEIGHT,
    rename: Mapping[str, str | None] | None = None,
    levels: Mapping[str, Level] | None = None,
    y: Label | None = None,
) -> NestedSignal:
    r"""Arrange the vertices of a graph in communities of communities.

    The signal has the node types ``graph`` (the root), ``community`` and ``vertex``:

    - ``vertex.x``: the features, or token ids, of the graph; all other attributes of
      the vertices too, in their order. ``pos`` is kept as ``coord``;
    - ``("vertex", "to", "vertex")``: all edges in their order, with their attributes;
    - attributes of the whole graph on the signal itself.

    Vertices and communities are children of a community or, in a small graph, of the
    root. No family is larger than ``max_family``; a community has two children at
    least. Communities are found on the undirected graph without loops, parallel edges
    added up. Vertices without edges are gathered in a community of their own.

    Of a networkx graph, its attributes are kept where all nodes (edges) have them and
    they are numeric; one warning names the others. Its edge attribute ``weight``
    becomes ``edge_weight``, and an undirected edge one in each direction, as in PyG;
    ``vertex.name`` holds its node labels: strings as they are, the ``repr`` of others.

    Args:
        graph: A :class:`~torch_geometric.data.Data`, or a Graph, DiGraph, MultiGraph or
            MultiDiGraph of networkx with any nodes.
        method: ``"leiden"`` or ``"louvain"`` (modularity), ``"metis"`` (few levels of
            even families, few edges cut), ``"bisection"`` (halves, or ``branching``
            parts, whose sizes differ by one at most, until they fit in
            ``max_family``); or a callable ``(edge_index, num_nodes, seed)`` that gives
            the community of each node, ``[num_nodes]`` integers, of this graph and of
            the graphs of communities and inside of them where families are too large.
            ``"louvain"`` is slow on large graphs without clear communities.
        max_family: Largest number of children of a node; attention costs its square.
        branching: Number of parts for ``"metis"`` and ``"bisection"``. By default 2 for
            bisection and, for METIS, what gives the fewest levels.
        seed: Seed of the method. Equal graphs and seeds give equal signals; global
            generators stay as they are (that of igraph is reset to its default, the
            module ``random``).
        features: ``vertex.x`` of a graph without: ``"degree"``, the number of
            neighbours, or ``"ones"``, which tell no graph from another, as attention is
            a mean; both ``[n, 1]`` float. None raises an error. Or names of attributes
            of the vertices, as the graph has them, which are joined and moved to ``x``.
        weight: Edge attribute that weighs the edges in the search for communities; None
            takes all edges alike.
        rename: New names of attributes, which batching demands of names that PyG gives
            a meaning of its own (``residue_index``); None leaves an attribute out.
        levels: ``"vertex"``, ``"edge"`` or ``"graph"`` for attributes of a Data.
            By default names tell (``x``, ``*_mask``, ``edge_*``), then the number of
            rows if it is more than one.
        y: A label of the whole graph.

    Raises:
        TypeError: If ``graph`` is of another kind; it names the remedy.
        ValueError: If the graph has no vertex, an attribute does not fit or has a name
            that PyG would mangle, weights are negative, or a setting is out of range.
        ImportError: If the library of the method is missing.

    Shapes:
        - ``vertex.x``: ``[num_vertices, F]``, or ``[num_vertices]`` ids

    .. code-block:: python

        >>> import networkx as nx
        >>> signal = from_graph(nx.barbell_graph(5, 0), features="degree")
        >>> signal["vertex", "child_of", "community"].edge_index[1]
        tensor([0, 0, 0, 0, 0, 1, 1, 1, 1, 1])
        >>> signal["vertex"].x.view(-1)
        tensor([4., 4., 4., 4., 5., 5., 4., 4., 4., 4.])
    """
    partition = Partition(method, max_family, branching, seed)
    if hasattr(graph, "adj") and hasattr(graph, "is_multigraph"):
        columns = read_networkx(graph)
    else:
        columns = read_data(graph, levels or {})
    if columns.num_nodes == 0:
        raise ValueError(
            "the graph has no vertex, so its tree would have no leaf; leave it out"
        )
    if columns.dropped:
        warnings.warn(
            f"left out of the signal: {'; '.join(columns.dropped)}", stacklevel=2
        )
    strength = _weight(columns, weight)
    if features is not None and not isinstance(features, str):
        # By the names that the graph has, so before they change.
        columns.vertex = _joined(columns, list(features))
        features = None
    columns.rename(rename or {})
    _set_features(columns, features)
    if y is not None:
        columns.set_label(y)
    tree = community_tree(columns.edge_index, columns.num_nodes, strength, partition)
    return _signal(columns, tree)


def _weight(columns: GraphColumns, name: str | None) -> Tensor | None:
    if name is None or (name == EDGE_WEIGHT and name not in columns.edge):
        return None
    if name not in columns.edge:
        raise ValueError(
            f"weight={name!r} is no attribute of the edges, which have "
            f"{sorted(columns.edge)}; name one of them, or None"
        )
    value = columns.edge[name]
    if (
        not isinstance(value, Tensor)
        or value.numel() != columns.edge_index.size(1)
        or value.is_complex()
    ):
        raise ValueError(
            f"weight={name!r} must hold one number an edge; name another attribute, or "
            "weight=None to take all edges alike"
        )
    value = value.view(-1)
    wrong = (~(value >= 0) | ~value.isfinite()).nonzero()
    if len(wrong):
        raise ValueError(
            f"edge {int(wrong[0])} has the weight {float(value[wrong[0]])} in "
            f"{name!r}: communities need finite weights that are not negative; pass "
            "weight=None to take all edges alike"
        )
    return value


def _set_features(columns: GraphColumns, features: str | None) -> None:
    vertex = columns.vertex
    if features not in ("ones", "degree", None):
        raise ValueError(
            f"features={features!r} is not known: use 'ones', 'degree', None, or a "
            "list of names of attributes of the vertices"
        )
    if "x" in vertex:
        x = vertex["x"]
        if x.dim() == 1 and x.dtype in (torch.bool, *_FLOATS):
            vertex["x"] = x.view(-1, 1)
        return
    if features is None:
        raise ValueError(
            "the vertices have no features 'x': pass features='ones', 'degree', or a "
            f"list of attributes; they have {sorted(vertex)}"
        )
    if features == "ones":
        x = torch.ones(columns.num_nodes, 1)
    else:
        row, col = columns.edge_index.cpu().numpy()
        pair = np.stack([np.minimum(row, col), np.maximum(row, col)])[:, row != col]
        ends = np.unique(pair, axis=1).reshape(-1)
        count = np.bincount(ends, minlength=columns.num_nodes)
        x = torch.from_numpy(count).to(torch.float).view(-1, 1)
    # First, where users look for it.
    columns.vertex = {"x": x.to(columns.edge_index.device), **vertex}


def _joined(columns: GraphColumns, names: list[str]) -> dict[str, Any]:
    vertex = columns.vertex
    for name in names:
        if not isinstance(vertex.get(name), Tensor):
            raise ValueError(
                f"features names {name!r}, which is no numeric attribute of all "
                f"vertices; they have {sorted(vertex)}"
            )
    if not names or ("x" in vertex and "x" not in names):
        raise ValueError(
            f"features={names!r} would replace the features 'x' of the graph, or leave "
            "none: name 'x' too, or leave features away"
        )
    parts = [vertex[name].to(torch.float) for name in names]
    rest = {name: value for name, value in vertex.items() if name not in names}
    return {"x": torch.cat([part.reshape(len(part), -1) for part in parts], 1), **rest}


def _signal(columns: GraphColumns, tree: CommunityTree) -> NestedSignal:
    signal = NestedSignal()
    device = columns.edge_index.device
    signal[GRAPH].num_nodes = 1
    signal[COMMUNITY].num_nodes = len(tree.community_parent)
    store_attributes(signal[VERTEX], columns.vertex, VERTEX)
    # All of them also where they are empty: the graphs of a data set share a schema.
    for child, parent in (
        (COMMUNITY, tree.community_parent),
        (VERTEX, tree.vertex_parent),
    ):
        for kind, chosen in ((GRAPH, parent < 0), (COMMUNITY, parent >= 0)):
            nodes = chosen.nonzero().view(-1)
            above = parent[nodes].clamp(min=0)
            edge = torch.stack([nodes, above]).to(device)
            signal[child, CHILD_OF, kind].edge_index = edge
    signal[EDGE].edge_index = columns.edge_index
    store_attributes(signal[EDGE], columns.edge, "edge")
    store_attributes(signal._global_store, columns.graph, GRAPH, type(signal))
    refuse_mangled_names(signal)
    return signal
