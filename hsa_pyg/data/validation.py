"""What can be wrong with a nested signal, as sentences that name type and index."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch_geometric.data import Batch

from hsa_pyg.data.schema import Schema, check_counted, group_label
from hsa_pyg.forest import swapped_hint, transposed_hint
from hsa_pyg.hierarchy import CHILD_OF, SignalHierarchy

if TYPE_CHECKING:
    from hsa_pyg.data.signal import NestedSignal

#: Parts of names to which PyG gives a meaning of its own, and what it does to them.
_MANGLED = {
    "batch": "PyG shifts it as if it held sample numbers, and fails where it is empty",
    "index": "PyG may shift it by numbers of nodes and join it along its last axis",
    "face": "PyG may shift it by numbers of nodes and join it along its last axis",
}
_OWN_INDICES = ("edge_index", "edge_label_index")


def problems(signal: NestedSignal) -> Iterator[str]:
    """The problems of a signal or a batch of them, the most basic ones first.

    Later checks rely on earlier ones, so only the first problem is sure to be one.
    """
    yield from hiding_names(signal)
    try:
        check_counted(Schema.of(signal), type(signal).__name__)
    except ValueError as error:
        yield str(error)
    yield from _device_problems(signal)
    yield from _attribute_problems(signal)
    yield from _edge_problems(signal)
    try:
        hierarchy = signal.hierarchy
    except (ValueError, TypeError) as error:
        yield str(error)
    else:
        yield from _root_problems(signal, hierarchy)
        yield from _childless_types(signal)


def mangled_names(signal: NestedSignal) -> Iterator[str]:
    """Warnings about names that PyG or PyTorch would stumble over."""
    for kind in signal.node_types:
        if "." in kind:
            yield (
                f"type name {kind!r} contains a dot, which torch.nn.ModuleDict refuses;"
                " rename the type"
            )
    for store in signal.stores:
        for name, _ in store.items():
            meaning = _mangled(name, isinstance(signal, Batch))
            if meaning is not None:
                yield (
                    f"attribute {name!r} of {group_label(store._key)}: {meaning}; "
                    "rename it"
                )


def hiding_names(signal: NestedSignal) -> Iterator[str]:
    """Problems of names of the whole sample by which PyG finds something else."""
    gathered = {f"{name}_dict" for s in signal.stores[1:] for name, _ in s.items()}
    for name, _ in signal._global_store.items():
        if name in signal.node_types or name in gathered:
            what = f"{name[:-5]!r} of all types" if name in gathered else "the type"
            yield (
                f"attribute {name!r} of the whole sample hides {what} of that name; "
                "rename it"
            )


def no_edges(kind: tuple[str, str, str]) -> str:
    """What is said of an edge type without edges that can be read."""
    return (
        f"edge type {kind} has no edge_index; set it to a tensor [2, num_edges], or "
        "delete the edge type (ToSparseTensor replaces it by adj_t, which is not read)"
    )


def _mangled(name: str, in_batch: bool) -> str | None:
    if name in _OWN_INDICES:
        return None
    if in_batch and (name in ("batch", "ptr") or name.endswith(("_batch", "_ptr"))):
        return None
    if name == "ptr":
        return "PyG leaves it out of batches"
    return next((what for part, what in _MANGLED.items() if part in name), None)


def _attribute_problems(signal: NestedSignal) -> Iterator[str]:
    for kind, store in signal.node_items():
        for name in ("x", "pos", "batch"):
            # PyG could not count the nodes.
            if isinstance(store.get(name), Tensor) and store[name].dim() == 0:
                yield (
                    f"{name!r} of type {kind!r} must have a row per node, got a scalar"
                )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyG's, that it cannot count them
            counted = store.num_nodes
        if counted is None:
            yield (
                f"'x' of type {kind!r} must be a tensor with a row per node, got "
                f"{_shape(store.get('x'))}; wrap it in torch.tensor(...)"
            )
            continue
        number = int(counted)
        if number < 0 or number != store.num_nodes:
            yield (
                f"num_nodes of type {kind!r} must be an integer that is not negative, "
                f"got {store.num_nodes}"
            )
        for name in ("x", "pos", "key"):
            value = store.get(name)
            if value is None:
                continue
            if not isinstance(value, Tensor) or value.dim() == 0:
                yield (
                    f"{name!r} of type {kind!r} must be a tensor with {number} rows, "
                    f"got {_shape(value)}"
                )
            elif value.size(0) != number:
                yield (
                    f"{name!r} of type {kind!r} has {value.size(0)} rows for {number} "
                    f"nodes; give every node one row"
                )
        pos, key = store.get("pos"), store.get("key")
        if isinstance(pos, Tensor) and (
            pos.dim() != 2 or pos.size(1) not in (1, 2) or not pos.is_floating_point()
        ):
            yield (
                f"'pos' of type {kind!r} must hold floats in the shape [{number}, 1] "
                f"(a sequence) or [{number}, 2] (a grid), got {_shape(pos)}"
                f"{_pos_remedy(kind, pos)}"
            )
        if isinstance(key, Tensor) and (key.dim() != 1 or key.dtype != torch.long):
            yield (
                f"'key' of type {kind!r} must hold int64 key ids in the shape "
                f"[{number}], got {_shape(key)}"
            )
        yield from _value_problems(kind, pos, key)
        yield from _feature_problems(kind, store.get("x"))


def _pos_remedy(kind: str, pos: Tensor) -> str:
    column = pos.dim() == 1
    if pos.is_complex() or not (column or (pos.dim() == 2 and pos.size(1) in (1, 2))):
        return ""
    floats = "" if pos.is_floating_point() else ".float()"
    return f"; use signal[{kind!r}].pos{floats}{'[:, None]' if column else ''}"


def _value_problems(kind: str, pos: Any, key: Any) -> Iterator[str]:
    wrong: list[tuple[str, Tensor, Tensor, str]] = []
    if isinstance(pos, Tensor):
        wrong.append(("pos", pos, ~pos.isfinite().all(dim=-1), "be finite"))
    if isinstance(key, Tensor):
        wrong.append(("key", key, key < 0, "not be negative"))
    for name, value, where, rule in wrong:
        if bool(where.any()):
            node = int(where.nonzero()[0])
            yield (
                f"{name!r} of node {node} of type {kind!r} must {rule}, got "
                f"{value[node].tolist()}"
            )


def _feature_problems(kind: str, x: Any) -> Iterator[str]:
    if not isinstance(x, Tensor) or not x.is_floating_point() or x.numel() == 0:
        return
    wrong = ~x.flatten(1).isfinite().all(dim=1) if x.dim() > 1 else ~x.isfinite()
    if bool(wrong.any()):
        node = int(wrong.nonzero()[0])
        yield (
            f"'x' of node {node} of type {kind!r} holds nan or inf, which would spread "
            "to every leaf of its tree; replace it, for example by torch.nan_to_num(x)"
        )


def _index_remedy(edge: Tensor) -> str:
    return transposed_hint(edge) or (
        "; use edge_index.long()" if edge.dtype != torch.long else ""
    )


def _edge_problems(signal: NestedSignal) -> Iterator[str]:
    for kind, store in signal.edge_items():
        edge = store.get("edge_index")
        if not isinstance(edge, Tensor):
            yield no_edges(kind)
            continue
        if edge.dim() != 2 or edge.size(0) != 2 or edge.dtype != torch.long:
            yield (
                f"edge_index of edge type {kind} must hold int64 in the shape "
                f"[2, num_edges], got {_shape(edge)}{_index_remedy(edge)}"
            )
            continue
        sizes = [int(signal[end].num_nodes) for end in (kind[0], kind[2])]
        for row, end in ((0, kind[0]), (1, kind[2])):
            number = sizes[row]
            outside = ((edge[row] < 0) | (edge[row] >= number)).nonzero().view(-1)
            if outside.numel() > 0:
                column = int(outside[0])
                yield (
                    f"edge {column} of edge type {kind} names node "
                    f"{int(edge[row, column])} of type {end!r}, which has {number} "
                    f"nodes{swapped_hint(edge, sizes) if kind[1] == CHILD_OF else ''}"
                )
        yield from _torn_edges(signal, kind, edge)


def _torn_edges(
    signal: NestedSignal, kind: tuple[str, str, str], edge: Tensor
) -> Iterator[str]:
    child_sample, parent_sample = (signal[kind[end]].get("batch") for end in (0, 2))
    if child_sample is None or parent_sample is None:
        return
    samples = child_sample[edge[0]], parent_sample[edge[1]]
    torn = (samples[0] != samples[1]).nonzero().view(-1)
    if torn.numel() > 0:
        column = int(torn[0])
        child, parent = edge[:, column].tolist()
        yield (
            f"node {child} of type {kind[0]!r} is in sample {int(samples[0][column])}, "
            f"but the {kind[1]!r} edge leads to node {parent} of type {kind[2]!r} in "
            f"sample {int(samples[1][column])}: the batch was put together wrongly; "
            "batch with hsa_pyg.loader.DataLoader, or after hsa_pyg.data.unify"
        )


def _device_problems(signal: NestedSignal) -> Iterator[str]:
    seen: dict[torch.device, str] = {}
    for store in signal.stores:
        for name, value in store.items():
            if isinstance(value, Tensor):
                seen.setdefault(value.device, f"{name!r} of {group_label(store._key)}")
    if len(seen) > 1:
        places = " and ".join(f"{what} on {device}" for device, what in seen.items())
        yield f"the signal lies on several devices: {places}; use signal.to(device)"


def _root_problems(signal: NestedSignal, hierarchy: SignalHierarchy) -> Iterator[str]:
    roots = hierarchy.roots
    if isinstance(signal, Batch):
        sample = torch.cat(
            [
                store["batch"] if "batch" in store else roots.new_empty(0)
                for store in signal.node_stores
            ]
        )[roots]
    else:
        sample = torch.zeros_like(roots)
    count = torch.bincount(sample, minlength=signal.num_graphs)
    for number in (count != 1).nonzero().view(-1).tolist():
        where = f"sample {number}" if isinstance(signal, Batch) else "the signal"
        if int(count[number]) == 0:
            yield f"{where} has no node; leave it out, or give it a root"
        else:
            first, second = roots[sample == number][:2].tolist()
            others = _other_relations(signal, hierarchy)
            yield (
                f"{where} has {int(count[number])} roots, among them "
                f"{_node(hierarchy, first)} and {_node(hierarchy, second)}; join them "
                f"under one root by 'child_of' edges{others}; several trees in one "
                "signal, which do not see each other, are for layers alone"
            )


def _childless_types(signal: NestedSignal) -> Iterator[str]:
    """Types without features whose nodes no edge type could make parents."""
    parents = {kind[2] for kind in signal.edge_types if kind[1] == CHILD_OF}
    leaf_types = signal.schema.leaf_types
    for kind, store in signal.node_items():
        number = int(store.num_nodes)
        if number and kind not in parents and kind not in leaf_types:
            nodes = "the node" if number == 1 else f"the {number} nodes"
            yield (
                f"{nodes} of type {kind!r} {'has' if number == 1 else 'have'} neither "
                f"x nor children: set signal[{kind!r}].x (to keep empty inner nodes, "
                "give the signal the edge type of their children, without edges)"
            )


def _other_relations(signal: NestedSignal, hierarchy: SignalHierarchy) -> str:
    """Points to edges of roots' types that may have been meant as parent edges."""
    roots = hierarchy.roots
    rootless = {kind[0] for kind in signal.edge_types if kind[1] == CHILD_OF}
    others = [
        kind
        for kind in signal.edge_types
        if kind[0] != kind[2]
        and kind[0] not in rootless
        and (ends := hierarchy.node_slices.get(kind[0])) is not None
        and bool(((roots >= ends[0]) & (roots < ends[1])).any())
    ]
    if not others:
        return ""
    return f" (edges {others[0]} are none: only the relation {CHILD_OF!r} is read)"


def _node(hierarchy: SignalHierarchy, node: int) -> str:
    for kind, (start, stop) in hierarchy.node_slices.items():
        if start <= node < stop:
            return f"node {node - start} of type {kind!r}"
    return f"node {node}"


def _shape(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    return type(value).__name__
