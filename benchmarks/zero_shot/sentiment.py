"""A model that judges reviews, and what is tried on it: settings and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import nn

from benchmarks.timing import Goal, table
from benchmarks.zero_shot.pictures import draw_changes
from benchmarks.zero_shot.records import (
    Records,
    Row,
    Setting,
    distinct,
    lost_table,
)
from benchmarks.zero_shot.review_trials import ReviewTrials, builder, precision
from benchmarks.zero_shot.texts import Reviews, encode
from hsa_pyg.integrations.transformers import select_layers
from hsa_pyg.integrations.transformers.scores import Read

#: The trees that are tried.
HIERARCHIES = (
    "clusters:0.08",
    "segments:0.08",
    "sentences",
    "ward:8",
    "window:4",
    "window:16",
    "windows:2,4,8,16",
)
#: The sets of layers that the paper replaces, counted from 0 in six layers.
GIVEN = ((5,), (3, 5), (1, 3, 5))
THREE = GIVEN[-1]
#: The most of softmax attention's FLOPs that main rows may spend.
_MOST = 0.1
Measured = list[tuple[Setting, Row]]


@dataclass(frozen=True)
class Part:
    """Some reviews, cut to a length.

    Args:
        name: of the data, with the slice.
        reviews: the reviews.
        length: the most tokens that are left of each.
    """

    name: str
    reviews: Reviews
    length: int

    @classmethod
    def cut(cls, source: str, reviews: Reviews, part: range, length: int) -> Part:
        """The reviews of a range, counted from 0; the name counts from 1."""
        return cls(
            f"{source} reviews {part.start + 1:,} to {part.stop:,}, {length} tokens",
            reviews[part.start : part.stop],
            length,
        )


@dataclass(frozen=True)
class Subject:
    """A model under trial.

    Args:
        name: of the model, as records and tables show it.
        model: a BERT, or one with a head.
        tokenizer: of the model.
        bfloat16: whether matrix products run in bfloat16.
    """

    name: str
    model: nn.Module
    tokenizer: Any
    bfloat16: bool = True

    def trials(self, part: Part, read: Read | None = None) -> ReviewTrials:
        """From a setting to what it does to some reviews."""
        batches = encode(self.tokenizer, part.reviews, part.length)
        return ReviewTrials(self.model, batches, read, self.bfloat16)

    def layers(
        self, records: Records, part: Part, hierarchy: str, read: Read | None = None
    ) -> tuple[int, ...]:
        """The three layers that change the output least, found without labels."""

        def choose() -> list[int]:
            batches = encode(self.tokenizer, part.reviews, part.length).batches
            with precision(self.bfloat16):
                return select_layers(
                    self.model, batches, 3, builder(hierarchy), read=read
                ).layers

        question = f"{self.name}; {part.name}; three layers for {hierarchy}"
        return tuple(records.once(question, choose))

    def pilot(
        self, records: Records, part: Part, read: Read | None = None
    ) -> dict[str, dict[str, float]]:
        """What each hierarchy does to three layers, without labels.

        Returns:
            ``divergence``, ``agreement`` and ``share`` by the name of the hierarchy.
        """
        trials: list[ReviewTrials] = []
        found = {}
        for hierarchy in HIERARCHIES:

            def tried(hierarchy: str = hierarchy) -> dict[str, float]:
                if not trials:
                    trials.append(self.trials(part, read))
                outcome = asdict(trials[0](Setting(THREE, hierarchy)))
                return {x: outcome[x] for x in ("divergence", "agreement", "share")}

            question = f"{self.name}; {part.name}; {THREE} by {hierarchy}"
            found[hierarchy] = records.once(question, tried)
        return found

    def measure(
        self,
        records: Records,
        part: Part,
        settings: Sequence[Setting],
        read: Read | None = None,
    ) -> tuple[Measured, str]:
        """Measure settings on some reviews; the rows, and the table in Markdown."""
        trials: list[ReviewTrials] = []

        def tried(setting: Setting) -> Any:
            if not trials:
                trials.append(self.trials(part, read))
            return trials[0](setting)

        # Settings with the same first layer share what lies below it.
        ordered = sorted(settings, key=lambda setting: min(setting.layers))
        records.run(ordered, tried, model=self.name, data=part.name)
        rows = records.run(settings, tried, model=self.name, data=part.name)
        pairs = [
            (setting, row["measurement"])
            for setting, row in zip(settings, rows, strict=True)
        ]
        return pairs, records.table(settings, model=self.name, data=part.name)

    def reading_in_float32(
        self, records: Records, part: Part, setting: Setting, read: Read | None = None
    ) -> dict[str, float]:
        """How far predictions in bfloat16 are those in float32, and KL between them.

        Of the original model (``before``) and of one with replaced layers (``after``).
        """

        def compared() -> dict[str, float]:
            batches = encode(self.tokenizer, part.reviews, part.length)
            scores = []
            for bfloat16 in (False, True):
                trials = ReviewTrials(self.model, batches, read, bfloat16)
                tree = builder(setting.hierarchy)
                made = trials.trials()
                with precision(bfloat16):
                    after = made.attempt(setting.layers, tree, **setting.options)
                scores.append((made.scores, after.scores))
            same = [
                float((x.argmax(1) == y.argmax(1)).float().mean())
                for x, y in zip(*scores, strict=True)
            ]
            return {"before": same[0], "after": same[1]}

        question = f"{self.name}; {part.name}; bfloat16 and float32, {setting.key()}"
        return records.once(question, compared)


def best_two(pilot: dict[str, dict[str, float]]) -> tuple[str, str]:
    """The hierarchies that diverge least at a tenth of the FLOPs or less."""
    cheap = [name for name, found in pilot.items() if found["share"] <= _MOST]
    first, second, *_ = sorted(cheap, key=lambda name: pilot[name]["divergence"])
    return first, second


def chooser(hierarchy: str) -> str:
    """The label of rows whose layers select_layers chose."""
    return f"select_layers for {hierarchy}"


def main_settings(two: Sequence[str], chosen: tuple[int, ...]) -> list[Setting]:
    """Three layers, as given and as chosen, by the trees that the pilot chose."""
    label = chooser(two[0])
    return [
        Setting(layers, hierarchy, label=name)
        for hierarchy in two
        for layers, name in ((chosen, label), (THREE, ""))
    ]


def survey_settings(two: Sequence[str], chosen: tuple[int, ...]) -> list[Setting]:
    """All trees and sets of layers, tied and untied, with and without the diagonal."""
    label, every = chooser(two[0]), tuple(range(6))
    rows = [Setting(layers, tree) for layers in GIVEN[::-1] for tree in HIERARCHIES]
    rows += [Setting(chosen, tree, label=label) for tree in HIERARCHIES]
    rows += [Setting(every, tree) for tree in (*two, "sentences", "window:4")]
    rows += [
        Setting(layers, tree, tie_queries=False, label=name)
        for layers, name in ((THREE, ""), (chosen, label))
        for tree in (*two, "window:4", "windows:2,4,8,16")
    ]
    rows += [
        Setting(layers, tree, self_attention=False, label=name)
        for layers, name in ((THREE, ""), (chosen, label))
        for tree in (two[0], "window:4")
    ]
    return distinct(rows)


def pilot_table(pilot: dict[str, dict[str, float]]) -> str:
    """What the pilot found, in Markdown."""
    head = ("hierarchy", "KL, nats", "same prediction, %", "FLOPs, %")
    rows = [
        [
            name,
            f"{found['divergence']:.4f}",
            f"{100 * found['agreement']:.1f}",
            f"{100 * found['share']:.1f}",
        ]
        for name, found in sorted(pilot.items(), key=lambda x: x[1]["divergence"])
    ]
    return table(head, rows)


def goals(rows: Measured, what: str) -> str:
    """Three layers at a tenth of the FLOPs or less, against the bar for them."""
    three = [
        (setting, found)
        for setting, found in rows
        if len(setting.layers) == 3 and found["share"] <= _MOST
    ]
    return lost_table(three, what, Goal(1))


def picture(path: Path, rows: Measured) -> None:
    """Change against share of FLOPs."""
    draw_changes(path, rows, names=HIERARCHIES)
