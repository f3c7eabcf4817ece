"""Paired timings of callables in one process, and the machine they ran on."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch


@dataclass(frozen=True)
class Paired:
    """Times of two callables that ran in turn, in seconds."""

    ours: list[float]
    theirs: list[float]

    @property
    def ratios(self) -> list[float]:
        """theirs / ours, pair by pair: how many times faster ours is."""
        return [b / a for a, b in zip(self.ours, self.theirs, strict=True)]


def paired(
    ours: Callable[[], object],
    theirs: Callable[[], object],
    runs: int = 9,
    warmup: int = 2,
) -> Paired:
    """Time two callables in turn (A B A B ...), after a warm-up of each."""
    for _ in range(warmup):
        ours()
        theirs()
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(runs):
        for function, taken in zip((ours, theirs), times, strict=True):
            start = time.perf_counter()
            function()
            taken.append(time.perf_counter() - start)
    return Paired(*times)


def machine() -> str:
    """One line about the machine and the versions."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(x.split(":")[1].strip() for x in lines if "model name" in x)
    except (OSError, StopIteration):
        pass  # not Linux, or a processor without a name: the generic one stands
    return (
        f"{name}, {torch.get_num_threads()} threads, torch {torch.__version__}, "
        f"Python {platform.python_version()}"
    )


def row(label: str, wanted: str, pair: Paired, inverse: bool = False) -> list[str]:
    """A table row: label, both medians, the median ratio with its spread, the aim."""
    ratios = [1 / x for x in pair.ratios] if inverse else pair.ratios
    return [
        label,
        f"{median(pair.ours) * 1e3:.1f} ms",
        f"{median(pair.theirs) * 1e3:.1f} ms",
        f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
        wanted,
    ]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
