"""Draw the four passes over a small document's tree, for docs/concepts.md.

Run from anywhere: ``python docs/plot_four_passes.py``.
"""

from itertools import combinations
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

#: Place of every node, and its parent; the words are the leaves.
PLACES = {
    "document": (2.1, 2.0),
    "s1": (1.0, 1.0),
    "s2": (3.5, 1.0),
    "a": (0.0, 0.0),
    "slow": (1.0, 0.0),
    "start": (2.0, 0.0),
    "it": (3.0, 0.0),
    "soars": (4.0, 0.0),
}
PARENT = {
    "s1": "document",
    "s2": "document",
    "a": "s1",
    "slow": "s1",
    "start": "s1",
    "it": "s2",
    "soars": "s2",
}
FAMILIES = (("s1", "s2"), ("a", "slow", "start"), ("it", "soars"))
EDGE, UP, ACROSS, DOWN = "#9a9a9a", "#2166ac", "#b2182b", "#1b7837"
PANELS = (
    ("1  means, upward", "every node gets the mean q, k, v\nof the leaves below it"),
    (
        "2  attention in families",
        "siblings attend to one another;\nall families at once",
    ),
    ("3  energies, upward", "one number a node and head:\nhow well its inside serves"),
    (
        "4  contexts, downward",
        "every node splits its weight:\nsiblings or its own inside",
    ),
)


def draw_nodes(axes: Axes) -> None:
    """The tree in grey, with the words below it."""
    for node, (x, y) in PLACES.items():
        if node in PARENT:
            above = PLACES[PARENT[node]]
            axes.plot([x, above[0]], [y, above[1]], color=EDGE, linewidth=0.8, zorder=1)
        axes.scatter(x, y, s=70, color="white", edgecolor="#4a4a4a", zorder=3)
        if y == 0.0:
            axes.text(x, -0.32, node, ha="center", va="top", fontsize=8)
    axes.set_xlim(-0.6, 4.6)
    axes.set_ylim(-0.75, 2.9)
    axes.set_aspect("equal")
    axes.axis("off")


def arrow(axes: Axes, start: str, end: str, color: str, bend: float = 0.0) -> None:
    """An arrow from node to node."""
    axes.add_patch(
        FancyArrowPatch(
            PLACES[start],
            PLACES[end],
            arrowstyle="-|>",
            mutation_scale=9,
            linewidth=1.3,
            color=color,
            shrinkA=6,
            shrinkB=6,
            connectionstyle=f"arc3,rad={bend}",
            zorder=2,
        )
    )


def along_edges(axes: Axes, color: str, down: bool = False, style: str = "-") -> None:
    """Arrows along all edges of the tree."""
    for child, parent in PARENT.items():
        arrow(axes, *((parent, child) if down else (child, parent)), color)
        axes.patches[-1].set_linestyle(style)


def within_families(axes: Axes) -> None:
    """A frame around each family, and arrows between its members."""
    for family in FAMILIES:
        xs = [PLACES[node][0] for node in family]
        y = PLACES[family[0]][1]
        corner = min(xs) - 0.38, y - 0.25
        size = max(xs) - min(xs) + 0.76, 0.66
        frame = Rectangle(corner, *size, fill=False, edgecolor=ACROSS, linewidth=0.8)
        frame.set_linestyle(":")
        axes.add_patch(frame)
        for left, right in combinations(family, 2):
            arrow(axes, left, right, ACROSS, -0.3)
            arrow(axes, right, left, ACROSS, 0.3)


def draw() -> Figure:
    """The four panels."""
    figure = Figure(figsize=(7.2, 5.0), layout="constrained")
    panels = list(figure.subplots(2, 2).flat)
    for axes, (title, text) in zip(panels, PANELS, strict=True):
        draw_nodes(axes)
        axes.set_title(title, fontsize=10, loc="left", fontweight="bold")
        axes.text(-0.5, 2.85, text, fontsize=8, va="top")
    along_edges(panels[0], UP)
    within_families(panels[1])
    along_edges(panels[2], UP, style="--")
    along_edges(panels[3], DOWN, down=True)
    return figure


def main() -> None:
    """Write ``docs/images/four_passes.svg``, the same bytes each time."""
    path = Path(__file__).parent / "images" / "four_passes.svg"
    with matplotlib.rc_context({"svg.hashsalt": "hsa_pyg"}):
        draw().savefig(path, metadata={"Date": None}, facecolor="white")
    print(path)


if __name__ == "__main__":
    main()
