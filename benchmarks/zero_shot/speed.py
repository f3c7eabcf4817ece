"""How long replaced attention takes, and what it saves, from 64 to 8,192 tokens.

One text on the CPU in float32, without gradients; the first and the last token are
special and hang from the root. A replaced layer is timed as a model calls it: its trees
are built, then it attends. In a model, trees that ask for no keys ("window:...") are
built once for all layers of a pass, the others in every layer. Softmax attention is
PyTorch's fused kernel. Queries, keys and values of the single layers are random, with
keys that drift, so that neighbours are alike; the model is all-MiniLM-L6-v2 (6 layers)
with interpolated positions, all layers replaced, and its text is random words.

What stands in one table of one length runs in turn in one process; numbers are medians.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.report import Options, Panel, Section
from benchmarks.timing import (
    HEAD,
    Call,
    Goal,
    duration,
    machine,
    ratios,
    side_by_side,
    table,
)
from benchmarks.zero_shot.records import Records, open_records
from benchmarks.zero_shot.texts import minilm
from hsa_pyg.integrations.transformers import (
    extend_positions,
    make_builder,
    replace_attention,
    restore_attention,
)
from hsa_pyg.integrations.transformers.attention import (
    TREES,
    ReplacedLayer,
    hierarchical_attention_forward,
)
from hsa_pyg.integrations.transformers.forward_trees import Form, ForwardTrees
from hsa_pyg.nn.functional import hierarchical_attention

LENGTHS = (64, 256, 512, 2048, 8192)
#: Heads and their width.
SHAPES = {"MiniLM-sized": (12, 32), "BERT-base-sized": (12, 64)}
MODEL = "all-MiniLM-L6-v2"
HIERARCHIES = (
    "window:4",
    "window:16",
    "windows:2,4,8,16",
    "ward:8",
    "segments:0.1",
    "clusters:0.08",
)
QUERIES = {True: "tied", False: "untied"}

Rounds = Mapping[str, Sequence[float]]
Key = tuple[str, int, bool]


def keys(options: Options) -> list[Key]:
    """What is measured in one piece: a shape or the model, a length, the queries."""
    lengths = (16, 40) if options.quick else LENGTHS
    return [
        (name, length, tied)
        for name in (*SHAPES, MODEL)
        for length in lengths
        for tied in QUERIES
    ]


def rounds(key: Key, records: Records, options: Options) -> Rounds:
    """Seconds of every round of a piece, measured now or before."""
    name, length, tied = key
    asked = f"{name}, {length} tokens, {QUERIES[tied]} queries"

    def measure() -> dict[str, Any]:
        made = model_calls(length, tied, options) if name == MODEL else None
        calls = made or layer_calls(SHAPES[name], length, tied, options)
        budget = min(options.budget, 12.0)
        with torch.no_grad():
            times = side_by_side(calls, options.runs, budget)
        return {"seconds": times, "machine": machine()}

    return records.once(asked, measure)["seconds"]


def layer_calls(
    shape: tuple[int, int], length: int, tied: bool, options: Options
) -> dict[str, Call]:
    """Softmax attention; each replaced layer; and each without building its trees."""
    heads, width = shape
    q, k, v = _projected(heads, width, length)
    calls: dict[str, Call] = {
        "softmax": lambda: scaled_dot_product_attention(q, k, v).transpose(1, 2)
    }
    for name in HIERARCHIES:
        calls[name] = _replaced(name, q, k, v, tied, options)
        calls[f"{name}, trees given"] = _given(name, q, k, v, tied, options)
    return calls


def _projected(heads: int, width: int, length: int) -> Sequence[Tensor]:
    """[1, H, L, D] each, views of [1, L, H D] as a model's projections are."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(3, 1, length, heads, width, generator=generator)
    drift = torch.randn(length, 1, width, generator=generator).cumsum(0)
    rows[1] += drift / 8
    return [x.transpose(1, 2) for x in rows]


def _form(name: str, tied: bool, options: Options) -> Form:
    backend = options.backend if tied else "auto"
    return Form(make_builder(name), True, tied, False, "root", None, backend)


def _replaced(
    name: str, q: Tensor, k: Tensor, v: Tensor, tied: bool, options: Options
) -> Call:
    form = _form(name, tied, options)
    config = SimpleNamespace(hsa_pyg_layer=ReplacedLayer(0, form, None))
    module: Any = SimpleNamespace(config=config)

    def attend() -> Tensor:
        trees: dict[str, Any] = {TREES: ForwardTrees(form)}
        return hierarchical_attention_forward(module, q, k, v, None, **trees)[0]

    return attend


def _given(
    name: str, q: Tensor, k: Tensor, v: Tensor, tied: bool, options: Options
) -> Call:
    form = _form(name, tied, options)
    hierarchy = ForwardTrees(form).plan(0, q, k, None).hierarchy
    rows = [x.transpose(1, 2).flatten(0, 1) for x in (q, k, v)]
    backend = form.backend
    return lambda: hierarchical_attention(
        *rows, hierarchy, tie_queries=tied, backend=backend
    )


def model_calls(length: int, tied: bool, options: Options) -> dict[str, Call]:
    """Forward passes of the model, and with all of its layers replaced."""
    model = _model(length, options)
    generator = torch.Generator().manual_seed(0)
    most = model.config.vocab_size
    ids = torch.randint(most // 2, most, (1, length), generator=generator)

    def replaced(name: str) -> Call:
        def run() -> object:
            backend = options.backend if tied else "auto"
            replace_attention(model, "all", name, tie_queries=tied, backend=backend)
            try:
                return model(input_ids=ids)
            finally:
                restore_attention(model)

        return run

    calls: dict[str, Call] = {"softmax": lambda: model(input_ids=ids)}
    return calls | {name: replaced(name) for name in HIERARCHIES}


def _model(length: int, options: Options) -> Any:
    from transformers import AutoModel, BertConfig, BertModel

    if options.quick:
        sizes = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64}
        return BertModel(BertConfig(num_hidden_layers=2, vocab_size=99, **sizes)).eval()
    model = AutoModel.from_pretrained(minilm()).eval()
    return model if length <= 512 else extend_positions(model, length)


def section(options: Options) -> Section:
    """Measure what has no row yet, and show all."""
    return measured(open_records(options, "speed"), options)


def measured(records: Records, options: Options) -> Section:
    """The tables and diagrams of all pieces."""
    found = {key: rounds(key, records, options) for key in keys(options)}
    longest = max(length for _, length, _ in found)
    parts = []
    for name in (*SHAPES, MODEL):
        what = "forward passes" if name == MODEL else "one layer"
        for tied, queries in QUERIES.items():
            mine = {n: x for (m, n, t), x in found.items() if (m, t) == (name, tied)}
            parts += [f"{name}, {what}, {queries} queries:", by_length(mine)]
            if name != MODEL:
                parts += [
                    f"Of it, at {longest:,} tokens, building the trees:",
                    trees_alone(mine[longest]),
                ]
    rows = [
        row
        for (name, length, tied), times in found.items()
        if length == longest and name != MODEL
        for row in bars(f"{name}, {length:,} tokens, {QUERIES[tied]} queries", times)
    ]
    parts += ["The bar: a tenth of softmax attention's time.", table(HEAD, rows)]
    return Section("\n\n".join(parts), diagrams(found))


def by_length(found: Mapping[int, Rounds]) -> str:
    """Softmax attention's seconds, and how many times those of each replacement."""
    head = ["tokens", "softmax", *HIERARCHIES]
    rows = []
    for length, times in found.items():
        cells = [
            f"{duration(median(times[name]))} "
            f"({median(ratios(times['softmax'], times[name])):.2f} x)"
            for name in HIERARCHIES
        ]
        rows.append([f"{length:,}", duration(median(times["softmax"])), *cells])
    return table(head, rows)


def trees_alone(times: Rounds) -> str:
    """The replaced layer, the same with its trees given, and the difference."""
    rows = []
    for name in HIERARCHIES:
        whole, rest = times[name], times[f"{name}, trees given"]
        trees = median(a - b for a, b in zip(whole, rest, strict=True))
        numbers = (median(whole), median(rest), max(0.0, trees))
        rows.append([name, *map(duration, numbers)])
    return table(["trees", "replaced layer", "attention", "building trees"], rows)


def bars(label: str, times: Rounds) -> list[list[str]]:
    """A row of :data:`HEAD` for each replacement."""
    rows = []
    for name in HIERARCHIES:
        quotients = ratios(times[name], times["softmax"])
        shown = [duration(median(times[key])) for key in (name, "softmax")]
        digits = f"{median(quotients):.3f} ({min(quotients):.3f} to "
        cells = Goal(0.1).cells(median(quotients))
        rows.append(
            [
                f"{label}, {name}: replaced / softmax",
                *shown,
                f"{digits}{max(quotients):.3f})",
                *cells,
            ]
        )
    return rows


def diagrams(found: Mapping[Key, Rounds]) -> list[Panel]:
    """Seconds by length: a layer and the model, with tied queries."""
    panels = []
    for name in (*SHAPES, MODEL):
        curves = {
            curve: [
                (length, median(times[curve]))
                for (other, length, tied), times in found.items()
                if other == name and tied
            ]
            for curve in ("softmax", *HIERARCHIES)
        }
        panels.append(Panel("tokens", f"seconds, {name}", curves))
    return panels
