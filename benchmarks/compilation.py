"""What compiling the hierarchy takes: from the parent of every node to the layout.

On the CPU, one thread. The layout is made once per batch, by default where the batch is
made, in a worker of the loader; its share of a training step stands in the benchmark
``training``.
"""

from __future__ import annotations

from statistics import median

import torch
from torch import Tensor
from tqdm import tqdm

from benchmarks.report import Options, Panel, Section
from benchmarks.timing import (
    Call,
    Goal,
    duration,
    side_by_side,
    table,
    threads,
)
from benchmarks.trees import Tree, caterpillar, forest, parents
from hsa_pyg import SignalHierarchy

#: Seconds for a million nodes.
GOAL = Goal(1.0)


def compiling(parent: Tensor) -> Call:
    """Compile a forest."""
    return lambda: SignalHierarchy.from_parents(parent)


def relabelled(parent: Tensor, seed: int = 0) -> Tensor:
    """The same forest with its nodes in a random order."""
    generator = torch.Generator().manual_seed(seed)
    place = torch.randperm(parent.numel(), generator=generator)
    moved = torch.empty_like(parent)
    moved[place] = torch.where(parent >= 0, place[parent], -1)
    return moved


def grown(number: int, seed: int = 0) -> Tensor:
    """A random recursive tree: each node hangs under one of those before it."""
    generator = torch.Generator().manual_seed(seed)
    share = torch.rand(number - 1, generator=generator, dtype=torch.float64)
    before = (share * torch.arange(1, number)).long()
    return torch.cat([torch.tensor([-1]), before])


def forests(number: int) -> dict[str, Tensor]:
    """Forests of about ``number`` nodes, by what they are like."""
    regular = parents(number * 15 // 16, 16, 16)
    trees = [Tree(200, 6, 26).parents()] * max(number // 217, 1)
    return {
        "regular, families of 16": regular,
        "the same, nodes in random order": relabelled(regular),
        "ragged, families of 6 to 26": parents(number * 15 // 16, 6, 26),
        "binary": parents(number // 2, 2, 2),
        "a batch of trees of 200 leaves": forest(trees),
        "random recursive tree": grown(number),
        "caterpillar": caterpillar(number // 2),
        "one family": torch.cat(
            [torch.tensor([-1]), torch.zeros(number - 1, dtype=torch.long)]
        ),
    }


def nodes(options: Options) -> Section:
    """More and more nodes."""
    numbers = (100, 1000) if options.quick else (1000, 10_000, 100_000, 1_000_000)
    curves: dict[str, list[tuple[float, float]]] = {}
    rows = []
    with threads(1):
        for number in tqdm(numbers, desc="nodes", leave=False):
            made = forests(number)
            calls = {name: compiling(parent) for name, parent in made.items()}
            times = side_by_side(calls, options.runs, options.budget)
            for name, taken in times.items():
                seconds, count = median(taken), made[name].numel()
                curves.setdefault(name, []).append((count, seconds))
                cells = ["", "", ""]
                if number == 1_000_000:
                    cells = GOAL.cells(seconds)
                times_of = [duration(seconds), duration(seconds / count)]
                rows.append([name, f"{count:,}", *times_of, *cells])
        head = ["forest", "nodes", "time", "per node", "bar, s", "aim, s", "reached"]
        return Section(table(head, rows), [Panel("nodes", "seconds", curves)])


SECTIONS = {"nodes": nodes}
