"""The passes along the tree: means and energies upward, contexts downward.

Nodes are numbered by depth, so that a level is a range of them. A launch works on one
large level, a program for each block of its nodes; or on a run of small ones, a single
program for each head that walks the levels with a barrier between them. Each node sums
over its own family in the order of its slots: there is nothing to be added in an order
that changes.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import triton
import triton.language as tl

from hsa_pyg.ops.triton.numerics import log_add, log_sigmoid, total
from hsa_pyg.ops.triton.rows import (
    leaves_below,
    load_members,
    load_part,
    place_of,
    program_of,
    store_part,
)


@triton.jit
def store_mean(
    x,
    mean,
    forest,
    node,
    head,
    heads,
    inner,
    first,
    ROW: tl.constexpr,
    CHANNELS: tl.constexpr,
    BLOCK_C: tl.constexpr,
    BLOCK: tl.constexpr,
    COMPUTE: tl.constexpr,
    MIXED: tl.constexpr,
):
    """Mean of some channels over the leaves below a node, from those of its members."""
    start = tl.load(forest.family_first + node)
    stop = start + tl.load(forest.family_size + node)
    result = tl.full((BLOCK_C,), 0.0, COMPUTE)
    for begin in range(start, stop, BLOCK):
        place = place_of(forest, begin, stop, head, heads, inner, -1, BLOCK)
        rows = load_members(
            x, mean, forest, place, first, ROW, CHANNELS, BLOCK_C, MIXED, COMPUTE
        )
        if MIXED:
            rows *= leaves_below(forest, place, COMPUTE)[:, None]
        result += total(rows, 0)
    result /= tl.load(forest.internal_count + node).to(COMPUTE)
    c = tl.arange(0, BLOCK_C)
    tl.store(mean + (node * heads + head) * ROW + first + c, result, c < CHANNELS)


@triton.jit
def store_means(
    rows,
    forest,
    node,
    head,
    heads,
    inner,
    S: tl.constexpr,
    BLOCK: tl.constexpr,
    COMPUTE: tl.constexpr,
    MIXED: tl.constexpr,
):
    """Means of q, k and v over the leaves below a node."""
    store_mean(
        rows.q, rows.mean, forest, node, head, heads, inner, 0, S.ROW, S.D, S.BLOCK_D,
        BLOCK, COMPUTE, MIXED,
    )  # fmt: skip
    store_mean(
        rows.k, rows.mean, forest, node, head, heads, inner, S.D, S.ROW, S.D, S.BLOCK_D,
        BLOCK, COMPUTE, MIXED,
    )  # fmt: skip
    store_mean(
        rows.v, rows.mean, forest, node, head, heads, inner, 2 * S.D, S.ROW, S.W,
        S.BLOCK_W, BLOCK, COMPUTE, MIXED,
    )  # fmt: skip


@triton.jit(do_not_specialize=["number"])
def large_leaf_only_means(
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
    """Means and -phi of those leaf-only families that no program holds as a whole."""
    head, program, programs = program_of(heads)
    for index in range(program, number, programs):
        node = tl.load(families + index)
        start = tl.load(forest.family_first + node)
        size = tl.load(forest.family_size + node)
        if size > M.BLOCK or M.PIECES > 1:
            store_means(rows, forest, node, head, heads, 0, S, BLOCK, M.COMPUTE, False)
            energy = tl.full((BLOCK,), 0.0, M.COMPUTE)
            for begin in range(start, start + size, BLOCK):
                slot = begin + tl.arange(0, BLOCK)
                real = slot < start + size
                leaf = tl.load(forest.slot_member + slot, real, other=0)
                line = leaf * heads + head
                energy += tl.load(state.leaf_mass + line, real, other=0.0)
            energy = total(energy, 0) / size.to(M.COMPUTE)
            tl.store(state.gain + node * heads + head, energy)


@triton.jit(do_not_specialize=["inner", "leaf_slots", "level", "levels", "seed"])
def means_upward(
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
    """Means of the nodes of mixed families, from ``level`` on upwards."""
    head, program, programs = program_of(heads)
    for step in range(0, levels):
        first = tl.load(forest.level_first + level - step)
        last = tl.load(forest.level_first + level - step + 1)
        for node in range(first + program, last, programs):
            if tl.load(forest.family_first + node) >= leaf_slots:
                store_means(
                    rows, forest, node, head, heads, inner, S, BLOCK, M.COMPUTE, True
                )
        tl.debug_barrier()


@triton.jit(do_not_specialize=["inner", "leaf_slots", "level", "levels", "seed"])
def energy_upward(
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
    """-phi of the nodes of mixed families, from ``level`` on upwards."""
    head, program, programs = program_of(heads)
    for step in range(0, levels):
        first = tl.load(forest.level_first + level - step)
        last = tl.load(forest.level_first + level - step + 1)
        for node in range(first + program, last, programs):
            start = tl.load(forest.family_first + node)
            if start >= leaf_slots:
                stop = start + tl.load(forest.family_size + node)
                energy = tl.full((BLOCK,), 0.0, M.COMPUTE)
                for begin in range(start, stop, BLOCK):
                    place = place_of(forest, begin, stop, head, heads, inner, -1, BLOCK)
                    line = place[2] * heads + head
                    own = tl.load(state.gain + line, place[1], other=0.0)
                    around = tl.load(state.mass + line, place[1], other=0.0)
                    number = leaves_below(forest, place, M.COMPUTE)
                    energy += tl.where(place[1], log_add(own, around) * number, 0.0)
                count = tl.load(forest.internal_count + node).to(M.COMPUTE)
                tl.store(state.gain + node * heads + head, total(energy, 0) / count)
        tl.debug_barrier()


@triton.jit(do_not_specialize=["inner", "leaf_slots", "level", "levels", "seed"])
def contexts_downward(
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
    """log w and ctx of the internal nodes, from ``level`` on downwards."""
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
            above = parent * heads + head
            x = tl.load(state.gain + line, inside, other=0.0)
            x -= tl.load(state.mass + line, inside, other=0.0)
            outer = tl.load(state.log_weight + above, inside, other=0.0)
            own = tl.where(inside, outer + log_sigmoid(x), 0.0)
            sent = tl.where(inside, tl.exp(outer + log_sigmoid(-x)), 0.0)
            held = load_part(state.context, above, inside, 0, S.W, S.W, S.BLOCK_W)
            more = load_part(state.brought, line, inside, 0, S.W, S.W, S.BLOCK_W)
            held += sent[:, None] * more
            tl.store(state.log_weight + line, own, real)
            store_part(state.context, held, line, real, 0, S.W, S.W, S.BLOCK_W)
        tl.debug_barrier()
