"""Drawings of the Open Clip Art Library with their titles and keywords."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree

from hsa_pyg.datasets.item_dataset import Item, ItemDataset
from hsa_pyg.datasets.splits import TRAIN_VAL_TEST, hash_split

PACKAGES = (
    "the folder usr/share/openclipart of the Debian packages openclipart-png and "
    "openclipart-svg, with its folders png and svg"
)

_DC = "{http://purl.org/dc/elements/1.1/}"
_ITEM = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}li"


class OpenClipart(ItemDataset):
    r"""Drawings of the Open Clip Art Library 0.18 in 22 classes, with their words.

    Read from the Debian packages ``openclipart-png`` and ``openclipart-svg``, once they
    are unpacked. The drawings are in the public domain.

    The parts of an item (see :class:`~hsa_pyg.datasets.ItemDataset`) are ``image``, the
    PNG; and what the SVG of the same name says in its metadata: ``title``,
    ``description`` and ``keywords``, a phrase each. ``source`` is the path of the
    picture below ``png``; ``y`` is the topmost folder, in alphabetical order.

    **Copies.** Of the 8,121 pictures 1,221 are copies of others, most of them links and
    half of them in another class. Each picture is taken once, unless ``copies=True``:
    where it comes first in the order of paths, the folder ``unsorted`` last. Copies are
    always in the same split.

    **Words that tell the class.** The name of its class is among the keywords of 4,758
    pictures. Words of the names of classes are taken out of all texts, in singular and
    plural and any case.

    **Splits.** 80/10/10 within each class, in the order of a hash of the paths.

    Args:
        root: Folder for processed data.
        split: ``"train"``, ``"val"`` or ``"test"``; None gives all items.
        raw_dir: The unpacked folder ``usr/share/openclipart``. It is read where it is:
            nothing is copied, and it is not needed again once it is processed. Without
            it, the folders ``png`` and ``svg`` in ``root/raw`` are read.
        parts: Some of ``"image"``, ``"title"``, ``"description"``, ``"keywords"``.
        copies: Keep pictures that occur several times as often as they occur.
        **kwargs: As for :class:`~hsa_pyg.datasets.ItemDataset`.

    Raises:
        FileNotFoundError: If there is no raw data.

    Shapes:
        - ``patch.x``: ``[num_patches, channels * patch * patch]`` float in 0 to 1
        - ``token.x``: ``[num_tokens]`` long, ids below :attr:`vocab_size`
        - ``y``: ``[1]`` long
    """

    classes = (
        "animals",
        "buildings",
        "buttons",
        "computer",
        "containers",
        "decorations",
        "education",
        "electronics",
        "food",
        "geography",
        "logos",
        "office",
        "people",
        "plants",
        "recreation",
        "science",
        "shapes",
        "signs_and_symbols",
        "special",
        "tools",
        "transportation",
        "unsorted",
    )
    part_names = ("image", "title", "description", "keywords")
    phrase_names = ("keywords",)

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: Literal["train", "val", "test"] | None = None,
        *,
        raw_dir: str | os.PathLike[str] | None = None,
        parts: Sequence[str] = ("image", "title", "description", "keywords"),
        copies: bool = False,
        **kwargs: Any,
    ) -> None:
        self.raw_folder = None if raw_dir is None else Path(raw_dir)
        self.copies = copies
        self._reasons: Counter[str] = Counter()
        super().__init__(root, split, parts=parts, **kwargs)

    @property
    def variant(self) -> str:
        """The settings of the items, for the names of the processed files."""
        return super().variant + ("_copies" if self.copies else "")

    @property
    def raw_file_names(self) -> list[str]:
        """The folders of pictures and of their drawings."""
        return ["png", "svg"]

    def download(self) -> None:
        """Do nothing: the unpacked packages are read where they are."""

    def items(self) -> list[Item]:
        """Read the words of all pictures, in the order of their paths."""
        folder = self._folder()
        found = sorted(folder.glob("png/**/*.png"))
        pictures = [path for path in found if path.is_file()]
        if not pictures:
            raise FileNotFoundError(
                f"{folder.as_posix()!r} has no picture png/CLASS/*.png: it should be "
                f"{PACKAGES}."
            )
        self._reasons = Counter()
        # Links that lead to nothing, and folders.
        self._reasons["pictures that are no files"] = len(found) - len(pictures)
        groups = self._groups(folder, pictures)
        first = {group: name for name, group in reversed(groups.items())}
        kept = list(groups) if self.copies else sorted(first.values())
        self._reasons["copies of pictures"] = len(groups) - len(kept)
        labels = {group: _class(name) for group, name in first.items()}
        parts = hash_split(
            {first[group]: label for group, label in labels.items()}, TRAIN_VAL_TEST
        )
        items = []
        for name in sorted(kept):
            path = folder / "png" / name
            items.append(
                Item(
                    name,
                    "",
                    self.classes.index(_class(name)),
                    parts[first[groups[name]]],
                    texts=self._words(folder / "svg" / f"{name[: -len('.png')]}.svg"),
                    picture=path.read_bytes,
                )
            )
        return items

    def _left_out(self) -> Mapping[str, int]:
        return {**super()._left_out(), **self._reasons}

    def _folder(self) -> Path:
        folder = Path(self.raw_dir) if self.raw_folder is None else self.raw_folder
        if not (folder / "png").is_dir():
            argument = "root/raw" if self.raw_folder is None else "raw_dir"
            raise FileNotFoundError(
                f"{argument}: {folder.as_posix()!r} has no folder 'png'. Pass "
                f"raw_dir=: {PACKAGES}."
            )
        return folder

    def _groups(self, folder: Path, pictures: Sequence[Path]) -> dict[str, str]:
        """Name of each picture to a digest of its bytes, preferred places first."""
        groups = {}
        for path in pictures:
            name = path.relative_to(folder / "png").as_posix()
            if _class(name) not in self.classes:
                self._reasons["pictures in a folder of no class"] += 1
                continue
            groups[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        return dict(
            sorted(
                groups.items(), key=lambda pair: (_class(pair[0]) == "unsorted", pair)
            )
        )

    def _words(self, path: Path) -> dict[str, str]:
        """Title, description and keywords of a drawing."""
        try:
            return _metadata(path)
        except FileNotFoundError:
            self._reasons["drawings that are missing"] += 1
        except (ElementTree.ParseError, ValueError, LookupError):
            self._reasons["drawings that are broken XML"] += 1
        return {}


def _class(name: str) -> str:
    return name.partition("/")[0]


def _metadata(path: Path) -> dict[str, str]:
    """Read the first title and description, and all keywords, up to </metadata>."""
    title = description = ""
    keywords: dict[str, str] = {}
    # ElementTree loads no outside entity, and expat bounds what inner ones become.
    for _, element in ElementTree.iterparse(path):
        if element.tag.endswith("}metadata"):
            break
        if not element.tag.endswith("}Work"):
            continue
        title = title or _text(element.find(f"{_DC}title"))
        description = description or _text(element.find(f"{_DC}description"))
        for phrase in element.iterfind(f"{_DC}subject//{_ITEM}"):
            keyword = _text(phrase)
            if keyword:
                keywords.setdefault(keyword.casefold(), keyword)
    return {
        "title": title,
        "description": description,
        "keywords": "\n".join(keywords.values()),
    }


def _text(element: ElementTree.Element | None) -> str:
    """The text of an element on one line, without characters that are no text."""
    text = "" if element is None else "".join(element.itertext())
    return re.sub(r"\s+", " ", text).strip()
