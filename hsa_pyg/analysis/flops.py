"""FLOPs of hierarchical and of softmax attention, as the paper counts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from hsa_pyg.hierarchy import SignalHierarchy


@dataclass(frozen=True)
class AttentionFlops:
    """FLOPs of one layer's attention over the same leaves, done in two ways.

    Attributes:
        softmax: of softmax attention over the leaves of each tree.
        hsa: of hierarchical self-attention over the forest.
    """

    softmax: int
    hsa: int


def attention_flops(
    hierarchy: SignalHierarchy, channels: int, heads: int, *, tie_queries: bool = True
) -> AttentionFlops:
    r"""FLOPs of attention over a forest, counted as in the paper's Table 3.

    With C channels and H heads a pair costs :math:`4 C + H`. Softmax attention has
    :math:`N^2` pairs in a tree of N leaves, hierarchical self-attention
    :math:`\sum b^2`, summed over the families of b children. The tree is taken as it
    was given: a family of one counts 1, a child without leaves nothing.

    The paper has no untied queries. By the same rule they have :math:`\sum n b` pairs,
    n the leaves below the family: each leaf meets the b children with its own query.

    Args:
        hierarchy: the compiled forest.
        channels: C, of all heads together.
        heads: H.
        tie_queries: as in :func:`~hsa_pyg.hierarchical_attention`.

    Raises:
        TypeError: if ``channels`` or ``heads`` is no integer.
        ValueError: if it is not positive.

    Example:
        >>> import torch
        >>> from hsa_pyg import SignalHierarchy
        >>> h = SignalHierarchy.from_parents(torch.tensor([-1, 0, 0, 1, 1, 2, 2]))
        >>> attention_flops(h, channels=1, heads=1)  # 16 pairs; 3 families of 2
        AttentionFlops(softmax=80, hsa=60)
    """
    pair = _flops_per_pair(channels, heads)
    child = (hierarchy.parent >= 0) & (hierarchy.leaf_counts > 0)
    family = torch.bincount(hierarchy.parent[child], minlength=hierarchy.num_nodes)
    # Of the trees as they are, not of samples: a sample may hold several roots.
    leaves = hierarchy.leaf_counts[hierarchy.roots]
    queries = family if tie_queries else hierarchy.leaf_counts
    return AttentionFlops(
        softmax=pair * int(leaves.square().sum()),
        hsa=pair * int((queries * family).sum()),
    )


def window_attention_flops(
    num_leaves: int,
    windows: Sequence[int] = (2, 4, 8, 16),
    *,
    channels: int,
    heads: int,
) -> AttentionFlops:
    r"""FLOPs of attention over a sequence cut into windows, as the paper's Table 3.

    Nodes are joined in non-overlapping windows, level by level from the leaves up; all
    windows are counted full, and the root counts 1: with n the nodes of a level,

    .. math:: S = 1 + \sum_b \lceil n / b \rceil \min(b, n)^2

    Args:
        num_leaves: N, length of the sequence.
        windows: size b of the windows of each level.
        channels: C, of all heads together.
        heads: H.

    Raises:
        TypeError: if a number is no integer.
        ValueError: if it is not positive.

    Example:
        >>> flops = window_attention_flops(264, channels=768, heads=12)
        >>> f"{flops.softmax / 1e6:.2f} M -> {flops.hsa / 1e6:.2f} M"
        '214.94 M -> 4.32 M'
    """
    pair = _flops_per_pair(channels, heads)
    _check("num_leaves", (num_leaves,))
    if isinstance(windows, str | int):
        raise TypeError(
            f"windows must be the sizes of each level, such as (2, 4), got {windows!r}"
        )
    _check("windows", tuple(windows))
    nodes, pairs = num_leaves, 1
    for width in windows:
        above = -(-nodes // width)
        pairs += above * min(width, nodes) ** 2
        nodes = above
    return AttentionFlops(softmax=pair * num_leaves**2, hsa=pair * pairs)


def _flops_per_pair(channels: int, heads: int) -> int:
    _check("channels", (channels,))
    _check("heads", (heads,))
    return 4 * channels + heads


def _check(name: str, numbers: tuple[int, ...]) -> None:
    """Raise an error unless all numbers are positive integers."""
    told = numbers if name == "windows" else numbers[0]
    if any(isinstance(x, bool) or not isinstance(x, int) for x in numbers):
        kind = "integers" if name == "windows" else "an integer"
        raise TypeError(f"{name} must be {kind}, got {told!r}")
    if any(x < 1 for x in numbers):
        raise ValueError(f"{name} must be positive, got {told}")
