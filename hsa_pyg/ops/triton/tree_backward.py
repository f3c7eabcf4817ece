"""Transposes of the passes along the tree: what goes up first, then what comes down.

Gradients are carried of log weights (g = w dw), so that nothing is divided by a weight.
As in the forward pass each node sums over its own family in the order of its slots, and
small levels share a launch.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import triton
import triton.language as tl

from hsa_pyg.ops.triton.numerics import kept_share, sends, stays, total
from hsa_pyg.ops.triton.rows import (
    MIXED_LEAF,
    load_members,
    load_part,
    load_rows,
    place_of,
    program_of,
    store_part,
)


@triton.jit(do_not_specialize=["number"])
def leaf_only_collect(
    rows,
    forest,
    state,
    families,
    number,
    heads,
    S: tl.constexpr,
    M: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Gradients of ctx and of log w of leaf-only families from their leaves.

    What a leaf gets within its family, times the family's weight, is y less ctx.
    """
    head, program, programs = program_of(heads)
    c = tl.arange(0, S.BLOCK_W)
    for index in range(program, number, programs):
        node = tl.load(families + index)
        start = tl.load(forest.family_first + node)
        stop = start + tl.load(forest.family_size + node)
        line = node * heads + head
        outer = tl.load(state.context + line * S.W + c, c < S.W, other=0.0)
        gathered = tl.full((S.BLOCK_W,), 0.0, M.COMPUTE)
        worth = tl.full((S.BLOCK_W,), 0.0, M.COMPUTE)
        for begin in range(start, stop, BLOCK):
            slot = begin + tl.arange(0, BLOCK)
            real = slot < stop
            leaf = tl.load(forest.slot_member + slot, real, other=0)
            grad = load_rows(rows.grad_y, leaf, real, head, S.W, S.BLOCK_W).to(
                M.COMPUTE
            )
            own = load_part(state.y, leaf * heads + head, real, 0, S.W, S.W, S.BLOCK_W)
            gathered += total(grad, 0)
            worth += total(grad * (own.to(M.COMPUTE) - outer[None, :]), 0)
        tl.store(rows.grad_context + line * S.W + c, gathered, c < S.W)
        tl.store(state.grad_weight + line, total(worth, 0))


@triton.jit
def collect_members(
    rows, forest, state, place, outer, seed, S: tl.constexpr, M: tl.constexpr
):
    """What some members give their family: to ctx [BLOCK_W], and to log w each [R]."""
    _, real, member, _, head, heads, inner = place
    node = real & (member < inner)
    below = real & (member >= inner)
    row = member - inner
    line = member * heads + head
    grad = load_members(
        rows.grad_y, rows.grad_context, forest, place, 0, S.W, S.W, S.BLOCK_W, True,
        M.COMPUTE,
    )  # fmt: skip
    more = load_part(state.brought, line, real, 0, S.W, S.W, S.BLOCK_W)
    worth = total(more * grad, 1)
    gain = tl.load(state.gain + line, real, other=0.0)
    mass = tl.load(state.mass + line, real, other=0.0)
    keeps = outer * stays(gain, mass)
    share = sends(gain, mass)
    leaf = tl.load(forest.mixed_leaf + row, below, other=0)
    value = load_rows(rows.v, leaf, below, head, S.W, S.BLOCK_W).to(M.COMPUTE)
    own = keeps * total(value * grad, 1)
    if M.DROPOUT > 0.0:
        kept = kept_share(seed, MIXED_LEAF, head, row, row * 0, M.DROPOUT)
        own *= kept.to(M.COMPUTE)
    own = tl.where(node, tl.load(state.grad_weight + line, node, other=0.0), own)
    tl.store(state.turn + line, share * (own - keeps * worth), real)
    return total(grad, 0), tl.where(real, own + outer * share * worth, 0.0)


@triton.jit(do_not_specialize=["inner", "leaf_slots", "level", "levels", "seed"])
def collect_upward(
    rows,
    forest,
    state,
    inner,
    leaf_slots,
    level,
    levels,
    heads,
    seed,
    S: tl.constexpr,
    M: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Gradients of ctx and of log w of mixed families, from ``level`` on upwards.

    ``turn`` of each member is the gradient of -phi - L, by the split of its weight.
    """
    head, program, programs = program_of(heads)
    c = tl.arange(0, S.BLOCK_W)
    for step in range(0, levels):
        first = tl.load(forest.level_first + level - step)
        last = tl.load(forest.level_first + level - step + 1)
        for node in range(first + program, last, programs):
            start = tl.load(forest.family_first + node)
            if start >= leaf_slots:
                stop = start + tl.load(forest.family_size + node)
                line = node * heads + head
                outer = tl.exp(tl.load(state.log_weight + line))
                gathered = tl.full((S.BLOCK_W,), 0.0, M.COMPUTE)
                weights = tl.full((BLOCK,), 0.0, M.COMPUTE)
                for begin in range(start, stop, BLOCK):
                    place = place_of(forest, begin, stop, head, heads, inner, -1, BLOCK)
                    grad, weight = collect_members(
                        rows, forest, state, place, outer, seed, S, M
                    )
                    gathered += grad
                    weights += weight
                tl.store(rows.grad_context + line * S.W + c, gathered, c < S.W)
                tl.store(state.grad_weight + line, total(weights, 0))
        tl.debug_barrier()


@triton.jit(do_not_specialize=["inner", "leaf_slots", "level", "levels", "seed"])
def energy_downward(
    rows,
    forest,
    state,
    inner,
    leaf_slots,
    level,
    levels,
    heads,
    seed,
    S: tl.constexpr,
    M: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Gradient of -phi of the internal nodes, from ``level`` on downwards.

    With OUTSIDE it starts from ``outside`` [F + N + 1, H], which others want of -phi.
    """
    head, program, programs = program_of(heads)
    for step in range(0, levels):
        first = tl.load(forest.level_first + level + step)
        last = tl.load(forest.level_first + level + step + 1)
        for begin in range(first + program * BLOCK, last, programs * BLOCK):
            node = begin + tl.arange(0, BLOCK)
            real = node < last
            parent = tl.load(forest.internal_parent + node, real, other=-1)
            inside = parent >= 0
            line = node * heads + head
            above = tl.load(state.grad_gain + parent * heads + head, inside, other=0.0)
            count = tl.load(forest.internal_count + parent, inside, other=1)
            below = tl.load(forest.internal_count + node, inside, other=1)
            gain = tl.load(state.gain + line, inside, other=0.0)
            mass = tl.load(state.mass + line, inside, other=0.0)
            share = below.to(M.COMPUTE) / count.to(M.COMPUTE)
            grad = above * stays(gain, mass) * share
            grad += tl.load(state.turn + line, inside, other=0.0)
            if M.OUTSIDE:
                grad += tl.load(state.outside + line, real, other=0.0)
            tl.store(state.grad_gain + line, grad, real)
        tl.debug_barrier()


@triton.jit(do_not_specialize=["inner", "leaf_slots", "level", "levels", "seed"])
def means_downward(
    rows,
    forest,
    state,
    inner,
    leaf_slots,
    level,
    levels,
    heads,
    seed,
    S: tl.constexpr,
    M: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Add every node's row of ``grads`` to those of the nodes below it."""
    head, program, programs = program_of(heads)
    for step in range(0, levels):
        first = tl.load(forest.level_first + level + step)
        last = tl.load(forest.level_first + level + step + 1)
        for begin in range(first + program * BLOCK, last, programs * BLOCK):
            node = begin + tl.arange(0, BLOCK)
            parent = tl.load(forest.internal_parent + node, node < last, other=-1)
            real = parent >= 0
            line = node * heads + head
            above = parent * heads + head
            add_part(state.grads, line, above, real, 0, S.ROW, S.D, S.BLOCK_D)
            add_part(state.grads, line, above, real, S.D, S.ROW, S.D, S.BLOCK_D)
            add_part(state.grads, line, above, real, 2 * S.D, S.ROW, S.W, S.BLOCK_W)
        tl.debug_barrier()


@triton.jit
def add_part(
    x,
    line,
    above,
    real,
    first,
    ROW: tl.constexpr,
    CHANNELS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Add some channels of one line to those of another."""
    result = load_part(x, line, real, first, ROW, CHANNELS, BLOCK)
    result += load_part(x, above, real, first, ROW, CHANNELS, BLOCK)
    store_part(x, result, line, real, first, ROW, CHANNELS, BLOCK)
