"""Tasks of documents: movie reviews, IMDB, Elec."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from hsa_pyg.cli import SettingsError
from hsa_pyg.converters import train_word_tokenizer
from hsa_pyg.data import NestedSignal, Schema
from hsa_pyg.datasets import IMDB, Elec, MovieReviews
from hsa_pyg.datasets.stored_whole import write_whole
from hsa_pyg.datasets.text_dataset import RawTexts, TextDataset
from hsa_pyg.experiments.learning.features import (
    LeafVectors,
    encoder_folder,
    pretrained_tokenizer,
    token_table,
    word_vectors,
)
from hsa_pyg.experiments.learning.nesting import renest
from hsa_pyg.experiments.learning.settings import LearningSettings
from hsa_pyg.experiments.learning.task import Task, drawn

#: Makes the data set of a split, or of all documents, with a tokenizer or without.
Make = Callable[[str | None, Any], TextDataset]
Parts = tuple[TextDataset, TextDataset, TextDataset]
_SPLITS = ("train", "val", "test")
#: Vocabularies of fixed vectors hold every word: none of their vectors is trained.
_ALL_WORDS = 1_000_000
_TOKEN = "token"


def movie_reviews(settings: LearningSettings, data: Path, cache: Path) -> Task:
    """The movie reviews, in a fixed split or by folds."""

    def make(split: str | None, tokenizer: Any) -> TextDataset:
        return _dataset(MovieReviews, cache, settings, split, tokenizer)

    return documents(settings, make, cache)


def imdb(settings: LearningSettings, data: Path, cache: Path) -> Task:
    """The reviews of IMDB, from an archive or a folder in ``data/imdb``."""
    folder = data / "imdb"
    archives = sorted(folder.glob("*.tar*"))
    if (folder / "train").is_dir():
        source = {"raw_dir": folder}
    elif archives:
        source = {"raw_archive": archives[0]}
    else:
        raise _absent(folder, "the archive of the reviews, or its folder 'train'")

    def make(split: str | None, tokenizer: Any) -> TextDataset:
        return _dataset(IMDB, cache, settings, split, tokenizer, **source)

    return documents(settings, make, cache)


def elec(settings: LearningSettings, data: Path, cache: Path) -> Task:
    """The reviews of electronics, from the files in ``data/elec``."""
    folder = data / "elec"
    archive = folder / "elec2.tar.gz"
    if archive.is_file():
        source = {"raw_archive": archive}
    elif folder.is_dir():
        source = {"raw_dir": folder}
    else:
        raise _absent(folder, "elec2.tar.gz, or its files")

    def make(split: str | None, tokenizer: Any) -> TextDataset:
        return _dataset(Elec, cache, settings, split, tokenizer, **source)

    return documents(settings, make, cache)


def documents(settings: LearningSettings, make: Make, cache: Path) -> Task:
    """The task of a data set of documents.

    Args:
        settings: Complete ones.
        make: Makes its parts.
        cache: Folder of data, vocabularies and vectors.
    """
    # Beside the data: who deletes these deletes what was counted on them.
    folder = _root(cache, settings) / "vocabularies"
    vectors, tokenizer, tuned = LeafVectors(), None, bool(settings.tune_vectors)
    if settings.features == "glove":
        tokenizer = _kept(folder / f"{settings.task}-all.json", lambda: _all(make))
        vectors = word_vectors(
            settings.vectors, _TOKEN, tokenizer.get_vocab(), trainable=tuned
        )
    elif settings.features == "minilm-tokens":
        encoder = encoder_folder(settings.vectors)
        tokenizer = pretrained_tokenizer(encoder)
        vectors = token_table(encoder, _TOKEN, trainable=tuned)
    elif settings.fold is not None or settings.train_size:
        name = settings.task
        name += "" if settings.fold is None else f"-fold{settings.fold}"
        name += f"-train{settings.train_size}" if settings.train_size else ""
        tokenizer = _kept(folder / f"{name}.json", lambda: _trained_on(settings, make))
    whole = _split(settings, make, tokenizer)
    sizes = (settings.train_size, settings.val_size, settings.test_size)
    parts = [
        part[drawn(len(part), size, name)]
        for part, size, name in zip(whole, sizes, _SPLITS, strict=True)
    ]
    signals, schema = _leaves(settings, parts, cache)
    facts = {
        **{name: len(part) for name, part in zip(_SPLITS, parts, strict=True)},
        "vocabulary": whole[0].vocab_size,
        "left_out": {
            name: part.report for name, part in zip(_SPLITS, whole, strict=True)
        },
        **vectors.facts,
    }
    learned = schema.leaf_types == [_TOKEN] and vectors.encoder is None
    train, val, test = signals
    return Task(
        train,
        val,
        test,
        schema=schema,
        vocab_sizes={_TOKEN: whole[0].vocab_size} if learned else {},
        outputs=whole[0].num_classes,
        domains=dict.fromkeys(schema.internal_types, "sequence"),
        encoder=vectors.encoder,
        texts=lambda: _raw(parts),
        facts=facts,
    )


@dataclass(frozen=True)
class _Folds:
    """Places of the parts of a data set."""

    parts: tuple[Sequence[int], Sequence[int], Sequence[int]]

    @classmethod
    def of(cls, whole: TextDataset, fold: int) -> _Folds:
        folds = whole.folds.tolist()
        val = (fold + 1) % 10
        return cls(
            (
                [i for i, one in enumerate(folds) if one not in (fold, val)],
                [i for i, one in enumerate(folds) if one == val],
                [i for i, one in enumerate(folds) if one == fold],
            )
        )


def _split(settings: LearningSettings, make: Make, tokenizer: Any) -> Parts:
    if settings.fold is None:
        train, val, test = (make(split, tokenizer) for split in _SPLITS)
        return train, val, test
    whole = make(None, tokenizer)
    train, val, test = (whole[i] for i in _Folds.of(whole, settings.fold).parts)
    return train, val, test


def _dataset(
    cls: type[TextDataset],
    cache: Path,
    settings: LearningSettings,
    split: Any,
    tokenizer: Any,
    **source: Any,
) -> TextDataset:
    try:
        return cls(
            _root(cache, settings),
            split,
            tokenizer=tokenizer,
            max_tokens=settings.max_tokens or None,
            log=False,
            **source,
        )
    except (FileNotFoundError, ValueError) as error:
        raise SettingsError(f"{settings.task}: {error}") from error


def _root(cache: Path, settings: LearningSettings) -> Path:
    return cache / settings.task.replace("-", "_")


def _all(make: Make) -> Iterable[str]:
    """All texts: fixed vectors need no label, and none of them is trained."""
    return chain.from_iterable(make(split, None).raw_texts().texts for split in _SPLITS)


def _trained_on(settings: LearningSettings, make: Make) -> Iterable[str]:
    """The texts that are trained on, which alone may make a learned vocabulary."""
    if settings.fold is None:
        train = make("train", None)
    else:
        whole = make(None, None)
        train = whole[_Folds.of(whole, settings.fold).parts[0]]
    chosen = drawn(len(train), settings.train_size, "train")
    return train[chosen].raw_texts().texts


def _kept(path: Path, texts: Callable[[], Iterable[str]]) -> Any:
    """A tokenizer of the words of texts, counted once."""
    from tokenizers import Tokenizer

    if path.exists():
        return Tokenizer.from_file(str(path))
    if path.stem.endswith("-all"):
        tokenizer = train_word_tokenizer(
            texts(), vocab_size=_ALL_WORDS, min_frequency=1
        )
    else:
        tokenizer = train_word_tokenizer(texts())
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, tokenizer.to_str())
    return tokenizer


def _leaves(
    settings: LearningSettings, parts: Sequence[TextDataset], cache: Path
) -> tuple[list[Sequence[NestedSignal]], Schema]:
    """The signals of each part with the leaves and the tree that are asked for."""
    signals: list[Any] = list(parts)
    schema = parts[0][0].schema
    if settings.features == "minilm-sentences":
        from hsa_pyg.integrations.transformers import SentenceFeatures, TextVectors

        vectors = TextVectors.from_pretrained(
            encoder_folder(settings.vectors), cache / "vectors", log=False
        )
        signals = [SentenceFeatures(vectors).signals(part) for part in parts]
        schema = signals[0][0].schema
    found = [renest(part, schema, settings) for part in signals]
    return [part for part, _ in found], found[0][1]


def _raw(parts: Sequence[TextDataset]) -> tuple[RawTexts, RawTexts, RawTexts]:
    train, val, test = (part.raw_texts() for part in parts)
    return train, val, test


def _absent(folder: Path, what: str) -> SettingsError:
    return SettingsError(
        f"{what[0].upper()}{what[1:]} should be in {folder.as_posix()!r}: put it "
        "there, or set HSA_PYG_DATA to the folder of the raw data."
    )
