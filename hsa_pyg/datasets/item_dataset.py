"""What data sets of items share: a picture and some words each."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from hsa_pyg.converters import BadImageError
from hsa_pyg.data import NestedSignal
from hsa_pyg.datasets.class_words import class_words, strip_words
from hsa_pyg.datasets.item_converter import ItemConverter, part_texts
from hsa_pyg.datasets.text_dataset import LabelledText, TextDataset

IMAGE = "image"


@dataclass(frozen=True)
class Item(LabelledText):
    """An item of a data set; its ``text`` is that of all its parts, one below another.

    Args:
        texts: Its texts by the names of their parts.
        picture: Gives the picture: the bytes of a file, or an array.
    """

    texts: Mapping[str, str] = field(default_factory=dict)
    picture: Callable[[], Any] | None = None


class ItemDataset(TextDataset):
    r"""Base class of data sets whose items have a picture and some words.

    Each item is a signal: below the root ``item``, which is a record, lie an ``image``
    > ``quadrant`` > ... > ``patch`` and one ``document`` > ``paragraph`` >
    ``sentence`` > ``token`` for each of its texts. In ``key`` the children of the root
    have the place of their name in ``part_names``. A text that is a list of phrases
    has a ``sentence`` for each phrase.

    Pixels are stored in 256 steps, a byte each; signals have them as floats in 0 to 1.

    A data set says what its ``part_names`` and ``classes`` are and gives its items.

    Args:
        root: Folder for raw and processed data.
        split: ``"train"``, ``"val"`` or ``"test"``; None gives all items.
        parts: The parts to keep, some of ``part_names``.
        strip_class_words: Take the words that name classes out of all texts.
        patch: Side of a patch in pixels.
        tree: How patches are nested: ``"quadtree"`` or ``"grid"``.
        channels: 1 (grey), 3 (RGB), or 4 (RGB and alpha).
        max_size: Scale pictures down to a longer side of at most so many pixels.
        max_tokens: Keep the first so many tokens of each text.
        keep_text: Keep the texts in the signals, for :meth:`texts`.
        **kwargs: As for :class:`~hsa_pyg.datasets.TextDataset`.

    Raises:
        ValueError: If a part is not known, or none is given.

    Shapes:
        - ``patch.x``: ``[num_patches, channels * patch * patch]`` float in 0 to 1
        - ``token.x``: ``[num_tokens]`` long, ids below :attr:`vocab_size`
        - ``y``: ``[1]`` long
    """

    part_names: tuple[str, ...] = (IMAGE,)
    phrase_names: tuple[str, ...] = ()
    unit = "items"
    empty = "items without any part"

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: Literal["train", "val", "test"] | None = None,
        *,
        parts: Sequence[str],
        strip_class_words: bool = True,
        patch: int = 8,
        tree: Literal["grid", "quadtree"] = "quadtree",
        channels: Literal[1, 3, 4] = 3,
        max_size: int | None = 64,
        keep_text: bool = True,
        **kwargs: Any,
    ) -> None:
        self.parts = check_parts(parts, self.part_names)
        self.strip_class_words = strip_class_words
        self.patch = patch
        self.tree: Literal["grid", "quadtree"] = tree
        self.channels: Literal[1, 3, 4] = channels
        self.max_size = max_size
        super().__init__(root, split, keep_text=keep_text, **kwargs)

    @property
    def variant(self) -> str:
        """The settings of the items, for the names of the processed files."""
        key = "-".join(self.parts)
        key += "_stripped" if self.strip_class_words else ""
        if IMAGE in self.parts:
            key += f"_{self.tree}{self.patch}x{self.channels}_max{self.max_size}"
        return key

    def documents(self) -> list[Item]:
        """Read the items, with the texts of the parts that are kept."""
        words = class_words(self.classes) if self.strip_class_words else frozenset()
        documents = []
        self._stripped = 0
        for item in self.items():
            whole = {
                name: item.texts.get(name, "") for name in self.parts if name != IMAGE
            }
            texts = {name: strip_words(text, words) for name, text in whole.items()}
            if self.split in (None, item.split):
                self._stripped += whole != texts
            documents.append(
                Item(
                    item.name,
                    "\n".join(filter(None, texts.values())),
                    item.label,
                    item.split,
                    item.attributes,
                    texts,
                    item.picture if IMAGE in self.parts else None,
                )
            )
        return documents

    def items(self) -> Sequence[Item]:
        """Read all items from the raw files, in the order of the data set."""
        raise NotImplementedError

    def _left_out(self) -> Mapping[str, int]:
        return {"items that lost words which name a class": self._stripped}

    def _converter(
        self, tokenizer: Any, report: Counter[str]
    ) -> Callable[[Item], NestedSignal]:
        converter = ItemConverter(
            tokenizer,
            self.part_names,
            phrases=self.phrase_names,
            patch=self.patch,
            tree=self.tree,
            channels=self.channels,
            max_size=self.max_size,
            max_tokens=self.max_tokens,
            keep_text=self.keep_text,
        )

        def convert(item: Item) -> NestedSignal:
            found = {
                name: converter.text(text, name) for name, text in item.texts.items()
            }
            for name, part in found.items():
                report[f"items without {name}"] += part is None
            if IMAGE in self.parts:
                report["items without image"] += item.picture is None
            if item.picture is not None:
                try:
                    found[IMAGE] = converter.picture(item.picture())
                except BadImageError:
                    report["pictures that are broken or too large"] += 1
            signal = converter.item(found, item.name, item.label)
            x = signal["patch"].x
            signal["patch"].x = x.mul(255).round_().to(torch.uint8)
            return signal

        return convert

    def get(self, idx: int) -> NestedSignal:
        """The signal of an item, its pixels as floats."""
        signal = super().get(idx)
        x = signal["patch"].x
        if x.dtype == torch.uint8:
            signal["patch"].x = x.to(torch.float32).div_(255)
        return signal

    def texts(self, index: int) -> dict[str, str]:
        """The texts of an item by their parts; the spans of each count in its own.

        Args:
            index: Place of the item in this data set.

        Raises:
            ValueError: If the texts were not kept.
        """
        if not self.keep_text:
            raise ValueError(
                "The texts were not kept with the signals: pass keep_text=True."
            )
        return part_texts(self.get(self.indices()[index]), self.part_names)

    def text(self, index: int) -> str:
        """All texts of an item, one below another, without what was not tokenized."""
        return "\n".join(self.texts(index).values())


def check_parts(parts: Sequence[str], known: tuple[str, ...]) -> tuple[str, ...]:
    """Return the parts in the order of ``known``.

    Raises:
        ValueError: If there is none, or one is not known.
    """
    if isinstance(parts, str):
        parts = (parts,)
    for name in parts:
        if name not in known:
            raise ValueError(f"parts: {name!r} is not known; they are {list(known)}.")
    if not parts:
        raise ValueError(f"parts is empty: give some of {list(known)}.")
    return tuple(name for name in known if name in parts)
