"""What a benchmark is asked, what it answers, and the page that shows it.

A benchmark is a module with ``SECTIONS``: functions by name, each of which takes
:class:`Options` and gives a :class:`Section`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.timing import machine
from hsa_pyg.ops import last_backend


@dataclass(frozen=True)
class Options:
    """What all benchmarks take.

    Attributes:
        runs: rounds of each measurement.
        quick: tiny inputs, to see that everything runs; its numbers mean nothing.
        backend: the backend of HSA.
        budget: seconds after which a measurement begins no further round.
        data: folder of the data sets that are not installed, None for the usual one.
        results: folder of what was measured before, and of what will be.
        measuring: whether what is not among the results is measured, or left out.
    """

    runs: int = 9
    quick: bool = False
    backend: str = "auto"
    budget: float = 30.0
    data: Path | None = None
    results: Path = Path("docs/results")
    measuring: bool = True


@dataclass(frozen=True)
class Panel:
    """One log-log diagram: curves of (x, y) by name."""

    x: str
    y: str
    curves: Mapping[str, Sequence[tuple[float, float]]]


@dataclass(frozen=True)
class Section:
    """A measured table in Markdown, diagrams to it, and what it was measured on.

    Attributes:
        text: the table, and what else the page says.
        panels: diagrams.
        draw: draws the picture into a file where panels will not do.
        machine: what it was measured on.
        backend: the backend of HSA.
    """

    text: str
    panels: Sequence[Panel] = field(default_factory=list)
    draw: Callable[[Path], None] | None = None
    machine: str = field(default_factory=machine)
    backend: str | None = field(default_factory=last_backend)


def heading_of(name: str) -> str:
    return f"## {name}\n"


def markdown(
    benchmark: str, name: str, section: Section, command: str, picture: str | None
) -> str:
    """A section of a page: what was run, its table, its picture, the machine."""
    parts = [heading_of(name), f"By `{command}`.", "", section.text]
    if picture is not None:
        parts += ["", f"![{benchmark}: {name}]({picture})"]
    backend = "" if section.backend is None else f"; HSA by {section.backend!r}"
    parts += ["", f"Measured on: {section.machine}{backend}."]
    return "\n".join(parts) + "\n"


def page(benchmark: str, summary: str, sections: Mapping[str, str]) -> str:
    """The page of a benchmark, sections in the order given."""
    top = f"# Benchmark: {benchmark}\n\n{summary.strip()}\n"
    return "\n".join([top, *sections.values()])


def sections_of(text: str) -> dict[str, str]:
    """The sections of a page that :func:`page` made, by name."""
    parts = re.split(r"^(?=## )", text, flags=re.MULTILINE)[1:]
    return {
        part.splitlines()[0].removeprefix("## "): part.rstrip() + "\n" for part in parts
    }


def draw(panels: Sequence[Panel], path: Path) -> None:
    """Draw diagrams side by side, both axes logarithmic.

    Raises:
        ImportError: if matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            'Diagrams need matplotlib: pip install "hsa-pyg[benchmarks]".'
        ) from error
    figure = Figure(figsize=(4.6 * len(panels), 3.8), layout="constrained")
    names = list(dict.fromkeys(name for panel in panels for name in panel.curves))
    handles = {}
    row = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, panel in zip(row, panels, strict=True):
        for name, points in panel.curves.items():
            if not points:
                continue
            look = _look(names.index(name))
            (handles[name],) = axes.plot(*zip(*points, strict=True), label=name, **look)
        axes.set(xscale="log", yscale="log", xlabel=panel.x, ylabel=panel.y)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside upper center",
        ncols=min(4, len(handles)),
        frameon=False,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    # Without the date and the version, the same numbers give the same file.
    figure.savefig(path, dpi=110, metadata={"Software": None})


def _look(number: int) -> dict[str, object]:
    """Distinct in grey and to readers who do not tell red from green."""
    colours = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
    styles = ("-", "--", "-.", ":")
    return {
        "color": colours[number % len(colours)],
        "linestyle": styles[number // len(colours) % len(styles)],
        "marker": "osD^vP"[number % 6],
        "markersize": 4,
    }
