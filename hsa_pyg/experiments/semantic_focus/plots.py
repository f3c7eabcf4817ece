"""Curves of training loss and holdout accuracy: medians and quartiles over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from hsa_pyg.cli.curves import curve_look, two_panels, write_panels
from hsa_pyg.experiments.semantic_focus.convergence import curves, quartiles


def plot_convergence(
    histories: Mapping[str, Sequence[Sequence[Mapping[str, float]]]], path: Path
) -> None:
    """Draw the median of each setting with a band between its quartiles.

    Args:
        histories: Rows of each run by the setting's title.
        path: Where to write the picture; its ending tells the format.

    Raises:
        ImportError: If matplotlib is not installed.
    """
    figure, axes = two_panels("Plots")
    for i, (title, runs) in enumerate(histories.items()):
        look = curve_look(i)
        for axis, key in zip(axes, ("train_loss", "val_accuracy"), strict=True):
            low, median, high = quartiles(curves(runs, key))
            epochs = np.arange(1, median.size + 1)
            axis.plot(epochs, median, label=title, **look)
            axis.fill_between(epochs, low, high, color=look["color"], alpha=0.15, lw=0)
    axes[0].set(xlabel="epoch", ylabel="training loss", yscale="log")
    axes[1].set(xlabel="epoch", ylabel="holdout accuracy")
    write_panels(figure, path, columns=4)
