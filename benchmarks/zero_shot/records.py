"""Measurements kept row by row in a file, and the table that shows them."""

from __future__ import annotations

import functools
import json
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from tqdm import tqdm

from benchmarks.report import Options
from benchmarks.timing import Goal, table

Value = TypeVar("Value")
#: A row of the file: see :meth:`Records.run`.
Row = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """What is replaced, and by what.

    Args:
        layers: numbers of the layers, from 0.
        hierarchy: the trees, by the name that the table shows.
        tie_queries: as for ``replace_attention``.
        self_attention: likewise.
        specials: likewise.
        label: who chose the layers, such as ``"select_layers, 3"``. Settings that
            differ in nothing else are the same measurement.
    """

    layers: tuple[int, ...]
    hierarchy: str
    tie_queries: bool = True
    self_attention: bool = True
    specials: str = "root"
    label: str = ""

    @property
    def options(self) -> dict[str, Any]:
        """Keyword arguments of ``replace_attention`` besides layers and hierarchy."""
        names = ("tie_queries", "self_attention", "specials")
        return {name: getattr(self, name) for name in names}

    def key(self) -> Row:
        """All but the label, as JSON gives it back."""
        values = asdict(self)
        del values["label"]
        return {**values, "layers": list(self.layers)}


def distinct(settings: Iterable[Setting]) -> list[Setting]:
    """Each setting once, under its first label."""
    found: dict[str, Setting] = {}
    for setting in settings:
        found.setdefault(json.dumps(setting.key()), setting)
    return list(found.values())


class Records:
    """Rows of JSON, one a measurement, appended as they come.

    Args:
        path: of the file, which need not exist.
        measuring: whether settings without a row are measured, or left out.

    Raises:
        ValueError: if a line of the file is no JSON.
    """

    def __init__(self, path: Path, measuring: bool = True) -> None:
        self.path, self.measuring = Path(path), measuring
        self.rows: list[Row] = []
        revision()  # of the code that runs, not of what it becomes meanwhile
        if not self.path.exists():
            return
        for number, line in enumerate(self.path.read_text().splitlines(), 1):
            try:
                self.rows.append(json.loads(line))
            except json.JSONDecodeError as error:
                raise ValueError(
                    f"{self.path}, line {number} is no JSON ({error}); delete the line "
                    "to measure it again"
                ) from error

    def find(self, setting: Setting, *, model: str, data: str) -> Row | None:
        """The row of a setting, if it was measured."""
        for row in self.rows:
            if row.get("setting") == setting.key() and (row["model"], row["data"]) == (
                model,
                data,
            ):
                return row
        return None

    def run(
        self,
        settings: Iterable[Setting],
        measure: Callable[[Setting], Any],
        *,
        model: str,
        data: str,
    ) -> list[Row]:
        """Measure the settings that have no row yet.

        Args:
            settings: what to measure, in the order wanted.
            measure: gives a dataclass of what came out, such as a ``Measurement``.
            model: its name.
            data: the data, with their slice, such as ``"USPTO-50k, 600-3,599"``.

        Returns:
            The rows of the settings: ``setting``, ``measurement``, ``model``, ``data``,
            ``versions``, ``revision`` and ``date``.
        """
        found = []
        for setting in tqdm(list(settings), desc=data):
            row = self.find(setting, model=model, data=data)
            if row is None and not self.measuring:
                continue
            if row is None:
                measured = asdict(measure(setting))
                row = self._append(
                    setting=setting.key(), measurement=measured, model=model, data=data
                )
            found.append(row)
        return found

    def found(
        self, settings: Iterable[Setting], *, model: str, data: str
    ) -> list[tuple[Setting, Row]]:
        """The settings that have a row, each once, with what was measured."""
        return [
            (setting, row["measurement"])
            for setting in distinct(settings)
            if (row := self.find(setting, model=model, data=data)) is not None
        ]

    def once(self, question: str, answer: Callable[[], Value]) -> Value:
        """What was answered before, or is now, and kept: a choice of layers, say.

        Args:
            question: what identifies it, with model, data and options.
            answer: gives something that JSON can hold.
        """
        for row in self.rows:
            if row.get("question") == question:
                return row["answer"]
        return self._append(question=question, answer=answer())["answer"]

    def _append(self, **content: Any) -> Row:
        row = {
            **content,
            "versions": {name: version(name) for name in ("torch", "transformers")},
            "revision": revision(),
            "date": date.today().isoformat(),
        }
        line = json.dumps(row)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(line + "\n")
        self.rows.append(json.loads(line))
        return self.rows[-1]

    def table(
        self, settings: Sequence[Setting], *, model: str, data: str, before: bool = True
    ) -> str:
        """The table of settings, in Markdown; those without a row are left out.

        Accuracies are in percent, changes in points, with the standard error of the
        paired difference. Columns in which all settings are as usual are left out.

        Args:
            settings: the rows; each is shown once.
            model: its name, as for :meth:`run`.
            data: likewise.
            before: whether the first row is the original model.
        """
        found = self.found(settings, model=model, data=data)
        columns = [name for name in _VARIED if _varies(name, found)]
        head = ["layers", "hierarchy", *(_VARIED[name][0] for name in columns)]
        lines = []
        if before and found:
            none = [""] * len(columns)
            first = _percent(found[0][1]["accuracy_before"])
            lines.append(["none", "", *none, first, "", "", "", ""])
        for setting, measured in found:
            varied = [_VARIED[name][1](getattr(setting, name)) for name in columns]
            shown = [layers_shown(setting), setting.hierarchy, *varied]
            lines.append([*shown, *_outcome(measured)])
        return table([*head, *_OUTCOME], lines)


def open_records(options: Options, section: str) -> Records:
    """The rows of a section; a quick run begins anew, in a folder of its own."""
    folder = options.results
    if options.quick:
        folder = Path(tempfile.mkdtemp(prefix="zero_shot_"))
    return Records(folder / "zero_shot" / f"{section}.jsonl", options.measuring)


_VARIED: dict[str, tuple[str, Callable[[Any], str]]] = {
    "tie_queries": ("queries", lambda tied: "tied" if tied else "untied"),
    "self_attention": ("diagonal", lambda kept: "kept" if kept else "dropped"),
    "specials": ("special tokens", str),
}
_OUTCOME = (
    "accuracy, %",
    "change, points",
    "same prediction, %",
    "KL, nats",
    "FLOPs, %",
)


def _varies(name: str, found: Sequence[tuple[Setting, Row]]) -> bool:
    usual = getattr(Setting((), ""), name)
    return any(getattr(setting, name) != usual for setting, _ in found)


def layers_shown(setting: Setting) -> str:
    """The layers of a setting, and who chose them."""
    shown = ", ".join(map(str, setting.layers))
    return f"{shown} ({setting.label})" if setting.label else shown


def _outcome(measured: Row) -> list[str]:
    return [
        _percent(measured["accuracy_after"]),
        change_shown(measured),
        _percent(measured["agreement"]),
        f"{measured['divergence']:.3f}",
        _percent(measured["share"]),
    ]


def change_shown(measured: Row) -> str:
    """Change of the accuracy in points, with its standard error."""
    if measured["change"] is None:
        return ""
    points, error = 100 * measured["change"], 100 * measured["change_error"]
    # A change of -0.04 is +0.0: there is no sign to see.
    return f"{round(points, 1) + 0.0:+.1f} ± {error:.1f}"


def lost_table(rows: Iterable[tuple[Setting, Row]], what: str, goal: Goal) -> str:
    """Points lost by settings, against what they may lose.

    Args:
        rows: the settings, and what was measured.
        what: the model or the data, in a word or two.
        goal: for the points lost.
    """
    lines = []
    for setting, found in rows:
        lost = -100 * found["change"]
        lines.append(
            [
                f"{what}: layers {layers_shown(setting)}, {setting.hierarchy}",
                f"{100 * (1 - found['share']):.1f}",
                change_shown(found),
                f"{lost:.1f}",
                *goal.cells(lost),
            ]
        )
    head = ("replaced", "FLOPs saved, %", "change, points", "points lost")
    return table([*head, "bar", "aim", "reached"], lines)


def _percent(part: float | None) -> str:
    return "" if part is None else f"{100 * part:.1f}"


@functools.cache
def revision() -> str:
    """The commit of the checkout, with a plus sign if the package was changed since."""
    root = Path(__file__).parents[2]

    def git(*words: str) -> str:
        made = subprocess.run(
            ["git", *words], cwd=root, capture_output=True, text=True, check=False
        )
        return made.stdout.strip()

    changed = "+" if git("status", "--porcelain", "hsa_pyg") else ""
    return (git("rev-parse", "--short=12", "HEAD") or "unknown") + changed
