"""The transpose of :mod:`hsa_pyg.ops.untied`: gradients of q, k, v and positions."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hsa_pyg.compilation import with_spare_rows
from hsa_pyg.ops import levels
from hsa_pyg.ops.root_paths import RootPaths, Run
from hsa_pyg.ops.untied import (
    Members,
    Scores,
    UntiedCall,
    exp_less,
    gather_members,
    score_run,
)


@dataclass(frozen=True)
class Incoming:
    """What comes from above, per leaf, with a spare row."""

    y: Tensor  #: [N + 1, H, W] gradient of y
    mass: Tensor  #: [N + 1, H] the log-sum-exps of the forward pass
    delta: Tensor  #: [N + 1, H] <y, gradient of y>


@dataclass(frozen=True)
class Gradients:
    """Sums that the tiles add to."""

    q: Tensor  #: [N + 1, H, D]
    leaf: Tensor  #: [N, H, D + W] keys and values of leaves as members
    entity: Tensor  #: [E, H, D + W] of entities
    position: Tensor | None  #: [M, 1 or H, P]


class EnergyGradient:
    """What the energies of a leaf's ancestors add to the gradient of its scores.

    With c_A the gradient of -phi(A) / n_A and L_A a leaf's log-sum-exp within A, a
    score within A receives exp(s - L_A) E_A, where E_A = c_A + E_parent exp(L_A -
    L_parent). Needs the log-sum-exps after every level: N times the depth numbers.
    """

    def __init__(
        self, call: UntiedCall, paths: RootPaths, mass: Tensor, grad_gain: Tensor
    ) -> None:
        self.call, self.paths, self.grad_gain = call, paths, grad_gain
        self.at_level: list[Tensor] = []
        self.mass, self.factor = mass, torch.zeros_like(mass)

    def collect(self, members: Members, q: Tensor, own: Tensor) -> None:
        """Run the scores upward once more and keep the log-sum-exps."""
        mass = own.clone()
        channels = members.leaf.size(1) * members.leaf.size(2)
        for _, groups in self.paths.levels(upward=True):
            for run in self.paths.runs(groups, channels):
                total = score_run(self.call, run, members, q).s.logsumexp(-1)
                total = total.transpose(1, 2)
                mass[run.leaf] = torch.logaddexp(mass[run.leaf], total)
            self.at_level.append(mass.clone())

    def descend(self, nodes: slice) -> None:
        """Go to the families of the next lower level."""
        below = self.at_level.pop()
        node, leaf = self.paths.leaves_below(nodes)
        count = self.call.layout.internal_count[nodes][node]
        own = self.grad_gain[nodes][node] / count.to(below.dtype)[:, None]
        inner = exp_less(below[leaf], self.mass[leaf])
        self.factor[leaf] = own + self.factor[leaf] * inner
        self.mass = self.mass.index_copy(0, leaf, below[leaf])


def backward(
    call: UntiedCall,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    y: Tensor,
    mass: Tensor,
    grad_y: Tensor,
    grad_gain: Tensor | None,
    grad_own: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Gradients of q, k, v and position.

    Args:
        call: the call.
        q: [N, H, D], in the dtype that is computed in, as all tensors here.
        k: see q.
        v: [N, H, W].
        y: [N, H, W] of the forward pass.
        mass: [N, H], its log-sum-exps.
        grad_y: [N, H, W].
        grad_gain: [F, H], gradient of -phi of the internal nodes, or None.
        grad_own: [N, H], the same of the leaves, or None.
    """
    layout, members = call.layout, gather_members(call, k, v)
    own = call.self_scores(q, k)
    incoming = Incoming(
        *(with_spare_rows(x, 1) for x in (grad_y, mass, (y * grad_y).sum(-1)))
    )
    total = Gradients(
        torch.zeros_like(with_spare_rows(q, 1)),
        torch.zeros_like(members.leaf),
        torch.zeros_like(members.entity),
        None
        if call.position is None
        else torch.zeros_like(call.position, dtype=q.dtype),
    )
    paths, spare_q = RootPaths(layout, q.size(0)), with_spare_rows(q, 1)
    energy = None
    if grad_gain is not None:
        energy = EnergyGradient(call, paths, incoming.mass, grad_gain)
        energy.collect(members, spare_q, with_spare_rows(own, 1))
    channels = members.leaf.size(1) * members.leaf.size(2)
    for nodes, groups in paths.levels(upward=False):
        if energy is not None:
            energy.descend(nodes)
        for run in paths.runs(groups, channels):
            t = score_run(call, run, members, spare_q)
            _transpose_run(call, run, t, incoming, energy, total)

    inner = layout.internal_count.numel()
    grad_mean = total.entity[:inner] / layout.internal_count.to(q.dtype)[:, None, None]
    levels.add_downward(layout, grad_mean)
    total.leaf.add_(with_spare_rows(grad_mean, 1)[layout.leaf_parent])
    total.leaf.index_add_(0, layout.mixed_leaf, total.entity[inner:])
    grad_k, grad_v = total.leaf.split([k.size(2), v.size(2)], -1)
    return _own_column(
        call, (q, k, v), own, incoming, energy, grad_own, (total, grad_k, grad_v)
    )


def _transpose_run(
    call: UntiedCall,
    run: Run,
    t: Scores,
    incoming: Incoming,
    energy: EnergyGradient | None,
    total: Gradients,
) -> None:
    """Add what a tile gives to the sums."""
    across = [x[run.leaf].transpose(1, 2) for x in (incoming.y, *_rows(incoming))]
    grad, mass, delta = across
    weight = exp_less(t.s, mass)
    grad_s = torch.matmul(grad, t.v.transpose(2, 3))
    spread = weight
    if (kept := call.kept(weight, 4 + 4 * run.number)) is not None:
        grad_s, spread = grad_s * kept, weight * kept
    grad_s = weight * (grad_s - delta)
    if energy is not None:
        factor, inner = (
            x[run.leaf].transpose(1, 2)[..., None] for x in (energy.factor, energy.mass)
        )
        grad_s = grad_s + factor * exp_less(t.s, inner)
    if t.eps is not None and total.position is not None:
        pairs = torch.matmul(t.own.to(grad_s.dtype).transpose(2, 3), grad_s)
        if t.eps.size(1) == 1:
            pairs = pairs.sum(1, keepdim=True)
        grad_eps = torch.matmul(pairs + pairs.transpose(2, 3), t.eps).transpose(1, 2)
        node = call.layout.entity_node if run.mixed else call.leaves
        _add_rows(total.position, node[run.member], grad_eps, run)
    grad_s = grad_s * call.scale
    grad_q = torch.matmul(grad_s, t.k).transpose(1, 2)
    total.q[run.leaf] += grad_q
    grad_k = torch.matmul(grad_s.transpose(2, 3), t.q)
    grad_v = torch.matmul(spread.transpose(2, 3), grad)
    rows = torch.cat([grad_k, grad_v], -1).transpose(1, 2)
    _add_rows(total.entity if run.mixed else total.leaf, run.member, rows, run)


def _rows(incoming: Incoming) -> tuple[Tensor, Tensor]:
    return incoming.mass[..., None], incoming.delta[..., None]


def _add_rows(total: Tensor, index: Tensor, rows: Tensor, run: Run) -> None:
    rows = rows.masked_fill(run.hidden[..., None, None], 0)
    total.index_add_(0, index.reshape(-1), rows.flatten(0, 1))


def _own_column(
    call: UntiedCall,
    inputs: tuple[Tensor, Tensor, Tensor],
    own: Tensor,
    incoming: Incoming,
    energy: EnergyGradient | None,
    grad_own: Tensor | None,
    sums: tuple[Gradients, Tensor, Tensor],
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Add what every leaf gives itself; the spare row is left out."""
    (q, k, v), (total, grad_k, grad_v) = inputs, sums
    grad_q, grad_y = total.q[:-1], incoming.y[:-1]
    if not call.self_attention:
        return grad_q, grad_k, grad_v, total.position
    weight = exp_less(own, incoming.mass[:-1])
    kept = call.kept(with_spare_rows(own, 1), 0)
    spread = weight if kept is None else weight * kept[:-1]
    pull = spread * (grad_y * v).sum(-1) - weight * incoming.delta[:-1]
    if energy is not None:
        pull = pull + energy.factor[:-1] * exp_less(own, energy.mass[:-1])
    if grad_own is not None:
        pull = pull + grad_own
    if call.position is not None and total.position is not None:
        pairs = pull if call.position.size(1) > 1 else pull.sum(1, keepdim=True)
        eps = call.position[call.leaves].to(q.dtype)
        total.position.index_add_(0, call.leaves, 2 * pairs[..., None] * eps)
    pull = pull[..., None] * call.scale
    return (
        grad_q + pull * k,
        grad_k + pull * q,
        grad_v + spread[..., None] * grad_y,
        total.position,
    )
