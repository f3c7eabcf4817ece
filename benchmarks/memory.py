"""Extra peak memory of HSA over the bytes of q, k and v.

Each number is one call in a fresh process: the most bytes resident during it, less what
was resident before, with the output and the gradients of q, k, v counted, and q, k, v
and the cotangent of the output not. In float32 with 8 heads of 64.
"""

from __future__ import annotations

from dataclasses import replace

from tqdm import tqdm

from benchmarks.cases import Case
from benchmarks.growth import PASSES, memory
from benchmarks.report import Options, Section
from benchmarks.timing import Goal, size, table
from benchmarks.trees import Tree

#: Extra peak over the bytes of q, k, v, without and with gradients.
GOALS = {False: Goal(3, 1.5), True: Goal(7, 4)}


def peaks(options: Options) -> Section:
    """Regular and ragged trees, a deep one, and softmax attention to compare."""
    number = 256 if options.quick else 65536
    small = 64 if options.quick else 4096
    trees = {
        f"{small:,} leaves, families of 16": Tree(small),
        f"{number:,} leaves, families of 16": Tree(number),
        f"{number:,} leaves, families of 6 to 26": Tree(number, 6, 26),
        f"{number:,} leaves, families of 2": Tree(number, 2, 2),
        f"{number:,} leaves, families of 256": Tree(number, 256, 256),
        f"{small:,} leaves, caterpillar": Tree(small, caterpillar=True),
    }
    rows = []
    for gradient, passes in PASSES.items():
        cases = {
            f"HSA, {name}": Case(tree, gradient=gradient, backend=options.backend)
            for name, tree in trees.items()
        }
        flat = Case(Tree(small), attention="softmax", gradient=gradient)
        cases[f"softmax, {small:,} leaves"] = flat
        for name, case in tqdm(cases.items(), desc=passes, leave=False):
            used = memory(case, options)
            over = used / case.bytes
            # The goals are for families of about 16, which have few internal nodes.
            near = case.tree.smallest + case.tree.largest == 32
            aimed = near and not case.tree.caterpillar and case.attention == "hsa"
            cells = GOALS[gradient].cells(over) if aimed else ["", "", ""]
            rows.append([name, passes, size(used), f"{over:.2f}", *cells])
    head = ["attention", "passes", "extra memory", "over the bytes of q, k, v"]
    return Section(table([*head, "bar", "aim", "reached"], rows))


def twice(options: Options) -> Section:
    """How the extra memory grows from one number of leaves to twice as many."""
    number = 128 if options.quick else 65536
    rows = []
    for gradient, passes in PASSES.items():
        case = Case(Tree(number), gradient=gradient, backend=options.backend)
        doubled = replace(case, tree=Tree(2 * number))
        used = [memory(x, options) for x in (case, doubled)]
        ratio = f"{used[1] / used[0]:.2f}"
        rows.append([passes, *[size(x) for x in used], ratio])
    head = ["passes", f"{number:,} leaves", f"{2 * number:,} leaves", "ratio"]
    return Section(table(head, rows))


SECTIONS = {"peaks": peaks, "twice": twice}
