"""How the results of ``hsa-pyg zero-shot`` are printed and written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hsa_pyg.cli import SettingsError
from hsa_pyg.cli.zero_shot import Row, ZeroShotResult

Cells = list[list[str]]


def check_out(out: Path | None) -> None:
    """Raise a SettingsError unless the name says Markdown or JSON."""
    if out is not None and out.suffix.lower() not in (".md", ".json"):
        raise SettingsError(f"--out {out.as_posix()!r} must end in .md or .json.")


def print_result(result: ZeroShotResult, console: Console | None = None) -> None:
    """Print what holds for all rows, then the rows, then the times by length."""
    console = console or Console()
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")  # a path that is cut short helps nobody
    for name, value in common_facts(result).items():
        table.add_row(name, Text(value))
    console.print(table)
    for head, rows in (changes(result.rows), durations(result)):
        if not rows:
            continue
        table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
        for at, name in enumerate(head):
            justify: Literal["left", "right"] = "left" if at < 2 else "right"
            wraps: dict[str, Any] = {"no_wrap": at >= 2, "overflow": "fold"}
            table.add_column(name, justify=justify, **wraps)
        for row in rows:
            table.add_row(*map(Text, row))
        console.print()
        console.print(table)
    for line in not_run(result):
        console.print(Text(line), soft_wrap=True)


def write_result(result: ZeroShotResult, out: Path) -> None:
    """Write Markdown or JSON, as the name of the file says."""
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.suffix.lower() == ".json":
        out.write_text(json.dumps(as_json(result), indent=2) + "\n", encoding="utf-8")
        return
    lines = [f"- {name}: {value}" for name, value in common_facts(result).items()]
    for head, rows in (changes(result.rows), durations(result)):
        if rows:
            table = [head, ["---"] * len(head), *rows]
            texts = (" | ".join(row).replace("\n", " ") for row in table)
            lines += ["", *(f"| {text} |" for text in texts)]
    lines += [""] * bool(not_run(result)) + [f"- {x}" for x in not_run(result)]
    out.write_text("\n".join(lines) + "\n", encoding="utf-8")


def as_json(result: ZeroShotResult) -> dict[str, Any]:
    """The result as lists and dictionaries; what was not measured is null."""
    rows = []
    for row in result.rows:
        item = asdict(row)
        if row.cosine_change is not None:  # there are no classes to speak of
            item["measurement"] |= {"agreement": None, "divergence": None}
        rows.append(item)
    times = [asdict(time) for time in result.times]
    return {"facts": common_facts(result), "rows": rows, "times": times}


def common_facts(result: ZeroShotResult) -> dict[str, str]:
    """What is the same for all rows."""
    facts = dict(result.facts)
    first = result.rows[0].measurement
    if first.accuracy_before is not None:
        facts["accuracy before"] = f"{first.accuracy_before:.2%}"
    facts["softmax attention"] = (
        f"{_megaflops(first.flops_before)} MFLOPs per layer and text, mean"
    )
    return facts


def changes(rows: Sequence[Row]) -> tuple[list[str], Cells]:
    """Head and cells of the table of changes."""
    labelled = rows[0].measurement.accuracy_after is not None
    by_cosine = rows[0].cosine_change is not None
    head = ["layers", "trees"]
    head += ["acc.,\n%", "change ±\ns.e., points"] if labelled else []
    head += ["1 - cosine"] if by_cosine else ["same,\n%", "KL"]
    head += ["MFLOPs", "share"]
    cells = []
    for row in rows:
        found = row.measurement
        numbers = shown_layers(found.layers)
        chosen = row.asked.startswith("select:")
        shown = f"{row.asked}\n{numbers}" if chosen else numbers
        line = [shown, row.hierarchy]
        if found.accuracy_after is not None and found.change is not None:
            error = found.change_error
            spread = "" if error is None else f" ± {100 * error:.2f}"
            line += [
                f"{100 * found.accuracy_after:.2f}",
                f"{100 * found.change:+.2f}{spread}",
            ]
        if row.cosine_change is not None:
            line.append(f"{row.cosine_change:.4f}")
        else:
            line += [f"{100 * found.agreement:.1f}", f"{found.divergence:.4f}"]
        cells.append([*line, _megaflops(found.flops_after), f"{found.share:.1%}"])
    return head, cells


def durations(result: ZeroShotResult) -> tuple[list[str], Cells]:
    """Head and cells of the table of seconds of a forward pass."""
    if not result.times:
        return [], []
    head = ["seconds", "trees", *(f"{time.length:,}\ntokens" for time in result.times)]
    names = [("softmax", "")] + [
        (shown_layers(row.measurement.layers), row.hierarchy) for row in result.rows
    ]
    cells = [
        [*name, *(_seconds(time.seconds[at]) for time in result.times)]
        for at, name in enumerate(names)
    ]
    return head, cells


def not_run(result: ZeroShotResult) -> list[str]:
    """Why some lengths were not run."""
    lines: dict[str, None] = {}
    for time in result.times:
        for at, reason in enumerate(time.reasons):
            if reason:
                row = None if at == 0 else result.rows[at - 1]
                what = "softmax" if row is None else row.hierarchy
                every = len(set(time.reasons)) == 1
                who = "nothing" if every else what
                verb = "was run" if every else "was not run"
                lines[f"At {time.length:,} tokens {who} {verb}: {reason}"] = None
    return list(lines)


def shown_layers(layers: Sequence[int]) -> str:
    """Numbers of layers, three or more in a row as a range."""
    runs: list[list[int]] = []
    for layer in layers:
        if runs and runs[-1][-1] == layer - 1:
            runs[-1].append(layer)
        else:
            runs.append([layer])
    return ",".join(
        f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run))
        for run in runs
    )


def _megaflops(flops: float) -> str:
    return f"{flops / 1e6:,.2f}"


def _seconds(seconds: float | None) -> str:
    return "not run" if seconds is None else f"{seconds:.3g}"
