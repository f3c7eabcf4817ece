"""The training curves of several runs in one picture."""

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

# Distinct in grey and to readers who do not tell red from green.
COLOURS = ("#0072b2", "#d55e00", "#e69f00", "#009e73", "#cc79a7")
STYLES = ("-", "--", "-.", ":")


def curve_look(number: int) -> dict[str, str]:
    """Colour and line style of a curve; those of the first twenty all differ.

    Args:
        number: Of the curve in its picture, from 0.
    """
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": STYLES[number % len(STYLES)],
    }


def two_panels(what: str, by_epochs: int = 2) -> tuple[Any, Any]:
    """An empty picture of two panels.

    Args:
        what: What is to be drawn, for the error.
        by_epochs: How many of them count whole epochs, from the left.

    Returns:
        The figure and its two axes.

    Raises:
        ImportError: If matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator
    except ImportError as error:
        raise ImportError(
            f'{what} need matplotlib: pip install "hsa-pyg[train]".'
        ) from error
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    panels = figure.subplots(1, 2)
    for axes in panels[:by_epochs]:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    for axes in panels:
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, panels


def write_panels(figure: Any, path: Path, columns: int) -> None:
    """Write a picture of :func:`two_panels`, with a legend above both.

    Args:
        figure: The picture; what its first panel shows is labelled.
        path: Where to write it; its ending tells the format.
        columns: Of the legend, at most: it has as many as there is room for, and the
            picture grows by its rows.
    """
    handles, labels = figure.axes[0].get_legend_handles_labels()
    look = {"frameon": False, "fontsize": 9 if len(labels) <= 8 else 8}
    columns = min(columns, len(labels)) or 1
    while columns > 1:
        legend = figure.legend(handles, labels, ncols=columns, **look)
        figure.draw_without_rendering()
        width = legend.get_window_extent().width
        legend.remove()
        if width <= figure.bbox.width:
            break
        columns -= 1
    rows = math.ceil(len(labels) / columns)
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + 0.18 * max(rows - 2, 0))
    figure.legend(handles, labels, loc="outside upper center", ncols=columns, **look)
    write_figure(figure, path)


def write_figure(figure: Any, path: Path) -> None:
    """Write a picture such that the same numbers give the same file.

    Args:
        figure: The picture.
        path: Where to write it; its ending tells the format.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Without matplotlib's version.
    known = {"Software": None} if path.suffix == ".png" else None
    figure.savefig(path, dpi=150, metadata=known)


def plot_curves(
    histories: Mapping[str, Sequence[Mapping[str, float]]], path: Path
) -> None:
    """Draw training loss by epoch, and validation accuracy by seconds trained.

    Args:
        histories: Rows of each run's history by the run's title.
        path: Where to write the picture; its ending tells the format.

    Raises:
        ImportError: If matplotlib is not installed.
    """
    figure, (loss, accuracy) = two_panels("Training curves", by_epochs=1)
    for i, (title, rows) in enumerate(histories.items()):
        look = {
            **curve_look(i),
            "marker": "o",
            "markersize": 4,
            "label": title,
        }
        seconds = list(accumulate(row["seconds"] for row in rows))
        loss.plot(
            [row["epoch"] + 1 for row in rows],
            [row["train/loss"] for row in rows],
            **look,
        )
        accuracy.plot(seconds, [row["val/accuracy"] for row in rows], **look)
    loss.set(xlabel="epoch", ylabel="training loss")
    accuracy.set(xlabel="seconds trained", ylabel="validation accuracy")
    accuracy.set_xlim(left=0)
    write_panels(figure, path, columns=3)
