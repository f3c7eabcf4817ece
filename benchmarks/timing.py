"""Side-by-side timings of callables in one process, and the machine they ran on."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch

Call = Callable[[], object]

#: What the rows of :func:`compared` hold.
HEAD = (
    "A / B",
    "A, median",
    "B, median",
    "A / B (smallest to largest)",
    "bar",
    "aim",
    "reached",
)


@dataclass(frozen=True)
class Goal:
    """What a ratio must reach (bar) and, if there is more to wish for, should (aim).

    With an aim above its bar a ratio is to exceed them, otherwise to stay below.
    """

    bar: float
    aim: float | None = None

    @property
    def _sign(self) -> int:
        return 1 if self.aim is not None and self.aim > self.bar else -1

    def reached(self, ratio: float) -> str:
        """``"aim"``, ``"bar"`` or ``"no"``."""
        for name, goal in (("aim", self.aim), ("bar", self.bar)):
            if goal is not None and self._sign * ratio >= self._sign * goal:
                return name
        return "no"

    def cells(self, ratio: float) -> list[str]:
        """Bar, aim, and which of them ``ratio`` reaches."""
        sign = "≥" if self._sign > 0 else "≤"
        aim = "" if self.aim is None else f"{sign} {self.aim:g}"
        return [f"{sign} {self.bar:g}", aim, self.reached(ratio)]


def side_by_side(
    calls: Mapping[str, Call], runs: int = 9, budget: float = 30.0
) -> dict[str, list[float]]:
    """Time callables in turn (A B A B ...), after a warm-up of each.

    Args:
        calls: What to time.
        runs: Rounds, each of one call of each.
        budget: Seconds after which no further round begins.

    Returns:
        Seconds of each, a number per round; at least one.
    """
    begin = time.perf_counter()
    for _ in range(2):
        for call in calls.values():
            call()
        if time.perf_counter() - begin > budget / 6:
            break  # one round was long enough to load and fault in everything
    times: dict[str, list[float]] = {name: [] for name in calls}
    begin = time.perf_counter()
    for _ in range(runs):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
        if time.perf_counter() - begin > budget:
            break
    return times


def ratios(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """Quotients of two series of one :func:`side_by_side`, round by round."""
    return [a / b for a, b in zip(above, below, strict=True)]


def spread(values: Sequence[float]) -> str:
    """``median (smallest to largest)``."""
    return f"{median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def compared(
    label: str,
    above: Call,
    below: Call,
    runs: int = 9,
    goal: Goal | None = None,
    budget: float = 30.0,
) -> list[str]:
    """A row of :data:`HEAD`: how long ``above`` takes over how long ``below`` does."""
    times = side_by_side({"above": above, "below": below}, runs, budget)
    quotients = ratios(times["above"], times["below"])
    cells = ["", "", ""] if goal is None else goal.cells(median(quotients))
    medians = [duration(median(taken)) for taken in times.values()]
    return [label, *medians, spread(quotients), *cells]


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Let PyTorch run on so many threads for a while."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def machine() -> str:
    """One line about the machine and the versions."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(x.split(":")[1].strip() for x in lines if "model name" in x)
    except (OSError, StopIteration):
        pass  # not Linux, or a processor without a name: the generic one stands
    capability = torch.backends.cpu.get_cpu_capability()
    return (
        f"{name} ({capability}), {torch.get_num_threads()} threads, "
        f"torch {torch.__version__}, Python {platform.python_version()}"
    )


def duration(seconds: float) -> str:
    """Seconds with three digits and a unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size or unit == "µs":
            return f"{digits(seconds / size)} {unit}"
    raise AssertionError("the loop ends with microseconds")


def size(number: float) -> str:
    """Bytes with three digits and a binary unit."""
    for unit, exponent in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if number >= 2**exponent or unit == "KiB":
            return f"{digits(number / 2**exponent)} {unit}"
    raise AssertionError("the loop ends with KiB")


def digits(value: float) -> str:
    """A number with three significant digits, or all before the point."""
    places = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return f"{value:,.{places}f}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
