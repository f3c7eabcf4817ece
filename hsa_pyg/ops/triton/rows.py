"""Device functions that find members, load their rows, and weigh them.

Legend: a *member* is a leaf row in leaf-only families and an entity in mixed ones:
internal nodes first, whose rows are means, then leaves. A *place* is a tuple of the
slots of a program, which of them are real, their members and families, then the head,
the number of heads, and that of internal nodes. All of it is 64-bit, so that no offset
overflows. Channels are padded to blocks with zeros.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import triton
import triton.language as tl

from hsa_pyg.ops.triton.numerics import total

#: What dropout draws for, besides pairs of leaf-only (0) and mixed (1) families.
MIXED_LEAF = tl.constexpr(2)
ROOT_LEAF = tl.constexpr(3)


@triton.jit
def program_of(heads):
    """The head of a program, its number among those of the head, and how many."""
    program = tl.program_id(0).to(tl.int64)
    return program % heads, program // heads, tl.num_programs(0) // heads


@triton.jit
def tile_bounds(forest, tile, piece, BLOCK: tl.constexpr):
    """First slot of a piece of a tile, and the one behind its last."""
    begin = tl.load(forest.tile_start + tile) + piece * BLOCK
    return begin, tl.minimum(tl.load(forest.tile_start + tile + 1), begin + BLOCK)


@triton.jit
def place_of(forest, begin, end, head, heads, inner, NOBODY, BLOCK: tl.constexpr):
    """The place of slots from ``begin`` up to ``end``; padding has family NOBODY."""
    slot = begin + tl.arange(0, BLOCK)
    real = slot < end
    member = tl.load(forest.slot_member + slot, real, other=0)
    family = tl.load(forest.slot_family + slot, real, other=NOBODY)
    return slot, real, member, family, head, heads, inner


@triton.jit
def families_of(forest, begin, end):
    """The slots of all families that have one from ``begin`` up to ``end``: bounds."""
    some = begin < end
    first = tl.load(forest.slot_family + begin, some, other=0)
    last = tl.load(forest.slot_family + end - 1, some, other=0)
    start = tl.load(forest.family_first + first, some, other=0)
    stop = tl.load(forest.family_first + last, some, other=0)
    return start, stop + tl.load(forest.family_size + last, some, other=0)


@triton.jit
def load_rows(x, row, real, head, CHANNELS: tl.constexpr, BLOCK: tl.constexpr):
    """Rows of a ``Strided``, 0 where not ``real``: [R, BLOCK]."""
    c = tl.arange(0, BLOCK)
    offset = row[:, None] * x.n + head * x.h + c[None, :] * x.c
    mask = real[:, None] & (c < CHANNELS)[None, :]
    return tl.load(x.data + offset, mask=mask, other=0.0)


@triton.jit
def load_part(
    x,
    line,
    real,
    first,
    ROW: tl.constexpr,
    CHANNELS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """CHANNELS from ``first`` on of lines of ROW numbers: [R, BLOCK]."""
    c = tl.arange(0, BLOCK)
    mask = real[:, None] & (c < CHANNELS)[None, :]
    offset = line[:, None] * ROW + first + c[None, :]
    return tl.load(x + offset, mask=mask, other=0.0)


@triton.jit
def store_part(
    x,
    value,
    line,
    real,
    first,
    ROW: tl.constexpr,
    CHANNELS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The converse of :func:`load_part`."""
    c = tl.arange(0, BLOCK)
    mask = real[:, None] & (c < CHANNELS)[None, :]
    offset = line[:, None] * ROW + first + c[None, :]
    tl.store(x + offset, value.to(x.dtype.element_ty), mask=mask)


@triton.jit
def load_members(
    x,
    pooled,
    forest,
    place,
    first,
    ROW: tl.constexpr,
    CHANNELS: tl.constexpr,
    BLOCK: tl.constexpr,
    MIXED: tl.constexpr,
    DTYPE: tl.constexpr,
):
    """Rows of members: of leaves in ``x``, of nodes in ``pooled``; [R, BLOCK].

    Args:
        x: rows of the leaves, a ``Strided``.
        pooled: [F, heads, ROW], of the internal nodes.
        forest: the ``Forest``.
        place: the place of the members.
        first: where in a row of ``pooled`` the channels start.
        ROW: channels of a row of ``pooled``.
        CHANNELS: channels.
        BLOCK: channels with padding.
        MIXED: whether the members are entities.
        DTYPE: of the result.
    """
    _, real, member, _, head, heads, inner = place
    if MIXED:
        node = real & (member < inner)
        below = real & (member >= inner)
        leaf = tl.load(forest.mixed_leaf + (member - inner), below, other=0)
        own = load_rows(x, leaf, below, head, CHANNELS, BLOCK).to(DTYPE)
        line = member * heads + head
        means = load_part(pooled, line, node, first, ROW, CHANNELS, BLOCK)
        rows = tl.where(node[:, None], means.to(DTYPE), own)
    else:
        rows = load_rows(x, member, real, head, CHANNELS, BLOCK).to(DTYPE)
    return rows


@triton.jit
def load_eps(rows, forest, place, like, S: tl.constexpr, M: tl.constexpr):
    """Positions of members among their siblings, [R, BLOCK_P]; ``like`` if none."""
    if S.P > 0:
        _, real, member, _, head, _, _ = place
        if M.MIXED:
            node = tl.load(forest.entity_node + member, real, other=0)
        else:
            node = tl.load(forest.leaf_node + member, real, other=0)
        eps = load_rows(rows.position, node, real, head, S.P, S.BLOCK_P).to(M.COMPUTE)
    else:
        eps = like
    return eps


@triton.jit
def load_queries(rows, forest, place, S: tl.constexpr, M: tl.constexpr):
    """q and eps of members."""
    q = load_members(
        rows.q, rows.mean, forest, place, 0, S.ROW, S.D, S.BLOCK_D, M.MIXED, M.OPERAND
    )
    return q, load_eps(rows, forest, place, q, S, M)


@triton.jit
def load_keys(rows, forest, place, S: tl.constexpr, M: tl.constexpr):
    """k, v and eps of members."""
    k = load_members(
        rows.k, rows.mean, forest, place, S.D, S.ROW, S.D, S.BLOCK_D, M.MIXED, M.OPERAND
    )
    v = load_members(
        rows.v, rows.mean, forest, place, 2 * S.D, S.ROW, S.W, S.BLOCK_W, M.MIXED,
        M.OPERAND,
    )  # fmt: skip
    return k, v, load_eps(rows, forest, place, k, S, M)


@triton.jit
def leaves_below(forest, place, DTYPE: tl.constexpr):
    """n_B of entities: [R]."""
    _, real, member, _, _, _, inner = place
    node = real & (member < inner)
    return tl.load(forest.internal_count + member, node, other=1).to(DTYPE)


@triton.jit
def self_eps(rows, forest, leaf, real, head, S: tl.constexpr, M: tl.constexpr):
    """A leaf's own position, by which it weighs itself: [R, BLOCK_P].

    Among its siblings it may have another one, that of the top of its chain.
    """
    node = tl.load(forest.leaf_node + leaf, real, other=0)
    return load_rows(rows.position, node, real, head, S.P, S.BLOCK_P).to(M.COMPUTE)


@triton.jit
def self_scores(rows, forest, leaf, real, head, S: tl.constexpr, M: tl.constexpr):
    """s(i, i) of leaf rows: [R]."""
    q = load_rows(rows.q, leaf, real, head, S.D, S.BLOCK_D).to(M.COMPUTE)
    k = load_rows(rows.k, leaf, real, head, S.D, S.BLOCK_D).to(M.COMPUTE)
    own = total(q * k, 1) * M.SCALE
    if S.P > 0:
        eps = self_eps(rows, forest, leaf, real, head, S, M)
        own += total(eps * eps, 1)
    return own


@triton.jit
def weigh(
    q,
    k,
    eps_q,
    eps_k,
    forest,
    queries,
    keys,
    S: tl.constexpr,
    M: tl.constexpr,
):
    """s(B, C) + log n_C, [queries, keys]; -infinity for what a query does not see.

    Args:
        q: [R, BLOCK_D], as k.
        k: see q.
        eps_q: positions, if there are any.
        eps_k: see eps_q.
        forest: the ``Forest``.
        queries: their place; padding has a family that no key has.
        keys: their place; padding has a family that no query has.
        S: the ``Shape``.
        M: the ``Mode``.
    """
    slot_q, _, _, family_q, _, _, _ = queries
    slot_k, real, member, family_k, _, _, _ = keys
    s = tl.dot(q, tl.trans(k), input_precision=M.PRECISION).to(M.COMPUTE) * M.SCALE
    if S.P > 0:
        s += tl.dot(eps_q, tl.trans(eps_k), input_precision=M.EPS_PRECISION)
    seen = family_q[:, None] == family_k[None, :]
    if M.MIXED:
        count = tl.load(forest.entity_log_count + member, real, other=0.0)
        s += count.to(M.COMPUTE)[None, :]
    if M.MIXED or not M.SELF:
        seen = seen & (slot_q[:, None] != slot_k[None, :])
    return tl.where(seen, s, float("-inf"))
