"""Labelled texts of the user's own, to train on."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tqdm import tqdm

from hsa_pyg.cli import SettingsError
from hsa_pyg.cli.labelled_texts import (
    LabelledTexts,
    read_labelled_texts,
    some_labels,
)
from hsa_pyg.converters import DocumentConverter, EmptyDocumentError, HashedWords
from hsa_pyg.data import NestedSignal, Schema
from hsa_pyg.datasets.splits import TRAIN_VAL_TEST, hash_split

#: So many give every part at least one text of a class.
LEAST = 10


@dataclass(frozen=True)
class OwnTexts:
    """Texts with a class each, from a file or a folder.

    Args:
        path: Where they lie.
        texts: The texts.
        labels: The class of each.
        sources: Where in ``path`` each stands.
        classes: Names of the classes, sorted.
    """

    path: Path
    texts: Sequence[str]
    labels: Sequence[str]
    sources: Sequence[str]
    classes: Sequence[str]

    @cached_property
    def tokenizer(self) -> HashedWords:
        """The converter's own, which needs no vocabulary."""
        return HashedWords()

    @property
    def schema(self) -> Schema:
        """That of the signals."""
        return self._converter(None).schema()

    @cached_property
    def digest(self) -> str:
        """A hash of texts and labels in their order."""
        found = hashlib.sha256()
        for label, text in zip(self.labels, self.texts, strict=True):
            found.update(json.dumps([label, text]).encode())
        return found.hexdigest()

    @cached_property
    def parts(self) -> Mapping[str, str]:
        """The part of each text: 80/10/10 of every class, by a hash of the text.

        Texts that differ in white space or capitals alone are one, so that no text that
        is tested on was trained on.
        """
        return hash_split(_class_of_each_text(self.texts, self.labels), TRAIN_VAL_TEST)

    def convert(self, max_tokens: int | None = None) -> dict[str, list[NestedSignal]]:
        """The signals of ``"train"``, ``"val"`` and ``"test"``.

        ``signal.source`` is the place of the text.

        Args:
            max_tokens: Tokens after which a text is cut.

        Raises:
            SettingsError: If texts have no token, or are no text.

        Warns:
            UserWarning: If texts of validation or test are cut to what a training text
                is cut to.
        """
        convert = self._converter(max_tokens)
        numbers = {name: number for number, name in enumerate(self.classes)}
        signals: dict[str, list[NestedSignal]] = {part: [] for part in TRAIN_VAL_TEST}
        empty = []
        rows = list(zip(self.texts, self.labels, self.sources, strict=True))
        for text, label, source in tqdm(rows, desc="Converting", disable=None):
            try:
                signal = convert.text(text, source, y=numbers[label])
            except EmptyDocumentError:
                empty.append(source)
                continue
            except ValueError as error:
                raise SettingsError(f"{self.path.as_posix()!r}: {error}") from error
            signals[self.parts[_key(text)]].append(signal)
        if empty:
            raise SettingsError(
                f"{len(empty)} of {len(rows)} texts in {self.path.as_posix()!r} are "
                f"empty: {some_labels(empty)}. Give them words, or remove them."
            )
        if max_tokens is not None:
            self._tell_of_equals(signals, max_tokens)
        return signals

    def _tell_of_equals(
        self, signals: Mapping[str, Sequence[NestedSignal]], max_tokens: int
    ) -> None:
        def tokens(part: str) -> list[bytes]:
            return [one["token"].x.numpy().tobytes() for one in signals[part]]

        trained = set(tokens("train"))
        equal = sum(one in trained for part in ("val", "test") for one in tokens(part))
        if equal:
            warnings.warn(
                f"{equal} validation and test texts in {self.path.as_posix()!r} begin "
                f"with the {max_tokens} tokens to which a training text is cut, and "
                "were in part trained on: a larger --max-tokens tells them apart.",
                stacklevel=3,
            )

    def _converter(self, max_tokens: int | None) -> DocumentConverter:
        return DocumentConverter(
            self.tokenizer, max_tokens=max_tokens, images=False, keep_text=False
        )


def read_own_texts(path: Path, text_column: str, label_column: str) -> OwnTexts:
    """Read texts to train on.

    Args:
        path: A file or folder as
            :func:`~hsa_pyg.cli.labelled_texts.read_labelled_texts` takes it.
        text_column: Name of the column or field of the texts.
        label_column: Name of that of the labels.

    Raises:
        SettingsError: If they cannot be read, have no labels, one class only, a text
            with two labels or a class with fewer than ten different texts.
    """
    found = read_labelled_texts(path, text_column, label_column)
    where = repr(path.as_posix())
    if found.labels is None:
        raise SettingsError(
            f"{where} has no labels under the name {label_column!r}, which training "
            "learns from: add them, or correct --label-column."
        )
    classes = sorted(set(found.labels))
    if len(classes) < 2:
        raise SettingsError(
            f"All {len(found)} texts in {where} have the label {classes[0]!r}: there "
            "is nothing to tell apart; training needs two labels or more."
        )
    _check_one_label(found, found.labels, where)
    counts = Counter(_class_of_each_text(found.texts, found.labels).values())
    few = [f"{name} ({counts[name]})" for name in classes if counts[name] < LEAST]
    if few:
        raise SettingsError(
            f"{len(few)} of {len(classes)} classes in {where} have fewer than {LEAST} "
            f"different texts: {some_labels(few)}. Training, validation and test need "
            "some of each: add texts, or join such classes or leave them out."
        )
    return OwnTexts(path, found.texts, found.labels, found.sources, classes)


def _class_of_each_text(texts: Sequence[str], labels: Sequence[str]) -> dict[str, str]:
    """Different texts, with their labels."""
    return dict(zip(map(_key, texts), labels, strict=True))


def _check_one_label(found: LabelledTexts, labels: Sequence[str], where: str) -> None:
    first: dict[str, int] = {}
    several = []
    for place, (text, label) in enumerate(zip(found.texts, labels, strict=True)):
        before = first.setdefault(_key(text), place)
        # Texts without a word are told of when they are converted.
        if labels[before] != label and _key(text):
            one, other = found.sources[before], found.sources[place]
            several.append(f"{one} ({labels[before]}) and {other} ({label})")
    if several:
        raise SettingsError(
            f"Texts in {where} stand there again under another label, {len(several)} "
            f"in all: {some_labels(several)}. Leave one label to each text."
        )


def _key(text: str) -> str:
    """What two texts have in common that are the same words to a model."""
    return " ".join(text.casefold().split())
