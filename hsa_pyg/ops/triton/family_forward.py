"""Softmax attention inside families: one program for each tile and head.

A tile has at most 64 slots: whole families, whose keys are its own slots, or a piece of
a larger family, whose keys the program walks in blocks with an online softmax (LOOP).
Scores never leave the program.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import triton
import triton.language as tl

from hsa_pyg.ops.triton.numerics import kept_share, largest, total
from hsa_pyg.ops.triton.rows import (
    families_of,
    load_keys,
    load_queries,
    place_of,
    self_scores,
    store_part,
    tile_bounds,
    weigh,
)


@triton.jit
def attend_to(
    of_queries, of_keys, forest, queries, keys, seed, so_far, S: tl.constexpr,
    M: tl.constexpr,
):  # fmt: skip
    """A step of the online softmax: maximum, sum and context after some more keys."""
    top, mass, context = so_far
    q, eps = of_queries
    k, v, eps_k = of_keys
    slot, _, _, _, head, _, _ = queries
    s = weigh(q, k, eps, eps_k, forest, queries, keys, S, M)
    higher = tl.maximum(top, largest(s, 1))
    # Padding sees no key at all.
    level = tl.where(higher == float("-inf"), 0.0, higher)
    weight = tl.exp(s - level[:, None])
    before = tl.exp(top - level)
    mass = mass * before + total(weight, 1)
    if M.DROPOUT > 0.0:
        kept = kept_share(
            seed, M.MIXED, head, slot[:, None], keys[0][None, :], M.DROPOUT
        )
        weight *= kept.to(M.COMPUTE)
    gained = tl.dot(weight.to(M.OPERAND), v, input_precision=M.PRECISION)
    return higher, mass, context * before[:, None] + gained


@triton.jit
def attend(
    of_queries, of_keys, rows, forest, queries, begin, end, seed, S: tl.constexpr,
    M: tl.constexpr,
):  # fmt: skip
    """Context [BLOCK, BLOCK_W] and log-sum-exp [BLOCK] of the queries of some slots.

    ``of_keys`` are the rows of the same slots, which are all keys unless LOOP.
    """
    _, _, _, _, head, heads, inner = queries
    top = tl.full((M.BLOCK,), float("-inf"), M.COMPUTE)
    mass = tl.full((M.BLOCK,), 0.0, M.COMPUTE)
    context = tl.full((M.BLOCK, S.BLOCK_W), 0.0, M.COMPUTE)
    if M.LOOP:
        first, last = families_of(forest, begin, end)
        for start in range(first, last, M.BLOCK):
            so_far = top, mass, context
            keys = place_of(forest, start, last, head, heads, inner, -2, M.BLOCK)
            more = load_keys(rows, forest, keys, S, M)
            top, mass, context = attend_to(
                of_queries, more, forest, queries, keys, seed, so_far, S, M
            )
    else:
        so_far = top, mass, context
        keys = place_of(forest, begin, end, head, heads, inner, -2, M.BLOCK)
        top, mass, context = attend_to(
            of_queries, of_keys, forest, queries, keys, seed, so_far, S, M
        )
    mass = tl.where(mass > 0, mass, 1.0)
    level = tl.where(top == float("-inf"), 0.0, top)
    return context / mass[:, None], level + tl.log(mass)


@triton.jit
def store_whole_families(
    q, k, v, rows, forest, state, place, mass, S: tl.constexpr, M: tl.constexpr
):
    """Means and -phi of the leaf-only families that a program holds as a whole.

    They have two members at least: half as many rows as slots hold them, and a product
    with a matrix of zeros and ones sums them, exactly whatever the operands.
    """
    slot, real, _, family, head, heads, _ = place
    first = tl.load(forest.family_first + family, real, other=-1) == slot
    rank = tl.associative_scan(first.to(tl.int32), 0, tl.standard._sum_combine) - 1
    row = tl.arange(0, M.BLOCK // 2)
    inside = (rank[None, :] == row[:, None]) & real[None, :]
    number = total(inside.to(tl.int32), 1)
    owner = largest(tl.where(inside, family[None, :].to(tl.int32), -1), 1)
    owner = owner.to(tl.int64)
    size = tl.load(forest.family_size + owner, owner >= 0, other=0)
    whole = (owner >= 0) & (number == size)
    number = tl.maximum(number, 1).to(M.COMPUTE)
    line = owner * heads + head
    energy = total(tl.where(inside, mass[None, :], 0.0), 1) / number
    tl.store(state.gain + line, energy, whole)
    inside = inside.to(M.OPERAND)
    x = tl.dot(inside, q, input_precision=M.EXACT) / number[:, None]
    store_part(rows.mean, x, line, whole, 0, S.ROW, S.D, S.BLOCK_D)
    x = tl.dot(inside, k, input_precision=M.EXACT) / number[:, None]
    store_part(rows.mean, x, line, whole, S.D, S.ROW, S.D, S.BLOCK_D)
    x = tl.dot(inside, v, input_precision=M.EXACT) / number[:, None]
    store_part(rows.mean, x, line, whole, 2 * S.D, S.ROW, S.W, S.BLOCK_W)


@triton.jit(do_not_specialize=["first_tile", "inner", "seed"])
def leaf_only_forward(
    rows,
    forest,
    state,
    out,
    first_tile,
    inner,
    heads,
    seed,
    S: tl.constexpr,
    M: tl.constexpr,
):
    """Contexts within leaf-only families, to y, and log-sum-exps.

    Also the means, and -phi, of the families that a program holds as a whole.
    """
    program = tl.program_id(0).to(tl.int64)
    head = program % heads
    piece = program // heads
    tile = first_tile + piece // M.PIECES
    begin, end = tile_bounds(forest, tile, piece % M.PIECES, M.BLOCK)
    place = place_of(forest, begin, end, head, heads, inner, -1, M.BLOCK)
    _, real, member, _, _, _, _ = place
    of_queries = load_queries(rows, forest, place, S, M)
    of_keys = load_keys(rows, forest, place, S, M)
    context, mass = attend(
        of_queries, of_keys, rows, forest, place, begin, end, seed, S, M
    )
    line = member * heads + head
    store_part(state.y, context, line, real, 0, S.W, S.W, S.BLOCK_W)
    tl.store(state.leaf_mass + line, mass, real)
    if M.PIECES == 1:
        store_whole_families(
            of_queries[0],
            of_keys[0],
            of_keys[1],
            rows,
            forest,
            state,
            place,
            mass,
            S,
            M,
        )


@triton.jit(do_not_specialize=["first_tile", "inner", "seed"])
def mixed_forward(
    rows,
    forest,
    state,
    out,
    first_tile,
    inner,
    heads,
    seed,
    S: tl.constexpr,
    M: tl.constexpr,
):
    """m and L of the members of mixed families, and -phi of those that are leaves."""
    program = tl.program_id(0).to(tl.int64)
    head = program % heads
    piece = program // heads
    tile = first_tile + piece // M.PIECES
    begin, end = tile_bounds(forest, tile, piece % M.PIECES, M.BLOCK)
    place = place_of(forest, begin, end, head, heads, inner, -1, M.BLOCK)
    _, real, member, _, _, _, _ = place
    of_queries = load_queries(rows, forest, place, S, M)
    of_keys = load_keys(rows, forest, place, S, M)
    context, mass = attend(
        of_queries, of_keys, rows, forest, place, begin, end, seed, S, M
    )
    below = real & (member >= inner)
    own = tl.full((M.BLOCK,), float("-inf"), M.COMPUTE)
    if M.SELF:
        leaf = tl.load(forest.mixed_leaf + (member - inner), below, other=0)
        own = self_scores(rows, forest, leaf, below, head, S, M)
    line = member * heads + head
    store_part(state.brought, context, line, real, 0, S.W, S.W, S.BLOCK_W)
    tl.store(state.mass + line, mass, real)
    tl.store(state.gain + line, own, below)
