"""Draw the README's picture: a small document's tree beside its attention matrix.

Run from anywhere: ``python docs/plot_tree_attention.py``.
"""

from itertools import product
from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from hsa_pyg import SignalHierarchy
from hsa_pyg.nn.functional import hierarchical_attention

PARAGRAPHS = (
    (("a", "slow", "start"), ("then", "it", "soars")),
    (("see", "it", "twice", "at", "least"), ("or", "once")),
)
EDGE = "#4a4a4a"


LEVELS = ("document", "paragraph", "sentence", "word")


def document() -> tuple[SignalHierarchy, list[str]]:
    """The tree of the document, and its words."""
    parent, words = [-1], []
    for paragraph in PARAGRAPHS:
        top = len(parent)
        parent.append(0)
        for sentence in paragraph:
            node = len(parent)
            parent += [top, *[node] * len(sentence)]
            words += sentence
    return SignalHierarchy.from_parents(torch.tensor(parent)), words


def attention(hierarchy: SignalHierarchy) -> Tensor:
    """The attention matrix ``[N, N]`` of random queries and keys.

    Values that are unit vectors make the outputs the rows of the matrix.
    """
    torch.manual_seed(5)
    num_leaves = hierarchy.num_leaves
    q, k = 1.3 * torch.randn(2, num_leaves, 1, 8)
    return hierarchical_attention(q, k, torch.eye(num_leaves)[:, None], hierarchy)[:, 0]


def leaf_rows(hierarchy: SignalHierarchy) -> dict[int, list[int]]:
    """The rows of the leaves under every node, a leaf's own row included."""
    parent = hierarchy.parent.tolist()
    rows: dict[int, list[int]] = {}
    for row, leaf in enumerate(hierarchy.leaves.tolist()):
        node = leaf
        while node >= 0:
            rows.setdefault(node, []).append(row)
            node = parent[node]
    return rows


def draw_tree(axes: Axes, hierarchy: SignalHierarchy, words: list[str]) -> None:
    """Draw the tree from left to right, its words beside the rows of the matrix."""
    rows = leaf_rows(hierarchy)
    depth = hierarchy.depth.tolist()
    height = {node: sum(below) / len(below) for node, below in rows.items()}
    for node, above in enumerate(hierarchy.parent.tolist()):
        x, y = depth[node], height[node]
        if above >= 0:
            line = [depth[above], depth[above], x], [height[above], y, y]
            axes.plot(*line, color=EDGE, linewidth=1, zorder=1)
        axes.scatter(x, y, s=30, color=EDGE, zorder=2)
    for row, word in enumerate(words):
        axes.text(hierarchy.max_depth + 0.1, row, word, va="center", fontsize=10)
    for x, level in enumerate(LEVELS):
        axes.text(x, -1.0, level, ha="center", fontsize=9, style="italic")
    axes.set_xlim(-0.4, hierarchy.max_depth + 0.6)
    axes.axis("off")


def draw_matrix(axes: Axes, hierarchy: SignalHierarchy, theta: Tensor) -> None:
    """Draw the matrix, with a frame around the block of every pair of siblings."""
    image = axes.imshow(theta, cmap="Blues", norm=PowerNorm(0.5, vmin=0.0))
    rows = leaf_rows(hierarchy)
    parent = hierarchy.parent.tolist()
    for b, c in product(rows, rows):
        leaf_with_itself = b == c and len(rows[b]) == 1
        if parent[b] == parent[c] >= 0 and (b != c or leaf_with_itself):
            corner = rows[c][0] - 0.5, rows[b][0] - 0.5
            size = len(rows[c]), len(rows[b])
            axes.add_patch(Rectangle(corner, *size, fill=False, edgecolor=EDGE))
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_title("attention of each word (row) on each word (column)", fontsize=10)
    axes.figure.colorbar(image, ax=axes, shrink=0.9, pad=0.02)


def main() -> None:
    """Write ``docs/images/tree_attention.png``."""
    hierarchy, words = document()
    figure = Figure(figsize=(9.6, 4.4), layout="constrained")
    tree, matrix = figure.subplots(
        1, 2, sharey=True, gridspec_kw={"width_ratios": [1, 1.1]}
    )
    draw_tree(tree, hierarchy, words)
    draw_matrix(matrix, hierarchy, attention(hierarchy))
    path = Path(__file__).parent / "images" / "tree_attention.png"
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=130)
    print(path)


if __name__ == "__main__":
    main()
