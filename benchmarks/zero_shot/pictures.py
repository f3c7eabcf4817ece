"""Change of the accuracy against FLOPs or against the layer, one point a setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.zero_shot.records import Setting

Measured = Sequence[tuple[Setting, Mapping[str, Any]]]

# Distinct in grey and to readers who do not tell red from green.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#777777")
_TICKS = (1, 2, 5, 10, 20, 50, 100)
_MARKERS = "osD^vP*"


def draw_changes(
    path: Path, sets: Measured, alone: Measured = (), names: Sequence[str] = ()
) -> None:
    """Draw the points, with a standard error to either side.

    Args:
        path: of the picture.
        sets: drawn against the FLOPs of the replaced layers. Hollow points have untied
            queries.
        alone: settings of one layer each, drawn against its number.
        names: hierarchies in the order of their colours; by default as they come.

    Raises:
        ImportError: if matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator, NullFormatter
    except ImportError as error:
        raise ImportError(
            'Diagrams need matplotlib: pip install "hsa-pyg[benchmarks]".'
        ) from error
    every = [*sets, *alone]
    names = list(dict.fromkeys([*names, *(setting.hierarchy for setting, _ in every)]))
    panels = 2 if alone else 1
    figure = Figure(figsize=(4.8 * panels, 4.2), layout="constrained")
    axes = figure.subplots(1, panels, squeeze=False)[0]
    handles = {}
    for setting, measured in every:
        one = alone and (setting, measured) in alone
        hierarchy = names.index(setting.hierarchy)
        colour = _COLOURS[hierarchy % len(_COLOURS)]
        drawn = axes[1 if one else 0].errorbar(
            setting.layers[0] if one else 100 * measured["share"],
            100 * measured["change"],
            100 * measured["change_error"],
            marker=_MARKERS[hierarchy % len(_MARKERS)],
            color=colour,
            markerfacecolor=colour if setting.tie_queries else "white",
            markersize=5,
            linewidth=0.8,
            linestyle="none",
        )
        if setting.tie_queries:
            handles.setdefault(setting.hierarchy, drawn)
    axes[0].set(
        xscale="log",
        xlabel="FLOPs of the replaced layers, % of softmax",
        title="sets of layers (hollow: untied queries)",
    )
    shares = [100 * measured["share"] for _, measured in sets]
    axes[0].set_xticks(
        [x for x in _TICKS if min(shares) / 2 < x < 2 * max(shares)] if shares else [],
    )
    axes[0].xaxis.set_major_formatter("{x:g}")
    axes[0].xaxis.set_minor_formatter(NullFormatter())
    if alone:
        axes[1].xaxis.set_major_locator(MaxNLocator(integer=True))
        axes[1].set(xlabel="layer", title="each layer alone")
    for each in axes:
        each.set(ylabel="change of accuracy, points")
        each.grid(alpha=0.3)
        each.axhline(0, color="black", linewidth=0.8)
        each.spines[["top", "right"]].set_visible(False)
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside upper center",
        ncols=4 if alone else 3,
        frameon=False,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    # Without the date and the version, the same numbers give the same file.
    figure.savefig(path, dpi=110, metadata={"Software": None})
