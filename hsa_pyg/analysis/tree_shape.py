"""What shape the trees of a signal have: levels, families, and what they cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from hsa_pyg.data import NestedSignal
from hsa_pyg.hierarchy import SignalHierarchy, check_is_hierarchy


@dataclass(frozen=True)
class TreeShape:
    r"""Numbers that describe a tree, or a forest of them.

    A family is a node with its children; children without a leaf below them belong to
    none, as they weigh nothing in attention.

    Attributes:
        trees: number of trees.
        nodes: number of nodes of each type, leaves included.
        leaves: number of leaves of each leaf type.
        nodes_at_depth: number of nodes at each depth, roots first.
        leaves_at_depth: number of leaves at each depth.
        families: number of families.
        largest_family: members of the largest family.
        largest_parent: type and number of its parent; None without families.
        mean_family: mean number of members.
        only_children: nodes that are their family's only member.
        longest_chain: most only children below one another.
        empty: internal nodes without a leaf below them, by type.
        pairs: :math:`\sum b^2` over the families of b members: what hierarchical
            attention costs.
        flat_pairs: :math:`\sum N^2` over the trees of N leaves: what softmax attention
            over the leaves costs.
    """

    trees: int
    nodes: dict[str, int]
    leaves: dict[str, int]
    nodes_at_depth: list[int]
    leaves_at_depth: list[int]
    families: int
    largest_family: int
    largest_parent: tuple[str, int] | None
    mean_family: float
    only_children: int
    longest_chain: int
    empty: dict[str, int]
    pairs: int
    flat_pairs: int

    @property
    def num_nodes(self) -> int:
        """All nodes."""
        return sum(self.nodes.values())

    @property
    def num_leaves(self) -> int:
        """All leaves."""
        return sum(self.leaves.values())

    @property
    def levels(self) -> int:
        """Nodes on the longest path from a root down."""
        return len(self.nodes_at_depth)

    @property
    def saving(self) -> float:
        """Pairs of softmax attention for each pair of hierarchical attention."""
        return self.flat_pairs / self.pairs if self.pairs else 1.0


def tree_shape(signal: NestedSignal | SignalHierarchy) -> TreeShape:
    """Measure the trees of a signal, of a batch of signals, or of a hierarchy.

    Args:
        signal: the signal. Nodes of a hierarchy without types are of the type "node",
            its leaves of the type "leaf".

    Raises:
        TypeError: if it is none of these.
        ValueError: if the parent edges of the signal form no tree.

    Example:
        >>> import torch
        >>> from hsa_pyg import SignalHierarchy
        >>> h = SignalHierarchy.from_parents(torch.tensor([-1, 0, 0, 1, 1, 2, 2, 2]))
        >>> shape = tree_shape(h)
        >>> shape.levels, shape.num_leaves, shape.largest_family, shape.largest_parent
        (3, 5, 3, ('node', 2))
        >>> shape.pairs, shape.flat_pairs
        (17, 25)
    """
    hierarchy = signal.hierarchy if isinstance(signal, NestedSignal) else signal
    check_is_hierarchy(hierarchy)
    parent, counts = hierarchy.parent, hierarchy.leaf_counts
    is_leaf = torch.zeros_like(parent, dtype=torch.bool)
    is_leaf[hierarchy.leaves] = True
    count_types = _type_counter(hierarchy, is_leaf)

    member = (parent >= 0) & (counts > 0)
    size = torch.bincount(parent[member], minlength=max(hierarchy.num_nodes, 1))
    largest = int(size.argmax())
    # As members of their own family; roots have none.
    siblings = torch.where(member, size[parent.clamp(min=0)], 0)
    levels = hierarchy.max_depth + 1 if hierarchy.num_nodes else 0
    depth = hierarchy.depth
    return TreeShape(
        trees=hierarchy.num_trees,
        nodes=count_types(None),
        leaves={
            name: number
            for name, number in count_types(is_leaf).items()
            if number or name in hierarchy.leaf_slices
        },
        nodes_at_depth=torch.bincount(depth, minlength=levels).tolist(),
        leaves_at_depth=torch.bincount(depth[is_leaf], minlength=levels).tolist(),
        families=hierarchy.num_families,
        largest_family=hierarchy.max_branching,
        largest_parent=(
            _name(hierarchy, largest) if hierarchy.num_families > 0 else None
        ),
        mean_family=int(member.sum()) / max(hierarchy.num_families, 1),
        only_children=int((siblings == 1).sum()),
        longest_chain=_longest_chain(parent, siblings == 1),
        empty={
            name: number
            for name, number in count_types((counts == 0) & ~is_leaf).items()
            if number
        },
        pairs=int(size.square().sum()),
        # Of the trees as they are: a sample of a batch may hold several roots.
        flat_pairs=int(counts[hierarchy.roots].square().sum()),
    )


def _type_counter(
    hierarchy: SignalHierarchy, is_leaf: Tensor
) -> Callable[[Tensor | None], dict[str, int]]:
    def count(chosen: Tensor | None) -> dict[str, int]:
        if not hierarchy.node_slices:
            parts = {"node": ~is_leaf, "leaf": is_leaf}
            return {
                name: int((part if chosen is None else part & chosen).sum())
                for name, part in parts.items()
            }
        return {
            name: stop - start if chosen is None else int(chosen[start:stop].sum())
            for name, (start, stop) in hierarchy.node_slices.items()
        }

    return count


def _name(hierarchy: SignalHierarchy, node: int) -> tuple[str, int]:
    for name, (start, stop) in hierarchy.node_slices.items():
        if start <= node < stop:
            return name, node - start
    return "node", node


def _longest_chain(parent: Tensor, only: Tensor) -> int:
    """Most nodes of ``only`` below one another, by doubling the steps upwards."""
    # A node outside of the chains stands at the end, and is its own parent.
    end = parent.numel()
    step = torch.where(only, parent, end)
    step = torch.cat([step, step.new_full((1,), end)])
    length = torch.cat([only, only.new_zeros(1)]).long()
    while bool((step != end).any()):
        length = length + length[step]
        step = step[step]
    return int(length.max())
