"""``hsa-pyg convert``: a folder of documents and pictures to a file of signals."""

from __future__ import annotations

import json
import os
import re
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from hsa_pyg.analysis import tree_shape
from hsa_pyg.cli import SettingsError
from hsa_pyg.cli.folder import FolderFiles, find_files
from hsa_pyg.cli.paths import (
    PathReader,
    ReadSettings,
    check_kind,
    detect_kind,
)
from hsa_pyg.cli.tables import dropped_table, file_table
from hsa_pyg.converters import train_word_tokenizer
from hsa_pyg.data import NestedSignal, unify
from hsa_pyg.datasets.raw_files import part_of


@dataclass
class Conversion:
    """What became of the files.

    Attributes:
        signals: The signals, of one schema.
        failed: Path and reason of each file that could not be converted.
        notes: Path and warning of each file that was converted with one.
        skipped: How many files of each suffix no converter knows.
        classes: Names of the labels, if there are any.
    """

    signals: list[NestedSignal] = field(default_factory=list)
    failed: list[tuple[Path, str]] = field(default_factory=list)
    notes: list[tuple[Path, str]] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    classes: list[str] = field(default_factory=list)


def convert_path(
    source: Path,
    out: Path,
    settings: ReadSettings,
    *,
    kind: str | None = None,
    tokenizer: str = "hashed",
    labels: Literal["folder"] | None = None,
    as_website: bool = False,
    force: bool = False,
    console: Console | None = None,
) -> Conversion:
    """Convert a file or a folder, and write the signals to a file.

    Beside ``out`` are written its tokenizer, if a vocabulary was counted, and the names
    of its labels. Each file is there as a whole or not at all.

    Args:
        source: A file, or a folder of files.
        out: File that ``torch.load`` reads as a list of signals.
        settings: How files are read; its tokenizer is set here.
        kind: Kind of the files; by default told from suffix and content.
        tokenizer: ``"hashed"``, ``"characters"``, ``"words"`` for a vocabulary of the
            words in ``source``, or the path of a ``tokenizer.json``.
        labels: ``"folder"`` for the name of the folder that a file lies in.
        as_website: Make one signal of all the pages in the folder.
        force: Replace files that exist.
        console: Where to print.

    Raises:
        FileExistsError: If a file to be written exists.
        SettingsError: If nothing can be converted, or signals do not go together.
    """
    console = console or Console()
    start = time.perf_counter()
    kept = {
        "tokenizer": out.with_suffix(".tokenizer.json"),
        "classes": out.with_suffix(".classes.json"),
    }
    written = [out]
    written += [kept["tokenizer"]] if tokenizer == "words" else []
    written += [kept["classes"]] if labels is not None else []
    if not force:
        for path in written:
            if path.exists():
                raise FileExistsError(
                    f"{path.as_posix()!r} exists: choose another name, or replace it "
                    "by --force."
                )
    found = _find(source, kind, as_website)
    _check_writable(out)
    # What an earlier conversion wrote into the folder is none of its documents.
    ours = {path.resolve() for path in (out, *kept.values())}
    found.files = [item for item in found.files if item[0].resolve() not in ours]
    root = source if source.is_dir() else None
    encoder = _tokenizer(tokenizer, found, settings, root, console)
    settings = replace(settings, tokenizer=encoder)
    conversion = _convert(found, settings, root, labels, console)
    _print_left_out(console, conversion, root)
    if not conversion.signals:
        raise SettingsError(
            f"Nothing in {source.as_posix()!r} could be converted. Files that failed: "
            f"{len(conversion.failed)}; that no converter knows: "
            f"{sum(conversion.skipped.values())}."
        )
    conversion.signals = _unify(conversion.signals)
    writers: list[tuple[Path, Callable[[Path], Any]]] = []
    if tokenizer == "words":
        writers.append((kept["tokenizer"], lambda part: encoder.save(part.as_posix())))
    if labels is not None:
        text = json.dumps(conversion.classes, indent=2) + "\n"
        writers.append((kept["classes"], lambda part: part.write_text(text)))
    writers.append((out, lambda part: torch.save(conversion.signals, part)))
    _write(writers)
    _print_summary(console, conversion, written, time.perf_counter() - start)
    return conversion


def _print_left_out(
    console: Console, conversion: Conversion, root: Path | None
) -> None:
    if conversion.failed:
        console.print(file_table(conversion.failed, "why it was left out", root))
    if conversion.notes:
        console.print(file_table(conversion.notes, "note", root))
    if conversion.skipped:
        table = Table("suffix", box=SIMPLE_HEAD)
        table.add_column("files that no converter knows", justify="right")
        for suffix, number in conversion.skipped.most_common():
            table.add_row(Text(repr(suffix)[1:-1]), f"{number:,}")
        console.print(table)


def _find(source: Path, kind: str | None, as_website: bool) -> FolderFiles:
    check_kind(kind)
    if as_website or kind == "website":
        if not source.is_dir():
            raise SettingsError(
                f"{source.as_posix()!r} is no folder, and a website is one."
            )
        return FolderFiles([(source, "website")])
    if source.is_dir():
        return find_files(source, kind)
    return FolderFiles([(source, kind or detect_kind(source))])


def _tokenizer(
    name: str,
    found: FolderFiles,
    settings: ReadSettings,
    root: Path | None,
    console: Console,
) -> Any:
    if name == "hashed":
        return None
    if name == "characters":
        return "characters"
    if name == "words":
        texts = _texts(found, PathReader(settings), root, console)
        return train_word_tokenizer(texts)
    path = Path(name)
    if not path.is_file():
        raise SettingsError(
            f"--tokenizer {name} is none of hashed, characters and words, and there is "
            "no such file."
        )
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise ImportError(
            'Reading a tokenizer needs tokenizers: pip install "hsa-pyg[text]".'
        ) from error
    try:
        return Tokenizer.from_file(name)
    except Exception as error:  # tokenizers raises Exception itself
        raise SettingsError(f"{name!r} is no file of tokenizers: {error}") from error


def _texts(
    found: FolderFiles, reader: PathReader, root: Path | None, console: Console
) -> Iterator[str]:
    """The texts of the files, one in memory at a time; those that fail give none."""
    for path, kind in _tracked(found.files, "Counting words", console):
        try:
            yield from reader.text_of(path, kind, root)
        except MemoryError:
            raise
        except Exception:
            continue  # The conversion meets it again, and says why.


def _convert(
    found: FolderFiles,
    settings: ReadSettings,
    root: Path | None,
    labels: str | None,
    console: Console,
) -> Conversion:
    kinds = {kind for _, kind in found.files}
    # Pictures among documents have the types of pictures in documents.
    reader = PathReader(settings, as_documents="image" in kinds and len(kinds) > 1)
    conversion = Conversion(failed=list(found.failed), skipped=found.skipped)
    if labels is not None:
        conversion.classes = sorted({path.parent.name for path, _ in found.files})
    for path, kind in _tracked(found.files, "Converting", console):
        label = None
        if labels is not None:
            label = conversion.classes.index(path.parent.name)
        try:
            with warnings.catch_warnings(record=True) as notes:
                warnings.simplefilter("always", UserWarning)
                signals = reader.read_path(path, kind, label, root)
                for signal in signals:
                    signal.validate()
        except MemoryError:
            raise
        # One file in a thousand must not end the conversion, whatever is wrong with it.
        except Exception as error:
            conversion.failed.append((path, _reason(error)))
            continue
        conversion.notes += [(path, str(note.message)) for note in notes]
        for signal in signals:
            if root is not None and path != root:
                signal.source = path.relative_to(root).as_posix()
            conversion.signals.append(signal)
    conversion.failed.sort()
    return conversion


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, ValueError | ImportError):
        return str(error)
    return f"{type(error).__name__}: {error}"


def _tracked(
    files: Sequence[tuple[Path, str]], what: str, console: Console
) -> Iterator[tuple[Path, str]]:
    if [kind for _, kind in files] == ["website"]:
        yield from files  # Its converter shows a bar of its pages.
        return
    columns = (
        *Progress.get_default_columns()[:2],
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    # On the error stream, like any progress bar: the output may go to a file.
    screen = Console(stderr=True)
    bar = Progress(
        *columns, console=screen, transient=True, disable=not screen.is_terminal
    )
    with bar:
        yield from bar.track(files, description=what, total=len(files))


def _unify(signals: list[NestedSignal]) -> list[NestedSignal]:
    try:
        return unify(signals)
    except ValueError as error:
        sample = re.search(r"sample (\d+)", str(error))
        where = ""
        if sample is not None:
            where = f" (sample {sample[1]} is {signals[int(sample[1])].source!r})"
        raise SettingsError(
            f"The signals do not go together: {error}{where}. Convert files of one "
            "kind at a time, by --format."
        ) from error


def _check_writable(out: Path) -> None:
    """Raise an OSError now rather than when the work is done."""
    if out.is_dir():
        raise IsADirectoryError(f"{out.as_posix()!r} is a folder: name a file in it.")
    out.parent.mkdir(parents=True, exist_ok=True)
    part = part_of(out)
    part.touch()
    part.unlink()


def _write(writers: Sequence[tuple[Path, Callable[[Path], Any]]]) -> None:
    """Write all files under other names first, and then give them their own."""
    parts = [(part_of(path), path) for path, _ in writers]
    try:
        for (part, path), (_, write) in zip(parts, writers, strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            write(part)
        for part, path in parts:
            os.replace(part, path)
    finally:
        for part, _ in parts:
            part.unlink(missing_ok=True)


def _print_summary(
    console: Console, conversion: Conversion, written: Sequence[Path], seconds: float
) -> None:
    leaves: Counter[str] = Counter()
    dropped: Counter[str] = Counter()
    largest, owner = 0, ""
    for signal in conversion.signals:
        shape = tree_shape(signal)
        leaves.update(shape.leaves)
        dropped.update(dict(signal.dropped))
        if shape.largest_family > largest and shape.largest_parent is not None:
            kind, number = shape.largest_parent
            largest = shape.largest_family
            owner = f"{kind} {number} of {signal.source!r}"
    if dropped:
        console.print(dropped_table(sorted(dropped.items())))
    table = Table(show_header=False, box=None)
    table.add_row("signals", f"{len(conversion.signals):,}")
    failed = len(conversion.failed)
    table.add_row("files that failed", f"{failed:,}")
    for name, number in leaves.items():
        if number:
            table.add_row(f"leaves of type {name}", f"{number:,}")
    table.add_row("largest family", Text(f"{largest:,}, in {owner}" if owner else "0"))
    for number, name in enumerate(conversion.classes):
        table.add_row(f"label {number}", Text(repr(name)[1:-1]))
    table.add_row("seconds", f"{seconds:.1f}")
    console.print(table)
    # A path that is broken over two lines cannot be copied.
    for path in written:
        console.print(Text(f"Written to {path.as_posix()}"), soft_wrap=True)
