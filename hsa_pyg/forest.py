"""Parents of a forest, from edges; every error names the node and the remedy."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence

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


def _kind(value: object) -> str:
    return str(value.dtype) if isinstance(value, Tensor) else type(value).__name__


def _holds_integers(value: object) -> bool:
    return isinstance(value, Tensor) and not (
        value.is_floating_point() or value.is_complex() or value.dtype == torch.bool
    )


def number_nodes(num_nodes_dict: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """First and last + 1 node id of each type, numbered one type after another.

    Raises:
        TypeError: if a number of nodes is no integer.
        ValueError: if it is negative.
    """
    slices, at = {}, 0
    for name, given in num_nodes_dict.items():
        try:
            number = operator.index(given)
        except TypeError as error:
            raise TypeError(
                f"the number of nodes of type {name!r} must be an integer, got "
                f"{given!r}"
            ) from error
        if number < 0:
            raise ValueError(
                f"the number of nodes of type {name!r} must not be negative, got "
                f"{number}"
            )
        slices[name] = (at, at + number)
        at += number
    return slices


def select_parent_edges(edges: Mapping[EdgeType, Tensor]) -> dict[EdgeType, Tensor]:
    """The edges from a child to its parent, without those of other relations.

    Raises:
        TypeError: if an edge type is no triple of names, or parent edges are no tensor
            of integers.
    """
    chosen = {}
    for kind, edge in edges.items():
        # A name such as "word__child_of__page" would otherwise pass for some other
        # relation, and its edges would be lost without a word.
        if not isinstance(kind, tuple) or len(kind) != 3:
            raise TypeError(
                f"an edge type must be a triple (child_type, {CHILD_OF!r}, "
                f"parent_type), got {kind!r}"
            )
        if kind[1] != CHILD_OF:
            continue
        if not _holds_integers(edge):
            remedy = "; use edge_index.long()" if isinstance(edge, Tensor) else ""
            raise TypeError(
                f"edges {kind} must be a tensor that holds integers, got "
                f"{_kind(edge)}{remedy}"
            )
        chosen[kind] = edge
    return chosen


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
    if not isinstance(leaf_mask, Tensor) or leaf_mask.dtype != torch.bool:
        raise TypeError(
            f"leaf_mask must be a tensor of booleans, got {_kind(leaf_mask)}"
        )
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


def transposed_hint(edge: Tensor) -> str:
    """A remedy if edges of a wrong shape would be right transposed, else nothing."""
    if edge.dim() == 2 and edge.size(1) == 2:
        return "; transpose them by edge_index.t()"
    return ""


def swapped_hint(edge: Tensor, sizes: Sequence[int]) -> str:
    """A remedy if wrong parent edges would be right the other way round, else nothing.

    Args:
        edge: int64 [2, E].
        sizes: numbers of nodes of the child type and of the parent type.
    """
    # Families share a parent, so parents are what comes more than once.
    children, parents = (row.unique().numel() for row in edge)
    if not children < parents == edge.size(1):
        return ""
    fits = [bool(((edge[1 - i] >= 0) & (edge[1 - i] < sizes[i])).all()) for i in (0, 1)]
    swapped = "; child and parent seem to be swapped: "
    if all(fits):
        return swapped + "row 0 holds the child, so use edge_index.flip(0)"
    if int(edge[1].max()) < sizes[1]:
        return swapped + f"an edge type is (child_type, {CHILD_OF!r}, parent_type)"
    return ""


def transform_hint(edge: Tensor | None, node: int) -> str:
    """A remedy if a graph's transform seems to have added to a tree, else nothing.

    Args:
        edge: parent edges [2, E] within the type of a node with two parents, if any.
        node: that node's index.
    """
    if edge is None or edge.dim() != 2 or edge.size(0) != 2:
        return ""
    parents, children = edge[1][edge[0] == node], edge[0][edge[1] == node]
    if not bool(torch.isin(parents, children).any()):
        return ""
    # A loop, or an edge and its reverse.
    return (
        " (a transform such as AddSelfLoops or ToUndirected after the tree was made? "
        "Put it before)"
    )


def join_parents(
    edges: Mapping[EdgeType, Tensor],
    slices: Mapping[str, tuple[int, int]],
    names: NodeNames,
) -> Tensor:
    """The parent of every node, from edges per type.

    Raises:
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
                    f"{list(slices)}; give the type its number of nodes (num_nodes)"
                )
        if edge.dim() != 2 or edge.size(0) != 2:
            raise ValueError(
                f"edges {label} must have shape [2, num_edges], got "
                f"{tuple(edge.shape)}{transposed_hint(edge)}"
            )
        # Narrow types would wrap the numbers of nodes that ids are compared with.
        edge = edge.long()
        sizes = [
            slices[name][1] - slices[name][0] for name in (child_type, parent_type)
        ]
        for row, name in ((0, child_type), (1, parent_type)):
            number = sizes[row]
            outside = (edge[row] < 0) | (edge[row] >= number)
            if bool(outside.any()):
                column = _first(outside)
                raise ValueError(
                    f"edge {column} of {label} names node {int(edge[row, column])} of "
                    f"type {name!r}, which has {number} nodes"
                    f"{swapped_hint(edge, sizes)}"
                )
        child = edge[0] + slices[child_type][0]
        taken = parent[child] >= 0
        times = torch.bincount(child, minlength=1)
        taken = taken | (times[child] > 1)
        if bool(taken.any()):
            twice = child[_first(taken)]
            above = edge[1][child == twice] + slices[parent_type][0]
            above = torch.cat([parent[twice][parent[twice] >= 0].view(-1), above])
            if above[0] == above[1]:
                raise ValueError(
                    f"the edge from {names(int(twice))} to its parent, "
                    f"{names(int(above[0]))}, stands twice: keep it once"
                )
            own = edges.get((child_type, CHILD_OF, child_type))
            start = slices[child_type][0]
            hint = transform_hint(own, int(twice) - start) or swapped_hint(edge, sizes)
            raise ValueError(
                f"{names(int(twice))} has more than one parent, "
                f"{names(int(above[0]))} and {names(int(above[1]))}: the parent edges "
                f"must form trees; keep one of its edges{hint}"
            )
        parent[child] = edge[1] + slices[parent_type][0]
    return parent


def join_batches(
    batch_dict: Mapping[str, Tensor],
    slices: Mapping[str, tuple[int, int]],
    parent: Tensor,
    num_trees: int | None,
) -> tuple[Tensor, int]:
    """The sample of every node and the number of samples.

    Raises:
        TypeError: if an entry is no tensor of integers.
        ValueError: if a type is unknown, has no entry or one of another shape, if a
            sample is negative, or if there are more samples than ``num_trees``.
    """
    unknown = [name for name in batch_dict if name not in slices]
    if unknown:
        raise ValueError(
            f"batch_dict has an entry for type {unknown[0]!r}, which is not among the "
            f"node types {list(slices)}"
        )
    parts = [parent.new_empty(0)]
    for name, (start, stop) in slices.items():
        part = batch_dict.get(name)
        if part is None and stop > start:
            raise ValueError(
                f"batch_dict has no entry for the {stop - start} nodes of type {name!r}"
            )
        if part is not None:
            parts.append(_samples(part, stop - start, name).to(parent.device))
    tree = torch.cat(parts)
    largest = int(tree.max()) + 1 if tree.numel() else 0
    if num_trees is None:
        num_trees = largest
    elif largest > num_trees:
        raise ValueError(
            f"batch_dict names sample {largest - 1}, but num_trees is {num_trees}"
        )
    return tree, num_trees


def _samples(part: Tensor, number: int, name: str) -> Tensor:
    """The samples of the nodes of one type, checked."""
    if not _holds_integers(part):
        raise TypeError(
            f"batch_dict must give a tensor of integers for type {name!r}, got "
            f"{_kind(part)}"
        )
    if part.dim() != 1 or part.numel() != number:
        raise ValueError(
            f"batch_dict gives {part.numel()} samples of shape {tuple(part.shape)} for "
            f"the {number} nodes of type {name!r}; give each node one"
        )
    part = part.long()
    negative = part < 0
    if bool(negative.any()):
        node = _first(negative)
        raise ValueError(
            f"batch_dict puts node {node} of type {name!r} into sample "
            f"{int(part[node])}; samples are counted from 0"
        )
    return part


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
