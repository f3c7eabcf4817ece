"""Where gradients go once a family is done with them.

Leaves of leaf-only families take what the means above them bring and are finished. The
rows of entities go to ``state.grads``: those of nodes divided by their leaves, as the
gradient of each leaf below, those of leaves with what they take of themselves.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import triton
import triton.language as tl

from hsa_pyg.ops.triton.numerics import kept_share, stays
from hsa_pyg.ops.triton.rows import (
    MIXED_LEAF,
    leaves_below,
    load_members,
    load_part,
    load_rows,
    self_eps,
    store_part,
)


@triton.jit
def self_pull(forest, state, place, M: tl.constexpr):
    """Gradients of s(i, i) outside the family's own softmax, 0 for nodes: [R]."""
    _, real, member, family, head, heads, inner = place
    line = member * heads + head
    leaf = member
    below = real
    pull = (member * 0).to(M.COMPUTE)
    if M.MIXED:
        below = real & (member >= inner)
        leaf = tl.load(forest.mixed_leaf + (member - inner), below, other=0)
        gain = tl.load(state.gain + line, below, other=0.0)
        mass = tl.load(state.mass + line, below, other=0.0)
        above = tl.load(state.grad_gain + family * heads + head, below, other=0.0)
        count = tl.load(forest.internal_count + family, below, other=1).to(M.COMPUTE)
        pull += tl.load(state.turn + line, below, other=0.0)
        pull += above * stays(gain, mass) / count
    if M.OUTSIDE:
        pull += tl.load(state.outside + (inner + leaf) * heads + head, below, other=0.0)
    return tl.where(below, pull, 0.0)


@triton.jit
def add_means(
    grad,
    state,
    place,
    first,
    ROW: tl.constexpr,
    CHANNELS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Add what a leaf takes through the means of all nodes above it."""
    _, real, _, family, head, heads, _ = place
    line = family * heads + head
    return grad + load_part(state.grads, line, real, first, ROW, CHANNELS, BLOCK)


@triton.jit
def store_queries(
    grad, grad_eps, rows, forest, state, out, place, S: tl.constexpr, M: tl.constexpr
):
    """Finish and store gradients of queries and of positions."""
    _, real, member, _, head, heads, inner = place
    line = member * heads + head
    alone: tl.constexpr = M.SELF and (M.MIXED or M.OUTSIDE)
    if alone:
        pull = self_pull(forest, state, place, M)
        k = load_members(
            rows.k, rows.mean, forest, place, S.D, S.ROW, S.D, S.BLOCK_D, M.MIXED,
            M.COMPUTE,
        )  # fmt: skip
        grad += (pull * M.SCALE)[:, None] * k
    if M.MIXED:
        grad /= leaves_below(forest, place, M.COMPUTE)[:, None]
        store_part(state.grads, grad, line, real, 0, S.ROW, S.D, S.BLOCK_D)
    else:
        grad = add_means(grad, state, place, 0, S.ROW, S.D, S.BLOCK_D)
        store_part(out.q, grad, line, real, 0, S.D, S.D, S.BLOCK_D)
    if S.P > 0:
        if M.MIXED:
            store_part(out.entity_eps, grad_eps, line, real, 0, S.P, S.P, S.BLOCK_P)
            below = real & (member >= inner)
            leaf = tl.load(forest.mixed_leaf + (member - inner), below, other=0)
            own = grad_eps * 0.0
        else:
            below = real
            leaf = member
            own = grad_eps
        if alone:
            eps = self_eps(rows, forest, leaf, below, head, S, M)
            own += 2.0 * pull[:, None] * eps
        line = leaf * heads + head
        store_part(out.leaf_eps, own, line, below, 0, S.P, S.P, S.BLOCK_P)


@triton.jit
def store_keys(
    grad_k,
    grad_v,
    grad_eps,
    rows,
    forest,
    state,
    out,
    place,
    seed,
    S: tl.constexpr,
    M: tl.constexpr,
):
    """Finish and store gradients of keys and values; with LOOP add those of eps."""
    _, real, member, _, head, heads, _ = place
    line = member * heads + head
    if M.SELF and (M.MIXED or M.OUTSIDE):
        pull = self_pull(forest, state, place, M)
        q = load_members(
            rows.q, rows.mean, forest, place, 0, S.ROW, S.D, S.BLOCK_D, M.MIXED,
            M.COMPUTE,
        )  # fmt: skip
        grad_k += (pull * M.SCALE)[:, None] * q
    if M.MIXED:
        if M.SELF:
            grad_v += self_value(rows, forest, state, place, seed, S, M)
        number = leaves_below(forest, place, M.COMPUTE)[:, None]
        grad_k /= number
        grad_v /= number
        store_part(state.grads, grad_k, line, real, S.D, S.ROW, S.D, S.BLOCK_D)
        store_part(state.grads, grad_v, line, real, 2 * S.D, S.ROW, S.W, S.BLOCK_W)
    else:
        grad_k = add_means(grad_k, state, place, S.D, S.ROW, S.D, S.BLOCK_D)
        grad_v = add_means(grad_v, state, place, 2 * S.D, S.ROW, S.W, S.BLOCK_W)
        store_part(out.k, grad_k, line, real, 0, S.D, S.D, S.BLOCK_D)
        store_part(out.v, grad_v, line, real, 0, S.W, S.W, S.BLOCK_W)
    if S.P > 0 and M.LOOP:
        if M.MIXED:
            grad_eps += load_part(out.entity_eps, line, real, 0, S.P, S.P, S.BLOCK_P)
            store_part(out.entity_eps, grad_eps, line, real, 0, S.P, S.P, S.BLOCK_P)
        else:
            grad_eps += load_part(out.leaf_eps, line, real, 0, S.P, S.P, S.BLOCK_P)
            store_part(out.leaf_eps, grad_eps, line, real, 0, S.P, S.P, S.BLOCK_P)


@triton.jit
def self_value(
    rows, forest, state, place, seed, S: tl.constexpr, M: tl.constexpr
):  # fmt: skip
    """Gradients of their own values that leaves of mixed families take themselves."""
    _, real, member, family, head, heads, inner = place
    below = real & (member >= inner)
    row = member - inner
    line = member * heads + head
    leaf = tl.load(forest.mixed_leaf + row, below, other=0)
    gain = tl.load(state.gain + line, below, other=0.0)
    mass = tl.load(state.mass + line, below, other=0.0)
    weight = tl.exp(tl.load(state.log_weight + family * heads + head, below, other=0.0))
    keeps = weight * stays(gain, mass)
    if M.DROPOUT > 0.0:
        kept = kept_share(seed, MIXED_LEAF, head, row, row * 0, M.DROPOUT)
        keeps *= kept.to(M.COMPUTE)
    grad = load_rows(rows.grad_y, leaf, below, head, S.W, S.BLOCK_W).to(M.COMPUTE)
    return keeps[:, None] * grad
