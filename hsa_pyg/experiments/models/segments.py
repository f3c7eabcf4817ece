"""Leaves in segments, and softmax attention among the members of groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from hsa_pyg.hierarchy import SignalHierarchy
from hsa_pyg.nn.flat_attention import bucket_trees


@dataclass(frozen=True)
class Groups:
    """A number of rows in groups, named as a hierarchy names leaves in trees.

    Args:
        leaf_tree: [N] group of every row.
        num_trees: Number of groups; some may be empty.
    """

    leaf_tree: Tensor
    num_trees: int


@dataclass(frozen=True)
class Segments:
    """The segments of the leaves of a forest.

    Args:
        of_leaf: [N] segment of every leaf row, between 0 and S - 1.
        tree: [S] tree of every segment; each has at least one leaf.
        num_trees: Number of trees T.
    """

    of_leaf: Tensor
    tree: Tensor
    num_trees: int

    @property
    def number(self) -> int:
        """S, the number of segments."""
        return self.tree.numel()

    @property
    def within(self) -> Groups:
        """Leaves, then segment vectors, in the groups that share a segment."""
        own = torch.arange(self.number, device=self.tree.device)
        return Groups(torch.cat([self.of_leaf, own]), self.number)

    @property
    def across(self) -> Groups:
        """Segment vectors in the groups that share a tree."""
        return Groups(self.tree, self.num_trees)

    def mean(self, x: Tensor) -> Tensor:
        """Mean over the leaves of every segment: from [N, ...] to [S, ...]."""
        total = x.new_zeros(self.number, *x.shape[1:]).index_add(0, self.of_leaf, x)
        count = torch.bincount(self.of_leaf, minlength=self.number)
        return total / count.view(-1, *[1] * (x.dim() - 1)).to(x.dtype)


def segments_by_depth(hierarchy: SignalHierarchy, depth: int) -> Segments:
    """A segment for each node at a depth: the leaves below it.

    Leaves at this depth or above are a segment together with the other leaves that hang
    directly under their parent.

    Args:
        hierarchy: The forest of the leaves.
        depth: Edges between the root and a segment's node, at least 1.

    Raises:
        ValueError: if the depth is less than 1, which would be whole trees.
    """
    if depth < 1:
        raise ValueError(f"segments must be at a depth of at least 1, got {depth}")
    wanted = (hierarchy.depth[hierarchy.leaves] - 1).clamp(min=0, max=depth)
    node = hierarchy.leaves
    for _ in range(hierarchy.max_depth):
        below = hierarchy.depth[node] > wanted
        node = torch.where(below, hierarchy.parent[node], node)
    return _of_nodes(hierarchy, node)


def segments_by_type(hierarchy: SignalHierarchy, name: str) -> Segments:
    """A segment for each node of a type: the leaves of which it is the nearest such.

    Leaves without a node of this type above them are a segment together with the other
    such leaves that hang directly under their parent.

    Args:
        hierarchy: The forest of the leaves, with node types.
        name: An internal node type.

    Raises:
        ValueError: if the hierarchy has no such internal type.
    """
    slices = hierarchy.node_slices
    internal = [kind for kind in slices if kind not in hierarchy.leaf_slices]
    if name not in internal:
        raise ValueError(
            f"segments are the internal nodes of a type, one of {internal}, got "
            f"{name!r}"
        )
    start, stop = slices[name]
    parent = hierarchy.parent[hierarchy.leaves]
    parent = torch.where(parent < 0, hierarchy.leaves, parent)
    node = parent
    for _ in range(hierarchy.max_depth):
        above = hierarchy.parent[node]
        outside = (node < start) | (node >= stop)
        node = torch.where(outside & (above >= 0), above, node)
    found = (node >= start) & (node < stop)
    return _of_nodes(hierarchy, torch.where(found, node, parent))


def segments_by_window(hierarchy: SignalHierarchy, size: int) -> Segments:
    """Windows of consecutive leaf rows of each tree; the last may be shorter.

    Leaf rows run type after type, so with several leaf types the windows do, too.

    Args:
        hierarchy: The forest of the leaves.
        size: Leaves of a window, at least 1.

    Raises:
        ValueError: if the size is less than 1.
    """
    if size < 1:
        raise ValueError(f"a window must have at least 1 leaf, got {size}")
    tree = hierarchy.leaf_tree
    count = torch.bincount(tree, minlength=hierarchy.num_trees)
    order = torch.argsort(tree, stable=True)
    first = count.cumsum(0) - count
    place = torch.empty_like(tree)
    place[order] = torch.arange(tree.numel(), device=tree.device) - first[tree[order]]
    windows = (count + size - 1) // size
    offset = windows.cumsum(0) - windows
    trees = torch.arange(hierarchy.num_trees, device=tree.device)
    return Segments(
        offset[tree] + place // size,
        trees.repeat_interleave(windows),
        hierarchy.num_trees,
    )


def _of_nodes(hierarchy: SignalHierarchy, node: Tensor) -> Segments:
    """The segments of leaves that share a node."""
    found, of_leaf = torch.unique(node, return_inverse=True)
    tree = torch.zeros_like(found)
    # All leaves of a segment write the same number.
    tree[of_leaf] = hierarchy.leaf_tree
    return Segments(of_leaf, tree, hierarchy.num_trees)


def grouped_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    groups: Groups,
    *,
    position: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    r"""Softmax attention of every row over the rows of its group.

    It computes :math:`\mathrm{softmax}_j(q_i^\top k_j / \sqrt{d} + e_i^\top e_j)`, as
    :func:`~hsa_pyg.nn.flat_attention` does for the leaves of a tree. Groups are padded
    to the longest of their like, and what is padded is masked.

    Args:
        q: queries [N, H, D].
        k: keys [N, H, D].
        v: values [N, H, D].
        groups: the group of every row.
        position: e of every row [N, H, P].
        dropout: probability that an attention weight is dropped.

    Returns:
        [N, H, D].
    """
    width = v.size(-1)
    scale = q.size(-1) ** -0.5
    if position is not None:
        position = position.to(q.dtype)
        q = torch.cat([q * scale, position], dim=-1)
        k = torch.cat([k, position], dim=-1)
        # The fused kernels want values as wide as keys.
        v = F.pad(v, (0, position.size(-1)))
        scale = 1.0
    parts, places = [], []
    # Of a hierarchy it reads the two attributes that groups have.
    for bucket in bucket_trees(cast(SignalHierarchy, groups)):
        y = F.scaled_dot_product_attention(
            q[bucket.rows].transpose(1, 2),
            k[bucket.rows].transpose(1, 2),
            v[bucket.rows].transpose(1, 2),
            attn_mask=None if bucket.real is None else bucket.real[:, None, None, :],
            dropout_p=dropout,
            scale=scale,
        )
        y = y.transpose(1, 2)[..., :width]
        real = bucket.real
        parts.append(y.flatten(0, 1) if real is None else y[real])
        places.append(bucket.rows.flatten() if real is None else bucket.rows[real])
    if not parts:
        return v[..., :width]
    place = torch.cat(places)
    back = torch.empty_like(place)
    back[place] = torch.arange(place.numel(), device=place.device)
    return torch.cat(parts)[back]
