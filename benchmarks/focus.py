"""Top-k attention and fixed patterns inside families against all of their siblings.

All on the CPU in float32 with 8 heads of 64, on trees of 4,096 leaves whose families
have 16, 64 and 1,024 members. Every score is computed either way; choosing the largest
comes on top. Patterns run by the torch backend alone, and so does here what they are
compared with: a window of five, and the five largest of all with the leaf itself among
them. The bars are for the fastest backend; plain torch operations, which choose in
operations of their own, do not meet them. What is compared runs in turn in one process;
each ratio is the median over pairs, with its smallest and largest value.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from benchmarks.cases import CHANNELS, HEADS, Case, attend
from benchmarks.growth import PASSES
from benchmarks.report import Options, Section
from benchmarks.timing import HEAD, Call, Goal, compared, table
from benchmarks.trees import Tree
from hsa_pyg import SignalHierarchy, banded, hierarchical_attention


def attention(
    hierarchy: SignalHierarchy, gradient: bool, backend: str, **form: Any
) -> Call:
    """HSA in some form (``top_k``, ``pattern``), with or without gradients."""
    case = Case(Tree(hierarchy.num_leaves), gradient=gradient)

    def attended(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return hierarchical_attention(q, k, v, hierarchy, backend=backend, **form)

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
                    attention(hierarchy, gradient, options.backend, top_k=kept)
                    for kept in (top_k, None)
                )
                label = f"families of {width:,}, top {top_k}, {passes}: top-k / all"
                rows.append(compared(label, some, every, options.runs, goal))
    return Section(table(HEAD, rows))


def patterns(options: Options) -> Section:
    """A window of five against the five largest, and each against all, by torch."""
    forms: dict[str, dict[str, Any]] = {
        "banded": {"pattern": banded(5)},
        "top-k": {"top_k": 5, "top_k_includes_self": True},
        "all": {},
    }
    leaves = 256 if options.quick else 4096
    rows = []
    for width in (16, 64) if options.quick else (16, 64, 1024):
        hierarchy = Tree(leaves, width, width).hierarchy()
        for gradient, passes in PASSES.items():
            calls = {
                name: attention(hierarchy, gradient, "torch", **form)
                for name, form in forms.items()
            }
            for above, below in (
                ("banded", "top-k"),
                ("banded", "all"),
                ("top-k", "all"),
            ):
                label = f"families of {width:,}, {passes}: {above} / {below}"
                row = compared(label, calls[above], calls[below], options.runs)
                rows.append(row)
    return Section(table(HEAD, rows))


SECTIONS = {"families": families, "patterns": patterns}
