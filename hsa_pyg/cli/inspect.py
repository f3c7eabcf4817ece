"""``hsa-pyg inspect``: the shape of a signal, its tree, and a page to look at it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from hsa_pyg.analysis import NodeLabels, TreeShape, tree_shape, write_viewer
from hsa_pyg.analysis.block_weights import run_model
from hsa_pyg.analysis.viewer.contents import TreeOrder
from hsa_pyg.cli import SettingsError
from hsa_pyg.cli.checkpoint import TrainedRun
from hsa_pyg.cli.paths import (
    FolderFiles,
    PathReader,
    ReadSettings,
    detect_kind,
    find_files,
    load_signals,
)
from hsa_pyg.converters.blocks import ROLES
from hsa_pyg.data import NestedSignal

#: Rows of a table of many signals.
MAX_ROWS = 40


def inspect_path(
    path: Path,
    settings: ReadSettings,
    *,
    kind: str | None = None,
    html: Path | None = None,
    run: TrainedRun | None = None,
    depth: int = 4,
    max_children: int = 5,
    max_leaves: int = 20_000,
    sample: int | None = None,
    console: Console | None = None,
) -> None:
    """Print what lies at a path: its shape and its tree.

    Args:
        path: A file, a folder of pages or documents, or saved signals.
        settings: How it is read.
        kind: What it is; by default told from suffix and content.
        html: File to write the page of the signal to.
        run: A trained model, whose attention the page shows.
        depth: Levels of the tree that are printed.
        max_children: Children of a node that are printed.
        max_leaves: Most leaves of a page.
        sample: Which of several signals to look at.
        console: Where to print.

    Raises:
        SettingsError: If the path cannot be inspected in this way.
    """
    console = console or Console()
    if run is not None and run.tokenizer is not None:
        settings = replace(
            settings,
            tokenizer=run.tokenizer,
            max_tokens=settings.max_tokens or run.max_tokens,
        )
    found = _find(path, kind)
    if isinstance(found, list):
        signals: Sequence[NestedSignal] = found
        if sample is None and len(signals) == 1:
            sample = 0
        if sample is None:
            _refuse_many(path, len(signals), html)
            _print_many(console, ((s, _name(s, str(i))) for i, s in enumerate(signals)))
            console.print(f"--sample 0 to {len(signals) - 1} shows one of them.")
            return
        signal = _choose(signals, sample, path)
    elif isinstance(found, FolderFiles):
        reader = PathReader(settings)
        if sample is None:
            _refuse_many(path, len(found.files), html)
            _print_folder(console, path, found, reader)
            return
        file, file_kind = _choose(found.files, sample, path)
        signal = _read(reader, file, file_kind)
    else:
        if sample is not None:
            raise SettingsError(f"{path.as_posix()!r} is one signal: leave --sample.")
        signal = _read(PathReader(settings), path, found)
    if run is not None:
        run.check(signal, path.as_posix())
    print_shape(console, signal, path)
    console.print(draw_tree(signal, depth, max_children))
    _print_dropped(console, signal)
    if run is not None:
        _print_classes(console, signal, run)
    if html is not None:
        _write_page(html, signal, run, max_leaves)
        console.print(f"Page: {html}", soft_wrap=True, markup=False, highlight=False)


def print_shape(console: Console, signal: NestedSignal, path: Path) -> None:
    """Print the numbers of a signal: a table of its types, and what it costs."""
    shape = tree_shape(signal)
    table = Table(
        title=Text(_line(path.as_posix())), box=SIMPLE_HEAD, title_style="bold"
    )
    table.add_column("type")
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
    for name, value in _facts(shape, NodeLabels(signal, ROLES)):
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


def draw_tree(signal: NestedSignal, depth: int, max_children: int) -> Tree:
    """Draw the tree of a signal down to a depth.

    Args:
        signal: The signal.
        depth: Levels to draw.
        max_children: Children of a node to draw; the others are counted.
    """
    order = TreeOrder(signal)
    labels = NodeLabels(signal, ROLES)
    counts = signal.hierarchy.leaf_counts.tolist()
    children: dict[int, list[int]] = {}
    for place, parent in enumerate(order.parent.tolist()):
        children.setdefault(parent, []).append(place)

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


def dropped_table(dropped: Iterable[tuple[str, int]]) -> Table:
    """Draw what was left out, with its reason and its number."""
    table = Table("left out", box=SIMPLE_HEAD)
    table.add_column("times", justify="right")
    for reason, count in dropped:
        table.add_row(Text(_line(reason)), f"{count:,}")
    return table


def failure_table(failed: Sequence[tuple[Path, str]]) -> Table:
    """Draw the files that could not be converted, each with its reason."""
    table = Table("file", "why it was left out", box=SIMPLE_HEAD)
    for path, reason in failed:
        table.add_row(Text(_line(path.as_posix())), Text(_line(reason)))
    return table


def _line(text: str) -> str:
    """Text on one line: a name may hold line ends, and codes that move the cursor."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _find(path: Path, kind: str | None) -> list[NestedSignal] | FolderFiles | str:
    if not path.exists():
        raise FileNotFoundError(f"There is no file or folder {path.as_posix()!r}.")
    if path.is_dir() and kind != "website":
        found = find_files(path, kind)
        if kind is None and any(told == "html" for _, told in found.files):
            return "website"
        if not found.files:
            raise SettingsError(
                f"There is nothing in {path.as_posix()!r} that can be converted."
            )
        return found
    kind = kind or detect_kind(path)
    return load_signals(path) if kind == "signals" else kind


def _read(reader: PathReader, path: Path, kind: str) -> NestedSignal:
    try:
        return reader.read_path(path, kind)
    except ValueError as error:
        raise SettingsError(str(error)) from error


def _choose(items: Sequence, sample: int, path: Path):  # type: ignore[no-untyped-def]
    if not 0 <= sample < len(items):
        raise SettingsError(
            f"{path.as_posix()!r} has the samples 0 to {len(items) - 1}, not {sample}."
        )
    return items[sample]


def _refuse_many(path: Path, number: int, html: Path | None) -> None:
    if html is not None and number != 1:
        raise SettingsError(
            f"{path.as_posix()!r} holds {number} signals, and a page shows one: choose "
            f"it by --sample, 0 to {number - 1}."
        )


def _name(signal: NestedSignal, default: str) -> str:
    source = signal._global_store.get("source")
    return source if isinstance(source, str) and source else default


def _print_folder(
    console: Console, folder: Path, found: FolderFiles, reader: PathReader
) -> None:
    failed = list(found.failed)

    def read() -> Iterator[tuple[NestedSignal, str]]:
        for path, kind in found.files:
            try:
                signal = reader.read_path(path, kind)
            except (ValueError, OSError) as error:
                failed.append((path, str(error)))
                continue
            yield signal, path.relative_to(folder).as_posix()

    _print_many(console, read())
    if failed:
        console.print(failure_table(failed))
    if found.skipped:
        suffixes = ", ".join(f"{n} of {s}" for s, n in found.skipped.most_common())
        console.print(Text(f"No converter: {_line(suffixes)}"))


def _print_many(console: Console, signals: Iterable[tuple[NestedSignal, str]]) -> None:
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
                Text(_line(name), overflow="ellipsis", no_wrap=True),
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


def _print_dropped(console: Console, signal: NestedSignal) -> None:
    dropped = signal._global_store.get("dropped")
    if dropped:
        console.print(dropped_table(dropped))


def _print_classes(console: Console, signal: NestedSignal, run: TrainedRun) -> None:
    table = Table("predicted class", box=SIMPLE_HEAD)
    table.add_column("probability", justify="right")
    chances = run_model(run.model, signal)[0].softmax(dim=0)
    for number in chances.argsort(descending=True)[:5].tolist():
        table.add_row(Text(str(run.classes[number])), f"{float(chances[number]):.3f}")
    console.print(table)


def _write_page(
    html: Path, signal: NestedSignal, run: TrainedRun | None, max_leaves: int
) -> None:
    try:
        write_viewer(
            html,
            signal,
            model=None if run is None else run.model,
            classes=None if run is None else run.classes,
            roles=ROLES,
            max_leaves=max_leaves,
        )
    except ValueError as error:
        raise SettingsError(str(error)) from error
