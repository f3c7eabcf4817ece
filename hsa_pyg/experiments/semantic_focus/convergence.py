"""How soon runs converge: epochs to a level, epochs saved, and their spread."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_History = Sequence[Mapping[str, float]]


def curves(
    histories: Sequence[_History], key: str, epochs: int | None = None
) -> Floats:
    """A number by run and epoch, ``[runs, epochs]``.

    A run that its stop rule ended early keeps its last value: the rule ends only runs
    whose numbers are beyond every level that is asked about.

    Args:
        histories: Rows of each run.
        key: Name of the number.
        epochs: How many to tell of; by default those of the longest run.
    """
    longest = epochs or max(len(history) for history in histories)
    rows = []
    for history in histories:
        values = [row[key] for row in history[:longest]]
        rows.append([*values, *[values[-1]] * (longest - len(values))])
    return np.array(rows, dtype=np.float64)


class Quartiles(NamedTuple):
    """Of the runs, at each epoch: ``[epochs]`` each."""

    low: Floats
    median: Floats
    high: Floats


def quartiles(values: Floats) -> Quartiles:
    """Quartiles over runs of ``[runs, epochs]``."""
    return Quartiles(*np.quantile(values, (0.25, 0.5, 0.75), axis=0))


def epochs_to(history: _History, key: str, level: float, rising: bool) -> float:
    """Epochs until a number first reaches a level; infinite if it never does.

    Args:
        history: Rows of a run.
        key: Name of the number.
        level: The level, which counts as reached.
        rising: Whether the number has to rise to it (accuracy) or fall (loss).
    """
    for epochs, row in enumerate(history, 1):
        if row[key] >= level if rising else row[key] <= level:
            return epochs
    return math.inf


def middle(values: Sequence[float]) -> Quartiles:
    """Quartiles of numbers of epochs, some of them infinite.

    A quartile is the smallest value that so many of the runs have reached: none is
    taken between a finite value and an infinite one.

    Args:
        values: One for each run.
    """
    ordered = sorted(values)
    at = [
        ordered[max(math.ceil(part * len(ordered)) - 1, 0)]
        for part in (0.25, 0.5, 0.75)
    ]
    return Quartiles(*(np.array(one) for one in at))


@dataclass(frozen=True)
class Saving:
    """Epochs that one attention saves against another.

    Args:
        percentage: Largest percentage of epochs saved.
        epoch: Epoch of the other attention, from 0, at which it is saved.
        ratio: How many times fewer epochs that is, ``1 / (1 - percentage / 100)``.
    """

    percentage: float
    epoch: int
    ratio: float


def epochs_saved(loss: Floats, full: Floats) -> Saving:
    r"""The percentage of epochs saved, as the code of Ram et al. computes it.

    With medians over runs, at each epoch i (from 0) of full attention

    .. math:: s_i = 100 \, |\{j < i : L(j) \le L_{full}(i)\}| / (i + 1)

    and the largest of these.

    Args:
        loss: ``[epochs]`` median training losses of an attention.
        full: ``[epochs]`` those of full attention.
    """
    saved = [
        100.0 * float((loss[:epoch] <= level).sum()) / (epoch + 1)
        for epoch, level in enumerate(full)
    ]
    best = int(np.argmax(saved))
    return Saving(saved[best], best, 1.0 / (1.0 - saved[best] / 100.0))


class Spread(NamedTuple):
    """An interval that holds 95 % of bootstrap samples."""

    low: float
    high: float


def bootstrap(
    loss: Floats,
    full: Floats,
    measure: Callable[[Saving], float],
    samples: int = 1_000,
    seed: int = 0,
) -> Spread:
    """Spread of what is saved over the choice of runs.

    Runs are drawn again with replacement, of each attention by itself.

    Args:
        loss: ``[runs, epochs]`` training losses of an attention.
        full: ``[runs, epochs]`` those of full attention.
        measure: What is wanted of a saving.
        samples: Number of draws.
        seed: Of the draws.
    """
    random = np.random.default_rng(seed)

    def draw(values: Floats) -> Floats:
        chosen = random.integers(len(values), size=len(values))
        return np.median(values[chosen], axis=0)

    found = [measure(epochs_saved(draw(loss), draw(full))) for _ in range(samples)]
    low, high = np.quantile(found, (0.025, 0.975))
    return Spread(float(low), float(high))


@dataclass(frozen=True)
class EpochsRatio:
    """How many times as many epochs full attention takes to a level.

    Args:
        value: Ratio of medians over runs. Infinite where half of the runs of full
            attention do not arrive, 0 where the others do not, nan where neither do.
        spread: The same of bootstrap samples of the runs; those where neither arrive
            are left out.
    """

    value: float
    spread: Spread


def epochs_ratio(
    reached: Sequence[float], full: Sequence[float], samples: int = 1_000, seed: int = 0
) -> EpochsRatio:
    """Median epochs of full attention to a level, by those of an attention.

    Args:
        reached: Epochs of each run to the level, infinite if it never arrives.
        full: The same of full attention.
        samples: Number of draws, of each attention by itself.
        seed: Of the draws.
    """
    random = np.random.default_rng(seed)

    def median(values: Sequence[float]) -> float:
        return float(middle(values).median)

    def draw(values: Sequence[float]) -> Sequence[float]:
        return [values[i] for i in random.integers(len(values), size=len(values))]

    drawn = [_ratio(median(draw(full)), median(draw(reached))) for _ in range(samples)]
    known = sorted(one for one in drawn if not math.isnan(one))
    spread = Spread(math.nan, math.nan)
    if known:
        # Quantiles that are values of samples: some are infinite.
        ends = (0.025 * (len(known) - 1), 0.975 * (len(known) - 1))
        spread = Spread(known[math.floor(ends[0])], known[math.ceil(ends[1])])
    return EpochsRatio(_ratio(median(full), median(reached)), spread)


def _ratio(full: float, other: float) -> float:
    if math.isinf(other):
        return math.nan if math.isinf(full) else 0.0
    return full / other
