"""``hsa-pyg zero-shot``: what replacing attention does to a pretrained text model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch

from hsa_pyg.cli import SettingsError
from hsa_pyg.cli.forward_times import LengthTimes, check_lengths, forward_times
from hsa_pyg.cli.labelled_texts import (
    LabelledTexts,
    read_labelled_texts,
    some_labels,
)
from hsa_pyg.cli.probe import Probe, fit_probe
from hsa_pyg.cli.text_model import TextModel, class_numbers, load_text_model
from hsa_pyg.cli.zero_shot_settings import (
    ZeroShotSettings,
    layer_names,
    selection_budget,
)
from hsa_pyg.integrations.transformers import (
    Measurement,
    ReplacementTrials,
    make_builder,
    select_layers,
)
from hsa_pyg.integrations.transformers.layers import attention_layers, choose_layers
from hsa_pyg.integrations.transformers.scores import mean_state

#: Texts on which layers are chosen.
SELECTION_TEXTS = 100


@dataclass(frozen=True)
class Row:
    """One replacement.

    Args:
        asked: The layers as they were asked for.
        hierarchy: The trees.
        measurement: What it did.
        cosine_change: Mean of 1 - cosine between the mean states before and after, of
            a model without classes; else None.
    """

    asked: str
    hierarchy: str
    measurement: Measurement
    cosine_change: float | None


@dataclass(frozen=True)
class ZeroShotResult:
    """All replacements, what is the same for all of them, and times by length."""

    facts: dict[str, str]
    rows: list[Row]
    times: list[LengthTimes]


#: What is done with the replacements that have been measured so far.
Keep = Callable[[ZeroShotResult], None]


def measure_zero_shot(
    settings: ZeroShotSettings, keep: Keep | None = None
) -> ZeroShotResult:
    """Measure replacements of a model's attention on a file or folder of texts.

    Args:
        settings: What is measured, and how.
        keep: Called after every replacement with those that there are by then: a
            measurement takes long, and may be interrupted.

    Raises:
        ImportError: If transformers, or scikit-learn for a probe, is not installed.
        OSError: If there is no such model, file or folder.
        SettingsError: If settings, model and data do not fit together.
    """
    if settings.probe and not settings.labels:
        raise SettingsError("--probe learns from labels, so --no-labels does not fit.")
    parts = _split(settings)
    encoder = load_text_model(
        settings.model, head=not settings.probe, device=settings.device
    )
    with _in_a_sentence():
        run = _Run(settings, parts, encoder)
        return run.result(keep)


@contextmanager
def _in_a_sentence() -> Iterator[None]:
    """What the library refuses is said without a traceback."""
    try:
        yield
    except (ValueError, TypeError, NotImplementedError) as error:
        if isinstance(error, SettingsError):
            raise
        raise SettingsError(str(error)) from error


@dataclass(frozen=True)
class _Parts:
    """Disjoint parts of the data: what the table is about, and what learns."""

    measured: LabelledTexts
    training: LabelledTexts | None
    described: str


def _split(settings: ZeroShotSettings) -> _Parts:
    columns = (settings.text_column, settings.label_column)
    whole = read_labelled_texts(settings.data, *columns)
    if settings.labels and settings.probe and whole.labels is None:
        raise SettingsError(
            f"{settings.data.as_posix()!r} has no labels, which --probe learns from."
        )
    selects = any(name.startswith("select:") for name in settings.layers)
    if settings.train is not None and not (settings.probe or selects):
        raise SettingsError("--train is for --probe and for --layers select:...")
    wanted = settings.train_samples if settings.probe else SELECTION_TEXTS * selects
    drawn = whole.shuffled(settings.seed)
    training = None
    if settings.train is not None:
        other = read_labelled_texts(settings.train, *columns)
        if settings.probe and other.labels is None:
            raise SettingsError(
                f"{settings.train.as_posix()!r} has no labels, which --probe learns "
                "from."
            )
        training = other.shuffled(settings.seed).at(range(min(wanted, len(other))))
        left = len(whole)
        where = settings.train.as_posix()
    else:
        left = len(whole) - min(wanted, len(whole) // 2)
        where = "the rest"
    measured = drawn.at(range(min(settings.samples or left, left)))
    if settings.train is None and wanted:
        stop = min(len(measured) + wanted, len(whole))
        training = drawn.at(range(len(measured), stop))
    described = (
        f"{settings.data.as_posix()}: {len(measured):,} of {len(whole):,} texts, drawn "
        f"with seed {settings.seed}"
    )
    if training is not None:
        if not len(training):
            raise SettingsError(f"{where} holds no texts to learn from; give --train.")
        described += f"; {len(training):,} others, of {where}, to learn from"
    return _Parts(measured, training, described)


class _Run:
    """The model, its batches and the trials, and what is the same for all rows."""

    def __init__(
        self, settings: ZeroShotSettings, parts: _Parts, encoder: TextModel
    ) -> None:
        self.settings, self.parts = settings, parts
        self.options: dict[str, Any] = {
            "tie_queries": settings.tie_queries,
            "self_attention": settings.self_attention,
            "specials": settings.specials,
            "tokenizer": encoder.tokenizer,
        }
        for name in settings.hierarchies:
            make_builder(name, encoder.tokenizer)
        self.found = attention_layers(encoder.model)
        for name in settings.layers:
            if not name.startswith("select:"):
                choose_layers(self.found, layer_names(name))
            else:
                selection_budget(name)
        check_lengths(encoder, settings.lengths, self._timed_text())
        most = settings.max_length or encoder.longest
        self.original = encoder
        if settings.max_length is not None:
            encoder = encoder.with_positions(settings.max_length)
        self.encoder, self.most = encoder, most
        self.facts = {"model": encoder.name, "data": parts.described}
        self.probe = self._fitted() if settings.probe else None
        batches, order, cut = encoder.batches(parts.measured.texts, most)
        self.batches = batches
        self._describe(cut)
        labels = self._labels()
        self.by_cosine = self.probe is None and not encoder.has_head
        self.trials = ReplacementTrials(
            encoder.model,
            batches,
            None if labels is None else [labels[place] for place in order],
            read=self.probe or (mean_state if self.by_cosine else None),
        )

    def _timed_text(self) -> str:
        return "\n\n".join(self.parts.measured.texts[:50])

    def _fitted(self) -> Probe:
        training = self.parts.training
        if training is None or training.labels is None:
            raise SettingsError("--probe needs texts with labels to learn from.")
        self.facts["probe"] = (
            "logistic regression on the mean states of the original model, fitted to "
            f"{len(training):,} texts"
        )
        return fit_probe(self.encoder, training.texts, training.labels, self.most)

    def _describe(self, cut: int) -> None:
        if self.most is not None:
            self.facts["cut"] = f"{cut:,} texts, to {self.most:,} tokens"
        if self.encoder is not self.original:
            self.facts["positions"] = (
                f"stretched from {self.original.positions} to {self.most}"
            )
        self.facts["form"] = ", ".join(
            (
                "tied queries" if self.settings.tie_queries else "untied queries",
                "with self-attention"
                if self.settings.self_attention
                else "without self-attention",
                "special tokens "
                + ("at the root" if self.settings.specials == "root" else "inside"),
            )
        )

    def _labels(self) -> list[int] | None:
        """Numbers of the classes of the measured texts, if they shall be known."""
        data, config = self.parts.measured, self.encoder.model.config
        if self.probe is None and self.encoder.has_head:
            kind = getattr(config, "problem_type", None)
            if config.num_labels < 2 or kind in (
                "regression",
                "multi_label_classification",
            ):
                raise SettingsError(
                    f"{self.encoder.name} does not choose one of several classes; "
                    "measure its encoder by --probe."
                )
        if data.labels is None or not self.settings.labels:
            return None
        if self.probe is not None:
            unknown = sorted(set(data.labels) - set(self.probe.classes))
            if unknown:
                raise SettingsError(
                    f"{len(unknown)} of the labels of the measured texts are not among "
                    f"those of the probe's training texts ({some_labels(unknown)}): "
                    "give more by --train or --train-samples. A .tsv without a header "
                    "is label<TAB>text."
                )
            return [self.probe.label2id[label] for label in data.labels]
        if not self.encoder.has_head:
            raise SettingsError(
                f"{self.encoder.name} has no classifier to predict labels with: add "
                "--probe to fit one to its states, or --no-labels to compare the "
                "states alone."
            )
        return class_numbers(data, config.label2id, self.settings.classes)

    def result(self, keep: Keep | None) -> ZeroShotResult:
        """Measure all rows, then the times."""
        self.facts["device"] = self.settings.device
        self.facts["threads"] = str(torch.get_num_threads())
        rows: list[Row] = []
        for asked, hierarchy in product(
            self.settings.layers, self.settings.hierarchies
        ):
            rows.append(self._row(asked, hierarchy))
            if keep is not None:
                keep(ZeroShotResult(self.facts, rows, []))
        replacements = [
            {
                **self.options,
                "layers": list(row.measurement.layers),
                "hierarchy": row.hierarchy,
            }
            for row in rows
        ]
        lengths = self.settings.lengths
        times = forward_times(self.original, replacements, lengths, self._timed_text())
        return ZeroShotResult(self.facts, rows, times)

    def _row(self, asked: str, hierarchy: str) -> Row:
        if asked.startswith("select:"):
            layers: Any = self._selected(asked, hierarchy)
        else:
            layers = layer_names(asked)
        attempt = self.trials.attempt(layers, hierarchy, **self.options)
        change = None
        if self.by_cosine:
            same = torch.cosine_similarity(self.trials.scores, attempt.scores)
            change = float((1 - same.double()).mean())
        return Row(asked, hierarchy, self.trials.compare(attempt), change)

    def _selected(self, asked: str, hierarchy: str) -> list[int]:
        training = self.parts.training
        if training is None:
            raise SettingsError(f"{asked} needs texts to choose layers on.")
        texts = training.texts[:SELECTION_TEXTS]
        batches, _, _ = self.encoder.batches(texts, self.most)
        found = select_layers(
            self.encoder.model,
            batches,
            selection_budget(asked),
            hierarchy,
            **self.options,
        )
        self.facts["layers"] = (
            f"chosen on {len(texts):,} texts that are not measured, without labels"
        )
        return found.layers
