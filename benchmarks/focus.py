"""Top-k attention inside families against all of their siblings.

All on the CPU in float32 with 8 heads of 64, on trees of 4,096 leaves whose families
have 16, 64 and 1,024 members. Every score is computed either way; choosing the largest
comes on top. What is compared runs in turn in one process; each ratio is the median
over pairs, with its smallest and largest value.
"""

from __future__ import annotations

from torch import Tensor

from benchmarks.cases import CHANNELS, HEADS, Case, attend
from benchmarks.growth import PASSES
from benchmarks.report import Options, Section
from benchmarks.timing import HEAD, Call, Goal, compared, table
from benchmarks.trees import Tree
from hsa_pyg import SignalHierarchy, hierarchical_attention


def attention(
    hierarchy: SignalHierarchy, top_k: int | None, gradient: bool, backend: str
) -> Call:
    """HSA with or without top-k, with or without gradients."""
    case = Case(Tree(hierarchy.num_leaves), gradient=gradient)

    def attended(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return hierarchical_attention(q, k, v, hierarchy, top_k=top_k, backend=backend)

    return attend(attended, case.tensors((hierarchy.num_leaves, HEADS, CHANNELS)))


def families(options: Options) -> Section:
    """Families of 16, 64 and 1,024."""
    leaves = 256 if options.quick else 4096
    rows = []
    for width in (16, 64) if options.quick else (16, 64, 1024):
        hierarchy = Tree(leaves, width, width).hierarchy()
        goal = Goal(1.3) if width < 1024 else Goal(1.0)
        for gradient, passes in PASSES.items():
            for top_k in (4, 8):
                some, every = (
                    attention(hierarchy, kept, gradient, options.backend)
                    for kept in (top_k, None)
                )
                label = f"families of {width:,}, top {top_k}, {passes}: top-k / all"
                rows.append(compared(label, some, every, options.runs, goal))
    return Section(table(HEAD, rows))


SECTIONS = {"families": families}
