"""The compiled forest of a batch of nested signals: plain tensors, no PyG."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from hsa_pyg.compilation import (
    FamilyLayout,
    compile_layout,
    count_leaves,
    roots_and_depths,
)
from hsa_pyg.forest import (
    CHILD_OF,
    EdgeType,
    NodeNames,
    check_forest,
    check_trees,
    join_batches,
    join_parents,
    number_nodes,
    select_parent_edges,
)

__all__ = ["CHILD_OF", "EdgeType", "SignalHierarchy", "check_is_hierarchy"]


class SignalHierarchy:
    r"""The signal hierarchy :math:`h_x` of one nested signal or of a batch (a forest).

    It is built once per batch, reused by every layer, and never changed. All sizes
    describe the forest as it was given; for the computation chains of single children
    are spliced out (they change nothing: docs/mathematics.md, property 6) and nodes
    without leaves are left out.

    Build one by :meth:`from_parents` or :meth:`from_edge_index`.

    .. code-block:: python

        >>> import torch
        >>> from hsa_pyg import SignalHierarchy
        >>> parent = torch.tensor([-1, 0, 0, 1, 1])  # 0 -> (1 -> (3, 4), 2)
        >>> h = SignalHierarchy.from_parents(parent)
        >>> h
        SignalHierarchy(nodes=5, leaves=3, roots=1, families=2, depth=2, branching=2)
        >>> h.leaves
        tensor([2, 3, 4])

    Attributes:
        num_nodes: M, nodes of the forest.
        num_leaves: N, its leaves.
        num_roots: its trees, empty ones included.
        num_families: nodes with at least one child that has leaves.
        max_depth: largest depth of a node; 0 if every node is a root.
        max_branching: b, members of the largest family (children that have leaves).
        num_empty: internal nodes without a leaf below them, which weigh nothing;
            ``empty`` in the repr, if there are any.
        num_trees: rows of a readout: ``num_roots``, or the samples of the batch.
        leaves: [N] node ids of the leaves, ascending. Rows of q, k, v follow it.
        roots: [num_roots] node ids of the roots, ascending.
        parent: [M] parent of every node, -1 for a root.
        depth: [M] edges between a node and its root.
        leaf_counts: [M] n_A, leaves below every node.
        leaf_tree: [N] tree of every leaf row, between 0 and ``num_trees`` - 1.
        node_slices: first and last + 1 node id of each node type, if there are types.
        leaf_slices: first and last + 1 leaf row of each leaf type, if there are types.
        padded_layout: the :class:`~hsa_pyg.compilation.FamilyLayout` that the passes
            run on, each tensor with some more rows.
    """

    num_nodes: int
    num_leaves: int
    num_roots: int
    num_families: int
    max_depth: int
    max_branching: int
    num_empty: int
    num_trees: int
    leaves: Tensor
    roots: Tensor
    parent: Tensor
    depth: Tensor
    leaf_counts: Tensor
    leaf_tree: Tensor
    node_slices: dict[str, tuple[int, int]]
    leaf_slices: dict[str, tuple[int, int]]
    padded_layout: FamilyLayout

    _tensors = ("leaves", "roots", "parent", "depth", "leaf_counts", "leaf_tree")

    def __init__(self) -> None:
        raise TypeError(
            "a SignalHierarchy is built by SignalHierarchy.from_parents(parent) or "
            "SignalHierarchy.from_edge_index(edge_index_dict, num_nodes_dict)"
        )

    # Compiled as ordinary tensors even within torch.inference_mode: a signal keeps its
    # hierarchy, and autograd cannot save tensors that were made there.
    @classmethod
    @torch.inference_mode(False)
    def from_parents(
        cls, parent: Tensor, leaf_mask: Tensor | None = None
    ) -> SignalHierarchy:
        r"""Compile the forest in which node ``i`` hangs under ``parent[i]``.

        Args:
            parent: integer tensor [M], -1 marks a root. Any order of the nodes.
            leaf_mask: bool tensor [M], the nodes that carry features. A childless node
                outside it is an empty internal node. Without a mask every childless
                node is a leaf.

        Raises:
            TypeError: if ``parent`` holds no integers or ``leaf_mask`` no booleans.
            ValueError: for a wrong shape, a parent out of range, a node that is its
                own ancestor, or a leaf that has children; it names the node.
        """
        if not isinstance(parent, Tensor):
            raise TypeError(
                f"parent must be a tensor of integers, got {type(parent).__name__}; "
                "use torch.tensor(parent)"
            )
        if parent.dim() != 1:
            raise ValueError(
                f"parent must have one dimension [num_nodes], got shape "
                f"{tuple(parent.shape)}"
            )
        if (
            parent.is_floating_point()
            or parent.is_complex()
            or parent.dtype == torch.bool
        ):
            raise TypeError(
                f"parent must hold integers, got {parent.dtype}; use parent.long()"
            )
        # A copy, so that what its owner writes to it later does not change the forest.
        parent = parent.to(torch.long, copy=True)
        return cls._build(parent, leaf_mask, lambda node: f"node {node}")

    @classmethod
    @torch.inference_mode(False)
    def from_edge_index(
        cls,
        edge_index_dict: Mapping[EdgeType, Tensor],
        num_nodes_dict: Mapping[str, int],
        leaf_types: Sequence[str] | None = None,
        batch_dict: Mapping[str, Tensor] | None = None,
        num_trees: int | None = None,
    ) -> SignalHierarchy:
        r"""Compile the forest of heterogeneous parent edges.

        Node ids run type after type in the order of ``num_nodes_dict``.

        Args:
            edge_index_dict: ``(child_type, "child_of", parent_type)`` to [2, E], row 0
                the child, row 1 the parent. Other relations are no parent edges and
                are not looked at.
            num_nodes_dict: number of nodes of every type.
            leaf_types: types whose nodes are leaves; by default those that are no
                parent type of any edge type.
            batch_dict: sample of every node, [n] per type, as PyG's batches keep it.
                Types without nodes may be absent.
            num_trees: number of samples, which only ``batch_dict`` tells apart; by
                default one more than its largest entry.

        Raises:
            TypeError: for an edge type that is no triple, or edges, samples or numbers
                of nodes that are no integers.
            ValueError: as :meth:`from_parents`, and for an edge type of unknown node
                types, an edge out of range, a node with two parents, or an edge
                between two samples; it names the node's type and index.
        """
        slices = number_nodes(num_nodes_dict)
        names = NodeNames(slices)
        parent_edges = select_parent_edges(edge_index_dict)
        if leaf_types is None:
            inner = {kind[2] for kind in parent_edges}
            leaf_types = [name for name in slices if name not in inner]
        parent = join_parents(parent_edges, slices, names)
        leaf_mask = torch.zeros_like(parent, dtype=torch.bool)
        for name in leaf_types:
            if name not in slices:
                raise ValueError(
                    f"leaf type {name!r} is not among the node types {list(slices)}"
                )
            leaf_mask[slices[name][0] : slices[name][1]] = True
        tree = None
        if batch_dict is None and num_trees is not None:
            raise ValueError(
                f"num_trees={num_trees} needs batch_dict, the sample of every node; "
                "without it every root is a tree of its own"
            )
        if batch_dict is not None:
            tree, num_trees = join_batches(batch_dict, slices, parent, num_trees)
        self = cls._build(parent, leaf_mask, names, tree, num_trees)
        self.node_slices = slices
        rows = torch.cat([leaf_mask.new_zeros(1).long(), leaf_mask.cumsum(0)]).tolist()
        leaf_names = set(leaf_types)
        self.leaf_slices = {
            name: (rows[start], rows[stop])
            for name, (start, stop) in slices.items()
            if name in leaf_names
        }
        return self

    @classmethod
    def _build(
        cls,
        parent: Tensor,
        leaf_mask: Tensor | None,
        name: Callable[[int], str],
        tree: Tensor | None = None,
        num_trees: int | None = None,
    ) -> SignalHierarchy:
        is_leaf = check_forest(parent, leaf_mask, name)
        root, depth, cycle = roots_and_depths(parent)
        if cycle is not None:
            raise ValueError(
                f"{name(cycle)} is its own ancestor: the parents form a cycle; "
                "follow the parents from there and mark one node as a root (-1)"
            )
        count = count_leaves(parent, is_leaf)
        self = cls.__new__(cls)
        self.num_nodes = parent.numel()
        self.leaves = is_leaf.nonzero().view(-1)
        self.num_leaves = self.leaves.numel()
        self.roots = (parent < 0).nonzero().view(-1)
        self.num_roots = self.roots.numel()
        self.num_empty = int((count == 0).sum())
        self.max_depth = int(depth.max()) if self.num_nodes else 0
        child = ((parent >= 0) & (count > 0)).nonzero().view(-1)
        size = torch.bincount(parent[child], minlength=1)
        self.num_families = int((size > 0).sum())
        self.max_branching = int(size.max())
        self.parent, self.depth, self.leaf_counts = parent, depth, count
        if tree is None:
            number = torch.zeros_like(parent)
            number[self.roots] = torch.arange(self.num_roots, device=parent.device)
            self.leaf_tree = number[root[self.leaves]]
            self.num_trees = self.num_roots
        else:
            check_trees(parent, tree, name)
            self.leaf_tree = tree[self.leaves]
            self.num_trees = int(num_trees or 0)
        self.node_slices, self.leaf_slices = {}, {}
        row = is_leaf.cumsum(0) - 1
        layout = compile_layout(parent, is_leaf, depth, count, row)
        self.padded_layout = layout.padded()
        self._mark_dynamic()
        return self

    @property
    def layout(self) -> FamilyLayout:
        """The :class:`~hsa_pyg.compilation.FamilyLayout` that the passes run on."""
        return self.padded_layout.trimmed()

    @property
    def device(self) -> torch.device:
        """The device of the index tensors."""
        return self.parent.device

    def to(
        self, device: torch.device | str | int, non_blocking: bool = False
    ) -> SignalHierarchy:
        """This hierarchy on another device, or itself if it is there already."""
        target = torch.empty(0, device=device).device
        if target == self.device:
            return self
        moved = self._map(lambda x: x.to(target, non_blocking=non_blocking))
        moved.padded_layout = self.padded_layout.to(target, non_blocking)
        moved._mark_dynamic()
        return moved

    def pin_memory(self) -> SignalHierarchy:
        """A copy in page-locked memory, from where ``.to("cuda")`` does not wait."""
        pinned = self._map(lambda x: x.pin_memory())
        pinned.padded_layout = self.padded_layout.pin_memory()
        pinned._mark_dynamic()
        return pinned

    def _map(self, function: Callable[[Tensor], Tensor]) -> SignalHierarchy:
        other = copy.copy(self)
        for name in self._tensors:
            setattr(other, name, function(getattr(self, name)))
        return other

    def _mark_dynamic(self) -> None:
        """Tell torch.compile that all sizes vary, before it has seen them vary.

        It would take each size for a constant until a batch comes that has another.
        """
        if not torch.compiler.is_compiling():
            own = [getattr(self, name) for name in self._tensors]
            for x in (*own, *vars(self.padded_layout).values()):
                torch._dynamo.maybe_mark_dynamic(x, 0)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._mark_dynamic()

    def lca_depth(self, i: Tensor | int, j: Tensor | int) -> Tensor:
        """Depth of the lowest common ancestor of nodes ``i`` and ``j``.

        Args:
            i: node ids, any shape.
            j: node ids that broadcast with ``i``.

        Returns:
            Depths in the broadcast shape; -1 where the nodes share no tree.

        Raises:
            TypeError: if an id is no integer.
            IndexError: if an id is negative or not below ``num_nodes``.
        """
        a = torch.as_tensor(i, device=self.device)
        b = torch.as_tensor(j, device=self.device)
        for ids in (a, b):
            if ids.is_floating_point() or ids.dtype == torch.bool:
                raise TypeError(f"node ids must be integers, got {ids.dtype}")
        a, b = (x.clone() for x in torch.broadcast_tensors(a, b))
        for ids in (a, b):
            wrong = ids[(ids < 0) | (ids >= self.num_nodes)]
            if wrong.numel():
                raise IndexError(
                    f"node {int(wrong[0])} does not exist: the hierarchy has nodes 0 "
                    f"to {self.num_nodes - 1}"
                )
        depth = torch.cat([self.depth, self.depth.new_full((1,), -1)])
        parent = torch.cat([self.parent, self.parent.new_full((1,), -1)])
        while bool((apart := a != b).any()):
            # The deeper one steps up, both where they are level.
            up_a = apart & (depth[a] >= depth[b])
            up_b = apart & (depth[b] >= depth[a])
            a, b = torch.where(up_a, parent[a], a), torch.where(up_b, parent[b], b)
        return depth[a]

    def __repr__(self) -> str:
        empty = f", empty={self.num_empty}" if self.num_empty else ""
        device = "" if self.device.type == "cpu" else f", device='{self.device}'"
        return (
            f"{type(self).__name__}(nodes={self.num_nodes}, leaves={self.num_leaves}, "
            f"roots={self.num_roots}, families={self.num_families}, "
            f"depth={self.max_depth}, branching={self.max_branching}{empty}{device})"
        )


def check_is_hierarchy(value: object) -> None:
    """Raise a TypeError that says what to pass, unless this is a hierarchy."""
    if isinstance(value, SignalHierarchy):
        return
    remedy = "build one by SignalHierarchy.from_parents(parent)"
    if hasattr(type(value), "hierarchy"):  # a signal; on the class, to compile nothing
        remedy = "pass its .hierarchy"
    raise TypeError(
        f"hierarchy must be a SignalHierarchy, got {type(value).__name__}; {remedy}"
    )
