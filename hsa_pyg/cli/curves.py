"""The training curves of several runs in one picture."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path

# Distinct in grey and to readers who do not tell red from green.
COLOURS = ("#0072b2", "#d55e00", "#e69f00", "#009e73", "#cc79a7")
STYLES = ("-", "-", "--", "-.", ":")


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
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator
    except ImportError as error:
        raise ImportError(
            'Training curves need matplotlib: pip install "hsa-pyg[train]".'
        ) from error
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    loss, accuracy = figure.subplots(1, 2)
    for i, (title, rows) in enumerate(histories.items()):
        look = {
            "color": COLOURS[i % len(COLOURS)],
            "linestyle": STYLES[i % len(STYLES)],
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
    loss.xaxis.set_major_locator(MaxNLocator(integer=True))
    accuracy.set(xlabel="seconds trained", ylabel="validation accuracy")
    accuracy.set_xlim(left=0)
    for axes in (loss, accuracy):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    handles, labels = loss.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
