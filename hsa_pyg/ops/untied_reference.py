"""The definition of attention with untied queries (docs/mathematics.md, section 9).

Like :mod:`hsa_pyg.ops.reference` an oracle: one leaf after the other, in Python,
differentiated by autograd.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from hsa_pyg.hierarchy import SignalHierarchy
from hsa_pyg.ops.reference import filled_children


def reference_untied(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    hierarchy: SignalHierarchy,
    *,
    self_attention: bool = True,
    causal: bool = False,
    position: Tensor | None = None,
    scale: float = 1.0,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    r"""One softmax per leaf over itself and the blocks that hang off its root path.

    Args:
        q: queries of the leaves, [N, H, D].
        k: keys of the leaves, [N, H, D].
        v: values of the leaves, [N, H, Dv].
        hierarchy: the forest of M nodes and N leaves.
        self_attention: whether a leaf attends to itself.
        causal: whether siblings with larger node ids are out of sight.
        position: positional embeddings :math:`\epsilon`, [M, 1 or H, P].
        scale: the factor c of the scores.
        dropout: probability that an attention weight is dropped.

    Returns:
        y [N, H, Dv] and the energy phi [M, H], 0 for nodes without leaves.
    """
    children, order = filled_children(hierarchy)
    count, parent = hierarchy.leaf_counts.tolist(), hierarchy.parent.tolist()
    row = {node: i for i, node in enumerate(hierarchy.leaves.tolist())}
    mean: dict[int, tuple[Tensor, Tensor]] = {}
    for node in reversed(order):
        if node in row:
            mean[node] = k[row[node]], v[row[node]]
            continue
        parts = [(count[c] / count[node], *mean[c]) for c in children[node]]
        mean[node] = (
            sum(share * key for share, key, _ in parts),
            sum(share * value for share, _, value in parts),
        )

    def meet(b: int, c: int) -> Tensor | float:
        return 0.0 if position is None else (position[b] * position[c]).sum(-1)

    nothing = q.new_full(q.shape[1:2], float("-inf"))
    rows = []
    # log of what each leaf's softmax sums up below a node, by node and leaf.
    totals: dict[int, list[Tensor]] = {node: [] for node in order}
    for leaf, i in row.items():
        scores, values = [], []
        if self_attention:
            scores.append(scale * (q[i] * k[i]).sum(-1) + meet(leaf, leaf))
            values.append(v[i])
        node = leaf
        while True:
            total = torch.stack(scores).logsumexp(0) if scores else nothing
            totals[node].append(total)
            if parent[node] < 0:
                break
            for c in children[parent[node]]:
                if c != node and not (causal and c > node):
                    s = scale * (q[i] * mean[c][0]).sum(-1) + meet(node, c)
                    scores.append(s + math.log(count[c]))
                    values.append(mean[c][1])
            node = parent[node]
        if not scores:
            rows.append(v[i] * 0)  # nothing, but a part of the graph
            continue
        weight = torch.nn.functional.dropout(torch.stack(scores).softmax(0), dropout)
        rows.append((weight[..., None] * torch.stack(values)).sum(0))
    zero = q.new_zeros(q.shape[1:2])
    phi = [
        -torch.stack(totals[i]).mean(0) if i in totals else zero
        for i in range(hierarchy.num_nodes)
    ]
    return (
        torch.stack(rows) if rows else torch.zeros_like(v),
        torch.stack(phi) if phi else q.new_zeros(0, q.size(1)),
    )
