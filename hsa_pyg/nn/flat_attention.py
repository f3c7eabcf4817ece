"""Softmax attention over the leaves of each tree: the flat twin of HSA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hsa_pyg.hierarchy import SignalHierarchy
from hsa_pyg.nn.hsa_conv import HSAConv

#: A bucket of trees may hold this many times its leaves, padding included.
_MAX_PADDING = 1.15


@dataclass(frozen=True)
class TreeBucket:
    """Trees of like length, padded to the longest.

    Attributes:
        rows: [trees, length] leaf row of every slot; 0 where padded.
        real: [trees, length] whether a slot holds a leaf; None if all do.
    """

    rows: Tensor
    real: Tensor | None


def bucket_trees(hierarchy: SignalHierarchy) -> list[TreeBucket]:
    """Sort the trees of a forest by their number of leaves, and pad like ones.

    Padding costs at most 15 % of the slots of a bucket. Trees without leaves are in no
    bucket.
    """
    count = torch.bincount(hierarchy.leaf_tree, minlength=hierarchy.num_trees)
    by_tree = torch.argsort(hierarchy.leaf_tree, stable=True)
    first = count.cumsum(0) - count
    order = torch.argsort(count, stable=True)
    buckets = []
    start = 0
    lengths = count[order].tolist()
    for stop in _cuts(lengths):
        length = lengths[stop - 1]
        if length > 0:
            trees = order[start:stop]
            slot = torch.arange(length, device=count.device)
            real = slot < count[trees, None]
            index = torch.where(real, first[trees, None] + slot, 0)
            padded = lengths[start] < length
            buckets.append(TreeBucket(by_tree[index], real if padded else None))
        start = stop
    return buckets


def _cuts(lengths: list[int]) -> list[int]:
    """Ends of the buckets in a list of ascending lengths."""
    cuts, leaves, start = [], 0, 0
    for i, length in enumerate(lengths):
        leaves += length
        # Padding must leave no query without a key: trees of no leaf and of one leaf
        # (which sees nothing without self attention) stay among themselves.
        lonely = min(lengths[start], 2) < min(length, 2)
        if lonely or length * (i + 1 - start) > _MAX_PADDING * leaves:
            cuts.append(i)
            start, leaves = i, length
    return [*cuts, len(lengths)] if lengths else []


def flat_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    hierarchy: SignalHierarchy,
    *,
    self_attention: bool = True,
    position: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    r"""Softmax attention of every leaf over all leaves of its tree.

    It computes :math:`\mathrm{softmax}_j(q_i^\top k_j / \sqrt{d} + e_i^\top e_j)` by
    :func:`torch.nn.functional.scaled_dot_product_attention`. The position of a leaf in
    the whole tree is the sum of the positions on its path from the root,
    :math:`e_i = \sum_{B \ni i} \epsilon_B`: a token knows its place in the sentence,
    the sentence's in the paragraph, and so on, just what HSA sees. Where a type nests
    in itself, as phrases in phrases do, its levels share a domain: such sums are large,
    and the same for leaves at unlike places. Put the leaves below the root then.

    Args:
        q: queries of the leaves [N, H, D].
        k: keys of the leaves [N, H, D].
        v: values of the leaves [N, H, D].
        hierarchy: the compiled forest of M nodes.
        self_attention: whether a leaf attends to itself. Without it, a tree of one leaf
            gives zeros.
        position: eps of every node [M, H, P].
        dropout: probability that an attention weight is dropped.

    Returns:
        [N, H, D].
    """
    scale = q.size(-1) ** -0.5
    channels = v.size(-1)
    if position is not None:
        eps = path_sum(position, hierarchy).to(q.dtype)
        q = torch.cat([q * scale, eps], dim=-1)
        k = torch.cat([k, eps], dim=-1)
        # The fused kernels want values as wide as keys.
        v = F.pad(v, (0, eps.size(-1)))
        scale = 1.0
    parts, places = [], []
    for bucket in bucket_trees(hierarchy):
        y = F.scaled_dot_product_attention(
            q[bucket.rows].transpose(1, 2),
            k[bucket.rows].transpose(1, 2),
            v[bucket.rows].transpose(1, 2),
            attn_mask=_mask(bucket, self_attention),
            dropout_p=dropout,
            scale=scale,
        )
        y = y.transpose(1, 2)[..., :channels]
        if not self_attention and bucket.rows.size(1) == 1:
            y = torch.zeros_like(y)
        real = bucket.real
        parts.append(y.flatten(0, 1) if real is None else y[real])
        places.append(bucket.rows.flatten() if real is None else bucket.rows[real])
    if not parts:
        return v[..., :channels]
    # Every leaf is in one bucket: invert the permutation instead of scattering.
    place = torch.cat(places)
    back = torch.empty_like(place)
    back[place] = torch.arange(place.numel(), device=place.device)
    return torch.cat(parts)[back]


def _mask(bucket: TreeBucket, self_attention: bool) -> Tensor | None:
    """True where a query sees a key: [trees or 1, 1, length or 1, length]."""
    mask = None if bucket.real is None else bucket.real[:, None, None, :]
    length = bucket.rows.size(1)
    if self_attention or length == 1:
        return mask
    others = ~torch.eye(length, dtype=torch.bool, device=bucket.rows.device)
    return others if mask is None else mask & others


def path_sum(position: Tensor, hierarchy: SignalHierarchy) -> Tensor:
    """Sum of the positions [M, ...] of each leaf and all nodes above it: [N, ...]."""
    node = hierarchy.leaves
    total = position[node]
    # A row of zeros, found by index -1, stands above the roots.
    padded = torch.cat([position, torch.zeros_like(position[:1])])
    for _ in range(hierarchy.max_depth):
        node = torch.where(node >= 0, hierarchy.parent[node], node)
        total = total + padded[node]
    return total


class FlatConv(HSAConv):
    r"""Softmax attention over each tree's leaves with the parameters of a
    :class:`~hsa_pyg.nn.HSAConv`.

    It takes the same arguments and has the same parameters under the same names, so two
    models may differ in the attention alone. See :func:`flat_attention` for what it
    computes and for what it does with positions. The cost is quadratic in the leaves of
    a tree. Its queries are every leaf's own, whatever ``tie_queries`` says.

    Raises:
        NotImplementedError: for ``causal``, ``top_k`` and ``pattern``, besides what
            :class:`~hsa_pyg.nn.HSAConv` raises.
    """

    def __init__(self, *args: Any, causal: bool = False, **kwargs: Any) -> None:
        if causal:
            raise NotImplementedError(
                "flat attention has no causal=True: leaves are ordered by the tree, "
                "which it does not look at; use HSAConv, or attention='hsa'"
            )
        for name in ("top_k", "pattern"):
            if kwargs.get(name) is not None:
                raise NotImplementedError(
                    f"flat attention has no {name}; use HSAConv on a forest of one "
                    "family per tree"
                )
        super().__init__(*args, **kwargs)

    def _attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        hierarchy: SignalHierarchy,
        eps: Tensor | None,
    ) -> Tensor:
        return flat_attention(
            q,
            k,
            v,
            hierarchy,
            self_attention=self.self_attention,
            position=eps,
            dropout=self.dropout if self.training else 0.0,
        )

    def _attention_weights(self, *_: Any) -> tuple[Tensor, Tensor]:
        raise NotImplementedError(
            "flat attention has no sibling weights to return: its matrix is "
            "softmax(q k^T / sqrt(d)) over the leaves of each tree"
        )
