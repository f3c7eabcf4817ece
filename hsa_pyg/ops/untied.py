"""Attention with untied queries: one softmax per leaf along its root path.

The keys keep the block constraint, the queries do not: a leaf looks at itself and at
every block that hangs off its root path (docs/mathematics.md, section 9). Families are
taken level by level, from the deepest up; each adds to the sums of the leaves below it.
The backward pass computes the scores again.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hsa_pyg.compilation import FamilyLayout, with_spare_rows
from hsa_pyg.ops import levels
from hsa_pyg.ops.family import dropout_factors
from hsa_pyg.ops.root_paths import RootPaths, Run


@dataclass(frozen=True)
class UntiedCall:
    """Everything but q, k and v.

    Args:
        layout: the compiled forest.
        leaves: [N] node ids of the leaves.
        position: [M, 1 or H, P] or None.
        scale: the factor c of the scores.
        self_attention: whether a leaf attends to itself.
        causal: whether later siblings are out of sight.
        dropout: probability that an attention weight is dropped.
        seed: what dropout is drawn from.
    """

    layout: FamilyLayout
    leaves: Tensor
    position: Tensor | None
    scale: float
    self_attention: bool
    causal: bool
    dropout: float
    seed: int

    def self_scores(self, q: Tensor, k: Tensor) -> Tensor:
        """s(i, i) of all leaves, [N, H]; -infinity without self-attention."""
        if not self.self_attention:
            return torch.full_like(q[..., 0], float("-inf"))
        score = (q * k).sum(-1) * self.scale
        if self.position is not None:
            score = score + self.position[self.leaves].to(q.dtype).square().sum(-1)
        return score

    def kept(self, like: Tensor, number: int) -> Tensor | None:
        """Dropout's factors, the same at every call; None without dropout."""
        if self.dropout == 0.0:
            return None
        return dropout_factors(like, self.dropout, self.seed * 4 + number)


@dataclass(frozen=True)
class Members:
    """Means of the keys and values of all that can be a member."""

    mean: Tensor  #: [F, H, D + W] of the internal nodes
    leaf: Tensor  #: [N, H, D + W] of the leaves
    entity: Tensor  #: [E, H, D + W] of internal nodes and leaves of mixed families


def gather_members(call: UntiedCall, k: Tensor, v: Tensor) -> Members:
    """Means of keys and values, from the leaves up."""
    layout, leaf = call.layout, torch.cat([k, v], -1)
    inner = layout.internal_count.numel()
    mean = leaf.new_zeros(inner + 1, *leaf.shape[1:])
    mean.index_add_(0, layout.leaf_parent, leaf)
    mean = mean[:-1]
    levels.sum_upward(layout, mean)
    mean.div_(layout.internal_count.to(mean.dtype)[:, None, None])
    return Members(mean, leaf, torch.cat([mean, leaf[layout.mixed_leaf]]))


@dataclass
class Scores:
    """Scores of the leaves of a tile, [T, H, r, b], and what they are made of."""

    s: Tensor
    q: Tensor  #: [T, H, r, D]
    k: Tensor  #: [T, H, b, D]
    v: Tensor  #: [T, H, b, W]
    eps: Tensor | None  #: [T, 1 or H, b, P]
    own: Tensor  #: [T, 1, r, b] one-hot: the member that a leaf lies in


def score_run(call: UntiedCall, run: Run, members: Members, q: Tensor) -> Scores:
    """Scores of a tile; -infinity where a leaf may not look.

    Args:
        call: the call.
        run: the tile.
        members: means of keys and values.
        q: [N + 1, H, D], with a spare row.
    """
    layout, channels = call.layout, q.size(2)
    table = members.entity if run.mixed else members.leaf
    rows = table[run.member].transpose(1, 2)
    queries = q[run.leaf].transpose(1, 2)
    s = torch.matmul(queries * call.scale, rows[..., :channels].transpose(2, 3))
    width = run.member.size(1)
    column = torch.arange(width, device=s.device)
    own = column == run.own[..., None]
    eps = None
    if call.position is not None:
        node = layout.entity_node if run.mixed else call.leaves
        eps = call.position[node[run.member]].to(s.dtype).transpose(1, 2)
        pairs = torch.matmul(eps, eps.transpose(2, 3))
        s = s + torch.matmul(own[:, None].to(s.dtype), pairs)
    if run.mixed:
        s = s + layout.entity_log_count[run.member].to(s.dtype)[:, None, None]
    hidden = own | run.hidden[:, None]
    if call.causal:
        hidden = hidden | (column > run.own[..., None])
    s = s.masked_fill(hidden[:, None], float("-inf"))
    return Scores(
        s, queries, rows[..., :channels], rows[..., channels:], eps, own[:, None]
    )


def exp_less(s: Tensor, mass: Tensor) -> Tensor:
    """exp(s - mass), and 0 where both are -infinity."""
    return (s - mass.masked_fill(mass.isinf(), 0)).exp()


def forward(
    call: UntiedCall, q: Tensor, k: Tensor, v: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """y [N, H, W], the log-sum-exp of every leaf [N, H], and -phi [F, H], wide."""
    members = gather_members(call, k, v)
    mass = with_spare_rows(call.self_scores(q, k), 1)
    y, inner = with_spare_rows(v, 1), call.layout.internal_count.numel()
    if not call.self_attention:
        y = torch.zeros_like(y)
    elif (kept := call.kept(mass, 0)) is not None:
        y *= kept[..., None]
    q, gain = with_spare_rows(q, 1), mass.new_zeros(inner, mass.size(1))
    paths = RootPaths(call.layout, k.size(0))
    channels = members.leaf.size(1) * members.leaf.size(2)
    for nodes, groups in paths.levels(upward=True):
        for run in paths.runs(groups, channels):
            t = score_run(call, run, members, q)
            total = t.s.logsumexp(-1, keepdim=True)
            weight = exp_less(t.s, total)
            if (kept := call.kept(weight, 4 + 4 * run.number)) is not None:
                weight = weight * kept
            brought = torch.matmul(weight, t.v).transpose(1, 2)
            total = total.squeeze(-1).transpose(1, 2)
            before = mass[run.leaf]
            now = torch.logaddexp(before, total)
            y[run.leaf] = (
                y[run.leaf] * exp_less(before, now)[..., None]
                + brought * exp_less(total, now)[..., None]
            )
            mass[run.leaf] = now
        _mean_below(paths, nodes, mass, gain)
    return y[:-1], mass[:-1], gain


def _mean_below(paths: RootPaths, nodes: slice, mass: Tensor, gain: Tensor) -> None:
    """-phi of the nodes of a level: the mean over the leaves below."""
    family, leaf = paths.leaves_below(nodes)
    count = paths.layout.internal_count[nodes][family]
    share = mass[leaf] / count.to(mass.dtype)[:, None]
    gain[nodes].index_add_(0, family, share)
