"""One training step on long documents: HSA on all of them, flat attention on parts.

The film reviews that come with the package, in batches of 16 of all lengths; the model
is what ``hsa-pyg train`` makes: width 64, 4 heads, 2 layers, positions in sequences. A
step is the forward pass, the backward pass and AdamW; batches are collated and their
hierarchies compiled before, as workers of the loader do. Models take the same documents
in turn in one process.
"""

from __future__ import annotations

import random
import time
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from itertools import cycle
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Batch

from benchmarks.report import Options, Section
from benchmarks.timing import (
    HEAD,
    Call,
    Goal,
    digits,
    duration,
    ratios,
    side_by_side,
    spread,
    table,
)
from hsa_pyg.converters import DocumentConverter, train_word_tokenizer
from hsa_pyg.data import NestedSignal
from hsa_pyg.datasets.shipped import shipped_file
from hsa_pyg.loader import SignalCollater
from hsa_pyg.nn import HierarchicalPosition, HSATransformer

CHANNELS, HEADS, LAYERS, BATCH = 64, 4, 2, 16
POSITION_CHANNELS = 16


#: Models whose positions are small, or wide as in the paper.
POSITIONED: dict[str, dict[str, Any]] = {
    "as above, positions of 16": {
        "channels": CHANNELS,
        "num_layers": LAYERS,
        "heads": HEADS,
        "position_dim": POSITION_CHANNELS,
    },
    "the paper's layer, positions of 768": {
        "channels": 384,
        "num_layers": 1,
        "heads": 3,
        "block": "paper",
        "self_attention": False,
        "hidden_channels": 128,
        "position_dim": 768,
    },
}


class Contestant(NamedTuple):
    """A model and the tokens that it gets of each document."""

    attention: str
    max_tokens: int | None
    position: bool = True


CONTESTANTS = {
    "HSA, whole documents": Contestant("hsa", None),
    "flat, 512 tokens": Contestant("flat", 512),
    "flat, whole documents": Contestant("flat", None),
    "no attention, whole documents": Contestant("none", None, False),
}


@cache
def documents(number: int) -> tuple[list[str], list[str]]:
    """Texts of all lengths, in random order, and all texts, for the vocabulary."""
    with zipfile.ZipFile(shipped_file("movie_reviews", "movie_reviews.zip")) as files:
        names = sorted(name for name in files.namelist() if "/cv" in name)
        texts = [files.read(name).decode() for name in names]
    # Evenly spaced by length, so that a few are as long in the mean as all.
    by_length = sorted(texts, key=len)
    drawn = [by_length[(2 * i + 1) * len(texts) // (2 * number)] for i in range(number)]
    random.Random(0).shuffle(drawn)
    return drawn, texts


@cache
def tokenizer(number: int) -> Any:
    """A vocabulary of words of the first so many reviews."""
    return train_word_tokenizer(documents(1)[1][:number], vocab_size=20_000)


def signals(options: Options, max_tokens: int | None) -> list[NestedSignal]:
    """The documents of all batches."""
    words = tokenizer(50 if options.quick else 2000)
    convert = DocumentConverter(
        words, sentences="lines", max_tokens=max_tokens, keep_text=False
    )
    texts, _ = documents(4 if options.quick else 8 * BATCH)
    return [convert.text(text, y=i % 2) for i, text in enumerate(texts)]


def batches(options: Options, max_tokens: int | None) -> list[Batch]:
    """Collated batches with their hierarchies."""
    made = signals(options, max_tokens)
    size = 2 if options.quick else BATCH
    collate = SignalCollater(made)
    return [collate(made[i : i + size]) for i in range(0, len(made), size)]


def model(contestant: Contestant, options: Options, schema: Any) -> HSATransformer:
    """The transformer of a contestant."""
    torch.manual_seed(0)
    position = None
    if contestant.position:
        domains = dict.fromkeys(schema.internal_types, "sequence")
        position = HierarchicalPosition(domains, POSITION_CHANNELS)
    words = tokenizer(50 if options.quick else 2000).get_vocab_size()
    return HSATransformer.from_schema(
        schema,
        2,
        CHANNELS,
        vocab_sizes={"token": words},
        num_layers=LAYERS,
        heads=HEADS,
        attention=contestant.attention,
        position=position,
        backend=options.backend,
    )


class Clock:
    """Seconds spent in named regions of a step, forward and backward."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self._begun: dict[str, float] = {}

    def begin(self, region: str) -> None:
        """A region is entered."""
        self._begun[region] = time.perf_counter()

    def end(self, region: str) -> None:
        """It is left."""
        taken = time.perf_counter() - self._begun.pop(region)
        self.spent[region] = self.spent.get(region, 0.0) + taken


class Mark(torch.autograd.Function):
    """Tensors as they are; tells a clock when both passes come by."""

    @staticmethod
    def forward(
        ctx: Any, clock: Clock, region: str, begins: bool, *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        """Views of the tensors."""
        ctx.clock, ctx.region, ctx.begins = clock, region, begins
        (clock.begin if begins else clock.end)(f"{region}, forward")
        return tuple(x.view_as(x) for x in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        """The gradients as they are."""
        (ctx.clock.end if ctx.begins else ctx.clock.begin)(f"{ctx.region}, backward")
        return None, None, None, *grads


def watch(transformer: HSATransformer, clock: Clock) -> None:
    """Let a clock measure the attention and the embedding of a model."""
    blocks: Any = transformer.blocks
    for block in blocks:
        if block.conv is not None:
            block.conv._attend = _watched(block.conv._attend, clock)
    leaves: Any = transformer.encoder
    encode = leaves.forward

    def encoder(*args: Any) -> Tensor:
        clock.begin("embedding, forward")
        return Mark.apply(clock, "embedding", False, encode(*args))[0]

    leaves.forward = encoder


def _watched(attend: Callable[..., Tensor], clock: Clock) -> Callable[..., Tensor]:
    def attention(
        q: Tensor, k: Tensor, v: Tensor, hierarchy: Any, eps: Tensor | None
    ) -> Tensor:
        given = [q, k, v] if eps is None else [q, k, v, eps]
        q, k, v, *rest = Mark.apply(clock, "attention", True, *given)
        y = attend(q, k, v, hierarchy, rest[0] if rest else None)
        return Mark.apply(clock, "attention", False, y)[0]

    return attention


def step(
    transformer: HSATransformer, data: Iterator[Batch], clock: Clock | None = None
) -> Call:
    """A training step on the next batch."""
    optimizer = torch.optim.AdamW(transformer.parameters(), lr=1e-3)

    def run() -> None:
        batch = next(data)
        loss = torch.nn.functional.cross_entropy(transformer(batch), batch.y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if clock is not None:
            clock.end("embedding, backward")  # the first to run forward ends last
            clock.begin("optimiser")
        optimizer.step()
        if clock is not None:
            clock.end("optimiser")

    return run


def whole_steps(options: Options) -> Section:
    """Whole steps, over those of flat attention on 512 tokens."""
    calls, tokens = {}, {}
    for name, contestant in CONTESTANTS.items():
        data = batches(options, contestant.max_tokens)
        tokens[name] = sum(x["token"].num_nodes for x in data)
        made = model(contestant, options, signals(options, 512)[0].schema)
        calls[name] = step(made, cycle(data))
    times = side_by_side(calls, options.runs * 8, 2 * options.budget)
    documents_ = 4 if options.quick else 8 * BATCH
    goals = {"flat, 512 tokens": Goal(1.0, 0.7)}
    ours, rows = "HSA, whole documents", []
    for name in calls:
        if name == ours:
            continue
        quotients = ratios(times[ours], times[name])
        cells = goals[name].cells(median(quotients)) if name in goals else [""] * 3
        medians = [duration(median(times[x])) for x in (ours, name)]
        rows.append([f"{ours} / {name}", *medians, spread(quotients), *cells])
    mean = ", ".join(
        f"{digits(number / documents_)} tokens a document ({name})"
        for name, number in tokens.items()
        if name in (ours, "flat, 512 tokens")
    )
    return Section(f"{table(HEAD, rows)}\n\n{mean}.")


def split(options: Options) -> Section:
    """Where the time of a step goes, and what making its batch takes before."""
    regions = ["embedding, forward", "embedding, backward"]
    regions += ["attention, forward", "attention, backward", "optimiser"]
    columns: dict[str, list[str]] = {}
    for name, contestant in CONTESTANTS.items():
        made = signals(options, contestant.max_tokens)
        data = batches(options, contestant.max_tokens)
        transformer, clock = model(contestant, options, made[0].schema), Clock()
        watch(transformer, clock)
        run = step(transformer, cycle(data), clock)
        run()
        spent: dict[str, list[float]] = {region: [] for region in regions}
        totals = []
        for _ in range(options.runs * len(data)):
            clock.spent.clear()
            start = time.perf_counter()
            run()
            totals.append(time.perf_counter() - start)
            for region in regions:
                spent[region].append(clock.spent.get(region, 0.0))
        parts = [median(spent[region]) for region in regions]
        total = median(totals)
        joining, compiling = _collating(options, made)
        cells = [*parts, total - sum(parts), total]
        columns[name] = [f"{duration(x)} ({x / total:.0%})" for x in cells]
        before = [f"{duration(x)} ({x / total:.0%})" for x in (joining, compiling)]
        columns[name] += before
    labels = [*regions, "the rest", "**the step**"]
    labels += ["before: joining 16 documents", "before: compiling the hierarchy"]
    rows = [
        [label, *(cells[i] for cells in columns.values())]
        for i, label in enumerate(labels)
    ]
    note = (
        "Medians, and their share of the step. The rest: projections, MLPs, norms, "
        "positions, readout, loss. Joining and compiling run in workers of the loader."
    )
    return Section(f"{table(['part', *columns], rows)}\n\n{note}")


def _collating(options: Options, made: list[NestedSignal]) -> tuple[float, float]:
    """Seconds to join the documents of a batch, and to compile its hierarchy."""
    size = 2 if options.quick else BATCH
    joining, compiling = [], []
    for i in range(0, len(made) * options.runs, size):
        first = i % len(made)
        chosen = made[first : first + size]
        start = time.perf_counter()
        batch = Batch.from_data_list(chosen)
        middle = time.perf_counter()
        _ = batch.hierarchy
        joining.append(middle - start)
        compiling.append(time.perf_counter() - middle)
    return median(joining), median(compiling)


class EachNode(NamedTuple):
    """What :class:`~hsa_pyg.nn.HSAConv` takes, with a row for each node."""

    position: Tensor
    domain: Tensor
    position_index: None = None


class RowPerNode(torch.nn.Module):
    """Positions with a row for each node, however many are equal."""

    def __init__(self, position: HierarchicalPosition) -> None:
        super().__init__()
        self.position = position

    def distinct(self, batch: Any, hierarchy: Any) -> EachNode:
        """Of each node its position and domain, and no index."""
        return EachNode(*self.position(batch, hierarchy))


def positions(options: Options) -> Section:
    """Steps that map each different position once, over those that map each node's."""
    rows = []
    schema = signals(options, 512)[0].schema
    domains = dict.fromkeys(schema.internal_types, "sequence")
    words = tokenizer(50 if options.quick else 2000).get_vocab_size()
    data = batches(options, None)
    for form, given in POSITIONED.items():
        calls = {}
        for name in ("each node's", "each different one"):
            torch.manual_seed(0)
            made = HSATransformer.from_schema(
                schema,
                2,
                vocab_sizes={"token": words},
                position=HierarchicalPosition(domains, given["position_dim"]),
                backend=options.backend,
                **{k: v for k, v in given.items() if k != "position_dim"},
            )
            if name == "each node's":
                made.position = RowPerNode(made.position)
            calls[name] = step(made, cycle(data))
        times = side_by_side(calls, options.runs * 4, options.budget)
        node, different = times.values()
        cells = [duration(median(x)) for x in (different, node)]
        rows.append([form, *cells, spread(ratios(different, node))])
    batch = data[0]
    position = HierarchicalPosition(domains, 16)
    number = position.distinct(batch, batch.hierarchy)[0].size(0)
    head = ["model", "A: each different one", "B: each node's", "A / B"]
    note = (
        f"The first batch has {digits(number)} different positions of "
        f"{digits(batch.hierarchy.num_nodes)} nodes."
    )
    return Section(f"{table(head, rows)}\n\n{note}")


SECTIONS = {"steps": whole_steps, "split": split, "positions": positions}
