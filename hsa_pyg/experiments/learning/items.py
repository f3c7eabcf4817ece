"""Items: a picture and some words, one alone or both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from hsa_pyg.cli import SettingsError
from hsa_pyg.datasets import EmojiMultimodal, ItemDataset, N24News, OpenClipart
from hsa_pyg.datasets.item_dataset import IMAGE
from hsa_pyg.datasets.text_dataset import RawTexts
from hsa_pyg.experiments.learning.settings import LearningSettings
from hsa_pyg.experiments.learning.task import Task
from hsa_pyg.nn import KeyValuePosition

_SPLITS = ("train", "val", "test")
# Text and picture of an item are told apart by their leaves alone, so their places
# below it say nothing.
_DOMAINS = {
    "item": "set",
    **dict.fromkeys(("document", "paragraph", "sentence"), "sequence"),
    **dict.fromkeys(("image", "quadrant"), "grid"),
}


def emoji(settings: LearningSettings, data: Path, cache: Path) -> Task:
    """1,911 emoji: their category (10) or subcategory (99), by picture and names."""

    target: Any = settings.target

    def make(split: Any, parts: Sequence[str]) -> ItemDataset:
        return EmojiMultimodal(
            cache / "emoji", split, target=target, parts=parts, log=False
        )

    return _task(settings, make, EmojiMultimodal.part_names)


def clip_art(settings: LearningSettings, data: Path, cache: Path) -> Task:
    """Drawings of the Open Clip Art Library in 22 classes, by picture and words."""
    folder = data / "openclipart"
    lacking = [name for name in ("png", "svg") if not (folder / name).is_dir()]
    if lacking:
        raise SettingsError(
            f"There is no folder {folder / lacking[0]}: unpack Debian's packages "
            "openclipart-png and openclipart-svg, and put their folder "
            "usr/share/openclipart there."
        )

    def make(split: Any, parts: Sequence[str]) -> ItemDataset:
        return OpenClipart(
            cache / "openclipart", split, raw_dir=folder, parts=parts, log=False
        )

    return _task(settings, make, OpenClipart.part_names)


def n24news(settings: LearningSettings, data: Path, cache: Path) -> Task:
    """News in 24 sections: headline, abstract, body, and a picture with its caption.

    Its texts are headline, abstract and body, as the paper gives them to flat attention
    ("Hierarchical Self-Attention", section 4.2); the caption comes with the picture.
    """
    folder = data / "n24news"
    if not folder.is_dir():
        raise SettingsError(
            f"There is no folder {folder}: put the JSON files and the pictures of "
            "https://github.com/billywzh717/N24News there."
        )

    def make(split: Any, parts: Sequence[str]) -> N24News:
        return N24News(
            cache / "n24news",
            split,
            raw_dir=folder,
            parts=parts,
            max_tokens=settings.max_tokens or None,
            log=False,
        )

    # Texts are told apart by their places in the record.
    keys = partial(KeyValuePosition, len(N24News.part_names))
    domains = {**_DOMAINS, "item": keys, "figure": keys}
    names = ("headline", "abstract", "body", IMAGE, "caption")
    return _task(settings, make, names, words=names[:3], domains=domains)


def _task(
    settings: LearningSettings,
    make: Callable[[str, Sequence[str]], ItemDataset | N24News],
    names: Sequence[str],
    *,
    words: Sequence[str] = (),
    domains: Mapping[str, Any] = _DOMAINS,
) -> Task:
    words = words or [name for name in names if name != IMAGE]
    parts = {"text": words, "image": [IMAGE], "both": list(names)}[
        settings.parts or "both"
    ]
    try:
        train, val, test = (make(split, parts) for split in _SPLITS)
    except (FileNotFoundError, ValueError) as error:
        raise SettingsError(f"{settings.task}: {error}") from error
    items = dict(zip(_SPLITS, (train, val, test), strict=True))

    def texts() -> tuple[RawTexts, RawTexts, RawTexts]:
        return train.raw_texts(), val.raw_texts(), test.raw_texts()

    return Task(
        train,
        val,
        test,
        schema=train[0].schema,
        vocab_sizes={"token": train.vocab_size},
        outputs=train.num_classes,
        domains=domains,
        texts=None if parts == [IMAGE] else texts,
        facts={
            **{name: len(dataset) for name, dataset in items.items()},
            "left out": {name: dict(one.report) for name, one in items.items()},
            "vocabulary": train.vocab_size,
        },
    )
