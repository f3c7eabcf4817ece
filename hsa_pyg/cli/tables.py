"""What is printed of signals: their shape, their tree, and what was left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from hsa_pyg.analysis import NodeLabels, TreeShape, tree_shape
from hsa_pyg.analysis.viewer.contents import TreeOrder
from hsa_pyg.converters import GROUP_ROLES, ROLES
from hsa_pyg.data import NestedSignal

#: Rows of a table of many signals.
MAX_ROWS = 40
#: What the numbers in ``role`` stand for, by node type.
ROLE_NAMES = {"block": ROLES, "paragraph": ROLES, "group": GROUP_ROLES}


def print_shape(console: Console, signal: NestedSignal, path: Path) -> None:
    """Print the numbers of a signal: a table of its types, and what it costs."""
    shape = tree_shape(signal)
    # A path that is broken over two lines cannot be copied.
    console.print(Text(one_line(path.as_posix()), "bold"), soft_wrap=True)
    table = Table("type", box=SIMPLE_HEAD)
    for column in ("nodes", "leaves", "empty"):
        table.add_column(column, justify="right")
    for name, number in shape.nodes.items():
        if number:
            leaves = f"{shape.leaves[name]:,}" if name in shape.leaves else ""
            empty = f"{shape.empty[name]:,}" if name in shape.empty else ""
            table.add_row(name, f"{number:,}", leaves, empty)
    table.add_section()
    table.add_row("all", f"{shape.num_nodes:,}", f"{shape.num_leaves:,}", "")
    console.print(table)
    facts = Table(show_header=False, box=None, padding=(0, 2))
    for name, value in _facts(shape, NodeLabels(signal, ROLE_NAMES)):
        facts.add_row(name, value)
    console.print(facts)


def _facts(shape: TreeShape, labels: NodeLabels) -> Iterator[tuple[str, str]]:
    by_depth = ", ".join(f"{number:,}" for number in shape.nodes_at_depth[:12])
    more = ", ..." if shape.levels > 12 else ""
    yield "levels", f"{shape.levels:,}"
    yield "nodes by level", by_depth + more
    yield "families", f"{shape.families:,}, of {shape.mean_family:.1f} on average"
    if shape.largest_parent is not None:
        name, number = shape.largest_parent
        yield "largest family", f"{shape.largest_family:,}, in {name} {number}"
    chain = f", at most {shape.longest_chain:,} in a row" if shape.only_children else ""
    yield "only children", f"{shape.only_children:,}{chain}"
    yield (
        "pairs",
        f"{shape.pairs:,}; flat attention has {shape.flat_pairs:,}, "
        f"{shape.saving:,.1f} times as many",
    )


#: Lines that a tree may take unless its depth is given.
MOST_LINES = 60


def draw_tree(signal: NestedSignal, depth: int | None, max_children: int) -> Tree:
    """Draw the tree of a signal down to a depth.

    Args:
        signal: The signal.
        depth: Levels to draw; None for as many as fit in :data:`MOST_LINES` lines.
        max_children: Children of a node to draw; the others are counted.
    """
    order = TreeOrder(signal)
    labels = NodeLabels(signal, ROLE_NAMES)
    counts = signal.hierarchy.leaf_counts.tolist()
    children: dict[int, list[int]] = {}
    for place, parent in enumerate(order.parent.tolist()):
        children.setdefault(parent, []).append(place)
    if depth is None:
        depth = _fitting_depth(children, max_children)

    def line(place: int) -> Text:
        node = int(order.node[place])
        name, number = labels.place(node)
        text = Text.assemble((labels.type_name(node), "bold"), f" {number}")
        shown = labels(node)
        if shown:
            text.append(f"  {shown}", "italic")
        if place in children or "x" not in signal[name]:
            noun = "leaf" if counts[node] == 1 else "leaves"
            text.append(f"  {counts[node]:,} {noun}", "dim")
        return text

    top = Tree("", hide_root=True, guide_style="dim")
    stack = [(root, top, 1) for root in reversed(children.get(-1, []))]
    while stack:
        place, branch, level = stack.pop()
        if place < 0:
            branch.add(Text(f"... {-place:,} more", "dim"))
            continue
        here = branch.add(line(place))
        below = children.get(place, [])
        if level >= depth and below:
            noun = "child" if len(below) == 1 else "children"
            here.add(Text(f"... {len(below):,} {noun}", "dim"))
            continue
        rest = len(below) - max_children
        if rest > 0:
            stack.append((-rest, here, level + 1))
            below = below[:max_children]
        stack.extend((child, here, level + 1) for child in reversed(below))
    return top


def _fitting_depth(children: dict[int, list[int]], max_children: int) -> int:
    """How many levels can be drawn in :data:`MOST_LINES` lines: two at least."""
    level, lines, depth = children.get(-1, []), 0, 0
    while level:
        lines += len(level)
        if lines > MOST_LINES and depth >= 2:
            break
        depth += 1
        level = [
            child for node in level for child in children.get(node, [])[:max_children]
        ]
    return max(depth, 1)


def dropped_table(dropped: Iterable[tuple[str, int]]) -> Table:
    """Draw what was left out, with its reason and its number."""
    table = Table("left out", box=SIMPLE_HEAD)
    table.add_column("times", justify="right")
    for reason, count in dropped:
        table.add_row(Text(one_line(reason)), f"{count:,}")
    return table


def file_table(
    files: Sequence[tuple[Path, str]], what: str, folder: Path | None = None
) -> Table:
    """Draw files, each with the reason why it was left out or something else.

    Args:
        files: Path and reason.
        what: What the reasons are.
        folder: Folder that the paths are shown relative to.
    """
    table = Table("file", what, box=SIMPLE_HEAD)
    for path, reason in files:
        if folder is not None and path.is_relative_to(folder):
            path = path.relative_to(folder)
        table.add_row(Text(one_line(path.as_posix())), Text(one_line(reason)))
    return table


def one_line(text: str) -> str:
    """Text on one line: a name may hold line ends, and codes that move the cursor."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def print_many(console: Console, signals: Iterable[tuple[NestedSignal, str]]) -> None:
    """One row a signal, and a row of all of them; no signal is kept."""
    table = Table("sample", "source", box=SIMPLE_HEAD)
    for column in (
        "levels",
        "nodes",
        "leaves",
        "largest\nfamily",
        "flat pairs\nper pair",
    ):
        table.add_column(column, justify="right")
    leaves: Counter[str] = Counter()
    dropped: Counter[str] = Counter()
    number = nodes = largest = pairs = flat = levels = 0
    for signal, name in signals:
        shape = tree_shape(signal)
        if number < MAX_ROWS:
            table.add_row(
                str(number),
                Text(one_line(name), overflow="ellipsis", no_wrap=True),
                f"{shape.levels:,}",
                f"{shape.num_nodes:,}",
                f"{shape.num_leaves:,}",
                f"{shape.largest_family:,}",
                f"{shape.saving:,.1f}",
            )
        number += 1
        nodes += shape.num_nodes
        leaves.update(shape.leaves)
        dropped.update(dict(signal._global_store.get("dropped") or []))
        largest, levels = max(largest, shape.largest_family), max(levels, shape.levels)
        pairs, flat = pairs + shape.pairs, flat + shape.flat_pairs
    if number > MAX_ROWS:
        table.add_row("...", f"{number - MAX_ROWS:,} more")
    table.add_section()
    table.add_row(
        "all",
        f"{number:,} signals",
        f"{levels:,}",
        f"{nodes:,}",
        f"{leaves.total():,}",
        f"{largest:,}",
        f"{flat / max(pairs, 1):,.1f}",
    )
    console.print(table)
    by_type = ", ".join(f"{count:,} {name}" for name, count in leaves.items() if count)
    console.print(f"Leaves: {by_type or 'none'}")
    if dropped:
        console.print(dropped_table(sorted(dropped.items())))
