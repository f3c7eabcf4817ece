"""What a graph of networkx holds: edges, and the attributes that all nodes have."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hsa_pyg.converters.graph_columns import GraphColumns


def read_networkx(graph: Any) -> GraphColumns:
    """Read a Graph, DiGraph, MultiGraph or MultiDiGraph of networkx.

    Attributes that all nodes (edges) have and that are numeric are kept, the others
    named in ``dropped``. ``name`` of the vertices holds their labels.

    Raises:
        ValueError: if two attributes have the same name once it is a text.
    """
    nodes = list(graph.nodes)
    place = {node: number for number, node in enumerate(nodes)}
    ends, rows = [], []
    for source, target, attributes in graph.edges(data=True):
        ends.append((place[source], place[target]))
        rows.append(attributes)
    if not graph.is_directed():
        # Each direction is an edge of its own, as everywhere in PyG; a loop has one.
        back = [number for number, (a, b) in enumerate(ends) if a != b]
        ends += [ends[number][::-1] for number in back]
        rows += [rows[number] for number in back]
    out = GraphColumns(
        len(nodes), torch.tensor(ends, dtype=torch.long).view(-1, 2).t().contiguous()
    )
    vertices = [graph.nodes[node] for node in nodes]
    out.vertex = _columns(vertices, "vertex", "vertices", out.dropped)
    if "name" in out.vertex:
        del out.vertex["name"]
        out.dropped.append("vertex attribute 'name' (holds the labels of the vertices)")
    out.vertex["name"] = [
        node if isinstance(node, str) else repr(node) for node in nodes
    ]
    out.edge = _columns(rows, "edge", "edges", out.dropped)
    # A graph that has both keeps both.
    if "weight" in out.edge and "edge_weight" not in out.edge:
        out.edge["edge_weight"] = out.edge.pop("weight")
    for key, value in graph.graph.items():
        kept = value if isinstance(value, str) else _column([value])
        if kept is None:
            out.dropped.append(f"graph attribute {str(key)!r} (is not numeric)")
        else:
            out.graph[_text(key, graph.graph)] = kept
    return out


def _columns(
    rows: list[dict[Hashable, Any]], what: str, many: str, dropped: list[str]
) -> dict[str, Any]:
    """The attributes that all rows have and that are numeric."""
    count: dict[Hashable, int] = {}
    for row in rows:
        for key in row:
            count[key] = count.get(key, 0) + 1
    out: dict[str, Any] = {}
    for key, number in count.items():
        if number < len(rows):
            dropped.append(
                f"{what} attribute {str(key)!r} ({len(rows) - number} of {len(rows)} "
                f"{many} lack it)"
            )
            continue
        column = _column([row[key] for row in rows])
        if column is None:
            text = all(isinstance(row[key], str) for row in rows)
            why = (
                "is not numeric but text: map it to integers to keep it"
                if text
                else "is not numeric, or of unlike shapes: give all numbers of one "
                "shape to keep it"
            )
            dropped.append(f"{what} attribute {str(key)!r} ({why})")
        else:
            out[_text(key, count)] = column
    return out


def _text(key: Hashable, keys: Iterable[Hashable]) -> str:
    name = str(key)
    if sum(str(other) == name for other in keys) > 1:
        raise ValueError(
            f"several attributes are called {name!r} once their keys are made strings; "
            "rename one of them"
        )
    return name


def _column(values: list[Any]) -> Tensor | None:
    """One row a value: integers as int64, other numbers as float32; or None."""
    if all(isinstance(value, Tensor) for value in values):
        alike = {(v.shape, v.dtype, v.device, v.layout) for v in values}
        dense = values[0].layout == torch.strided if values else True
        return torch.stack(values) if dense and len(alike) == 1 else None
    if any(isinstance(value, Tensor) for value in values):
        return None
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError):
        return None
    if array.dtype.kind == "u" and array.size and array.max() > np.iinfo(np.int64).max:
        return None
    dtype = {"b": np.bool_, "i": np.int64, "u": np.int64, "f": np.float32}
    if array.dtype.kind not in dtype:
        return None
    return torch.from_numpy(array.astype(dtype[array.dtype.kind]))
