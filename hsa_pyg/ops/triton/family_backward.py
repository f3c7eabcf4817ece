"""The transpose of attention inside families: weights are computed again from scores.

Where whole families lie in a program's slots, one pass gives the gradients of queries,
keys and values. Otherwise (LOOP) one kernel walks the keys of some queries, and another
the queries of some keys. Each row is written by one program, which sums in the order of
the slots: the same inputs give the same bits.

The loss depends on a query's context, by ``weight`` times its row of ``grad``, and on
its log-sum-exp, by ``offset``: its *terms*.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import triton
import triton.language as tl

from hsa_pyg.ops.triton.gradients import store_keys, store_queries
from hsa_pyg.ops.triton.numerics import kept_share, sends, total
from hsa_pyg.ops.triton.rows import (
    families_of,
    leaves_below,
    load_keys,
    load_members,
    load_queries,
    place_of,
    tile_bounds,
    weigh,
)


@triton.jit
def terms_of(forest, state, queries, M: tl.constexpr):
    """Log-sum-exp, weight of the context, gradient of the log-sum-exp: [R] each."""
    _, real, member, family, head, heads, _ = queries
    line = member * heads + head
    owner = family * heads + head
    weight = tl.exp(tl.load(state.log_weight + owner, real, other=0.0))
    offset = tl.load(state.grad_gain + owner, real, other=0.0)
    if M.MIXED:
        mass = tl.load(state.mass + line, real, other=0.0)
        count = tl.load(forest.internal_count + family, real, other=1).to(M.COMPUTE)
        share = sends(tl.load(state.gain + line, real, other=0.0), mass)
        offset *= share * leaves_below(forest, queries, M.COMPUTE) / count
        offset -= tl.load(state.turn + line, real, other=0.0)
        weight *= share
    else:
        # -phi of the family is the mean of its log-sum-exps.
        mass = tl.load(state.leaf_mass + line, real, other=0.0)
        offset /= tl.load(forest.family_size + family, real, other=1).to(M.COMPUTE)
    return mass, weight, offset


@triton.jit
def load_grad(rows, forest, queries, S: tl.constexpr, M: tl.constexpr):
    """Gradients of what comes from above and around to members: [R, BLOCK_W]."""
    return load_members(
        rows.grad_y, rows.grad_context, forest, queries, 0, S.W, S.W, S.BLOCK_W,
        M.MIXED, M.OPERAND,
    )  # fmt: skip


@triton.jit
def pairs_of(
    of_queries, of_keys, terms, forest, queries, keys, seed, S: tl.constexpr,
    M: tl.constexpr,
):  # fmt: skip
    """Of pairs: weights, those of values, and gradients of the former: [R, R] each."""
    q, eps_q, grad = of_queries
    k, v, eps_k = of_keys
    mass, share, _ = terms
    s = weigh(q, k, eps_q, eps_k, forest, queries, keys, S, M)
    weight = tl.exp(s - mass[:, None])
    pull = tl.dot(grad, tl.trans(v), input_precision=M.PRECISION).to(M.COMPUTE)
    pull *= share[:, None]
    spread = weight
    if M.DROPOUT > 0.0:
        kept = kept_share(
            seed,
            M.MIXED,
            queries[4],
            queries[0][:, None],
            keys[0][None, :],
            M.DROPOUT,
        ).to(M.COMPUTE)
        pull *= kept
        spread = weight * kept
    return weight, spread * share[:, None], pull


@triton.jit(do_not_specialize=["first_tile", "inner", "seed"])
def families_backward(
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
    """All gradients of the members of a tile that holds whole families."""
    program = tl.program_id(0).to(tl.int64)
    head = program % heads
    begin, end = tile_bounds(forest, first_tile + program // heads, 0, M.BLOCK)
    place = place_of(forest, begin, end, head, heads, inner, -1, M.BLOCK)
    keys = place_of(forest, begin, end, head, heads, inner, -2, M.BLOCK)
    q, eps = load_queries(rows, forest, place, S, M)
    k, v, _ = load_keys(rows, forest, keys, S, M)
    grad = load_grad(rows, forest, place, S, M)
    terms = terms_of(forest, state, place, M)
    weight, spread, pull = pairs_of(
        (q, eps, grad), (k, v, eps), terms, forest, place, keys, seed, S, M
    )
    grad_v = tl.dot(
        tl.trans(spread.to(M.OPERAND)), grad, input_precision=M.PRECISION
    ).to(M.COMPUTE)
    offset = terms[2] - total(weight * pull, 1)
    turn = weight * (pull + offset[:, None])
    grad_eps = eps
    if S.P > 0:
        grad_eps = tl.dot(turn, eps, input_precision=M.EPS_PRECISION)
        grad_eps += tl.dot(tl.trans(turn), eps, input_precision=M.EPS_PRECISION)
    turn = (turn * M.SCALE).to(M.OPERAND)
    grad_q = tl.dot(turn, k, input_precision=M.PRECISION).to(M.COMPUTE)
    grad_k = tl.dot(tl.trans(turn), q, input_precision=M.PRECISION).to(M.COMPUTE)
    store_queries(grad_q, grad_eps, rows, forest, state, out, place, S, M)
    store_keys(grad_k, grad_v, grad_eps, rows, forest, state, out, place, seed, S, M)


@triton.jit(do_not_specialize=["first_tile", "inner", "seed"])
def queries_backward(
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
    """Gradients of some queries, whose keys are walked twice.

    The first time for <context, its gradient>, which is exact so, and not as exact as
    y is; it is left in ``state.worth`` for :func:`keys_backward`.
    """
    program = tl.program_id(0).to(tl.int64)
    head = program % heads
    piece = program // heads
    tile = first_tile + piece // M.PIECES
    begin, end = tile_bounds(forest, tile, piece % M.PIECES, M.BLOCK)
    place = place_of(forest, begin, end, head, heads, inner, -1, M.BLOCK)
    q, eps = load_queries(rows, forest, place, S, M)
    grad = load_grad(rows, forest, place, S, M)
    terms = terms_of(forest, state, place, M)
    first, last = families_of(forest, begin, end)
    worth = tl.full((M.BLOCK,), 0.0, M.COMPUTE)
    for start in range(first, last, M.BLOCK):
        keys = place_of(forest, start, last, head, heads, inner, -2, M.BLOCK)
        k, v, eps_k = load_keys(rows, forest, keys, S, M)
        weight, _, pull = pairs_of(
            (q, eps, grad), (k, v, eps_k), terms, forest, place, keys, seed, S, M
        )
        worth += total(weight * pull, 1)
    offset = terms[2] - worth
    grad_q = tl.full((M.BLOCK, S.BLOCK_D), 0.0, M.COMPUTE)
    grad_eps = tl.full((M.BLOCK, S.BLOCK_P), 0.0, M.COMPUTE)
    for start in range(first, last, M.BLOCK):
        keys = place_of(forest, start, last, head, heads, inner, -2, M.BLOCK)
        k, v, eps_k = load_keys(rows, forest, keys, S, M)
        weight, _, pull = pairs_of(
            (q, eps, grad), (k, v, eps_k), terms, forest, place, keys, seed, S, M
        )
        turn = weight * (pull + offset[:, None])
        if S.P > 0:
            grad_eps += tl.dot(turn, eps_k, input_precision=M.EPS_PRECISION)
        turn = (turn * M.SCALE).to(M.OPERAND)
        grad_q += tl.dot(turn, k, input_precision=M.PRECISION)
    tl.store(state.worth + place[2] * heads + head, worth, place[1])
    store_queries(grad_q, grad_eps, rows, forest, state, out, place, S, M)


@triton.jit(do_not_specialize=["first_tile", "inner", "seed"])
def keys_backward(
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
    """Gradients of some keys and values, whose queries are walked."""
    program = tl.program_id(0).to(tl.int64)
    head = program % heads
    piece = program // heads
    tile = first_tile + piece // M.PIECES
    begin, end = tile_bounds(forest, tile, piece % M.PIECES, M.BLOCK)
    place = place_of(forest, begin, end, head, heads, inner, -2, M.BLOCK)
    k, v, eps = load_keys(rows, forest, place, S, M)
    first, last = families_of(forest, begin, end)
    grad_k = tl.full((M.BLOCK, S.BLOCK_D), 0.0, M.COMPUTE)
    grad_v = tl.full((M.BLOCK, S.BLOCK_W), 0.0, M.COMPUTE)
    grad_eps = tl.full((M.BLOCK, S.BLOCK_P), 0.0, M.COMPUTE)
    for start in range(first, last, M.BLOCK):
        queries = place_of(forest, start, last, head, heads, inner, -1, M.BLOCK)
        q, eps_q = load_queries(rows, forest, queries, S, M)
        grad = load_grad(rows, forest, queries, S, M)
        terms = terms_of(forest, state, queries, M)
        worth = tl.load(state.worth + queries[2] * heads + head, queries[1], other=0.0)
        weight, spread, pull = pairs_of(
            (q, eps_q, grad), (k, v, eps), terms, forest, queries, place, seed, S, M
        )
        spread = spread.to(M.OPERAND)
        grad_v += tl.dot(tl.trans(spread), grad, input_precision=M.PRECISION)
        turn = weight * (pull + (terms[2] - worth)[:, None])
        if S.P > 0:
            grad_eps += tl.dot(tl.trans(turn), eps_q, input_precision=M.EPS_PRECISION)
        turn = (turn * M.SCALE).to(M.OPERAND)
        grad_k += tl.dot(tl.trans(turn), q, input_precision=M.PRECISION)
    store_keys(grad_k, grad_v, grad_eps, rows, forest, state, out, place, seed, S, M)
