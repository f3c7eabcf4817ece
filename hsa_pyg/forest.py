"""Parents of a forest, from edges; every error names the node and the remedy."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

EdgeType = tuple[str, str, str]

#: The relation that leads from a child to its parent.
CHILD_OF = "child_of"


class NodeNames:
    """Names a node by its type and its index in that type, for error messages."""

    def __init__(self, slices: Mapping[str, tuple[int, int]]) -> None:
        self.slices = slices

    def __call__(self, node: int) -> str:
        """For example "node 3 of type 'sentence'"."""
        for name, (start, stop) in self.slices.items():
            if start <= node < stop:
                return f"node {node - start} of type {name!r}"
        return f"node {node}"


def _first(mask: Tensor) -> int:
    return int(mask.nonzero()[0])


def check_forest(
    parent: Tensor, leaf_mask: Tensor | None, name: Callable[[int], str]
) -> Tensor:
    """The leaves of a forest, after a check of its parents; cycles are not looked for.

    Raises:
        TypeError: if ``leaf_mask`` holds no booleans.
        ValueError: for a parent out of range, a mask of another shape or device, or a
            leaf that has children.
    """
    num_nodes = parent.numel()
    outside = (parent < -1) | (parent >= num_nodes)
    if bool(outside.any()):
        node = _first(outside)
        raise ValueError(
            f"{name(node)} has parent {int(parent[node])}, but the nodes are 0 to "
            f"{num_nodes - 1}; -1 marks a root"
        )
    has_child = torch.zeros(num_nodes, dtype=torch.bool, device=parent.device)
    has_child[parent[parent >= 0]] = True
    if leaf_mask is None:
        return ~has_child
    if leaf_mask.dtype != torch.bool:
        raise TypeError(f"leaf_mask must hold booleans, got {leaf_mask.dtype}")
    if leaf_mask.shape != parent.shape or leaf_mask.device != parent.device:
        raise ValueError(
            f"leaf_mask {tuple(leaf_mask.shape)} on {leaf_mask.device} does not match "
            f"parent {tuple(parent.shape)} on {parent.device}"
        )
    wrong = leaf_mask & has_child
    if bool(wrong.any()):
        node = _first(wrong)
        child = _first(parent == node)
        raise ValueError(
            f"{name(node)} is a leaf but has a child, {name(child)}; only internal "
            "nodes have children: put its features into a child of its own"
        )
    return leaf_mask


def join_parents(
    edges: Mapping[EdgeType, Tensor],
    slices: Mapping[str, tuple[int, int]],
    names: NodeNames,
) -> Tensor:
    """The parent of every node, from edges per type.

    Raises:
        TypeError: if an edge type holds no integers.
        ValueError: for unknown node types, a wrong shape, an index out of range, or a
            node with two parents.
    """
    kinds = {edge.device for edge in edges.values()}
    if len(kinds) > 1:
        raise ValueError(
            f"parent edges lie on several devices: {sorted(map(str, kinds))}"
        )
    device = next(iter(kinds), torch.device("cpu"))
    num_nodes = max((stop for _, stop in slices.values()), default=0)
    parent = torch.full((num_nodes,), -1, device=device)
    for (child_type, relation, parent_type), edge in edges.items():
        label = f"({child_type!r}, {relation!r}, {parent_type!r})"
        for name in (child_type, parent_type):
            if name not in slices:
                raise ValueError(
                    f"edge type {label} uses node type {name!r}, which is not among "
                    f"{list(slices)}"
                )
        if edge.dim() != 2 or edge.size(0) != 2:
            raise ValueError(
                f"edges {label} must have shape [2, num_edges], got {tuple(edge.shape)}"
            )
        if edge.is_floating_point():
            raise TypeError(f"edges {label} must hold integers, got {edge.dtype}")
        for row, name in ((0, child_type), (1, parent_type)):
            number = slices[name][1] - slices[name][0]
            outside = (edge[row] < 0) | (edge[row] >= number)
            if bool(outside.any()):
                column = _first(outside)
                raise ValueError(
                    f"edge {column} of {label} names node {int(edge[row, column])} of "
                    f"type {name!r}, which has {number} nodes"
                )
        child = edge[0].long() + slices[child_type][0]
        taken = parent[child] >= 0
        times = torch.bincount(child, minlength=1)
        taken = taken | (times[child] > 1)
        if bool(taken.any()):
            raise ValueError(
                f"{names(int(child[_first(taken)]))} has more than one parent: the "
                "parent edges must form trees; keep one of its edges"
            )
        parent[child] = edge[1].long() + slices[parent_type][0]
    return parent


def join_batches(
    batch_dict: Mapping[str, Tensor],
    slices: Mapping[str, tuple[int, int]],
    parent: Tensor,
    num_trees: int | None,
) -> tuple[Tensor, int]:
    """The sample of every node and the number of samples.

    Raises:
        ValueError: if a type has no entry or one of another length, or if there are
            more samples than ``num_trees``.
    """
    parts = []
    for name, (start, stop) in slices.items():
        part = batch_dict.get(name)
        if part is None and stop > start:
            raise ValueError(
                f"batch_dict has no entry for the {stop - start} nodes of type {name!r}"
            )
        if part is not None and part.numel() != stop - start:
            raise ValueError(
                f"batch_dict gives {part.numel()} samples for the {stop - start} nodes "
                f"of type {name!r}"
            )
        if part is not None:
            parts.append(part.long().to(parent.device))
    tree = torch.cat(parts) if parts else parent.new_empty(0)
    largest = int(tree.max()) + 1 if tree.numel() else 0
    if num_trees is None:
        num_trees = largest
    elif largest > num_trees:
        raise ValueError(
            f"batch_dict names sample {largest - 1}, but num_trees is {num_trees}"
        )
    return tree, num_trees


def check_trees(parent: Tensor, tree: Tensor, name: Callable[[int], str]) -> None:
    """Raise a ValueError if a node and its parent belong to different samples."""
    child = (parent >= 0).nonzero().view(-1)
    torn = tree[child] != tree[parent[child]]
    if bool(torn.any()):
        node = int(child[_first(torn)])
        above = int(parent[node])
        raise ValueError(
            f"{name(node)} belongs to sample {int(tree[node])}, but its parent, "
            f"{name(above)}, to sample {int(tree[above])}: the batch was put together "
            "wrongly; give every sample all node types (hsa_pyg.data.unify) or use "
            "hsa_pyg.loader.DataLoader"
        )
