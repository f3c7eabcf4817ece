"""Learning curves: the mean over the seeds of what every epoch has come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from hsa_pyg.cli.curves import curve_look, two_panels, write_panels

_TITLES = {
    "train_loss": "training loss",
    "val_accuracy": "validation accuracy",
    "val_rmse": "validation RMSE",
}


def plot_learning(
    histories: Mapping[str, Sequence[Sequence[Mapping[str, float]]]],
    score: str,
    path: Path,
) -> None:
    """Draw the mean of each setting's runs, and a band between the extremes.

    An epoch counts as long as all of a setting's runs have reached it.

    Args:
        histories: Rows of each run by the setting's title.
        score: Column of the right-hand picture.
        path: Where to write the picture; its ending tells the format.

    Raises:
        ImportError: If matplotlib is not installed.
    """
    figure, axes = two_panels("Plots")
    for i, (title, runs) in enumerate(histories.items()):
        look = curve_look(i)
        epochs = np.arange(1, min(map(len, runs)) + 1)
        for axis, key in zip(axes, ("train_loss", score), strict=True):
            values = np.array(
                [[row[key] for row in run[: epochs.size]] for run in runs]
            )
            low, high = values.min(0), values.max(0)
            axis.plot(epochs, values.mean(0), label=title, **look)
            axis.fill_between(epochs, low, high, color=look["color"], alpha=0.15, lw=0)
    for axis, key in zip(axes, ("train_loss", score), strict=True):
        axis.set(xlabel="epoch", ylabel=_TITLES.get(key, key))
    write_panels(figure, path, columns=4)
