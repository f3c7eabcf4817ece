"""Texts and their labels from a file or from a folder with a folder for each class."""

from __future__ import annotations

import csv
import io
import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from hsa_pyg.cli import SettingsError

#: Labels that a sentence lists.
_SHOWN = 12
#: Folder of texts without a label, as aclImdb ships.
_UNLABELLED = "unsup"
_FORMS = (
    "a .tsv or .csv file with a header that names its columns, a .tsv file of lines "
    "label<TAB>text, a .jsonl file of objects, or a folder with a folder of .txt files "
    "for each class"
)


@dataclass(frozen=True)
class LabelledTexts:
    """Texts and the names of their classes.

    Args:
        texts: The texts.
        labels: The class of each, as it is written; None if they have none.
        sources: Where each stands, ``"line 3"`` or ``"neg/3.txt"``; none if not read.
    """

    texts: list[str]
    labels: list[str] | None
    sources: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.texts)

    def at(self, places: Sequence[int]) -> LabelledTexts:
        """Those at some places."""
        labels = None if self.labels is None else [self.labels[i] for i in places]
        sources = [self.sources[i] for i in places] if self.sources else []
        return LabelledTexts([self.texts[i] for i in places], labels, sources)

    def shuffled(self, seed: int) -> LabelledTexts:
        """In an order that the seed decides."""
        generator = torch.Generator().manual_seed(seed)
        return self.at(torch.randperm(len(self), generator=generator).tolist())


def read_labelled_texts(
    path: Path, text_column: str = "text", label_column: str = "label"
) -> LabelledTexts:
    """Read texts and labels.

    Args:
        path: A file or a folder, see the error below for the forms.
        text_column: Name of the column or field of the texts.
        label_column: Name of that of the labels; they may be absent.

    Raises:
        FileNotFoundError: If there is nothing.
        SettingsError: If it cannot be read so.
    """
    if not path.exists():
        raise FileNotFoundError(f"There is no file or folder {path.as_posix()!r}.")
    if path.is_dir():
        rows = list(_folder(path))
    elif path.suffix.lower() in (".tsv", ".csv"):
        try:
            rows = list(_table(path, text_column, label_column))
        except csv.Error as error:
            raise SettingsError(
                f"{path.as_posix()!r} is no table: {error}; a text with quotes in a "
                ".csv file stands in quotes itself, with each of its own doubled."
            ) from error
    elif path.suffix.lower() == ".jsonl":
        rows = list(_json_lines(path, text_column, label_column))
    else:
        raise SettingsError(f"{path.as_posix()!r} must be {_FORMS}.")
    if not rows:
        raise SettingsError(f"{path.as_posix()!r} holds no texts; it must be {_FORMS}.")
    labels = [label for _, label, _ in rows if label is not None]
    if labels and len(labels) < len(rows):
        raise SettingsError(
            f"{path.as_posix()!r} has a label for {len(labels)} of {len(rows)} texts; "
            "label all of them, or leave out the label column."
        )
    if not labels and label_column != "label" and not path.is_dir():
        raise SettingsError(
            f"{path.as_posix()!r} has no labels under the name {label_column!r}; "
            "correct --label-column, or leave it out if there are none."
        )
    texts, _, sources = (list(column) for column in zip(*rows, strict=True))
    _check_encodable(path, labels, sources)
    if path.suffix.lower() == ".tsv":
        _tell_of_quotes(path, texts)
    return LabelledTexts(texts, labels or None, sources)


def _check_encodable(path: Path, labels: Sequence[str], sources: Sequence[str]) -> None:
    """Refuse labels that no file in UTF-8 could hold."""
    for label, source in zip(labels, sources, strict=False):
        try:
            label.encode()
        except UnicodeEncodeError as error:
            raise SettingsError(
                f"{source!a} of {path.as_posix()!a} has the label "
                f"{label!a}, which is no text ({error.reason}): rename it."
            ) from error


def _tell_of_quotes(path: Path, texts: Sequence[str]) -> None:
    """Warn of texts in quotes, which a file of tabs has for a part of them."""
    quoted = sum(len(text) > 1 and text[0] == text[-1] == '"' for text in texts)
    if quoted:
        warnings.warn(
            f"{quoted} of {len(texts)} texts in {path.as_posix()!r} stand in quotes, "
            "which are read as a part of them: where they are not, write the table as "
            ".csv.",
            stacklevel=3,
        )


#: Text, label and where it stands.
Row = tuple[str, str | None, str]


def _folder(path: Path) -> Iterator[Row]:
    classes = [x for x in _visible(path) if x.is_dir() and x.name != _UNLABELLED]
    read: set[Path] = set(classes)
    for folder in classes:
        # What is no file, such as a pipe, cannot be read to its end.
        files = [x for x in _visible(folder) if x.suffix == ".txt" and x.is_file()]
        if not files:
            raise SettingsError(
                f"{folder.as_posix()!r} has no .txt files; {path.as_posix()!r} must be "
                "a folder with a folder of .txt files for each class, and no others."
            )
        read.update(files)
        for file in files:
            yield _decoded(file), folder.name, file.relative_to(path).as_posix()
    there = [*_visible(path), *(x for folder in classes for x in _visible(folder))]
    left = [x.relative_to(path).as_posix() for x in there if x not in read]
    if left:
        warnings.warn(
            f"Not read in {path.as_posix()!r}, where each folder is a class of .txt "
            f"files: {some_labels(left)} ({len(left)} in all).",
            stacklevel=2,
        )


def _visible(folder: Path) -> list[Path]:
    """What a folder holds, but for hidden files, by name."""
    return sorted(x for x in folder.iterdir() if x.name[0] != ".")


def _decoded(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path.as_posix()!r} is not in UTF-8: {error}.") from error


def _table(path: Path, text_column: str, label_column: str) -> Iterator[Row]:
    tabs = path.suffix.lower() == ".tsv"
    # Texts may hold what Python takes for ends of lines.
    lines = io.StringIO(_decoded(path), newline="")
    csv.field_size_limit(2**31 - 1)
    if tabs:
        read = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    else:
        # Strict, or a quote that nothing closes would join all that follows.
        read = csv.reader(lines, strict=True)
    rows = _numbered(read)
    first, head = next(rows, (1, []))
    names = [name.strip().lower() for name in head]
    wanted = (text_column.strip().lower(), label_column.strip().lower())
    for name in wanted:
        if names.count(name) > 1:
            raise SettingsError(
                f"{path.as_posix()!r} has {names.count(name)} columns {name!r}; leave "
                "one, or name another by --text-column or --label-column."
            )
    if wanted[0] in names:
        text = names.index(wanted[0])
        label = names.index(wanted[1]) if wanted[1] in names else None
        for number, row in rows:
            if len(row) != len(head):
                raise SettingsError(
                    f"{path.as_posix()!r} has a row of {len(row)} columns below a "
                    f"header of {len(head)}: {_start(row)}."
                )
            given = None if label is None else row[label].strip() or None
            yield row[text], given, f"line {number}"
        return
    named = text_column != "text" or wanted[1] in names
    if not tabs or len(head) != 2 or named:
        raise SettingsError(
            f"{path.as_posix()!r} has no column {text_column!r} in its first row, "
            f"{_start(head)}; name it by --text-column, or give {_FORMS}."
        )
    for number, row in [(first, head), *rows]:
        if len(row) != 2:
            raise SettingsError(
                f"{path.as_posix()!r} has a line of {len(row)} columns where there "
                f"should be label<TAB>text: {_start(row)}."
            )
        yield row[1], row[0].strip() or None, f"line {number}"


def _numbered(read: Any) -> Iterator[tuple[int, list[str]]]:
    """The rows of a reader that are not blank, and the line where each begins."""
    line = 1
    for row in read:
        if row:
            yield line, row
        line = read.line_num + 1


def _start(row: Sequence[str]) -> str:
    return repr("\t".join(row)[:60])


def _json_lines(path: Path, text_column: str, label_column: str) -> Iterator[Row]:
    for number, line in enumerate(_decoded(path).split("\n"), 1):
        if not line.strip():
            continue
        place = f"line {number}"
        where = f"{place} of {path.as_posix()!r}"
        try:
            item: Any = json.loads(line)
        except ValueError as error:
            raise SettingsError(f"{where} is no JSON: {error}.") from error
        except RecursionError as error:
            raise SettingsError(
                f"{where} nests deeper than Python's json reads."
            ) from error
        text = item.get(text_column) if isinstance(item, dict) else None
        if not isinstance(text, str):
            raise SettingsError(
                f"{where} is no object with a text {text_column!r}; name its field by "
                "--text-column."
            )
        label = item.get(label_column)
        whole = isinstance(label, int) and not isinstance(label, bool)
        if label is not None and not whole and not isinstance(label, str):
            raise SettingsError(
                f"{where} has the label {json.dumps(label)}; labels are names or whole "
                "numbers."
            )
        yield text, None if label is None else str(label).strip() or None, place


def some_labels(labels: Sequence[str]) -> str:
    """The first few labels in a sentence, long ones cut."""
    more = ", ..." if len(labels) > _SHOWN else ""
    return ", ".join(label[:40] for label in labels[:_SHOWN]) + more
