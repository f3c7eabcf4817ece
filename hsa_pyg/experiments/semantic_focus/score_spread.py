"""How attention scores spread while models train: a table and a picture."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np

from hsa_pyg.analysis.score_statistics import QUANTITIES
from hsa_pyg.experiments.page import table
from hsa_pyg.experiments.semantic_focus.convergence import curves
from hsa_pyg.experiments.semantic_focus.plots import plot_quartiles

Runs = Sequence[Sequence[Mapping[str, float]]]

#: What the columns of the table are called.
_TITLES = {
    "entropy": "entropy (nats)",
    "dispersion": "largest less least score",
    "kept_dispersion": "the same of what is kept",
    "separation": "least kept less largest dropped",
    "times_kept": "queries that keep a key",
}


def mean_over_blocks(runs: Runs, quantity: str) -> Runs:
    """Of each epoch the mean of a quantity over the blocks that have it.

    Args:
        runs: Rows of each run, with ``log_scores``.
        quantity: One of :data:`~hsa_pyg.analysis.score_statistics.QUANTITIES`.

    Returns:
        Rows with the quantity alone, NaN where no block has it.
    """
    of_block = re.compile(rf"{quantity}_\d+")
    found = []
    for rows in runs:
        means = []
        for row in rows:
            values = [value for key, value in row.items() if of_block.fullmatch(key)]
            means.append({quantity: fmean(values) if values else math.nan})
        found.append(means)
    return found


def spread_table(histories: Mapping[str, Runs]) -> str:
    """Markdown of the quantities in the first and the last epoch.

    Args:
        histories: Rows of each run by the setting's title.
    """
    rows = []
    for title, runs in histories.items():
        cells = [title, str(len(runs))]
        for quantity in QUANTITIES:
            values = curves(mean_over_blocks(runs, quantity), quantity)
            first, last = (float(np.mean(values[:, at])) for at in (0, -1))
            cells.append("" if math.isnan(first) else f"{first:.2f}; {last:.2f}")
        rows.append(cells)
    header = ["attention", "runs", *(_TITLES[name] for name in QUANTITIES)]
    return table(header, rows)


def plot_spread(histories: Mapping[str, Runs], path: Path) -> None:
    """Draw entropy and dispersion by epoch.

    Args:
        histories: Rows of each run by the setting's title.
        path: Where to write the picture; its ending tells the format.

    Raises:
        ImportError: If matplotlib is not installed.
    """
    plot_quartiles(
        {
            label: {
                title: curves(mean_over_blocks(runs, quantity), quantity)
                for title, runs in histories.items()
            }
            for label, quantity in (
                ("entropy of what is kept, nats", "entropy"),
                ("largest less least score", "dispersion"),
            )
        },
        path,
    )
