"""What a graph of PyG holds: edges, and attributes by what they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.data import Batch, Data, HeteroData

from hsa_pyg.converters.labels import Label, label_tensor
from hsa_pyg.data import NestedSignal
from hsa_pyg.data.validation import hiding_names, mangled_names

#: Under this name a vertex keeps its ``pos``: in a signal, ``pos`` is the place in the
#: parent.
COORDINATES = "coord"

Level = Literal["vertex", "edge", "graph"]
LEVELS = ("vertex", "edge", "graph")

# Names that PyG and its data sets give to attributes of vertices and edges.
_OF_VERTICES = {"x", "pos", "z", "feat", "node_type", "n_id"}
_OF_EDGES = {"e_id", "edge_label_index"}
_NODES = ("vertex", "atom")
_OF_EDGE_LISTS = ("edge_label", "edge_label_index")


@dataclass
class GraphColumns:
    """A graph: its edges, and the attributes of vertices, edges and the whole graph.

    Args:
        num_nodes: number of vertices.
        edge_index: ``[2, num_edges]`` long.
        vertex: attributes with one row a vertex.
        edge: attributes with one row an edge.
        graph: attributes of the whole graph.
        dropped: what was left out and why, for a warning.
    """

    num_nodes: int
    edge_index: Tensor
    vertex: dict[str, Any] = field(default_factory=dict)
    edge: dict[str, Any] = field(default_factory=dict)
    graph: dict[str, Any] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)

    def rename(self, names: Mapping[str, str | None]) -> None:
        """Rename attributes; None leaves one out. ``pos`` of vertices is now ``coord``.

        Raises:
            ValueError: if there is no such attribute, or its new name is taken.
        """
        every = (self.vertex, self.edge, self.graph)
        found = {name for level in every for name in level}
        unknown = sorted(set(names) - found)
        if unknown:
            raise ValueError(
                f"rename names the attribute {unknown[0]!r}, which the graph lacks; it "
                f"has {sorted(found)}"
            )
        for level in every:
            of_space = {"pos": COORDINATES} if level is self.vertex else {}
            old = dict(level)
            level.clear()
            for name, value in old.items():
                new = {**of_space, **names}.get(name, name)
                if new is None:
                    continue
                if new in level or (new != name and new in old):
                    raise ValueError(
                        f"attribute {name!r} would be kept as {new!r}, which is taken: "
                        f'choose another name by rename={{{name!r}: "..."}}'
                    )
                level[new] = value

    def set_label(self, y: Label) -> None:
        """Set the label of the whole graph.

        Raises:
            ValueError: if it has one.
            TypeError: if the label is neither a number nor a tensor.
        """
        if "y" in self.graph:
            raise ValueError(
                "the graph has a label 'y' already: leave y= away, or drop the other "
                'by rename={"y": None}'
            )
        label = label_tensor(y, "a graph")
        self.graph["y"] = label.view(1) if label.dim() == 0 else label

    def level(self, name: str) -> dict[str, Any]:
        """The attributes of a level."""
        return {"vertex": self.vertex, "edge": self.edge, "graph": self.graph}[name]


def read_data(graph: Any, levels: Mapping[str, Level]) -> GraphColumns:
    """Read a graph of PyG.

    Args:
        graph: a PyG Data.
        levels: what its attributes belong to, where sizes mislead.

    Raises:
        TypeError: if it is something else; it names the remedy.
        ValueError: if edges or rows do not fit.
    """
    if isinstance(graph, NestedSignal):
        raise TypeError(
            f"a {type(graph).__name__} is a nested signal already: call from_graph, or "
            "the transform ToHierarchy, once on each graph (as pre_transform or as "
            "transform, not as both)"
        )
    if isinstance(graph, Batch):
        raise TypeError(
            f"a batch of {graph.num_graphs} graphs has no single root: convert the "
            "graphs one by one, [from_graph(data) for data in batch.to_data_list()]"
        )
    if isinstance(graph, HeteroData):
        raise TypeError(
            f"a {type(graph).__name__} has vertices of several types, and from_graph "
            "makes communities of one: pass data.to_homogeneous()"
        )
    if not isinstance(graph, Data):
        raise TypeError(
            "from_graph takes a torch_geometric.data.Data or a graph of networkx, got "
            f"a {type(graph).__name__}"
        )
    return _read_data(graph, levels)


def _read_data(data: Data, levels: Mapping[str, Level]) -> GraphColumns:
    if "edge_index" not in data and any(key in data for key in ("adj", "adj_t")):
        raise ValueError(
            "the graph holds its edges as a sparse matrix: convert it before "
            "T.ToSparseTensor(), or leave that transform out"
        )
    num_nodes = int(data.num_nodes or 0)
    out = GraphColumns(num_nodes, _edges(data.get("edge_index"), num_nodes))
    unknown = sorted(set(levels) - set(data.keys()))
    if unknown:
        raise ValueError(
            f"levels names the attribute {unknown[0]!r}, which the graph lacks; it has "
            f"{sorted(data.keys())}"
        )
    sizes = {"vertex": num_nodes, "edge": out.edge_index.size(1)}
    for name, value in data.to_dict().items():
        if name in ("edge_index", "num_nodes"):
            continue
        if isinstance(value, np.ndarray):
            value = torch.from_numpy(value.copy())
        if not isinstance(value, Tensor) and hasattr(value, "sparse_sizes"):
            value = value.to_torch_sparse_coo_tensor()
        if isinstance(value, Tensor) and value.layout != torch.strided:
            raise ValueError(
                f"{name!r} is a sparse tensor, which batches and layers cannot take "
                "apart by vertices; pass it through .to_dense()"
            )
        level = levels.get(name) or _guess_level(name, value, sizes)
        _check_rows(name, value, level, sizes)
        out.level(level)[name] = value
    return out


def _edges(edge_index: Any, num_nodes: int) -> Tensor:
    if edge_index is None:
        return torch.empty(2, 0, dtype=torch.long)
    if isinstance(edge_index, EdgeIndex):
        edge_index = edge_index.as_tensor()
    if isinstance(edge_index, np.ndarray):
        edge_index = torch.from_numpy(edge_index.copy())
    if (
        not isinstance(edge_index, Tensor)
        or edge_index.dim() != 2
        or edge_index.size(0) != 2
        or edge_index.is_floating_point()
        or edge_index.dtype in (torch.bool, torch.complex64, torch.complex128)
    ):
        shape = list(getattr(edge_index, "shape", ()))
        raise ValueError(
            "edge_index must hold integers in the shape [2, num_edges], got a "
            f"{type(edge_index).__name__} {shape}"
        )
    edges = edge_index.to(torch.long)
    outside = ((edges < 0) | (edges >= num_nodes)).any(dim=0).nonzero()
    if len(outside):
        place = int(outside[0])
        raise ValueError(
            f"edge {place} joins the vertices {edges[:, place].tolist()}, but the "
            f"graph has {num_nodes} vertices; set num_nodes, or remove the edge"
        )
    return edges


def _guess_level(name: str, value: Any, sizes: Mapping[str, int]) -> Level:
    """What an attribute belongs to, by its name or else by its number of rows.

    Rows tell nothing where there is one of them: a label ``y`` ``[1]`` stays a label
    also in a graph of one vertex.
    """
    if name in _OF_EDGE_LISTS:
        return "edge"
    if not isinstance(value, Tensor) or value.dim() == 0:
        return "graph"
    if name in _OF_VERTICES or name.startswith("node_") or name.endswith("_mask"):
        return "vertex"
    if name in _OF_EDGES or "edge" in name:
        return "edge"
    rows = value.size(0)
    if rows > 1 and rows == sizes["vertex"]:
        return "vertex"
    if rows > 1 and rows == sizes["edge"]:
        return "edge"
    return "graph"


def _check_rows(name: str, value: Any, level: Level, sizes: Mapping[str, int]) -> None:
    if level not in LEVELS:
        raise ValueError(
            f"levels={{{name!r}: {level!r}}} is not known: use one of {LEVELS}"
        )
    if level == "graph" or name in _OF_EDGE_LISTS:
        return
    rows = len(value) if hasattr(value, "__len__") else None
    if rows != sizes[level]:
        counted = {"vertex": "vertices", "edge": "edges"}[level]
        raise ValueError(
            f"{name!r} has {rows} rows for {sizes[level]} {counted}; give each a row, "
            f'or say what it belongs to: levels={{{name!r}: "graph"}}'
        )


def store_attributes(
    store: Any, attributes: Mapping[str, Any], what: str, owner: type | None = None
) -> None:
    """Set the attributes of a store of a signal.

    Args:
        store: the store.
        attributes: the attributes.
        what: what they belong to, for errors.
        owner: class that reads the store, where it is not the store itself.

    Raises:
        ValueError: if a name means something else there.
    """
    for name, value in attributes.items():
        taken = isinstance(getattr(owner or type(store), name, None), property)
        if taken or name.startswith("_") or (name == "key" and what in _NODES):
            raise ValueError(
                f"the {what} attribute {name!r} has a name that signals use for "
                f'something else: rename={{{name!r}: "another_name"}}'
            )
        store[name] = value


def refuse_mangled_names(signal: NestedSignal) -> None:
    """Raise a ValueError if an attribute has a name that PyG gives a meaning."""
    if any("face" in store for store in signal.stores):
        raise ValueError(
            "the graph holds 'face', numbers of vertices that signals would not shift "
            "in batches: pass it through T.FaceToEdge(), which makes edges of them, or "
            'leave it out by rename={"face": None}'
        )
    for problem in (*hiding_names(signal), *mangled_names(signal)):
        raise ValueError(f'{problem}, by the argument rename={{"old": "new"}}')
