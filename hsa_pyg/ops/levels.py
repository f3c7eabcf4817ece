"""The passes along the tree: means and energies upward, contexts downward.

One reduction or gather a level, over scalars and vectors of internal nodes; the leaves
of mixed families join in one go. Each pass comes with its transpose, in place.

Legend: F internal nodes, E entities (internal nodes, then leaves of mixed families).
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from hsa_pyg.compilation import FamilyLayout


def levels(layout: FamilyLayout, upward: bool) -> Iterator[tuple[slice, slice, Tensor]]:
    """Internal nodes of each level but the roots', the level above, parents in it."""
    bounds = layout.level_ptr.tolist()
    steps = range(1, len(bounds) - 1)
    for level in reversed(steps) if upward else steps:
        above = slice(bounds[level - 1], bounds[level])
        nodes = slice(bounds[level], bounds[level + 1])
        yield nodes, above, layout.internal_parent[nodes] - above.start


def entity_parent(layout: FamilyLayout) -> Tensor:
    """Internal number of the parent of every entity, 0 for roots: [E]."""
    parent = torch.cat([layout.internal_parent, layout.mixed_leaf_parent])
    return parent.clamp_(min=0)


def entity_share(layout: FamilyLayout, dtype: torch.dtype) -> Tensor:
    """n_B / n_A of every entity B and its parent A: [E, 1]."""
    share = torch.cat([layout.internal_share, layout.mixed_leaf_share])
    return share.to(dtype)[:, None]


def sum_upward(layout: FamilyLayout, total: Tensor) -> None:
    """Add every internal node's row of ``total`` [F, ...] to all its ancestors."""
    for nodes, above, parent in levels(layout, upward=True):
        total[above].index_add_(0, parent, total[nodes])


def add_downward(layout: FamilyLayout, value: Tensor) -> None:
    """Add every internal node's row of ``value`` [F, ...] to all its descendants."""
    for nodes, above, parent in levels(layout, upward=False):
        value[nodes] += value[above].index_select(0, parent)


def energy_upward(layout: FamilyLayout, gain: Tensor, mass: Tensor) -> None:
    r"""Complete ``gain`` = -phi in place (docs/mathematics.md, section 4, step 3).

    .. math:: -\phi(A) = \sum_B \frac{n_B}{n_A} \log(e^{-\phi(B)} + e^{L_B})

    Args:
        layout: the compiled forest.
        gain: [E, H]; leaf-only families and leaves are final, mixed families 0.
        mass: [E, H], the log-sum-exp L over the siblings.
    """
    count = layout.internal_parent.numel()
    share = entity_share(layout, gain.dtype)
    leaf = torch.logaddexp(gain[count:], mass[count:]) * share[count:]
    gain[:count].index_add_(0, layout.mixed_leaf_parent, leaf)
    for nodes, above, parent in levels(layout, upward=True):
        term = torch.logaddexp(gain[nodes], mass[nodes]) * share[nodes]
        gain[above].index_add_(0, parent, term)


def energy_transposed(
    layout: FamilyLayout, grad_gain: Tensor, grad_mass: Tensor, mu: Tensor, send: Tensor
) -> None:
    """Transpose of :func:`energy_upward`, in place on [E, H] gradients."""
    count = layout.internal_parent.numel()
    share = entity_share(layout, mu.dtype)
    keep, give = mu * share, send * share
    for nodes, above, parent in levels(layout, upward=False):
        grad = grad_gain[above].index_select(0, parent)
        grad_gain[nodes].addcmul_(grad, keep[nodes])
        grad_mass[nodes].addcmul_(grad, give[nodes])
    grad = grad_gain[layout.mixed_leaf_parent]
    grad_gain[count:].addcmul_(grad, keep[count:])
    grad_mass[count:].addcmul_(grad, give[count:])


def split(gain: Tensor, mass: Tensor) -> tuple[Tensor, Tensor]:
    """log mu and log(1 - mu) with mu = sigmoid(gain - mass); gain may be -inf."""
    difference = gain - mass
    return logsigmoid(difference), logsigmoid(-difference)


def contexts_downward(
    layout: FamilyLayout, log_mu: Tensor, log_send: Tensor, brought: Tensor
) -> tuple[Tensor, Tensor]:
    """log w [F, H] and ctx [F, H, W] of the internal nodes (section 4, step 4)."""
    count = layout.internal_parent.numel()
    log_weight = torch.zeros_like(log_mu[:count])
    context = torch.zeros_like(brought[:count])
    for nodes, above, parent in levels(layout, upward=False):
        outer = log_weight[above].index_select(0, parent)
        log_weight[nodes] = outer + log_mu[nodes]
        sent = (outer + log_send[nodes]).exp()[..., None]
        held = context[above].index_select(0, parent)
        context[nodes] = held.addcmul_(sent, brought[nodes])
    return log_weight, context


def contexts_transposed(
    layout: FamilyLayout,
    grad_context: Tensor,
    grad_log_weight: Tensor,
    sent: Tensor,
    brought: Tensor,
) -> Tensor:
    """Transpose of :func:`contexts_downward`, in place.

    Args:
        layout: the compiled forest.
        grad_context: [E, H, W]; final for leaves, what their leaves give for the
            internal nodes. Completed to the sum over all leaves below.
        grad_log_weight: [F, H], gradient of log w, likewise.
        sent: [E, H], w of the parent times 1 - mu.
        brought: [E, H, W], what the siblings bring, m.

    Returns:
        [E, H], <m, grad_context>.
    """
    count = layout.internal_parent.numel()
    worth = torch.zeros_like(sent)
    worth[count:] = (brought[count:] * grad_context[count:]).sum(-1)
    for nodes, above, parent in levels(layout, upward=True):
        worth[nodes] = (brought[nodes] * grad_context[nodes]).sum(-1)
        up = grad_log_weight[nodes] + sent[nodes] * worth[nodes]
        grad_log_weight[above].index_add_(0, parent, up)
        grad_context[above].index_add_(0, parent, grad_context[nodes])
    return worth
