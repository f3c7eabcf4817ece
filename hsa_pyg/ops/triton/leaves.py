"""What is done leaf by leaf: y at the end of the forward pass, and gradients.

Leaves of leaf-only families come by slots, so that siblings find their parent's row in
the cache; leaves of mixed families and those that are trees have programs of their own
in the same launch.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import triton
import triton.language as tl

from hsa_pyg.ops.triton.numerics import kept_share, sends, stays
from hsa_pyg.ops.triton.rows import (
    MIXED_LEAF,
    ROOT_LEAF,
    load_part,
    load_rows,
    self_eps,
    store_part,
)


@triton.jit
def leaf_only_y(
    forest, state, slot, real, head, heads, S: tl.constexpr, M: tl.constexpr
):
    """ctx + w times what y holds: the context within the family."""
    leaf = tl.load(forest.slot_member + slot, real, other=0)
    above = tl.load(forest.slot_family + slot, real, other=0) * heads + head
    line = leaf * heads + head
    weight = tl.exp(tl.load(state.log_weight + above, real, other=0.0))
    own = load_part(state.y, line, real, 0, S.W, S.W, S.BLOCK_W).to(M.COMPUTE)
    outer = load_part(state.context, above, real, 0, S.W, S.W, S.BLOCK_W)
    outer += weight[:, None] * own
    store_part(state.y, outer, line, real, 0, S.W, S.W, S.BLOCK_W)


@triton.jit
def mixed_y(
    rows, forest, state, row, real, head, heads, inner, seed, S: tl.constexpr,
    M: tl.constexpr,
):  # fmt: skip
    """ctx + w ((1 - mu) m + mu v) of the leaves of mixed families."""
    leaf = tl.load(forest.mixed_leaf + row, real, other=0)
    above = tl.load(forest.mixed_leaf_parent + row, real, other=0) * heads + head
    line = (inner + row) * heads + head
    gain = tl.load(state.gain + line, real, other=0.0)
    mass = tl.load(state.mass + line, real, other=0.0)
    weight = tl.exp(tl.load(state.log_weight + above, real, other=0.0))
    keeps = weight * stays(gain, mass)
    if M.DROPOUT > 0.0:
        kept = kept_share(seed, MIXED_LEAF, head, row, row * 0, M.DROPOUT)
        keeps *= kept.to(M.COMPUTE)
    gives = weight * sends(gain, mass)
    outer = load_part(state.context, above, real, 0, S.W, S.W, S.BLOCK_W)
    more = load_part(state.brought, line, real, 0, S.W, S.W, S.BLOCK_W)
    own = load_rows(rows.v, leaf, real, head, S.W, S.BLOCK_W).to(M.COMPUTE)
    outer += gives[:, None] * more + keeps[:, None] * own
    line = leaf * heads + head
    store_part(state.y, outer, line, real, 0, S.W, S.W, S.BLOCK_W)
    tl.store(state.leaf_mass + line, keeps * 0.0, real)


@triton.jit
def root_share(row, head, seed, M: tl.constexpr):
    """The weight of the own value of a leaf that is a tree: 1, or 0 without it."""
    share = (row * 0).to(M.COMPUTE)
    if M.SELF:
        share += 1.0
        if M.DROPOUT > 0.0:
            share *= kept_share(seed, ROOT_LEAF, head, row, row * 0, M.DROPOUT)
    return share


@triton.jit(
    do_not_specialize=[
        "inner",
        "leaf_slots",
        "mixed_leaves",
        "root_leaves",
        "seed",
    ]
)
def leaves_forward(
    rows,
    forest,
    state,
    out,
    inner,
    leaf_slots,
    mixed_leaves,
    root_leaves,
    heads,
    seed,
    S: tl.constexpr,
    M: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """y of every leaf; ``leaf_mass`` is 0 where no leaf-only family writes it."""
    program = tl.program_id(0).to(tl.int64)
    head = program % heads
    block = program // heads
    leaf_blocks = (leaf_slots + BLOCK - 1) // BLOCK
    mixed_blocks = (mixed_leaves + BLOCK - 1) // BLOCK
    at = tl.arange(0, BLOCK)
    if block < leaf_blocks:
        slot = block * BLOCK + at
        leaf_only_y(forest, state, slot, slot < leaf_slots, head, heads, S, M)
    elif block < leaf_blocks + mixed_blocks:
        row = (block - leaf_blocks) * BLOCK + at
        real = row < mixed_leaves
        mixed_y(rows, forest, state, row, real, head, heads, inner, seed, S, M)
    else:
        row = (block - leaf_blocks - mixed_blocks) * BLOCK + at
        real = row < root_leaves
        leaf = tl.load(forest.root_leaf + row, real, other=0)
        own = load_rows(rows.v, leaf, real, head, S.W, S.BLOCK_W).to(M.COMPUTE)
        own *= root_share(row, head, seed, M)[:, None]
        line = leaf * heads + head
        store_part(state.y, own, line, real, 0, S.W, S.W, S.BLOCK_W)
        tl.store(state.leaf_mass + line, (row * 0).to(M.COMPUTE), real)


@triton.jit
def mixed_gradients(forest, state, out, row, real, head, heads, inner, S: tl.constexpr):
    """What a leaf of a mixed family takes in it, and through the means above."""
    leaf = tl.load(forest.mixed_leaf + row, real, other=0) * heads + head
    above = tl.load(forest.mixed_leaf_parent + row, real, other=0) * heads + head
    line = (inner + row) * heads + head
    q = load_part(state.grads, line, real, 0, S.ROW, S.D, S.BLOCK_D)
    q += load_part(state.grads, above, real, 0, S.ROW, S.D, S.BLOCK_D)
    store_part(out.q, q, leaf, real, 0, S.D, S.D, S.BLOCK_D)
    k = load_part(state.grads, line, real, S.D, S.ROW, S.D, S.BLOCK_D)
    k += load_part(state.grads, above, real, S.D, S.ROW, S.D, S.BLOCK_D)
    store_part(out.k, k, leaf, real, 0, S.D, S.D, S.BLOCK_D)
    v = load_part(state.grads, line, real, 2 * S.D, S.ROW, S.W, S.BLOCK_W)
    v += load_part(state.grads, above, real, 2 * S.D, S.ROW, S.W, S.BLOCK_W)
    store_part(out.v, v, leaf, real, 0, S.W, S.W, S.BLOCK_W)


@triton.jit
def root_gradients(
    rows, forest, state, out, row, real, head, heads, inner, seed, S: tl.constexpr,
    M: tl.constexpr,
):  # fmt: skip
    """What a leaf that is a tree takes: of its value, and of its energy."""
    leaf = tl.load(forest.root_leaf + row, real, other=0)
    line = leaf * heads + head
    pull = (row * 0).to(M.COMPUTE)
    if M.OUTSIDE and M.SELF:
        pull = tl.load(state.outside + inner * heads + line, real, other=0.0)
    scaled = (pull * M.SCALE)[:, None]
    k = load_rows(rows.k, leaf, real, head, S.D, S.BLOCK_D).to(M.COMPUTE)
    store_part(out.q, k * scaled, line, real, 0, S.D, S.D, S.BLOCK_D)
    q = load_rows(rows.q, leaf, real, head, S.D, S.BLOCK_D).to(M.COMPUTE)
    store_part(out.k, q * scaled, line, real, 0, S.D, S.D, S.BLOCK_D)
    grad = load_rows(rows.grad_y, leaf, real, head, S.W, S.BLOCK_W).to(M.COMPUTE)
    grad *= root_share(row, head, seed, M)[:, None]
    store_part(out.v, grad, line, real, 0, S.W, S.W, S.BLOCK_W)
    if S.P > 0:
        eps = self_eps(rows, forest, leaf, real, head, S, M)
        eps *= 2.0 * pull[:, None]
        store_part(out.leaf_eps, eps, line, real, 0, S.P, S.P, S.BLOCK_P)


@triton.jit(
    do_not_specialize=[
        "inner",
        "leaf_slots",
        "mixed_leaves",
        "root_leaves",
        "seed",
    ]
)
def leaves_backward(
    rows,
    forest,
    state,
    out,
    inner,
    leaf_slots,
    mixed_leaves,
    root_leaves,
    heads,
    seed,
    S: tl.constexpr,
    M: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Gradients of the leaves of mixed families, and of those that are trees."""
    program = tl.program_id(0).to(tl.int64)
    head = program % heads
    block = program // heads
    mixed_blocks = (mixed_leaves + BLOCK - 1) // BLOCK
    at = tl.arange(0, BLOCK)
    if block < mixed_blocks:
        row = block * BLOCK + at
        real = row < mixed_leaves
        mixed_gradients(forest, state, out, row, real, head, heads, inner, S)
    else:
        row = (block - mixed_blocks) * BLOCK + at
        real = row < root_leaves
        root_gradients(
            rows, forest, state, out, row, real, head, heads, inner, seed, S, M
        )
