"""Small device functions: reductions, sigmoids and logarithms that bear infinities.

Only built-in functions of Triton are called, not its standard library: this way the
kernels run in the interpreter even where Triton was imported before it was asked for.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def total(x, axis: tl.constexpr):
    """Sum over an axis."""
    return tl.reduce(x, axis, tl.standard._sum_combine)


@triton.jit
def largest(x, axis: tl.constexpr):
    """Maximum over an axis."""
    return tl.reduce(x, axis, tl.standard._elementwise_max)


@triton.jit
def stays(gain, mass):
    """mu = sigmoid(gain - mass); ``gain`` may be -infinity."""
    x = gain - mass
    e = tl.exp(-tl.abs(x))
    return tl.where(x >= 0, 1.0, e) / (1.0 + e)


@triton.jit
def sends(gain, mass):
    """1 - mu, without cancellation."""
    x = gain - mass
    e = tl.exp(-tl.abs(x))
    return tl.where(x >= 0, e, 1.0) / (1.0 + e)


@triton.jit
def log_sigmoid(x):
    """log sigmoid(x); x may be infinite."""
    return tl.minimum(x, 0.0) - tl.log(1.0 + tl.exp(-tl.abs(x)))


@triton.jit
def log_add(a, b):
    """log(exp a + exp b); a may be -infinity, b is finite."""
    return tl.maximum(a, b) + tl.log(1.0 + tl.exp(-tl.abs(a - b)))


@triton.jit
def low_bits(x):
    """The lower 32 bits of 64."""
    return (x.to(tl.int64) & 0xFFFFFFFF).to(tl.uint32)


@triton.jit
def kept_share(seed, stream, head, row, column, DROPOUT: tl.constexpr):
    """Dropout's factor of pairs or rows: 0 with probability DROPOUT, else 1 / (1 - it).

    Philox 4x32 in seven rounds, keyed by the seed, with the place as its counter: what
    the forward pass drops, every kernel of the backward pass drops again.

    Args:
        seed: 64 bits.
        stream: what is dropped, a small number.
        head: the head.
        row: places, int64, of a shape that broadcasts with ``column``.
        column: see ``row``.
        DROPOUT: the probability, below 1.
    """
    seed = seed.to(tl.int64)
    k0 = low_bits(seed)
    k1 = low_bits(seed >> 32)
    row, column = tl.broadcast(row, column)
    c0 = low_bits(column)
    c1 = low_bits(row)
    c2 = low_bits(row * 0 + head)
    row = row.to(tl.int64)
    column = column.to(tl.int64)
    c3 = low_bits((row >> 32) * 65536 + (column >> 32) * 16 + stream)
    a = low_bits(row * 0 + 0xCD9E8D57)
    b = low_bits(row * 0 + 0xD2511F53)
    for _ in range(7):
        upper = tl.umulhi(c2, a) ^ c1 ^ k0
        lower = tl.umulhi(c0, b) ^ c3 ^ k1
        c1 = tl.mul(c2, a, sanitize_overflow=False)
        c3 = tl.mul(c0, b, sanitize_overflow=False)
        c0 = upper
        c2 = lower
        k0 = tl.add(k0, 0x9E3779B9, sanitize_overflow=False)
        k1 = tl.add(k1, 0xBB67AE85, sanitize_overflow=False)
    uniform = (c0 >> 8).to(tl.float32) * (1.0 / 16777216.0)
    return tl.where(uniform >= DROPOUT, 1.0 / (1.0 - DROPOUT), 0.0)
