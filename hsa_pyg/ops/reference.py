"""The definition of hierarchical self-attention (docs/mathematics.md, section 2).

This is the oracle: it follows the recursion as it is written, in Python, from nothing
but the parent vector, and lets autograd differentiate it. It is slow and stays so.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hsa_pyg.hierarchy import SignalHierarchy
from hsa_pyg.ops.focus import Focus
from hsa_pyg.ops.patterns import Pattern


def reference_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    hierarchy: SignalHierarchy,
    *,
    self_attention: bool = True,
    position: Tensor | None = None,
    scale: float = 1.0,
    focus: Focus | None = None,
    pattern: Pattern | None = None,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    r"""Hierarchical self-attention by its definition (Amizadeh et al., Eqs. 8-12).

    Args:
        q: queries of the leaves, [N, H, D].
        k: keys of the leaves, [N, H, D].
        v: values of the leaves, [N, H, Dv].
        hierarchy: the forest of M nodes and N leaves.
        self_attention: whether a leaf attends to itself.
        position: positional embeddings :math:`\epsilon`, [M, H, P].
        scale: the factor c of the scores.
        focus: what a query keeps of its siblings; None keeps all.
        pattern: what a node sees of its family by its place; None shows all.
        dropout: probability that an attention weight is dropped.

    Returns:
        y [N, H, Dv] and the energy phi [M, H], 0 for nodes without leaves.
    """
    children, order = filled_children(hierarchy)
    count = hierarchy.leaf_counts.tolist()
    row = {node: i for i, node in enumerate(hierarchy.leaves.tolist())}

    # Plain means over the leaves below.
    q_mean: dict[int, Tensor] = {}
    k_mean: dict[int, Tensor] = {}
    v_mean: dict[int, Tensor] = {}
    for node in reversed(order):
        if node in row:
            q_mean[node], k_mean[node] = q[row[node]], k[row[node]]
            v_mean[node] = v[row[node]]
            continue
        share = [count[child] / count[node] for child in children[node]]
        for mean in (q_mean, k_mean, v_mean):
            mean[node] = sum(
                s * mean[c] for s, c in zip(share, children[node], strict=True)
            )

    def score(b: int, c: int) -> Tensor:
        s = scale * (q_mean[b] * k_mean[c]).sum(-1)
        if position is not None:
            s = s + (position[b] * position[c]).sum(-1)
        return s

    nothing = q.new_full(q.shape[1:2], float("-inf"))
    keeps_itself: dict[int, Tensor] = {}

    # Family attention: log of the mass that goes to siblings, and what it brings.
    log_mass, brought = {}, {}
    for node in order:
        family = children.get(node, [])
        for place_of_b, b in enumerate(family):
            seen = family
            if pattern is not None:
                places = pattern.visible(place_of_b, len(family))
                seen = [family[i] for i in places]
            siblings = [c for c in seen if c != b]
            if not siblings:
                continue
            s = torch.stack([score(b, c) for c in siblings])  # [siblings, H]
            s = s + s.new_tensor([count[c] for c in siblings]).log()[:, None]
            if focus is not None:
                # A leaf may be one of those that compete, at its own place.
                place = sum(c < b for c in siblings)
                leaf = _end_of_chain(b, children)
                competes = focus.includes_self and leaf in row
                own = score(leaf, leaf) if competes else nothing
                kept = _kept(torch.cat([s[:place], own[None], s[place:]]), focus.top_k)
                if competes:
                    keeps_itself[b] = kept[place]
                others = torch.cat([kept[:place], kept[place + 1 :]])
                s = torch.where(others, s, float("-inf"))
            log_mass[b] = s.logsumexp(0)
            share_of = torch.nn.functional.dropout((s - log_mass[b]).exp(), dropout)
            value = torch.stack([v_mean[c] for c in siblings])
            brought[b] = (share_of[..., None] * value).sum(0)

    # Energy, leaves to roots. ``gain`` is -phi; -infinity where nothing is attended.
    gain: dict[int, Tensor] = {}

    def inside(b: int) -> Tensor:
        if b in keeps_itself:
            return torch.where(keeps_itself[b], gain[b], nothing)
        return gain[b]

    def bracket(b: int) -> Tensor:
        if b not in log_mass:  # no sibling, or none that it sees
            return inside(b)
        return _log_add(inside(b), log_mass[b])

    for node in reversed(order):
        if node in row:
            gain[node] = score(node, node) if self_attention else nothing
        elif len(children[node]) == 1:
            gain[node] = gain[children[node][0]]
        else:
            gain[node] = sum(
                count[b] / count[node] * bracket(b) for b in children[node]
            )

    # Contexts, roots to leaves.
    y = torch.zeros_like(v)
    weight: dict[int, Tensor] = {}
    context: dict[int, Tensor] = {}
    parent = hierarchy.parent.tolist()
    rows = [y[i] for i in range(y.size(0))]
    for node in order:
        if parent[node] < 0:
            weight[node] = torch.isfinite(gain[node]).to(q.dtype)
            context[node] = torch.zeros_like(v_mean[node])
        elif node not in log_mass:
            weight[node], context[node] = weight[parent[node]], context[parent[node]]
        else:
            mu = torch.sigmoid(inside(node) - log_mass[node])
            above = weight[parent[node]]
            weight[node] = above * mu
            context[node] = (
                context[parent[node]] + (above * (1 - mu))[..., None] * brought[node]
            )
        if node in row:
            kept = torch.nn.functional.dropout(weight[node], dropout)
            rows[row[node]] = context[node] + kept[..., None] * v[row[node]]
    zero = q.new_zeros(q.shape[1:2])
    phi = [-gain[i] if i in gain else zero for i in range(hierarchy.num_nodes)]
    return (
        torch.stack(rows) if rows else y,
        torch.stack(phi) if phi else q.new_zeros(0, q.size(1)),
    )


def filled_children(
    hierarchy: SignalHierarchy,
) -> tuple[dict[int, list[int]], list[int]]:
    """Children that have leaves, and the nodes that have leaves, parents first."""
    parent = hierarchy.parent.tolist()
    count = hierarchy.leaf_counts.tolist()
    depth = hierarchy.depth.tolist()
    nodes = [node for node in range(hierarchy.num_nodes) if count[node] > 0]
    children: dict[int, list[int]] = {}
    for node in nodes:
        if parent[node] >= 0:
            children.setdefault(parent[node], []).append(node)
    return children, sorted(nodes, key=depth.__getitem__)


def _end_of_chain(node: int, children: dict[int, list[int]]) -> int:
    """The first node from ``node`` down that is no only child's parent."""
    while len(children.get(node, ())) == 1:
        node = children[node][0]
    return node


def _kept(rivals: Tensor, number: int) -> Tensor:
    """Which of [C, H] are the largest of each head, of equal ones the earlier."""
    order = rivals.argsort(dim=0, descending=True, stable=True)
    return order.argsort(0) < number


def _log_add(a: Tensor, b: Tensor) -> Tensor:
    """log(exp a + exp b); a may be -infinity and has no gradient there, b is finite."""
    real = torch.isfinite(a)
    return torch.where(real, torch.logaddexp(torch.where(real, a, b), b), b)
