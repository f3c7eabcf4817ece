"""Semantic focus: which siblings a query keeps (docs/mathematics.md, section 7)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Focus:
    """What a query keeps of its family.

    Args:
        top_k: How many of the largest scores.
        includes_self: Whether a leaf itself is one of those that compete, rather than
            kept beside them.
    """

    top_k: int
    includes_self: bool


def keep_largest(s: Tensor, number: int) -> Tensor:
    """Which entries of each row are among the largest; of equal ones the earlier.

    Args:
        s: scores, [..., b]; -infinity for what cannot be chosen.
        number: how many to keep, at most b.

    Returns:
        [..., b], true for as many entries in each row (rows with fewer finite scores
        keep all of these).
    """
    least = s.topk(number, -1, sorted=False).values.amin(-1, keepdim=True)
    keep = s >= least
    # Without ties that is all; on an accelerator asking would wait for it.
    if not s.is_cuda and int(keep.sum(-1).max()) <= number:
        return keep
    larger = s > least
    equal = keep.logical_xor_(larger)
    room = number - larger.sum(-1, keepdim=True)
    return larger.logical_or_(equal & (equal.cumsum(-1) <= room))
