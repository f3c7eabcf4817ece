"""Emoji: a small picture and its names."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hsa_pyg.converters.raster import need_pillow
from hsa_pyg.datasets.item_dataset import Item, ItemDataset
from hsa_pyg.datasets.raw_files import check_same_files, copy_whole
from hsa_pyg.datasets.shipped import shipped_file
from hsa_pyg.datasets.splits import TRAIN_VAL_TEST, hash_split

FILES = ("emoji.json", "sheet_32.png")
SOURCE = (
    "the files emoji.json and img/twitter/sheets/32.png (as sheet_32.png) of "
    "emoji-datasource-twitter 16.0.0, https://github.com/iamcal/emoji-data"
)

# A cell of the sheet is 32 pixels wide and has a border of one pixel on each side.
_SIDE = 32
_PITCH = 34


class EmojiMultimodal(ItemDataset):
    r"""1,911 emoji, each a picture of 32 x 32 pixels with its names.

    From emoji-data by C. Henderson (https://github.com/iamcal/emoji-data, MIT), with
    the pictures of Twemoji (CC BY 4.0). Names, categories and subcategories are those
    of Unicode.

    The parts of an item (see :class:`~hsa_pyg.datasets.ItemDataset`) are ``image``,
    ``name`` (``"grinning face"``) and ``short_names``, a phrase each
    (``"star-struck"``); ``source`` is its code points (``"1F600"``). ``y`` is the
    category (10: ``"Smileys & Emotion"``, ``"Flags"``, ...) or the subcategory (99:
    ``"face-smiling"``, ``"country-flag"``, ...), in alphabetical order.

    **Words that tell the class.** A word of its category's name stands in the names of
    304 of the 1,911 emoji (16%), 270 of which are all the flags; a word of its
    subcategory's name in those of 601 (31%). Such words are taken out of the names of
    all emoji, so that their absence tells nothing either.

    **Splits.** 80/10/10 within each subcategory, in the order of a hash of the code
    points: 1,533, 180 and 198 emoji, the same for both targets. Every subcategory is in
    the training split; the smallest ones are in no other. A man and a woman who do the
    same are emoji of their own, as are those that face right: 23 of the 198 have such a
    one in the training split.

    Args:
        root: Folder for raw and processed data.
        split: ``"train"``, ``"val"`` or ``"test"``; None gives all emoji.
        target: ``"category"`` or ``"subcategory"``.
        parts: Some of ``"image"``, ``"name"`` and ``"short_names"``.
        skin_tones: Also give the emoji in other skin tones, 1,875 more items, in the
            split of the one that they vary.
        raw_dir: Folder of the files ``emoji.json`` and ``sheet_32.png``, which are
            copied. Without it, those in ``root/raw`` are used, or those that come with
            this package.
        **kwargs: As for :class:`~hsa_pyg.datasets.ItemDataset`; ``channels`` is 4
            here, red, green, blue and alpha.

    Raises:
        ValueError: If ``target`` is not known or a raw file is broken.
        FileNotFoundError: If there is no raw data.

    Shapes:
        - ``patch.x``: ``[num_patches, channels * patch * patch]`` float in 0 to 1
        - ``token.x``: ``[num_tokens]`` long, ids below :attr:`vocab_size`
        - ``y``: ``[1]`` long
    """

    part_names = ("image", "name", "short_names")
    phrase_names = ("short_names",)

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: Literal["train", "val", "test"] | None = None,
        *,
        target: Literal["category", "subcategory"] = "category",
        parts: Sequence[str] = ("image", "name", "short_names"),
        skin_tones: bool = False,
        raw_dir: str | os.PathLike[str] | None = None,
        channels: Literal[1, 3, 4] = 4,
        **kwargs: Any,
    ) -> None:
        if target not in ("category", "subcategory"):
            raise ValueError(
                f"target={target!r} is not known: use 'category' or 'subcategory'."
            )
        self.target = target
        self.skin_tones = skin_tones
        self.raw_folder = None if raw_dir is None else Path(raw_dir)
        if self.raw_folder is not None:
            check_same_files(self.raw_folder, Path(root) / "raw", FILES)
        super().__init__(root, split, parts=parts, channels=channels, **kwargs)

    @cached_property
    def classes(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the classes."""
        return tuple(sorted({emoji[self.target] for emoji in self._emoji()}))

    @property
    def variant(self) -> str:
        """The settings of the items, for the names of the processed files."""
        tones = "_tones" if self.skin_tones else ""
        return f"{self.target}{tones}_{super().variant}"

    @property
    def raw_file_names(self) -> list[str]:
        """Names and sheet of pictures."""
        return list(FILES)

    def download(self) -> None:
        """Copy the files into ``raw_dir``; nothing is fetched from a network."""
        if self.raw_folder is None:
            remedy = f"Put it into {self.raw_dir!r} or pass raw_dir=: {SOURCE}."
            found = [shipped_file("emoji", name, remedy) for name in FILES]
        else:
            found = [self.raw_folder / name for name in FILES]
        for path in found:
            if not path.is_file():
                raise FileNotFoundError(
                    f"There is no file {path.as_posix()!r}: raw_dir= should hold "
                    f"{SOURCE}."
                )
        for path in found:
            copy_whole(path, Path(self.raw_dir) / path.name)

    def items(self) -> list[Item]:
        """Read the emoji, in the order of the file."""
        emoji = self._emoji()
        classes = self.classes
        parts = hash_split(
            {one["unified"]: one["subcategory"] for one in emoji}, TRAIN_VAL_TEST
        )
        sheet = self._sheet()
        items = []
        for one in emoji:
            texts = {
                "name": one["name"] or "",
                "short_names": "\n".join(one["short_names"]),
            }
            tones = one.get("skin_variations", {}) if self.skin_tones else {}
            for shown in (one, *tones.values()):
                cell = _cell(sheet, shown["sheet_x"], shown["sheet_y"])
                has_picture = shown.get("has_img_twitter", True) and cell is not None
                items.append(
                    Item(
                        shown["unified"],
                        "",
                        classes.index(one[self.target]),
                        parts[one["unified"]],
                        texts=texts,
                        picture=partial(np.asarray, cell) if has_picture else None,
                    )
                )
        return items

    def _emoji(self) -> list[dict[str, Any]]:
        path = Path(self.raw_paths[0])
        try:
            emoji = json.loads(path.read_text(encoding="utf-8"))
            for one in emoji:
                _check_fields(one)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{path.as_posix()!r} is not a list of emoji, or a part of one "
                f"({type(error).__name__}: {error}). It should be {SOURCE}."
            ) from error
        return emoji

    def _sheet(self) -> np.ndarray:
        need_pillow()
        from PIL import Image

        path = Path(self.raw_paths[1])
        try:
            with Image.open(path) as image:
                return np.asarray(image.convert("RGBA"))
        except (OSError, SyntaxError, ValueError) as error:
            raise ValueError(
                f"{path.as_posix()!r} is no picture, or a part of one ({error}). It "
                f"should be {SOURCE}."
            ) from error


def _check_fields(emoji: dict[str, Any]) -> None:
    """Raise an error unless an entry of the file has what an item needs."""
    texts = [emoji[key] for key in ("unified", "category", "subcategory")]
    texts += [emoji["name"] or "", *emoji["short_names"]]
    for shown in (emoji, *emoji.get("skin_variations", {}).values()):
        texts.append(shown["unified"])
        for key in ("sheet_x", "sheet_y"):
            if not isinstance(shown[key], int) or shown[key] < 0:
                raise ValueError(f"{key!r} of {shown['unified']!r} is {shown[key]!r}")
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"{text!r} of {emoji['unified']!r} is no text")


def _cell(sheet: np.ndarray, column: int, row: int) -> np.ndarray | None:
    """A picture on the sheet; None if the sheet ends before it."""
    top, left = row * _PITCH + 1, column * _PITCH + 1
    cell = sheet[top : top + _SIDE, left : left + _SIDE]
    return cell if cell.shape[:2] == (_SIDE, _SIDE) else None
