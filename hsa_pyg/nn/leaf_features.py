"""What a layer over leaves is given: a tensor or a dictionary, checked and joined."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from hsa_pyg.forest import select_parent_edges
from hsa_pyg.hierarchy import CHILD_OF, EdgeType, SignalHierarchy

#: Leaf features: one tensor [N, F], or one tensor [n, F] per leaf type.
LeafFeatures = Tensor | Mapping[str, Tensor]


def compile_edges(
    x: LeafFeatures,
    edge_index_dict: Mapping[EdgeType, Tensor],
    leaf_types: Collection[str] = (),
) -> SignalHierarchy:
    """Compile the ``child_of`` edges that come with a dictionary of leaf features.

    The leaf types are the keys of ``x`` and ``leaf_types``; every other type is
    internal and gets as many nodes as its edges name.

    Args:
        x: leaf features [n, F] per leaf type.
        edge_index_dict: parent edges ``(child_type, "child_of", parent_type)`` [2, E];
            other relations are not looked at.
        leaf_types: leaf types that ``x`` may lack; they have no nodes then.

    Raises:
        TypeError: if ``x`` is a single tensor or the edges are no tensors.
        ValueError: see :meth:`~hsa_pyg.SignalHierarchy.from_edge_index`.
    """
    if not isinstance(x, Mapping):
        raise TypeError(
            "a dictionary of edges needs a dictionary of leaf features per node type, "
            f"got {type(x).__name__}; pass x_dict, or a SignalHierarchy with one tensor"
        )
    for name, rows in x.items():
        _check_is_tensor(rows, name)
    parent_edges = select_parent_edges(edge_index_dict)
    if (
        edge_index_dict
        and not parent_edges
        and any(rows.size(0) > 0 for rows in x.values())
    ):
        raise ValueError(
            f"none of the edge types {list(edge_index_dict)} is a parent edge "
            f"(child_type, {CHILD_OF!r}, parent_type), so every leaf would attend to "
            "itself alone; name the relation so, or pass a SignalHierarchy"
        )
    num_nodes = {name: rows.size(0) for name, rows in x.items()}
    num_nodes.update({name: 0 for name in leaf_types if name not in num_nodes})
    known = list(num_nodes)
    for (child_type, _, parent_type), edge in parent_edges.items():
        if edge.layout != torch.strided:
            raise TypeError(
                f"edges {(child_type, CHILD_OF, parent_type)} must be an integer "
                f"tensor [2, num_edges], got one of the layout {edge.layout}"
            )
        for row, name in ((0, child_type), (1, parent_type)):
            if name not in known:
                # A wrong shape or type is explained when the hierarchy is compiled.
                ids = edge[row : row + 1] if edge.dim() == 2 else edge.new_empty(0)
                largest = int(ids.max()) + 1 if ids.numel() else 0
                num_nodes[name] = max(num_nodes.get(name, 0), largest)
    hierarchy = SignalHierarchy.from_edge_index(
        parent_edges, num_nodes, leaf_types=known
    )
    return hierarchy if parent_edges or not x else hierarchy.to(_device(x))


def check_hierarchy(x: LeafFeatures, hierarchy: SignalHierarchy) -> None:
    """Check that leaf features belong to a hierarchy: kind, rows and device.

    Raises:
        TypeError: if ``hierarchy`` is no :class:`~hsa_pyg.SignalHierarchy`, or ``x``
            neither a tensor nor a dictionary of tensors.
        ValueError: if rows, node types or devices do not match.
    """
    if not isinstance(hierarchy, SignalHierarchy):
        remedy = "pass batch.hierarchy, or SignalHierarchy.from_parents(parent)"
        if isinstance(hierarchy, Tensor):
            remedy = (
                "it is a tree, not a graph's edge_index or batch vector: make a "
                "graph a signal by hsa_pyg.converters.from_graph(data), and then "
                f"{remedy}"
            )
        if isinstance(hierarchy, list | tuple):
            remedy = (
                "PyG's Batch only lists the hierarchies of plain Data; make each "
                "sample a NestedSignal with child_of edges, and pass batch.hierarchy"
            )
        # Of a signal; looked for on the class, to compile nothing.
        if hasattr(type(hierarchy), "hierarchy"):
            remedy = "pass its .hierarchy"
        raise TypeError(
            "the tree of the leaves must be a SignalHierarchy or a dictionary of "
            f"child_of edges, got {type(hierarchy).__name__}; {remedy}"
        )
    if isinstance(x, Mapping):
        _check_types(x, hierarchy)
    elif not isinstance(x, Tensor):
        raise TypeError(
            "leaf features must be a tensor [num_leaves, channels] or a dictionary of "
            f"such tensors, got {type(x).__name__}"
        )
    else:
        _check_rows(x, hierarchy.num_leaves, "x", hierarchy.num_nodes)
    for rows in x.values() if isinstance(x, Mapping) else (x,):
        if rows.device != hierarchy.device:
            raise ValueError(
                f"leaf features are on {rows.device} and the hierarchy on "
                f"{hierarchy.device}; call hierarchy.to({str(rows.device)!r})"
            )


def _check_types(x: Mapping[str, Tensor], hierarchy: SignalHierarchy) -> None:
    slices = hierarchy.leaf_slices
    if not slices and x:
        raise ValueError(
            "this hierarchy knows no node types (it was built by from_parents); pass "
            f"one tensor [{hierarchy.num_leaves}, channels] instead of {list(x)}"
        )
    for name, rows in x.items():
        _check_is_tensor(rows, name)
        if name not in slices:
            raise ValueError(
                f"leaf features of type {name!r} have no leaves in the hierarchy, "
                f"whose leaf types are {list(slices)}"
            )
        _check_rows(rows, slices[name][1] - slices[name][0], f"x[{name!r}]")
    for name, (start, stop) in slices.items():
        if stop > start and name not in x:
            raise ValueError(
                f"the hierarchy has {stop - start} leaves of type {name!r}, but x has "
                f"only {list(x)}; give x[{name!r}] a row for each"
            )


def _check_is_tensor(rows: object, name: str) -> None:
    if not isinstance(rows, Tensor) or rows.dim() == 0:
        got = "a scalar" if isinstance(rows, Tensor) else type(rows).__name__
        raise TypeError(
            f"leaf features x[{name!r}] must be a tensor [num_leaves, channels], got "
            f"{got}"
        )


def _check_rows(x: Tensor, number: int, name: str, nodes: int | None = None) -> None:
    if x.dim() == 2 and x.size(0) == number:
        return
    if x.dim() > 2:
        remedy = "put the leaves of all samples below one another, without padding"
    elif x.dim() == 1:
        remedy = "embed token ids first, and give numbers a second dimension"
    elif x.size(0) == nodes:
        remedy = "inner nodes have no features: pass x[hierarchy.leaves]"
    else:
        remedy = "pass the hierarchy of the same batch (batch.hierarchy)"
    raise ValueError(
        f"{name} must have shape [{number}, channels], one row for each leaf of "
        f"the hierarchy, got {tuple(x.shape)}; {remedy}"
    )


def _device(x: LeafFeatures) -> torch.device:
    return (x if isinstance(x, Tensor) else next(iter(x.values()))).device


def check_dtype(x: Tensor, weight: Tensor, name: str) -> None:
    """Check that leaf features can be multiplied with a layer's parameters.

    Raises:
        ValueError: if they differ in dtype (outside of autocast) or device.
    """
    if x.device != weight.device:
        raise ValueError(
            f"{name} is on {x.device} and the layer's parameters on {weight.device}; "
            "move one of them with .to(device)"
        )
    if x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type):
        remedy = f"convert the features by .to({weight.dtype}) or the layer"
        if not x.is_floating_point():
            remedy = f"embed ids first, or convert numbers by .to({weight.dtype})"
        raise ValueError(
            f"{name} is {x.dtype} and the layer's parameters are {weight.dtype}; "
            f"{remedy}"
        )


def split_leaves(x: Tensor, hierarchy: SignalHierarchy) -> dict[str, Tensor]:
    """Views of the leaf rows [N, ...] of each leaf type, also of those without rows."""
    return {
        name: x[start:stop] for name, (start, stop) in hierarchy.leaf_slices.items()
    }


def join_leaves(
    x: Mapping[str, Tensor], hierarchy: SignalHierarchy, remedy: str
) -> Tensor:
    """The rows of all leaf types in the order of the leaf rows, [N, F].

    Args:
        x: leaf features of one width, checked by :func:`check_hierarchy`.
        hierarchy: the compiled forest of N leaves.
        remedy: what to do about unlike widths.

    Raises:
        ValueError: if the widths differ, or there is no tensor.
    """
    widths = {name: rows.size(1) for name, rows in x.items()}
    if len(set(widths.values())) > 1:
        raise ValueError(
            f"leaf types with unlike widths {widths} cannot be joined; {remedy}"
        )
    parts = [x[name] for name in hierarchy.leaf_slices if name in x]
    if not parts:
        raise ValueError("x is an empty dictionary; give every leaf type its features")
    return parts[0] if len(parts) == 1 else torch.cat(parts)
