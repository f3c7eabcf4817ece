"""Top-k attention inside families against all of their siblings.

All on the CPU in float32 with 8 heads of 64, on trees of 4,096 leaves whose families
have 16, 64 and 1,024 members. Every score is computed either way; choosing the largest
comes on top. What is compared runs in turn in one process; each ratio is the median
over pairs, with its smallest and largest value.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from benchmarks.core import leaf_tensors
from benchmarks.timing import machine, paired, row, table
from benchmarks.trees import parents
from hsa_pyg import SignalHierarchy, hierarchical_attention

LEAVES = 4096


def attention(
    hierarchy: SignalHierarchy, top_k: int | None, gradient: bool
) -> Callable[[], object]:
    """HSA with or without top-k, with or without gradients."""
    q, k, v = leaf_tensors(hierarchy, gradient)
    if not gradient:
        return lambda: hierarchical_attention(q, k, v, hierarchy, top_k=top_k)
    cotangent = torch.randn(q.shape)
    return lambda: torch.autograd.grad(
        hierarchical_attention(q, k, v, hierarchy, top_k=top_k), (q, k, v), cotangent
    )


def run(runs: int = 9) -> str:
    """All measurements, as Markdown."""
    torch.manual_seed(0)
    rows = []
    for width in (16, 64, 1024):
        hierarchy = SignalHierarchy.from_parents(parents(LEAVES, width, width))
        for gradient in (False, True):
            for top_k in (4, 8):
                pair = paired(
                    attention(hierarchy, top_k, gradient),
                    attention(hierarchy, None, gradient),
                    runs,
                )
                passes = "forward and backward" if gradient else "forward"
                label = f"families of {width:,}, top {top_k}, {passes}: top-k / all"
                aim = "< 1.3" if width < 1024 else "< 1"
                rows.append(row(label, aim, pair, True))
    head = ["A / B", "A, median", "B, median", "A / B (smallest to largest)", "aim"]
    return f"{table(head, rows)}\n\nMeasured on: {machine()}; {runs} pairs."
