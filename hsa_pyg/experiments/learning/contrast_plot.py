"""A picture of contrasts: what happens to the error, and at which cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hsa_pyg.cli.curves import COLOURS, write_figure

if TYPE_CHECKING:
    from hsa_pyg.experiments.learning.contrasts import Contrast

_TICKS = (-100, -30, -10, 0, 10, 30, 100, 300, 1000)


def plot_contrasts(contrasts: Sequence[Contrast], path: Path) -> None:
    """Draw the change of the error with its standard error, and the costs' ratios.

    Args:
        contrasts: From the top down.
        path: Where to write the picture; its ending tells the format.

    Raises:
        ImportError: If matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import FixedLocator
    except ImportError as error:
        raise ImportError(
            'Plots need matplotlib: pip install "hsa-pyg[train]".'
        ) from error
    figure = Figure(figsize=(13, 1.6 + 0.26 * len(contrasts)), layout="constrained")
    change, cost = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    rows = range(len(contrasts))
    for row, one in zip(rows, contrasts, strict=True):
        single = math.isnan(one.change.error)
        change.errorbar(
            100 * one.change.mean,
            row,
            xerr=None if single else 100 * one.change.error,
            fmt="o",
            color=COLOURS[0],
            # One seed tells no spread.
            markerfacecolor="none" if single else COLOURS[0],
            capsize=2,
            label="one seed, of unknown spread" if single else "mean ± standard error",
        )
    for key, marker, label in (
        ("flops", "s", "FLOPs of attention"),
        ("seconds", "D", "time of an epoch"),
    ):
        known = [row for row in rows if getattr(contrasts[row], key) is not None]
        cost.plot(
            [getattr(contrasts[row], key) for row in known],
            known,
            marker,
            color=COLOURS[1 if key == "flops" else 3],
            label=label,
            markersize=5,
        )
    change.set_yticks(list(rows), [one.title for one in contrasts], fontsize=8)
    change.set_ylim(len(contrasts) - 0.5, -0.5)
    change.axvline(0, color="black", lw=0.8)
    # Straight up to 10 %, so that one large change does not hide the others.
    change.set_xscale("symlog", linthresh=10, linscale=1.5)
    change.xaxis.set_major_locator(FixedLocator(_TICKS))
    change.xaxis.set_major_formatter(lambda x, _: f"{x:+.0f}" if x else "0")
    change.margins(x=0.05)
    change.set_xlabel(
        "change of the error, %; below 0 hierarchical attention makes fewer\n"
        "(even steps up to 10 %, then by powers)",
        fontsize=9,
    )
    cost.axvline(1, color="black", lw=0.8)
    cost.set_xscale("log")
    cost.margins(x=0.08)
    cost.set_xlabel("cost of hierarchical attention\n(1: that of softmax)", fontsize=9)
    for axes in (change, cost):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(axis="x", labelsize=9)
        handles, labels = axes.get_legend_handles_labels()
        once = dict(zip(labels, handles, strict=True))
        axes.legend(
            list(once.values()),
            list(once),
            loc="lower center",
            bbox_to_anchor=(0.5, 1.0),
            ncols=2,
            frameon=False,
            fontsize=9,
        )
    write_figure(figure, path)
