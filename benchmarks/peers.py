"""What else a user of PyG would take for attention over many nodes, beside HSA.

All on the CPU in float32 with 8 heads of 64 (512 channels), dropout 0, no local layer;
HSA on a 16-ary tree. Everyone gets the layout and the options that suit it best, where
its documentation offers a choice. None computes the same: the column "sees" says what a
node's output depends on. HSA's output depends on every node, near ones one by one and
far ones by the means of their branches. What is compared runs in turn in one process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import torch
from torch import Tensor
from tqdm import tqdm

from benchmarks import peer_layers
from benchmarks.cases import CHANNELS, HEADS, Case, attend
from benchmarks.peer_layers import (
    NO_EDGES,
    WIDTH,
    HSAInGPS,
    HSAInSetTransformer,
    make_conv,
    own_block,
)
from benchmarks.report import Options, Panel, Section
from benchmarks.timing import (
    Call,
    Goal,
    duration,
    ratios,
    side_by_side,
    spread,
    table,
    threads,
)
from benchmarks.trees import Tree

EXACT = "every node, exactly (softmax); quadratic"
KERNEL = "every node, through a sum of random features of all keys; linear"
LINEAR = "every node, through one matrix of softmax-weighted keys and values; linear"
ITSELF = "itself"
HEAD = ["A / B", "A, median", "B, median", "A / B (smallest to largest)"]
HEAD += ["bar", "aim", "reached", "A sees"]


@dataclass(frozen=True)
class Peer:
    """Something to compare with: its name, what a node sees in it, and its call."""

    name: str
    sees: str
    call: Call
    goal: Goal | None = None


def rows_over(
    ours: Sequence[Peer], peers: Sequence[Peer], options: Options, what: str
) -> list[list[str]]:
    """A row per peer and form of HSA: its time over ours, all in turn."""
    calls = {peer.name: peer.call for peer in (*ours, *peers)}
    times = side_by_side(calls, options.runs, options.budget)
    rows = []
    for mine in ours:
        for peer in peers:
            quotients = ratios(times[peer.name], times[mine.name])
            goal = None if mine.sees == ITSELF else peer.goal
            cells = ["", "", ""] if goal is None else goal.cells(median(quotients))
            medians = [duration(median(times[x.name])) for x in (peer, mine)]
            label = f"{what}: {peer.name} / {mine.name}"
            rows.append([label, *medians, spread(quotients), *cells, peer.sees])
    return rows


def stepped(module: torch.nn.Module, gradient: bool, *inputs: object) -> Call:
    """A module's forward pass, and its backward pass with ``gradient``."""
    if not gradient:

        def forward() -> object:
            with torch.no_grad():
                return module(*inputs)

        return forward

    def both_ways() -> None:
        module.zero_grad(set_to_none=True)
        out = module(*inputs)
        if isinstance(out, dict):
            out = list(out.values())
        leaves = [out] if isinstance(out, Tensor) else out
        torch.autograd.backward(leaves, [torch.ones_like(x) for x in leaves])

    return both_ways


def passes_of(gradient: bool) -> str:
    """How a row says what was timed."""
    return "forward and backward" if gradient else "forward"


def blocks(options: Options) -> Section:
    """Whole blocks: projections, attention, residuals, norms and MLP."""
    number = 128 if options.quick else 4096
    hierarchy, x = Tree(number).hierarchy(), torch.randn(number, WIDTH)
    rows = []
    for gradient in (False, True):

        def peer(
            name: str,
            sees: str,
            module: torch.nn.Module,
            given: object = NO_EDGES,
            goal: Goal | None = None,
            gradient: bool = gradient,
        ) -> Peer:
            return Peer(name, sees, stepped(module, gradient, x, given), goal)

        gps = peer_layers.gps
        peers = [
            peer("GPSConv, multihead", EXACT, gps("multihead"), goal=Goal(15, 25)),
            peer("GPSConv, performer", KERNEL, gps("performer"), goal=Goal(2.5, 4)),
            peer("the same without attention", ITSELF, HSAInGPS(None), hierarchy),
        ]
        if not gradient:
            # PyTorch then takes another path, which is slower on a CPU.
            evaluated = gps("multihead").eval()
            peers.insert(1, peer("GPSConv, multihead, eval()", EXACT, evaluated))
        ours = [
            peer("HSA in GPSConv's block", "", HSAInGPS(options.backend), hierarchy),
            peer("HSA's own block", "", own_block(options.backend), hierarchy),
            Peer(
                "the matrix products of a block alone",
                ITSELF,
                stepped(peer_layers.Products(), gradient, x),
            ),
        ]
        what = f"{number:,} nodes, {passes_of(gradient)}"
        rows += rows_over(ours, peers, options, what)
    note = (
        "HSA's own block is the one of `HSATransformer`, with an MLP of the same size; "
        "it normalises before attention and MLP, where GPSConv does so after them. The "
        "last rows say what no attention could exceed: every block has these products."
    )
    return Section(f"{table(HEAD, rows)}\n\n{note}")


def cores(options: Options) -> Section:
    """Attention alone, queries, keys and values given, on one thread."""
    number = 256 if options.quick else 4096
    sizes = (16,) if options.quick else (8, 16, 32, 64, 128)
    rows = []
    with threads(1):
        for gradient in (False, True):
            fastest = _fastest_block(sizes, number, gradient, options)
            mine = Case(Tree(number), gradient=gradient, backend=options.backend)
            what = f"{number:,} nodes, {passes_of(gradient)}, one thread"
            rows += rows_over(
                [Peer("HSA", "", mine.call())],
                _core_peers(number, gradient, fastest),
                options,
                what,
            )
        return Section(table(HEAD, rows))


def _core_peers(number: int, gradient: bool, fastest: int) -> list[Peer]:
    window = "the {} nodes of its window{}"
    beside = " and of the two beside it"
    peers = [
        Peer(
            f"local-attention, window 64, {beside_name}",
            window.format(64, text),
            _heads_first(peer_layers.local_attention(64, count), number, gradient),
            Goal(6, 12) if count else None,
        )
        for count, beside_name, text in (
            (1, "as by default with one beside it on either side", beside),
            (0, "none beside it", ""),
        )
    ]
    for block in dict.fromkeys((16, fastest)):
        note = "the layer's default" if block == 16 else "the fastest"
        peers.append(
            Peer(
                f"h-transformer-1d less its projections, blocks of {block} ({note})",
                "every node, means of blocks that double with the distance",
                _h_core(block, number, gradient),
                Goal(5, 10) if block == fastest else None,
            )
        )
    call = _heads_first(peer_layers.linear_core(), number, gradient)
    peers.append(Peer("linear-attention-transformer's attention", LINEAR, call))
    return peers


def _heads_first(attention: Callable[..., Tensor], number: int, gradient: bool) -> Call:
    case = Case(Tree(number), gradient=gradient)
    return attend(attention, case.tensors((1, HEADS, number, CHANNELS)))


def _h_core(block: int, number: int, gradient: bool) -> Call:
    core = peer_layers.h_transformer_core(block)
    qkv = torch.randn(1, number, 3 * WIDTH, requires_grad=gradient)
    if not gradient:
        return lambda: core(qkv)
    cotangent = torch.randn(1, number, WIDTH)
    return lambda: torch.autograd.grad(core(qkv), qkv, cotangent)


def _fastest_block(
    sizes: Sequence[int], number: int, gradient: bool, options: Options
) -> int:
    """The block size at which h-transformer-1d is fastest here."""
    calls = {str(size): _h_core(size, number, gradient) for size in sizes}
    times = side_by_side(calls, min(options.runs, 3), options.budget)
    return int(min(times, key=lambda size: median(times[size])))


def layers(options: Options) -> Section:
    """Single layers with their projections, against HSAConv with its own."""
    rows = []
    for gradient in (False, True):
        passes = passes_of(gradient)
        number = 128 if options.quick else 4096
        hierarchy, x = Tree(number).hierarchy(), torch.randn(number, WIDTH)
        conv = make_conv(options.backend)
        ours = Peer("HSAConv", "", stepped(conv, gradient, x, hierarchy))
        linear = peer_layers.linear_transformer()
        h_layer = peer_layers.h_transformer(16)
        hgt, edges = peer_layers.heterogeneous(hierarchy)
        inner = torch.randn(hierarchy.num_nodes - number, WIDTH)
        peers = [
            Peer(
                "h-transformer-1d's layer, blocks of 16",
                "every node, means of blocks that double with the distance",
                stepped(h_layer, gradient, x[None]),
            ),
            Peer(
                "linear-attention-transformer's layer",
                LINEAR,
                stepped(linear, gradient, x[None]),
            ),
            Peer(
                "HGTConv on the edges of the tree",
                "parent and children; across the tree in two layers per level",
                stepped(hgt, gradient, {"leaf": x, "node": inner}, edges),
            ),
        ]
        rows += rows_over([ours], peers, options, f"{number:,} nodes, {passes}")
        rows += _set_rows(options, gradient, x, hierarchy)
        rows += _complete_rows(options, gradient)
    return Section(table(HEAD, rows))


def _set_rows(
    options: Options, gradient: bool, x: Tensor, hierarchy: object
) -> list[list[str]]:
    theirs = peer_layers.set_transformer()
    ours = HSAInSetTransformer(peer_layers.set_transformer(), options.backend)
    index = torch.zeros(x.size(0), dtype=torch.long)
    peer = Peer("SetTransformerAggregation", EXACT, stepped(theirs, gradient, x, index))
    mine = Peer(
        "the same with HSA in its encoder", "", stepped(ours, gradient, x, hierarchy)
    )
    what = f"{x.size(0):,} nodes to one vector, {passes_of(gradient)}"
    return rows_over([mine], [peer], options, what)


def _complete_rows(options: Options, gradient: bool) -> list[list[str]]:
    """TransformerConv makes a message per pair, so that only small graphs fit."""
    rows = []
    for number in (32,) if options.quick else (128, 256, 512):
        x, tree = torch.randn(number, WIDTH), Tree(number).hierarchy()
        theirs, edges = peer_layers.complete_graph(number)
        ours = make_conv(options.backend)
        peer = Peer(
            "TransformerConv on the complete graph",
            EXACT,
            stepped(theirs, gradient, x, edges),
        )
        mine = Peer("HSAConv", "", stepped(ours, gradient, x, tree))
        what = f"{number} nodes, {passes_of(gradient)}"
        rows += rows_over([mine], [peer], options, what)
    return rows


def sizes(options: Options) -> Section:
    """Blocks' forward passes from 256 to 65,536 nodes; softmax as long as it ends."""
    numbers = (64, 128) if options.quick else (256, 1024, 4096, 16384, 65536)
    curves: dict[str, list[tuple[float, float]]] = {}
    rows = []
    for number in tqdm(numbers, desc="sizes", leave=False):
        hierarchy, x = Tree(number).hierarchy(), torch.randn(number, WIDTH)
        ours = HSAInGPS(options.backend)
        calls = {
            "HSA": stepped(ours, False, x, hierarchy),
            "performer": stepped(peer_layers.gps("performer"), False, x, NO_EDGES),
            "no attention": stepped(HSAInGPS(None), False, x, hierarchy),
        }
        if number <= 16384:
            theirs = peer_layers.gps("multihead")
            calls["multihead"] = stepped(theirs, False, x, NO_EDGES)
        times = side_by_side(calls, options.runs, options.budget)
        for name, taken in times.items():
            curves.setdefault(name, []).append((number, median(taken)))
        cells = [f"{number:,}"]
        for name in ("HSA", "no attention", "multihead", "performer"):
            known = name in times
            cells.append(duration(median(times[name])) if known else "not run")
        rows.append(cells)
    head = ["nodes", "HSA in GPSConv's block", "no attention"]
    head += ["GPSConv, multihead", "GPSConv, performer"]
    note = (
        "Forward passes. Multihead attention over 65,536 nodes would take 16 times as "
        "long as over 16,384."
    )
    panels = [Panel("nodes", "seconds, forward", curves)]
    return Section(f"{table(head, rows)}\n\n{note}", panels)


SECTIONS = {"blocks": blocks, "cores": cores, "layers": layers, "sizes": sizes}
