"""Curves by epoch: medians and quartiles over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from hsa_pyg.cli.curves import curve_look, two_panels, write_panels
from hsa_pyg.experiments.semantic_focus.convergence import Floats, curves, quartiles


def plot_convergence(
    histories: Mapping[str, Sequence[Sequence[Mapping[str, float]]]], path: Path
) -> None:
    """Draw training loss and holdout accuracy of each setting.

    Args:
        histories: Rows of each run by the setting's title.
        path: Where to write the picture; its ending tells the format.

    Raises:
        ImportError: If matplotlib is not installed.
    """
    plot_quartiles(
        {
            label: {title: curves(runs, key) for title, runs in histories.items()}
            for label, key in (
                ("training loss", "train_loss"),
                ("holdout accuracy", "val_accuracy"),
            )
        },
        path,
        left_scale="log",
    )


def plot_quartiles(
    panels: Mapping[str, Mapping[str, Floats]], path: Path, left_scale: str = "linear"
) -> None:
    """Draw the median of each setting with a band between its quartiles.

    Args:
        panels: Of both panels what is drawn, and of each setting, by its title, the
            numbers ``[runs, epochs]``.
        path: Where to write the picture; its ending tells the format.
        left_scale: Of the numbers in the left panel.

    Raises:
        ImportError: If matplotlib is not installed.
    """
    figure, axes = two_panels("Plots")
    for axis, (label, settings) in zip(axes, panels.items(), strict=True):
        for i, (title, values) in enumerate(settings.items()):
            look = curve_look(i)
            low, median, high = quartiles(values)
            epochs = np.arange(1, median.size + 1)
            axis.plot(epochs, median, label=title, **look)
            axis.fill_between(epochs, low, high, color=look["color"], alpha=0.15, lw=0)
        axis.set(xlabel="epoch", ylabel=label)
    axes[0].set_yscale(left_scale)
    write_panels(figure, path, columns=4)
