"""The classifier of reactions, its tokens and the trees of reactions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.report import Options
from benchmarks.zero_shot.inputs import data_file, package_folder, padded_batches
from benchmarks.zero_shot.records import Setting
from hsa_pyg import SignalHierarchy
from hsa_pyg.integrations.transformers import Tokens, nested_forest, select_layers
from hsa_pyg.integrations.transformers.measure import Measurement, ReplacementTrials
from hsa_pyg.integrations.transformers.trees import Builder, runs

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
