"""How HSA's time and memory grow: with leaves, branching, depth and batch size.

All on the CPU in float32 with 8 heads of 64. What stands in one row runs in turn in one
process, and each number is a median; memory is what one call needs beyond its inputs,
its results included, in a fresh process. Softmax attention is PyTorch's fused kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median

from tqdm import tqdm

from benchmarks.cases import Case
from benchmarks.peak import available, extra_peak, extra_peak_of
from benchmarks.report import Options, Panel, Section
from benchmarks.timing import (
    HEAD,
    Goal,
    compared,
    duration,
    ratios,
    side_by_side,
    size,
    spread,
    table,
)
from benchmarks.trees import Tree

#: A call of softmax attention that would take more seconds is not made.
MOST_SECONDS = 20.0
#: A call of softmax attention that would need more bytes is not made.
MOST_BYTES = 12 * 2**30

#: Numbers of leaves beside which softmax attention is run as long as it ends soon.
LEAVES = [4**i for i in range(4, 11)]

PASSES = {False: "forward", True: "forward and backward"}
Curves = dict[str, list[tuple[float, float]]]


@dataclass(frozen=True)
class Measured:
    """Seconds of the rounds of a case, and the extra bytes of one call."""

    rounds: list[float]
    bytes: int

    @property
    def seconds(self) -> float:
        """The median."""
        return median(self.rounds)

    def over(self, other: Measured) -> str:
        """How long this takes over another of the same rounds."""
        return spread(ratios(self.rounds, other.rounds))


def measured(cases: dict[str, Case], options: Options) -> dict[str, Measured]:
    """Time cases side by side, then their memory, each in a process of its own."""
    calls = {name: case.call() for name, case in cases.items()}
    times = side_by_side(calls, options.runs, options.budget)
    del calls  # the processes that measure memory need the room
    bytes_ = {name: memory(case, options) for name, case in cases.items()}
    return {name: Measured(times[name], bytes_[name]) for name in cases}


def memory(case: Case, options: Options) -> int:
    """Extra bytes of a case; to try the benchmark, in this process."""
    return extra_peak(case.call()) if options.quick else extra_peak_of(case)


class Diagrams:
    """Curves of seconds and of bytes, filled row by row."""

    def __init__(self) -> None:
        self.seconds: Curves = {}
        self.bytes: Curves = {}

    def add(self, curve: str, x: float, point: Measured) -> None:
        """A point of a curve in both diagrams."""
        self.seconds.setdefault(curve, []).append((x, point.seconds))
        self.bytes.setdefault(curve, []).append((x, point.bytes))

    def panels(self, x: str, suffix: str = "") -> list[Panel]:
        """Both diagrams."""
        return [
            Panel(x, f"seconds{suffix}", self.seconds),
            Panel(x, f"extra bytes{suffix}", self.bytes),
        ]


def leaves(options: Options) -> Section:
    """Regular 16-ary trees of more and more leaves, beside softmax attention."""
    numbers = [64, 256] if options.quick else LEAVES
    head = ["leaves", "HSA", "per leaf", "softmax", "softmax / HSA"]
    head += ["HSA, memory", "softmax, memory"]
    parts, panels = [], []
    for gradient, passes in PASSES.items():
        diagrams, rows = Diagrams(), []
        for number in tqdm(numbers, desc=f"leaves, {passes}", leave=False):
            case = Case(Tree(number), gradient=gradient, backend=options.backend)
            rows.append(_leaves_row(case, options, diagrams))
        parts.append(f"{passes.capitalize()}:\n\n{table(head, rows)}")
        panels += diagrams.panels("leaves", f", {passes}")
    note = (
        "Softmax attention is not run where the growth of the rows above says that "
        f"one call would pass {MOST_SECONDS:g} s or {MOST_BYTES // 2**30} GiB; no call "
        "is run for which the free memory would not suffice."
    )
    return Section("\n\n".join([*parts, note]), panels)


def _leaves_row(case: Case, options: Options, diagrams: Diagrams) -> list[str]:
    """One number of leaves; softmax attention only as long as it ends soon."""
    number = case.tree.leaves
    need = case.bytes * 4 / 3 + _grown(diagrams.bytes.get("HSA"), number, 1)
    if need > 0.95 * available():
        return [f"{number:,}", f"not run: needs {size(need)}", *[""] * 5]
    cases = {"HSA": case}
    seconds = _grown(diagrams.seconds.get("softmax"), number, 2)
    bytes_ = _grown(diagrams.bytes.get("softmax"), number, 1)
    if seconds <= MOST_SECONDS and bytes_ <= MOST_BYTES:
        cases["softmax"] = replace(case, attention="softmax")
    found = measured(cases, options)
    for name, point in found.items():
        diagrams.add(name, number, point)
    ours, theirs = found["HSA"], found.get("softmax")
    return [
        f"{number:,}",
        duration(ours.seconds),
        duration(ours.seconds / number),
        "not run" if theirs is None else duration(theirs.seconds),
        "" if theirs is None else theirs.over(ours),
        size(ours.bytes),
        "" if theirs is None else size(theirs.bytes),
    ]


def _grown(curve: list[tuple[float, float]] | None, x: float, power: int) -> float:
    """Where a curve gets to at ``x`` if it grows with a power; 0 without a point."""
    if not curve:
        return 0.0
    last, value = curve[-1]
    return value * (x / last) ** power


def small(options: Options) -> Section:
    """Few leaves, where softmax attention is the faster one: up to which number?"""
    numbers = [16, 32] if options.quick else [2**i for i in range(4, 12)]
    parts, panels = [], []
    for gradient, passes in PASSES.items():
        curves: Curves = {"HSA": [], "softmax": []}
        rows = []
        for number in numbers:
            ours = Case(Tree(number), gradient=gradient, backend=options.backend)
            cases = {"HSA": ours, "softmax": replace(ours, attention="softmax")}
            calls = {name: case.call() for name, case in cases.items()}
            times = side_by_side(calls, 10 * options.runs, options.budget)
            medians = {name: median(taken) for name, taken in times.items()}
            for name, seconds in medians.items():
                curves[name].append((number, seconds))
            quotient = spread(ratios(times["softmax"], times["HSA"]))
            rows.append([f"{number:,}", *map(duration, medians.values()), quotient])
        won = [
            x
            for (x, ours), (_, theirs) in zip(*curves.values(), strict=True)
            if ours >= theirs
        ]
        text = "HSA is the faster one throughout"
        if won:
            text = f"Softmax attention is as fast or faster up to {max(won):,} leaves"
        head = ["leaves", "HSA", "softmax", "softmax / HSA"]
        parts.append(f"{passes.capitalize()}:\n\n{table(head, rows)}\n\n{text}.")
        panels.append(Panel("leaves", f"seconds, {passes}", curves))
    return Section("\n\n".join(parts), panels)


def branching(options: Options) -> Section:
    """As many leaves in families of 2 to 256: b members, b pairs a leaf."""
    number = 512 if options.quick else 65536
    widths, rows, diagrams = (2, 4, 16, 64, 256), [], Diagrams()
    for gradient, passes in PASSES.items():
        cases = {
            str(width): Case(
                Tree(number, width, width), gradient=gradient, backend=options.backend
            )
            for width in widths
        }
        found = measured(cases, options)
        for width in widths:
            point = found[str(width)]
            diagrams.add(passes, width, point)
            times = [duration(point.seconds), point.over(found["16"])]
            over = point.bytes / cases["16"].bytes
            rows.append([f"{width}", passes, *times, size(point.bytes), f"{over:.2f}"])
    head = ["members of a family", "passes", "time", "over families of 16"]
    head += ["extra memory", "over the bytes of q, k, v"]
    text = f"{number:,} leaves.\n\n{table(head, rows)}"
    return Section(text, diagrams.panels("members of a family"))


def depth(options: Options) -> Section:
    """Caterpillars against balanced binary trees of as many leaves."""
    levels = [10, 30] if options.quick else [10, 100, 1000, 10_000]
    rows, diagrams = [], Diagrams()
    for gradient, passes in PASSES.items():
        for number in tqdm(levels, desc=f"depth, {passes}", leave=False):
            trees = {
                "caterpillar": Tree(number + 1, caterpillar=True),
                "balanced": Tree(number + 1, 2, 2),
            }
            cases = {
                name: Case(tree, gradient=gradient, backend=options.backend)
                for name, tree in trees.items()
            }
            found = measured(cases, options)
            for name, point in found.items():
                diagrams.add(f"{name}, {passes}", number, point)
            times = [duration(point.seconds) for point in found.values()]
            ratio = found["caterpillar"].over(found["balanced"])
            used = [size(point.bytes) for point in found.values()]
            rows.append([f"{number:,}", passes, *times, ratio, *used])
    head = ["levels", "passes", *trees, "caterpillar / balanced"]
    head += [f"{name}, memory" for name in trees]
    text = (
        "A caterpillar of L levels has L + 1 leaves, one at each depth and two below; "
        f"the balanced binary tree has as many.\n\n{table(head, rows)}"
    )
    return Section(text, diagrams.panels("levels"))


def batch(options: Options) -> Section:
    """Batches of more and more trees of about 200 leaves."""
    numbers = [1, 4] if options.quick else [1, 4, 16, 64, 256]
    rows, diagrams = [], Diagrams()
    for gradient, passes in PASSES.items():
        for number in tqdm(numbers, desc=f"batch, {passes}", leave=False):
            tree = Tree(200, number=number)
            case = Case(tree, gradient=gradient, backend=options.backend)
            point = measured({"batch": case}, options)["batch"]
            diagrams.add(passes, number, point)
            times = [duration(point.seconds), duration(point.seconds / number)]
            used = [size(point.bytes), size(point.bytes / number)]
            rows.append([f"{number}", passes, *times, *used])
    head = ["trees", "passes", "time", "per tree", "extra memory", "per tree"]
    text = f"Families of 16, 150 to 250 leaves a tree.\n\n{table(head, rows)}"
    return Section(text, diagrams.panels("trees"))


def shape(options: Options) -> Section:
    """Ragged trees over regular ones, and four times the leaves."""
    small, large, larger = (128, 256, 512) if options.quick else (4096, 65536, 262144)

    def row(
        label: str, above: Tree, below: Tree, gradient: bool, goal: Goal
    ) -> list[str]:
        a, b = (
            Case(tree, gradient=gradient, backend=options.backend).call()
            for tree in (above, below)
        )
        return compared(label, a, b, options.runs, goal, options.budget)

    rows = []
    for gradient, passes in PASSES.items():
        for number in tqdm((small, large), desc=f"ragged, {passes}", leave=False):
            label = f"{number:,} leaves, {passes}: families of 6 to 26 / of 16"
            ragged, regular = Tree(number, 6, 26), Tree(number)
            rows.append(row(label, ragged, regular, gradient, Goal(1.4, 1.15)))
        label = f"{passes}: {larger:,} / {large:,} leaves"
        more, fewer = Tree(larger), Tree(large)
        rows.append(row(label, more, fewer, gradient, Goal(4.5, 4.1)))
    return Section(table(HEAD, rows))


SECTIONS = {
    "small": small,
    "leaves": leaves,
    "branching": branching,
    "depth": depth,
    "batch": batch,
    "shape": shape,
}
