"""The task sst: sentences as parse trees, with a label on every phrase."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from hsa_pyg.cli import SettingsError
from hsa_pyg.converters.tokenization import PAD_TOKEN, UNKNOWN_TOKEN
from hsa_pyg.data import NestedSignal
from hsa_pyg.datasets import SSTTrees
from hsa_pyg.datasets.text_dataset import RawTexts
from hsa_pyg.experiments.learning.features import (
    LeafVectors,
    contextual_words,
    encoder_folder,
    word_vectors,
)
from hsa_pyg.experiments.learning.nesting import renest
from hsa_pyg.experiments.learning.settings import LearningSettings
from hsa_pyg.experiments.learning.task import Task, drawn

_SPLITS = ("train", "val", "test")


def sst(settings: LearningSettings, data: Path, cache: Path) -> Task:
    """The Stanford Sentiment Treebank, from its files in ``data/sst_trees``."""
    folder = data / "sst_trees"
    if not folder.is_dir():
        raise SettingsError(
            f"train.txt, dev.txt and test.txt (or .txt.gz) should be in "
            f"{folder.as_posix()!r}: put them there, or set HSA_PYG_DATA to the folder "
            "of the raw data."
        )
    whole = [
        SSTTrees(
            cache / "sst",
            split,  # type: ignore[arg-type]
            binary=bool(settings.binary),
            phrases=split == "train" and bool(settings.each_phrase),
            raw_folder=folder,
            log=False,
        )
        for split in _SPLITS
    ]
    sizes = (settings.train_size, settings.val_size, settings.test_size)
    parts: list[Sequence[NestedSignal]] = [
        [part[i] for i in drawn(len(part), size, name)]
        for part, size, name in zip(whole, sizes, _SPLITS, strict=True)
    ]
    texts = [_texts(part) for part in parts]
    vocab_size, vectors = whole[0].vocab_size, LeafVectors()
    if settings.features == "glove":
        words = _all_words(whole)
        vectors = word_vectors(
            settings.vectors, "word", words, trainable=bool(settings.tune_vectors)
        )
        vocab_size = _renumber(parts, words)
    elif settings.features == "minilm-words":
        _contextualise(parts, encoder_folder(settings.vectors), cache / "words")
    elif settings.train_size:
        # The data set's own vocabulary is that of all training sentences.
        vocab_size = _renumber(parts, _all_words(parts[:1]))
    schema = parts[0][0].schema
    found = [renest(part, schema, settings) for part in parts]
    schema = found[0][1]
    train, val, test = (part for part, _ in found)
    learned = settings.features == "learned"
    return Task(
        train,
        val,
        test,
        schema=schema,
        vocab_sizes={"word": vocab_size} if learned else {},
        outputs=whole[0].num_classes,
        domains=dict.fromkeys(schema.internal_types, "sequence"),
        encoder=vectors.encoder,
        texts=lambda: (texts[0], texts[1], texts[2]),
        facts={
            **{name: len(part) for name, part in zip(_SPLITS, parts, strict=True)},
            "vocabulary": vocab_size,
            "left_out": {
                name: part.report for name, part in zip(_SPLITS, whole, strict=True)
            },
            **vectors.facts,
        },
    )


def _texts(part: Sequence[NestedSignal]) -> RawTexts:
    return RawTexts(
        [" ".join(signal["word"].text) for signal in part],
        torch.cat([signal.y for signal in part]),
    )


def _all_words(parts: Sequence[Sequence[NestedSignal]]) -> dict[str, int]:
    """An id for every word: of fixed vectors, of which none is trained, or of those
    that are trained on."""
    words = {PAD_TOKEN: 0, UNKNOWN_TOKEN: 1}
    for part in parts:
        for signal in part:
            for word in signal["word"].text:
                words.setdefault(word.lower(), len(words))
    return words


def _contextualise(
    parts: Sequence[Sequence[NestedSignal]], encoder: Path, cache: Path
) -> None:
    """Give the words an encoder's states of them instead of ids."""
    signals = [signal for part in parts for signal in part]
    sentences = [signal["word"].text for signal in signals]
    states = contextual_words(encoder, sentences, cache)
    for signal, x in zip(signals, states, strict=True):
        signal["word"].x = x.float()


def _renumber(parts: Sequence[Sequence[NestedSignal]], words: dict[str, int]) -> int:
    """Give the words these ids, unknown ones that of their own; how many there are."""
    unknown = words[UNKNOWN_TOKEN]
    for part in parts:
        for signal in part:
            ids = [words.get(word.lower(), unknown) for word in signal["word"].text]
            signal["word"].x = torch.tensor(ids)
    return len(words)
