"""The text that ``repr`` of a signal gives: one line a type, from the root down."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Batch, HeteroData

from hsa_pyg.hierarchy import CHILD_OF

_HIDDEN = ("num_nodes", "batch", "ptr", "edge_index")


def summarise(signal: HeteroData) -> str:
    """One line for each node type, sibling relation and attribute of the sample."""
    lines = []
    if isinstance(signal, Batch):
        lines.append(f"{signal.num_graphs} samples")
    lines += _node_lines(signal)
    lines += _sibling_lines(signal)
    lines += [f"{name}={_value(item)}" for name, item in signal._global_store.items()]
    body = "".join(f"\n  {line}," for line in lines)
    return (
        f"{type(signal).__name__}({body}\n)" if lines else f"{type(signal).__name__}()"
    )


def _node_lines(signal: HeteroData) -> Iterator[str]:
    parents: dict[str, list[str]] = {}
    for child, relation, parent in signal.edge_types:
        if relation == CHILD_OF:
            parents.setdefault(child, []).append(parent)
    for kind, store in signal.node_items():
        number = store.num_nodes if store.can_infer_num_nodes else "?"
        one, many = ("leaf", "leaves") if "x" in store else ("node", "nodes")
        line = f"{kind}: {number} {one if number == 1 else many}"
        if kind in parents:
            line += f" in {' or '.join(parents[kind])}"
        yield ", ".join([line, *_attributes(store.items())])


def _sibling_lines(signal: HeteroData) -> Iterator[str]:
    for kind, store in signal.edge_items():
        attributes = list(_attributes(store.items()))
        if kind[1] != CHILD_OF or attributes:
            index = store.get("edge_index")
            number = index.size(-1) if isinstance(index, Tensor) else "?"
            yield ", ".join([f"{' '.join(kind)}: {number} edges", *attributes])


def _attributes(items: Iterable[tuple[str, Any]]) -> Iterator[str]:
    return (f"{name}={_value(item)}" for name, item in items if name not in _HIDDEN)


def _value(item: Any) -> str:
    if isinstance(item, Tensor):
        size = str(list(item.shape))
        if item.dtype == torch.float32:
            return size
        return f"{size} {str(item.dtype).removeprefix('torch.')}"
    if isinstance(item, (list, tuple, Mapping)):
        return f"{type(item).__name__} of {len(item)}"
    return repr(item)
