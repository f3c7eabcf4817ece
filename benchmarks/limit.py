"""HSA beside what the machine can do: moving the bytes, and multiplying matrices.

On the CPU in float32 with 8 heads of 64, 16-ary trees. A clone writes to memory that
the system hands out page by page; a copy into a buffer that was used before does not
wait for pages. HSA's own output is new memory, as its gradients are. What is compared
runs in turn in one process.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

import torch

from benchmarks.cases import CHANNELS, FLOAT, HEADS, Case
from benchmarks.report import Options, Section
from benchmarks.timing import (
    HEAD,
    Call,
    Goal,
    compared,
    digits,
    duration,
    side_by_side,
    size,
    table,
)
from benchmarks.trees import Tree
from hsa_pyg import SignalHierarchy

#: Multiply-adds of a pair and head, in channels: scores and values forward; backward
#: the scores again, and the gradients of weights, values, queries and keys.
PRODUCTS = {False: 2, True: 7}
#: Tensors as long as the leaves that must be read or written at least once. Forward: q,
#: k, v, and y. Backward also q, k, v, y and its gradient again, and three gradients.
TOUCHED = {False: 4, True: 12}
PASSES = {False: "forward", True: "forward and backward"}


def clones(number: int) -> Call:
    """Clones of q, k, v and an output: what moving the data to new memory costs."""
    tensors = [torch.randn(number, HEADS, CHANNELS) for _ in range(4)]
    return lambda: [x.clone() for x in tensors]


def copies(number: int) -> Call:
    """Copies of q, k, v and an output to memory that was used before."""
    tensors = [torch.randn(number, HEADS, CHANNELS) for _ in range(4)]
    buffers = [x.clone() for x in tensors]
    return lambda: [y.copy_(x) for x, y in zip(tensors, buffers, strict=True)]


def moving(options: Options) -> Section:
    """HSA over moving q, k, v and an output once."""
    number = 256 if options.quick else 65536
    fresh, warm = clones(number), copies(number)
    rows = []
    for gradient, passes in PASSES.items():
        call = Case(Tree(number), gradient=gradient, backend=options.backend).call()
        label = f"{number:,} leaves, {passes}: HSA"
        goal = None if gradient else Goal(3, 1.5)
        for name, other in (("clones", fresh), ("copies to used memory", warm)):
            text = f"{label} / {name} of q, k, v, y"
            aimed = goal if other is fresh else None
            rows.append(compared(text, call, other, options.runs, aimed))
    text = f"{number:,} leaves: clones / copies to used memory"
    rows.append(compared(text, fresh, warm, options.runs))
    return Section(table(HEAD, rows))


@dataclass(frozen=True)
class Rates:
    """What the machine does in a second."""

    product: float  #: operations of one large matrix product
    families: float  #: operations of a batch of products of the size of a family
    exponentials: float
    bytes: float  #: read and written by a copy to used memory


def rates(number: int, options: Options) -> Rates:
    """Measure the machine, on tensors as long as ``number`` leaves."""
    width = 256 if options.quick else 2048
    square = torch.randn(width, width)
    result = torch.empty_like(square)
    families = max(number // 16, 1)
    q = torch.randn(families * HEADS, 16, CHANNELS)
    k = torch.randn(families * HEADS, CHANNELS, 16)
    scores = torch.empty(families * HEADS, 16, 16)
    energies = -torch.rand(scores.shape)
    weights = torch.empty_like(energies)
    calls = {
        "product": lambda: torch.mm(square, square, out=result),
        "families": lambda: torch.bmm(q, k, out=scores),
        "exponentials": lambda: torch.exp(energies, out=weights),
        "bytes": copies(number),
    }
    taken = side_by_side(calls, options.runs, options.budget)
    work = {
        "product": 2 * width**3,
        "families": 2 * scores.numel() * CHANNELS,
        "exponentials": scores.numel(),
        "bytes": 2 * 4 * number * HEADS * CHANNELS * FLOAT,
    }
    return Rates(**{name: work[name] / median(taken[name]) for name in work})


def pairs(hierarchy: SignalHierarchy) -> int:
    """Pairs of siblings, and of a node with itself: the sum of all squared families."""
    parent = hierarchy.parent[hierarchy.parent >= 0]
    return int(torch.bincount(parent).square().sum())


def floors(options: Options) -> Section:
    """Time over the least that the counted work and the least bytes could take."""
    rows, described = [], []
    for number in (256,) if options.quick else (4096, 65536):
        hierarchy, rate = Tree(number).hierarchy(), rates(number, options)
        count = pairs(hierarchy) * HEADS
        described.append(
            f"{number:,} leaves: {digits(rate.product / 1e9)} billion operations a "
            f"second in a matrix product, {digits(rate.families / 1e9)} in products of "
            f"the size of a family, {digits(rate.exponentials / 1e9)} billion "
            f"exponentials, {size(rate.bytes)} read and written in a copy"
        )
        for gradient, passes in PASSES.items():
            case = Case(Tree(number), gradient=gradient, backend=options.backend)
            taken = side_by_side({"HSA": case.over(hierarchy)}, options.runs)["HSA"]
            operations = 2 * PRODUCTS[gradient] * CHANNELS * count
            moved = TOUCHED[gradient] * case.bytes / 3
            by_product = operations / rate.product
            by_bytes = moved / rate.bytes
            exponentials = (1 + gradient) * count / rate.exponentials
            rows.append(
                [
                    f"{number:,} leaves, {passes}",
                    duration(median(taken)),
                    f"{digits(operations / 1e9)} billion",
                    duration(by_product),
                    f"{median(taken) / by_product:.1f}",
                    size(moved),
                    duration(by_bytes),
                    f"{median(taken) / by_bytes:.1f}",
                    duration(exponentials),
                ]
            )
    head = ["HSA", "median", "operations", "at least", "time / that"]
    head += ["bytes", "at least", "time / that", "exponentials"]
    note = (
        "Operations are additions and multiplications of the sibling pairs' products, "
        "at the rate of a large matrix product; bytes are each leaf tensor once per "
        "pass that needs it, at the rate of a copy to used memory (new memory is "
        "dearer); exponentials at the rate of `torch.exp`."
    )
    listed = "\n".join(f"- {line}" for line in described)
    return Section(f"{table(head, rows)}\n\n{note}\n\n{listed}")


def levels(options: Options) -> Section:
    """What the upper levels cost: one tree against its lowest families alone."""
    number = 256 if options.quick else 65536
    whole = Tree(number).hierarchy()
    above = torch.arange(number // 16).repeat_interleave(16) + number
    roots = torch.full((number // 16,), -1)
    lowest = SignalHierarchy.from_parents(torch.cat([above, roots]))
    rows = []
    for gradient, passes in PASSES.items():
        case = Case(Tree(number), gradient=gradient, backend=options.backend)
        label = f"{number:,} leaves, {passes}: one tree / {number // 16:,} trees of 16"
        both = case.over(whole), case.over(lowest)
        rows.append(compared(label, both[0], both[1], options.runs))
    return Section(table(HEAD, rows))


SECTIONS = {"moving": moving, "floors": floors, "levels": levels}
