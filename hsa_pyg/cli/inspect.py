"""``hsa-pyg inspect``: the shape of a signal, its tree, and a page to look at it."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hsa_pyg.analysis import write_viewer
from hsa_pyg.analysis.block_weights import run_model
from hsa_pyg.cli import SettingsError
from hsa_pyg.cli.checkpoint import TrainedRun
from hsa_pyg.cli.folder import FolderFiles, find_files
from hsa_pyg.cli.paths import (
    PathReader,
    ReadSettings,
    check_kind,
    detect_kind,
)
from hsa_pyg.cli.tables import (
    ROLE_NAMES,
    draw_tree,
    dropped_table,
    file_table,
    one_line,
    print_many,
    print_shape,
)
from hsa_pyg.data import NestedSignal

Item = TypeVar("Item")


def inspect_path(
    path: Path,
    settings: ReadSettings,
    *,
    kind: str | None = None,
    html: Path | None = None,
    run: TrainedRun | None = None,
    depth: int | None = None,
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
        depth: Levels of the tree that are printed; by default what fits in 60 lines.
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
    reader = PathReader(settings)
    found = _find(console, path, kind)
    if isinstance(found, FolderFiles):
        if sample is None:
            _refuse_many(path, len(found.files), html)
            _print_folder(console, path, found, reader)
            return
        path, found = _choose(found.files, sample, path)
        sample = None
    signals = _read(console, reader, path, found)
    if sample is None and len(signals) > 1:
        _refuse_many(path, len(signals), html)
        print_many(console, ((s, _name(s, path)) for s in signals))
        console.print(f"--sample 0 to {len(signals) - 1} shows one of them.")
        return
    signal = _choose(signals, sample or 0, path)
    if run is not None:
        run.check(signal, path.as_posix())
    if html is not None:
        # First, so that what stops it is not to be found below a tree.
        _write_page(html, signal, run, max_leaves)
    print_shape(console, signal, path)
    console.print(draw_tree(signal, depth, max_children))
    _print_dropped(console, signal)
    if run is not None:
        _print_classes(console, signal, run)
    if html is not None:
        console.print(f"Page: {html}", soft_wrap=True, markup=False, highlight=False)


def _find(console: Console, path: Path, kind: str | None) -> FolderFiles | str:
    """The kind of a path, or the files of a folder that is no website."""
    check_kind(kind, "documents")
    if not path.exists():
        raise FileNotFoundError(f"There is no file or folder {path.as_posix()!r}.")
    if not path.is_dir() or kind == "website":
        return kind or detect_kind(path)
    found = find_files(path, None if kind == "documents" else kind)
    if kind is None and any(told == "html" for _, told in found.files):
        _tell_website(console, found)
        return "website"
    if not found.files:
        raise SettingsError(
            f"There is nothing in {path.as_posix()!r} that can be converted."
        )
    return found


def _read(
    console: Console, reader: PathReader, path: Path, kind: str
) -> list[NestedSignal]:
    try:
        with warnings.catch_warnings(record=True) as notes:
            warnings.simplefilter("always", UserWarning)
            return reader.read_path(path, kind)
    except ValueError as error:
        raise SettingsError(str(error)) from error
    finally:
        for note in notes:
            console.print(Text(one_line(f"Note: {note.message}"), "yellow"))


def _choose(items: Sequence[Item], sample: int, path: Path) -> Item:
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


def _name(signal: NestedSignal, path: Path) -> str:
    source = signal._global_store.get("source")
    return source if isinstance(source, str) and source else path.as_posix()


def _print_folder(
    console: Console, folder: Path, found: FolderFiles, reader: PathReader
) -> None:
    failed = list(found.failed)

    def read() -> Iterator[tuple[NestedSignal, str]]:
        for path, kind in found.files:
            try:
                signals = reader.read_path(path, kind)
            except (ValueError, OSError) as error:
                failed.append((path, str(error)))
                continue
            for signal in signals:
                yield signal, path.relative_to(folder).as_posix()

    print_many(console, read())
    if failed:
        console.print(file_table(failed, "why it was left out", folder))
    if found.skipped:
        suffixes = ", ".join(f"{n} of {s}" for s, n in found.skipped.most_common())
        console.print(Text(f"No converter: {one_line(suffixes)}"))


def _tell_website(console: Console, found: FolderFiles) -> None:
    """Say why a folder is read as one website, and what else lies in it."""
    kinds = Counter(kind for _, kind in found.files)
    told = (
        "Note: the folder holds HTML pages, so it is read as a website, one signal; "
        "--format documents takes each file by itself."
    )
    others = {k: n for k, n in kinds.items() if k not in ("html", "image")}
    if others:
        listed = ", ".join(f"{number} of {kind}" for kind, number in others.items())
        told += f" Files of other kinds are no pages and are left out: {listed}."
    console.print(Text(told, "yellow"))


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
            roles=ROLE_NAMES,
            max_leaves=max_leaves,
        )
    except ValueError as error:
        said = str(error)
        for name in ("max_tokens", "max_leaves"):
            said = said.replace(name, f"--{name.replace('_', '-')}")
        raise SettingsError(said) from error
