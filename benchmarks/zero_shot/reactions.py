"""A fine-tuned classifier of chemical reactions, some of its layers replaced.

The model is rxnfp's `bert_ft_10k_25s` (BERT, 12 layers of 4 heads, width 256), trained
with softmax attention by its authors; the data are the 5,007 reactions of USPTO-50k's
test split, 93 tokens each. The model names one of 50 classes; what counts is whether
the class belongs to the right one of the ten super-classes. It saw a part of these
reactions in training and has no label for super-class 4, so its accuracy says little,
and only differences on the same reactions are read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.report import Options, Section
from benchmarks.timing import Goal, table
from benchmarks.zero_shot.inputs import data_file, package_folder, padded_batches
from benchmarks.zero_shot.pictures import draw_changes
from benchmarks.zero_shot.records import (
    Records,
    Setting,
    change_shown,
    layers_shown,
    open_records,
)
from hsa_pyg import SignalHierarchy
from hsa_pyg.integrations.transformers import Tokens, nested_forest, select_layers
from hsa_pyg.integrations.transformers.measure import Measurement, ReplacementTrials
from hsa_pyg.integrations.transformers.trees import Builder, runs

MODEL = "rxnfp 0.1.0, bert_ft_10k_25s"
#: An atom in brackets, an element of two letters, the arrow, a ring number of two
#: digits, or any one character.
_TOKEN = re.compile(r"\[[^\]]+\]|Br|Cl|>>|%\d\d|.")


@dataclass(frozen=True)
class Vocabulary:
    """Numbers of the tokens of reaction SMILES.

    Args:
        number: of every token.
    """

    number: dict[str, int]

    @classmethod
    def read(cls, path: Path) -> Vocabulary:
        """From a file with a token a line."""
        words = path.read_text().splitlines()
        return cls({word: number for number, word in enumerate(words)})

    def encode(self, reaction: str, longest: int = 512) -> list[int]:
        """Ids of a reaction, with ``[CLS]`` before and ``[SEP]`` after it.

        Raises:
            ValueError: if it has more than ``longest`` tokens.
        """
        words = ["[CLS]", *_TOKEN.findall(reaction), "[SEP]"]
        if len(words) > longest:
            raise ValueError(f"{reaction!r} has {len(words)} tokens, {longest} fit")
        unknown = self.number["[UNK]"]
        return [self.number.get(word, unknown) for word in words]

    @property
    def specials(self) -> tuple[int, int]:
        """Ids of ``[CLS]`` and ``[SEP]``."""
        return self.number["[CLS]"], self.number["[SEP]"]


@dataclass(frozen=True)
class ReactionTree:
    """A reaction's own tree: reaction > side > molecule > token.

    The arrow is a child of the reaction, a dot between molecules one of its side.

    Args:
        arrow: id of ``>>``.
        dot: id of ``.``.
        window: if given, neighbours within a molecule are joined in windows of so many
            nodes, level by level, until that many or fewer are left of it. Else all
            tokens of a molecule are one family.
    """

    arrow: int
    dot: int
    window: int | None = None
    needs_scores = False

    def __call__(self, tokens: Tokens) -> SignalHierarchy:
        """Build the forest.

        Raises:
            ValueError: if the model was not given ids.
        """
        if tokens.input_ids is None:
            raise ValueError("a reaction's tree needs the model's input_ids")
        ids = tokens.input_ids[tokens.kept]
        arrow = ids == self.arrow
        parts = tokens.kept & torch.isin(
            tokens.input_ids, tokens.input_ids.new_tensor([self.arrow, self.dot])
        )
        # Runs between separators are molecules.
        cut = replace(tokens, special=tokens.special | parts)
        molecule, place, length = runs(cut)
        alone = parts[tokens.kept] | tokens.special_leaf
        longest, levels = tokens.kept.size(1), []
        width = self.window
        while width is not None and width < longest:
            left = -(-length // width)
            label = molecule * (longest + 1) + place // width
            # A window that would be the whole molecule is the molecule.
            levels.append(label.masked_fill(alone | (left < 2), -1))
            width *= self.window or 1
        levels.append(molecule.masked_fill(alone, -1))
        side = arrow.cumsum(0)
        levels.append(side.masked_fill(arrow, -1))
        return nested_forest(tokens, levels)


@dataclass(frozen=True)
class Reactions:
    """The model with the reactions.

    Args:
        model: gives ``logits`` of classes.
        vocabulary: its tokens.
        texts: the reactions.
        labels: their super-classes.
        super_class: of every class of the model.
    """

    model: nn.Module
    vocabulary: Vocabulary
    texts: list[str]
    labels: list[int]
    super_class: Tensor

    @classmethod
    def load(cls, options: Options) -> Reactions:
        """The installed weights and the data."""
        from transformers import AutoModelForSequenceClassification

        folder = package_folder("rxnfp", "rxnfp", "0.1.0")
        folder = folder / "models" / "transformers" / "bert_ft_10k_25s"
        data = data_file(options.data, "uspto50k")
        numbers = json.loads((data / "rxnclass2id.json").read_text())
        names = sorted(numbers, key=numbers.__getitem__)
        lines = (data / "uspto50k_test_unmapped.tsv").read_text().splitlines()
        pairs = [line.split("\t") for line in lines]
        return cls(
            AutoModelForSequenceClassification.from_pretrained(folder).eval(),
            Vocabulary.read(folder / "vocab.txt"),
            [text for _, text in pairs],
            [int(label) for label, _ in pairs],
            torch.tensor([int(name.split(".")[0]) for name in names]),
        )

    def batches(self, numbers: range) -> tuple[list[dict[str, Tensor]], list[int]]:
        """Some of the reactions in batches, and their labels in that order."""
        ids = [self.vocabulary.encode(self.texts[number]) for number in numbers]
        batches, order = padded_batches(ids, self.vocabulary.number["[PAD]"])
        return batches, [self.labels[numbers[place]] for place in order]

    def decide(self, scores: Tensor) -> Tensor:
        """The super-class of the likeliest class."""
        return self.super_class[scores.argmax(1)]

    def options(self, setting: Setting) -> dict[str, Any]:
        """Of ``replace_attention``; the configuration does not tell special tokens."""
        return {**setting.options, "special_ids": self.vocabulary.specials}

    def trials(self, numbers: range) -> Callable[[Setting], Measurement]:
        """From a setting to what it does to some of the reactions."""
        made: list[ReplacementTrials] = []

        def measure(setting: Setting) -> Measurement:
            if not made:
                batches, labels = self.batches(numbers)
                made.append(
                    ReplacementTrials(self.model, batches, labels, decide=self.decide)
                )
            tree = self.builder(setting.hierarchy)
            return made[0].measure(setting.layers, tree, **self.options(setting))

        return measure

    def best(self, hierarchy: str, numbers: range, budget: int = 3) -> list[int]:
        """The layers that change the output least, found without labels."""
        return select_layers(
            self.model,
            self.batches(numbers)[0],
            budget,
            self.builder(hierarchy),
            special_ids=self.vocabulary.specials,
        ).layers

    def builder(self, hierarchy: str) -> str | Builder:
        """``"reaction"`` and ``"reaction:b"`` as trees, other names as they are."""
        name, _, window = hierarchy.partition(":")
        if name != "reaction":
            return hierarchy
        number = self.vocabulary.number
        return ReactionTree(number[">>"], number["."], int(window) if window else None)


Sets = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Slices:
    """Numbers of the reactions for each purpose.

    Args:
        main: of the first table; nobody looked at them before.
        survey: of the next ones, looked at while the trees were made.
        probe: looked at first of all.
        choice: what layers are chosen on, without labels.
        most: settings of each table, None for all.
    """

    main: range = range(1200, 3600)
    survey: range = range(600, 1200)
    probe: range = range(600)
    choice: range = range(3600, 3856)
    most: int | None = None


QUICK = Slices(range(16, 32), range(8, 16), range(8), range(32, 40), most=2)

_SEGMENTS, _CLUSTERS, _WINDOWS = "segments:0.08", "clusters:0.08", "window:4"
_ALONE = [(layer,) for layer in range(12)]
_GIVEN = [(8, 10), (6, 8, 10), (7, 9, 11), tuple(range(6, 12)), tuple(range(12))]
_PROBED = [
    Setting(layers, hierarchy, tied, specials="inside")
    for layers in ((11,), (9, 11), (7, 9, 11))
    for hierarchy in (_WINDOWS, "window:16")
    for tied in (True, False)
]


def data_name(numbers: range) -> str:
    """The data, with their slice."""
    return f"USPTO-50k, reactions {numbers[0]:,} to {numbers[-1]:,}"


def chosen(records: Records, reactions: Reactions, numbers: range) -> Sets:
    """For each hierarchy the three layers that select_layers takes for it."""
    return {
        hierarchy: tuple(
            records.once(
                f"{MODEL}; {data_name(numbers)}; three layers for {hierarchy}, tied",
                lambda hierarchy=hierarchy: reactions.best(hierarchy, numbers),
            )
        )
        for hierarchy in (_SEGMENTS, _CLUSTERS, _WINDOWS)
    }


def _label(hierarchy: str) -> str:
    return f"select_layers for {hierarchy}"


def main_settings(best: Sets) -> list[Setting]:
    """Sets of layers by the trees that follow softmax attention best; then the rest."""
    own = {name: (layers, _label(name)) for name, layers in best.items()}
    three, label = own[_SEGMENTS]
    rows = [
        Setting(own[name][0], name, label=own[name][1])
        for name in (_SEGMENTS, _CLUSTERS, _WINDOWS)
    ]
    rows += [
        Setting(layers, name) for layers in _GIVEN for name in (_SEGMENTS, _CLUSTERS)
    ]
    rows += [
        Setting(three, name, label=label)
        for name in (_WINDOWS, "window:16", "windows:2,4,8,16", "ward:8", "reaction:8")
    ]
    rows.append(Setting((7, 9, 11), _WINDOWS))
    for change in (
        {"self_attention": False},
        {"tie_queries": False},
        {"specials": "inside"},
    ):
        for layers, chooser in ((three, label), ((7, 9, 11), "")):
            for name in (_SEGMENTS, _WINDOWS):
                rows.append(Setting(layers, name, label=chooser, **change))
    return rows


def alone_settings() -> list[Setting]:
    """Each layer alone."""
    rows = [
        Setting(layers, name)
        for name in (_SEGMENTS, _WINDOWS, "reaction:8")
        for layers in _ALONE
    ]
    rows += [Setting(layers, _SEGMENTS, self_attention=False) for layers in _ALONE]
    rows += [Setting(layers, _SEGMENTS, tie_queries=False) for layers in _ALONE]
    return rows


def survey_settings(best: Sets) -> list[Setting]:
    """Sets of layers by all trees, tied and untied."""
    three = (best[_SEGMENTS], _label(_SEGMENTS))
    given = [three, *((layers, "") for layers in _GIVEN)]
    trees = (
        _SEGMENTS,
        _CLUSTERS,
        "ward:8",
        _WINDOWS,
        "window:16",
        "windows:2,4,8,16",
        "reaction:8",
        "reaction",
    )
    rows = [
        Setting(layers, name, label=label) for name in trees for layers, label in given
    ]
    rows += [
        Setting(layers, "energy:0.1", label=label)
        for layers, label in (three, given[3])
    ]
    rows += [
        Setting(layers, name, tie_queries=False, label=label)
        for name in (_SEGMENTS, _WINDOWS, _CLUSTERS, "reaction:8")
        for layers, label in given
    ]
    return rows


def section(options: Options) -> Section:
    """Measure what has no row yet, and show all."""
    slices = QUICK if options.quick else Slices()
    return measured(Reactions.load(options), open_records(options, "reactions"), slices)


def measured(reactions: Reactions, records: Records, slices: Slices) -> Section:
    """The section for a model and its reactions."""
    best = chosen(records, reactions, slices.choice)
    parts = {}
    for name, numbers, settings in (
        ("main", slices.main, main_settings(best)),
        ("alone", slices.survey, alone_settings()),
        ("survey", slices.survey, survey_settings(best)),
        ("probe", slices.probe, _PROBED),
    ):
        settings = settings[: slices.most]
        known = {"model": MODEL, "data": data_name(numbers)}
        rows = records.run(settings, reactions.trials(numbers), **known)
        pairs = [
            (setting, row["measurement"])
            for setting, row in zip(settings, rows, strict=True)
        ]
        parts[name] = pairs, records.table(settings, **known)
    text = "\n\n".join(
        [
            FOUND,
            goals(parts["main"][0]),
            *(f"{_HEADINGS[name]}\n\n{shown}" for name, (_, shown) in parts.items()),
        ]
    )

    def draw(path: Path) -> None:
        sets = [*parts["main"][0], *parts["survey"][0]]
        draw_changes(path, sets, parts["alone"][0])

    return Section(text, draw=draw)


def goals(pairs: list[tuple[Setting, dict[str, Any]]]) -> str:
    """Three layers at a tenth of the FLOPs or less, against the bar for them."""
    goal, rows = Goal(3, 1), []
    for setting, found in pairs:
        usual = Setting(setting.layers, setting.hierarchy, label=setting.label)
        if setting == usual and len(setting.layers) == 3 and found["share"] <= 0.1:
            lost = -100 * found["change"]
            rows.append(
                [
                    f"reactions: layers {layers_shown(setting)}, {setting.hierarchy}",
                    f"{100 * (1 - found['share']):.1f}",
                    change_shown(found),
                    f"{lost:.1f}",
                    *goal.cells(lost),
                ]
            )
    head = ("replaced", "FLOPs saved, %", "change, points", "points lost")
    return table([*head, "bar", "aim", "reached"], rows)


FOUND = ""
_HEADINGS = {
    "main": "",
    "alone": "",
    "survey": "",
    "probe": "",
}
