"""HSA against softmax attention, against memory, and against itself on other trees.

All on the CPU in float32 with 8 heads of 64. What is compared runs in turn in one
process; each ratio is the median over pairs, with its smallest and largest value.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.timing import machine, paired, row, table
from benchmarks.trees import forest, parents
from hsa_pyg import SignalHierarchy, hierarchical_attention

HEADS, CHANNELS = 8, 64


def leaf_tensors(hierarchy: SignalHierarchy, gradient: bool = False) -> list[Tensor]:
    """Random q, k and v for the leaves."""
    shape = (hierarchy.num_leaves, HEADS, CHANNELS)
    return [torch.randn(shape, requires_grad=gradient) for _ in range(3)]


def forward(hierarchy: SignalHierarchy) -> Callable[[], object]:
    """HSA without gradients."""
    q, k, v = leaf_tensors(hierarchy)
    return lambda: hierarchical_attention(q, k, v, hierarchy)


def both_ways(hierarchy: SignalHierarchy) -> Callable[[], object]:
    """HSA and its gradients."""
    q, k, v = leaf_tensors(hierarchy, gradient=True)
    cotangent = torch.randn(q.shape)
    return lambda: torch.autograd.grad(
        hierarchical_attention(q, k, v, hierarchy), (q, k, v), cotangent
    )


def softmax(num_leaves: int, gradient: bool) -> Callable[[], object]:
    """Softmax attention over the same leaves, in the layout that suits it best."""
    shape = (1, HEADS, num_leaves, CHANNELS)
    q, k, v = (torch.randn(shape, requires_grad=gradient) for _ in range(3))
    if not gradient:
        return lambda: scaled_dot_product_attention(q, k, v)
    cotangent = torch.randn(shape)
    return lambda: torch.autograd.grad(
        scaled_dot_product_attention(q, k, v), (q, k, v), cotangent
    )


def clones(num_leaves: int) -> Callable[[], object]:
    """Copies of q, k, v and the output: what moving the data alone costs."""
    tensors = [torch.randn(num_leaves, HEADS, CHANNELS) for _ in range(4)]
    return lambda: [x.clone() for x in tensors]


def regular_and_ragged(num_leaves: int) -> tuple[SignalHierarchy, SignalHierarchy]:
    """A 16-ary tree, and one with families of 6 to 26."""
    return (
        SignalHierarchy.from_parents(parents(num_leaves, 16, 16)),
        SignalHierarchy.from_parents(parents(num_leaves, 6, 26)),
    )


def batch_rows(runs: int) -> list[list[str]]:
    """A batch of 64 trees of about 200 leaves against one tree after the other."""
    trees = [parents(150 + int(100 * i / 63), 16, 16) for i in range(64)]
    whole = forest(trees)
    batch = SignalHierarchy.from_parents(whole)
    singles = [SignalHierarchy.from_parents(tree) for tree in trees]
    rows = []
    for heads, channels in ((HEADS, CHANNELS), (4, 16)):
        x = torch.randn(batch.num_leaves, heads, channels)
        parts = x.split([tree.num_leaves for tree in singles])

        def one_by_one(parts: tuple[Tensor, ...] = parts) -> None:
            for part, tree in zip(parts, singles, strict=True):
                hierarchical_attention(part, part, part, tree)

        def compiled_one_by_one(parts: tuple[Tensor, ...] = parts) -> None:
            for part, tree in zip(parts, trees, strict=True):
                hierarchy = SignalHierarchy.from_parents(tree)
                hierarchical_attention(part, part, part, hierarchy)

        def at_once(x: Tensor = x) -> None:
            hierarchical_attention(x, x, x, batch)

        def compiled_at_once(x: Tensor = x) -> None:
            hierarchical_attention(x, x, x, SignalHierarchy.from_parents(whole))

        label = f"64 trees of 150 to 250 leaves, {heads} x {channels}, forward"
        pair = paired(compiled_at_once, compiled_one_by_one, runs)
        rows.append(row(f"{label}, from parents: batch / one by one", "> 10", pair))
        pair = paired(at_once, one_by_one, runs)
        rows.append(row(f"{label}, compiled before: batch / one by one", "", pair))
    return rows


def compile_seconds(num_nodes: int, runs: int = 5) -> float:
    """Median time to compile a 16-ary tree, in seconds."""
    parent = parents(num_nodes * 15 // 16, 16, 16)
    taken = []
    for _ in range(runs):
        start = time.perf_counter()
        SignalHierarchy.from_parents(parent)
        taken.append(time.perf_counter() - start)
    return median(taken)


def run(runs: int = 9) -> str:
    """All measurements, as Markdown."""
    torch.manual_seed(0)
    rows = []
    small, small_ragged = regular_and_ragged(4096)
    pair = paired(forward(small), softmax(4096, False), runs)
    rows.append(row("4,096 leaves, forward: HSA / softmax", "> 12", pair))
    pair = paired(both_ways(small), softmax(4096, True), runs)
    rows.append(row("4,096 leaves, forward and backward: HSA / softmax", "> 20", pair))
    pair = paired(forward(small_ragged), forward(small), runs)
    rows.append(row("4,096 leaves, forward: ragged / regular", "< 2", pair, True))
    pair = paired(both_ways(small_ragged), both_ways(small), runs)
    label = "4,096 leaves, forward and backward: ragged / regular"
    rows.append(row(label, "< 2", pair, True))
    large, large_ragged = regular_and_ragged(65536)
    pair = paired(forward(large), clones(65536), runs)
    rows.append(row("65,536 leaves, forward: HSA / clones", "< 8", pair, True))
    pair = paired(both_ways(large), clones(65536), runs)
    label = "65,536 leaves, forward and backward: HSA / clones"
    rows.append(row(label, "", pair, True))
    pair = paired(forward(large_ragged), forward(large), runs)
    rows.append(row("65,536 leaves, forward: ragged / regular", "< 2", pair, True))
    pair = paired(both_ways(large_ragged), both_ways(large), runs)
    label = "65,536 leaves, forward and backward: ragged / regular"
    rows.append(row(label, "< 2", pair, True))
    rows += batch_rows(runs)
    head = ["A / B", "A, median", "B, median", "ratio (smallest to largest)", "aim"]
    return (
        f"{table(head, rows)}\n\nAims with `>` are for B / A, those with `<` for A / B."
        f"\n\nCompiling a regular tree of 1,000,000 nodes: "
        f"{compile_seconds(1_000_000):.2f} s.\n\n"
        f"Measured on: {machine()}; {runs} pairs."
    )
