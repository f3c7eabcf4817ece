"""HSA against softmax attention, a batch against its trees, and backends side by side.

All on the CPU in float32 with 8 heads of 64 unless said otherwise, on 16-ary trees.
What is compared runs in turn in one process; each ratio is the median over rounds, with
its smallest and largest value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from statistics import median

from torch import Tensor
from tqdm import tqdm

from benchmarks.cases import CHANNELS, HEADS, Case, attend
from benchmarks.growth import PASSES
from benchmarks.report import Options, Section
from benchmarks.timing import (
    HEAD,
    Call,
    Goal,
    compared,
    duration,
    ratios,
    side_by_side,
    spread,
    table,
)
from benchmarks.trees import Tree
from hsa_pyg import SignalHierarchy, hierarchical_attention
from hsa_pyg.ops import available_backends


def softmax(options: Options) -> Section:
    """Softmax attention over HSA, on the same leaves."""
    number = 256 if options.quick else 4096
    goals = {False: Goal(20, 40), True: Goal(30, 60)}
    rows = []
    for gradient, passes in PASSES.items():
        ours = Case(Tree(number), gradient=gradient, backend=options.backend)
        theirs = replace(ours, attention="softmax")
        label = f"{number:,} leaves, {passes}: softmax / HSA"
        calls = (theirs.call(), ours.call())
        rows.append(compared(label, *calls, options.runs, goals[gradient]))
    return Section(table(HEAD, rows))


def batches(options: Options) -> Section:
    """A batch of 64 trees of about 200 leaves against one tree after the other."""
    tree = Tree(200, number=4 if options.quick else 64)
    rows = []
    for heads, channels in ((HEADS, CHANNELS), (4, 16)):
        for gradient, passes in PASSES.items():
            case = Case(tree, "hsa", gradient, options.backend, heads, channels)
            for compiled in (True, False):
                when = "compiled before" if compiled else "compiled anew"
                label = (
                    f"{tree.number} trees of 150 to 250 leaves, {heads} x {channels}, "
                    f"{passes}, {when}: one by one / batched"
                )
                calls = _one_by_one_and_batched(case, compiled)
                rows.append(compared(label, *calls, options.runs, Goal(15, 30)))
    return Section(table(HEAD, rows))


def _one_by_one_and_batched(case: Case, compiled: bool) -> tuple[Call, Call]:
    trees, whole = case.tree.trees(), case.tree.parents()
    leaves = [SignalHierarchy.from_parents(tree).num_leaves for tree in trees]
    given = case.tensors((sum(leaves), case.heads, case.channels))

    def over(parent: Tensor, tensors: list[Tensor]) -> Call:
        before = SignalHierarchy.from_parents(parent) if compiled else None

        def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            hierarchy = before
            if hierarchy is None:
                hierarchy = SignalHierarchy.from_parents(parent)
            return hierarchical_attention(q, k, v, hierarchy, backend=case.backend)

        return attend(attention, tensors)

    # Leaves of their own, so that no tree pays for gradients of the whole batch.
    parts = [
        [x.detach().clone().requires_grad_(x.requires_grad) for x in xs]
        for xs in zip(*(x.split(leaves) for x in given), strict=True)
    ]
    calls = [over(tree, part) for tree, part in zip(trees, parts, strict=True)]
    return lambda: [call() for call in calls], over(whole, given)


def backends(options: Options) -> Section:
    """All backends for the CPU, on the same inputs."""
    names = [x for x in available_backends() if x not in ("reference", "triton")]
    small, large = (64, 256) if options.quick else (4096, 65536)
    cases: dict[str, Callable[[str, bool], Case]] = {
        f"{small:,} leaves": lambda name, grad: Case(
            Tree(small), gradient=grad, backend=name
        ),
        f"{large:,} leaves": lambda name, grad: Case(
            Tree(large), gradient=grad, backend=name
        ),
        f"{large:,} leaves, families of 6 to 26": lambda name, grad: Case(
            Tree(large, 6, 26), gradient=grad, backend=name
        ),
        "64 trees of 150 to 250 leaves, 4 x 16": lambda name, grad: Case(
            Tree(200, number=64), "hsa", grad, name, 4, 16
        ),
        "caterpillar of 1,000 levels": lambda name, grad: Case(
            Tree(1001, caterpillar=True), gradient=grad, backend=name
        ),
    }
    rows = []
    for what, case in tqdm(cases.items(), desc="backends", leave=False):
        for gradient, passes in PASSES.items():
            calls = {name: case(name, gradient).call() for name in names}
            times = side_by_side(calls, options.runs, options.budget)
            cells = [duration(median(taken)) for taken in times.values()]
            quotients = [
                spread(ratios(times["torch"], times[name]))
                for name in names
                if name != "torch"
            ]
            rows.append([f"{what}, {passes}", *cells, *quotients])
    head = ["HSA", *names, *(f"torch / {name}" for name in names if name != "torch")]
    return Section(table(head, rows), backend=None)


SECTIONS = {"softmax": softmax, "batches": batches, "backends": backends}
