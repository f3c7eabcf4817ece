"""The attention matrix of hierarchical self-attention, for small trees."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from hsa_pyg.hierarchy import SignalHierarchy, check_is_hierarchy
from hsa_pyg.nn.functional import (
    check_pattern,
    hierarchical_attention,
    make_focus,
)
from hsa_pyg.ops import family_weights
from hsa_pyg.ops.patterns import Pattern

#: Leaves up to which the matrix is built: its N^2 entries a head are 16 MiB of float32.
MAX_LEAVES = 2048


def attention_matrix(
    q: Tensor,
    k: Tensor,
    hierarchy: SignalHierarchy,
    position: Tensor | None = None,
    self_attention: bool = True,
    scale: float | None = None,
    top_k: int | None = None,
    top_k_includes_self: bool = False,
    tie_queries: bool = True,
    causal: bool = False,
    pattern: Pattern | None = None,
) -> Tensor:
    r"""The attention matrix :math:`\Theta` of hierarchical self-attention.

    :math:`y = \Theta v` is what :func:`~hsa_pyg.hierarchical_attention` computes
    without it. Entries between two trees are 0. Differentiable.

    Args:
        q: queries of the leaves, [N, H, D].
        k: keys of the leaves, [N, H, D].
        hierarchy: the forest of M nodes and N leaves.
        position: positional embeddings of the nodes, [M, P] or [M, H, P].
        self_attention: whether a leaf attends to itself.
        scale: the factor of the scores; by default :math:`1 / \sqrt D`.
        top_k: as in :func:`~hsa_pyg.hierarchical_attention`.
        top_k_includes_self: likewise.
        tie_queries: likewise.
        causal: likewise.
        pattern: likewise.

    Returns:
        [H, N, N], row i the weights that leaf row i puts on all leaf rows.

    Raises:
        TypeError: for a ``hierarchy`` that is none.
        ValueError: for shapes that do not fit, more than ``MAX_LEAVES`` leaves, or
            forms that do not go together.

    Example:
        >>> import torch
        >>> from hsa_pyg import SignalHierarchy
        >>> h = SignalHierarchy.from_parents(torch.tensor([-1, 0, 0, 1, 1]))
        >>> attention_matrix(torch.zeros(3, 1, 4), torch.zeros(3, 1, 4), h)
        tensor([[[0.3333, 0.3333, 0.3333],
                 [0.3333, 0.3333, 0.3333],
                 [0.3333, 0.3333, 0.3333]]])
    """
    _check(q, k, hierarchy)
    if position is not None:
        position = _per_head(position, q, hierarchy)
    if scale is None:
        scale = 1 / math.sqrt(q.size(2))
    if not tie_queries or causal:
        # What one-hot values give; functional checks how the forms go together.
        eye = torch.eye(q.size(0), dtype=q.dtype, device=q.device)
        y = hierarchical_attention(
            q,
            k,
            eye[:, None].expand(-1, q.size(1), -1),
            hierarchy,
            self_attention=self_attention,
            position=position,
            scale=scale,
            top_k=top_k,
            top_k_includes_self=top_k_includes_self,
            tie_queries=tie_queries,
            causal=causal,
            pattern=pattern,
        )
        return y.transpose(0, 1)
    check_pattern(pattern, top_k, self_attention)
    (attended, attending), weight, own = family_weights(
        q,
        k,
        hierarchy,
        self_attention=self_attention,
        position=position,
        scale=scale,
        focus=make_focus(top_k, top_k_includes_self, self_attention),
        pattern=pattern,
    )
    first, row_at = _leaf_order(hierarchy)
    count = hierarchy.leaf_counts

    # Each pair of siblings fills one block, and no entry is in two.
    size = count[attending] * count[attended]
    pair = torch.arange(size.numel(), device=size.device).repeat_interleave(size)
    entry = torch.arange(pair.numel(), device=size.device)
    entry = entry - (size.cumsum(0) - size)[pair]
    width = count[attended][pair]
    row = row_at[first[attending][pair] + entry // width]
    column = row_at[first[attended][pair] + entry % width]
    share = weight[pair] / width[:, None]
    diagonal = torch.arange(q.size(0), device=row.device)
    theta = q.new_zeros(q.size(0), q.size(0), q.size(1))
    theta = theta.index_put((row, column), share.to(theta.dtype))
    theta = theta.index_put((diagonal, diagonal), own.to(theta.dtype))
    return theta.permute(2, 0, 1)


def _leaf_order(hierarchy: SignalHierarchy) -> tuple[Tensor, Tensor]:
    """An order of the leaves in which those below any node follow one another.

    Returns:
        [M], place of the first leaf below a node; [N], the leaf row at each place.
    """
    parent, count = hierarchy.parent, hierarchy.leaf_counts
    # What the elder siblings hold; roots count as siblings.
    order = torch.argsort(parent, stable=True)
    before = count[order].cumsum(0) - count[order]
    family = parent[order]
    starts = torch.cat([family.new_ones(1), family.diff()])[: family.numel()] != 0
    base = before[starts][starts.cumsum(0) - 1]
    first = torch.empty_like(count).index_copy_(0, order, before - base)
    for depth in range(1, hierarchy.max_depth + 1):
        nodes = (hierarchy.depth == depth).nonzero().view(-1)
        first[nodes] += first[parent[nodes]]
    row_at = torch.argsort(first[hierarchy.leaves])
    return first, row_at


def _check(q: Tensor, k: Tensor, hierarchy: SignalHierarchy) -> None:
    check_is_hierarchy(hierarchy)
    if q.dim() != 3 or q.shape != k.shape:
        raise ValueError(
            f"q {tuple(q.shape)} and k {tuple(k.shape)} must have the same shape "
            "[num_leaves, heads, channels]"
        )
    if q.size(0) != hierarchy.num_leaves:
        raise ValueError(
            f"q and k have {q.size(0)} rows, but the hierarchy has "
            f"{hierarchy.num_leaves} leaves; give one row per leaf, in the order of "
            "hierarchy.leaves"
        )
    if q.size(0) > MAX_LEAVES:
        raise ValueError(
            f"the attention matrix of {q.size(0)} leaves has {q.size(0)}^2 entries a "
            f"head; it is built for at most {MAX_LEAVES} leaves: take a smaller tree, "
            "or hsa_pyg.ops.family_weights, whose memory grows with pairs of siblings"
        )


def _per_head(position: Tensor, q: Tensor, hierarchy: SignalHierarchy) -> Tensor:
    """[M, 1 or H, P]."""
    nodes, heads = hierarchy.num_nodes, q.size(1)
    given = position
    if position.dim() == 2:
        position = position.unsqueeze(1)
    fits = position.dim() == 3 and position.size(0) == nodes
    if not fits or position.size(1) not in (1, heads):
        raise ValueError(
            f"position must have shape [{nodes}, P] or [{nodes}, {heads}, P], got "
            f"{tuple(given.shape)}"
        )
    return position
