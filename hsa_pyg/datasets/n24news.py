"""N24News: news with headline, abstract, body, and a picture with its caption."""

from __future__ import annotations

import html
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch
from tqdm import tqdm

from hsa_pyg.converters import BadImageError, EmptyDocumentError
from hsa_pyg.converters.formats import check_text
from hsa_pyg.datasets.item_converter import ItemConverter, part_texts
from hsa_pyg.datasets.item_dataset import IMAGE, check_parts
from hsa_pyg.datasets.json_stream import iterate_array
from hsa_pyg.datasets.raw_files import check_same_sizes, sizes_of
from hsa_pyg.datasets.signals_on_disk import SignalsOnDisk
from hsa_pyg.datasets.splits import TRAIN_VAL_TEST, hash_split
from hsa_pyg.datasets.text_dataset import RawTexts
from hsa_pyg.datasets.word_dataset import WordDataset, check_split

PARTS = ("headline", "abstract", "body", "image", "caption")
SOURCE = "https://github.com/billywzh717/N24News"

_SPLIT_FILES = {
    "train": "nytimes_train.json",
    "val": "nytimes_dev.json",
    "test": "nytimes_test.json",
}
_WHOLE_FILES = ("nytimes_dataset_full.json", "nytimes_dataset.json")
_LAYOUTS = ("imgs", "images")
# What a page says to a program that does not run its scripts.
_NO_BODY = "please enable js"


@dataclass(frozen=True)
class _Row:
    """An article: its number in its file, its split and what the file says."""

    name: str
    split: str
    fields: dict[str, Any]


class N24News(WordDataset, SignalsOnDisk):
    r"""61,218 articles of the New York Times in 24 sections, with text and picture.

    From Z. Wang et al., "N24News: A New Dataset for Multimodal News Classification",
    LREC 2022 (https://aclanthology.org/2022.lrec-1.729; data at
    https://github.com/billywzh717/N24News). The texts and pictures are the newspaper's.

    The raw data is an array of articles in JSON, with ``section``, ``headline``,
    ``abstract``, ``caption``, ``image_id`` and ``body``, and a folder of pictures,
    ``{image_id}.jpg``. If there are the files ``nytimes_train.json``,
    ``nytimes_dev.json`` and ``nytimes_test.json``, they are the splits; otherwise
    ``nytimes_dataset_full.json`` or ``nytimes_dataset.json`` is split 80/10/10 within
    each section, in the order of a hash of the picture's name. They lie in the raw
    folder itself or in a folder ``news`` in it.

    Each article is a signal. Its root ``item`` is a record of ``document`` nodes, for
    headline, abstract and body (> paragraph > sentence > token), and a ``figure``, a
    record of the ``image`` (> quadrant > ... > patch) and the ``document`` of its
    caption. ``key`` has the place of a child's name in ``part_names``. ``y`` is the
    place of the section in :attr:`classes`, in alphabetical order; ``source`` is file
    and row, such as ``"nytimes_test.json:0"``.

    **Faults of the raw data.** HTML entities are resolved. Bodies that are empty or
    only ask for JavaScript, pictures that are missing or broken, and any other absent
    part are counted in :attr:`report`; the article keeps its other parts. Articles
    without a section, or without any part, are left out and counted.

    The signals are kept in a database on disk, and one is in memory at a time: a
    picture of 128 pixels and 1,000 words take about 40 kB.

    Args:
        root: Folder for processed data, and for raw data in ``root/raw``.
        split: ``"train"``, ``"val"`` or ``"test"``; None gives all articles.
        raw_dir: Folder of the raw data, which is read where it is: nothing is copied.
            Without it, ``root/raw`` is read.
        image_layout: Folder of the pictures: ``"imgs"``, as in the published archive,
            or ``"images"``, as the authors' script makes it. ``"auto"`` looks for both.
        parts: Some of ``"headline"``, ``"abstract"``, ``"body"``, ``"caption"`` and
            ``"image"``.
        patch: Side of a patch in pixels.
        tree: How patches are nested: ``"quadtree"`` or ``"grid"``.
        channels: 1 (grey), 3 (RGB), or 4 (RGB and alpha).
        max_size: Scale pictures down to a longer side of at most so many pixels.
        tokenizer: A ``tokenizers.Tokenizer`` or a fast tokenizer of transformers.
            Without one, a vocabulary is counted on the training split.
        max_vocab_size: Size of the vocabulary, at most, unless a tokenizer is given.
        min_frequency: Words seen less often in the training split become ``[UNK]``.
        max_tokens: Keep the first so many tokens of each text.
        keep_text: Keep the texts in the signals, for :meth:`texts`.
        transform: Called on each signal at every access.
        pre_filter: Says of each signal whether to keep it.
        force_reload: Process the articles again.
        log: Show progress bars while processing.

    Raises:
        FileNotFoundError: If there is no raw data.
        ValueError: If the JSON is broken, a setting is out of its range, or ``root``
            was made of files of other sizes.

    Shapes:
        - ``patch.x``: ``[num_patches, channels * patch * patch]`` float in 0 to 1
        - ``token.x``: ``[num_tokens]`` long, ids below :attr:`vocab_size`
        - ``y``: ``[1]`` long
    """

    part_names = (*PARTS, "figure")

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: Literal["train", "val", "test"] | None = None,
        *,
        raw_dir: str | os.PathLike[str] | None = None,
        image_layout: Literal["auto", "imgs", "images"] = "auto",
        parts: Sequence[str] = PARTS,
        patch: int = 16,
        tree: Literal["grid", "quadtree"] = "quadtree",
        channels: Literal[1, 3, 4] = 3,
        max_size: int | None = 128,
        tokenizer: Any = None,
        max_vocab_size: int = 30_000,
        min_frequency: int = 2,
        max_tokens: int | None = None,
        keep_text: bool = True,
        transform: Callable | None = None,
        pre_filter: Callable | None = None,
        force_reload: bool = False,
        log: bool = True,
    ) -> None:
        check_split(split, "all articles")
        if image_layout not in ("auto", *_LAYOUTS):
            raise ValueError(
                f"image_layout={image_layout!r} is not known: use 'auto', 'imgs' or "
                "'images'."
            )
        self.split = split
        self.raw_folder = None if raw_dir is None else Path(raw_dir)
        self.image_layout = image_layout
        self.parts = check_parts(parts, PARTS)
        self._settings: dict[str, Any] = {
            "patch": patch,
            "tree": tree,
            "channels": channels,
            "max_size": max_size,
            "max_tokens": max_tokens,
            "keep_text": keep_text,
        }
        self._use_tokenizer(tokenizer, max_vocab_size, min_frequency)
        super().__init__(root, transform, pre_filter, force_reload, log)
        kept = json.loads(Path(self.processed_paths[3]).read_text(encoding="utf-8"))
        self.classes = tuple(kept["classes"])
        self._sources: list[str] = kept["sources"]
        with suppress(FileNotFoundError):  # The raw data may be away by now.
            check_same_sizes(self._files().values(), kept.get("files"), root)

    @property
    def raw_file_names(self) -> list[str]:
        """Nothing is copied: see ``raw_dir``."""
        return []

    def download(self) -> None:
        """Do nothing: the raw data is read where it is."""

    @property
    def processed_file_names(self) -> list[str]:
        """Signals, tokenizer, report, and names of classes and articles."""
        words = f"{'-'.join(self.parts)}_{self._tokenizer_key}"
        kept = "-".join(str(value) for value in self._settings.values())
        key = f"{self.split or 'whole'}_{words}_{kept}_{self.image_layout}"
        return [
            f"news_{key}.db",
            f"tokenizer_{words}.json",
            f"report_{key}.json",
            f"names_{key}.json",
        ]

    @property
    def num_classes(self) -> int:
        """Number of sections."""
        return len(self.classes)

    @property
    def sources(self) -> list[str]:
        """File and row of each article in this data set."""
        return [self._sources[index] for index in self.indices()]

    def texts(self, index: int) -> dict[str, str]:
        """The texts of an article by their parts; the spans of each count in its own.

        Raises:
            ValueError: If the texts were not kept.
        """
        if not self._settings["keep_text"]:
            raise ValueError(
                "The texts were not kept with the signals: pass keep_text=True."
            )
        return part_texts(self.get(self.indices()[index]), PARTS)

    def raw_texts(self) -> RawTexts:
        """Read the texts, the parts one below another, and labels, for baselines."""
        found: dict[str, tuple[str, int]] = {}
        wanted = set(self.sources)
        for row in self._rows():
            if row.name in wanted:
                label = self.classes.index(_section(row.fields))
                texts = (self._text(row, part) for part in self.parts if part != IMAGE)
                found[row.name] = "\n".join(filter(None, texts)), label
        chosen = [found[name] for name in self.sources]
        return RawTexts(
            [text for text, _ in chosen],
            torch.tensor([label for _, label in chosen], dtype=torch.long),
        )

    def process(self) -> None:
        """Convert the articles one by one."""
        report: Counter[str] = Counter()
        self.classes = tuple(
            sorted({_section(row.fields) for row in self._rows()} - {""})
        )
        tokenizer = self._fit_tokenizer(
            self._text(row, part)
            for row in self._rows()
            for part in self.parts
            if part != IMAGE and row.split == "train"
        )
        settings = dict(self._settings)
        converter = ItemConverter(
            tokenizer, PARTS, figure=("image", "caption"), **settings
        )
        folders = self._picture_folders()
        self._sources = []
        for row in tqdm(
            self._rows(), desc="Converting N24News", unit="row", disable=not self.log
        ):
            if self.split in (None, row.split):
                self._convert(row, converter, folders, report)
        if not self._sources:
            raise ValueError(
                f"{self._folder().as_posix()!r} has no article for split="
                f"{self.split!r} ({dict(+report)})."
            )
        self.close()
        self._keep(tokenizer, report)
        kept = {
            "classes": self.classes,
            "sources": self._sources,
            "files": sizes_of(self._files().values()),
        }
        Path(self.processed_paths[3]).write_text(json.dumps(kept), encoding="utf-8")

    def _convert(
        self,
        row: _Row,
        converter: ItemConverter,
        folders: list[Path],
        report: Counter[str],
    ) -> None:
        section = _section(row.fields)
        if not section:
            report["rows without a section"] += 1
            return
        parts: dict[str, Any] = {}
        for part in self.parts:
            if part == IMAGE:
                parts[part] = _picture(row, converter, folders, report)
            else:
                parts[part] = converter.text(self._text(row, part), part)
                report[f"rows without a usable {part}"] += parts[part] is None
        try:
            signal = converter.item(parts, row.name, self.classes.index(section))
        except EmptyDocumentError:
            report["rows without any part"] += 1
            return
        if self.pre_filter is not None and not self.pre_filter(signal):
            report["rows that pre_filter refused"] += 1
            return
        self.append(signal)
        self._sources.append(row.name)

    def _text(self, row: _Row, part: str) -> str:
        """The text of a part, without entities; empty if it says nothing."""
        text = row.fields.get(part)
        if not isinstance(text, str):
            return ""
        text = html.unescape(text).replace("\0", "")
        if part == "body" and text.strip().casefold().startswith(_NO_BODY):
            return ""
        check_text(text, row.name)
        return text

    def _folder(self) -> Path:
        return Path(self.raw_dir) if self.raw_folder is None else self.raw_folder

    def _rows(self) -> Iterator[_Row]:
        """Read the articles of all files that there are, each time anew."""
        for split, path in self._files().items():
            for number, fields in enumerate(_objects(path)):
                drawn = split or self._drawn[_group(fields, number)]
                yield _Row(f"{path.name}:{number}", drawn, fields)

    @cached_property
    def _drawn(self) -> dict[str, str]:
        """Split of each group of articles, where there is one file of all."""
        sections: dict[str, str] = {}
        for number, fields in enumerate(_objects(self._files()[""])):
            sections.setdefault(_group(fields, number), _section(fields))
        return hash_split(sections, TRAIN_VAL_TEST)

    def _files(self) -> dict[str, Path]:
        """Files by their split; "" if there is one of all articles."""
        folder = self._folder()
        places = (folder, folder / "news")
        for place in places:
            files = {part: place / name for part, name in _SPLIT_FILES.items()}
            if all(path.is_file() for path in files.values()):
                return files
        for name in _WHOLE_FILES:
            for place in places:
                if (place / name).is_file():
                    return {"": place / name}
        raise FileNotFoundError(
            f"{folder.as_posix()!r} has neither {', '.join(_SPLIT_FILES.values())} nor "
            f"{' or '.join(_WHOLE_FILES)}: put the data of {SOURCE} there, or pass "
            "raw_dir=."
        )

    def _picture_folders(self) -> list[Path]:
        if IMAGE not in self.parts:
            return []
        wanted = _LAYOUTS if self.image_layout == "auto" else (self.image_layout,)
        folders = [self._folder() / name for name in wanted]
        found = [folder for folder in folders if folder.is_dir()]
        if not found:
            raise FileNotFoundError(
                f"There is no folder of pictures "
                f"{' or '.join(repr(folder.as_posix()) for folder in folders)}: put "
                "them there, set image_layout=, or leave 'image' out of parts=."
            )
        return found


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of a file; what is no object is a row that says nothing."""
    for fields in iterate_array(path):
        yield fields if isinstance(fields, dict) else {}


def _section(fields: dict[str, Any]) -> str:
    section = fields.get("section")
    return html.unescape(section).strip() if isinstance(section, str) else ""


def _group(fields: dict[str, Any], number: int) -> str:
    """What articles of one picture share, so that they come into one split."""
    return str(fields.get("image_id") or f"row {number}")


def _picture(
    row: _Row, converter: ItemConverter, folders: list[Path], report: Counter[str]
) -> Any:
    """Convert the picture of an article; None, and counted, if it cannot be."""
    name = row.fields.get("image_id")
    # Names lead to no other folder.
    if not isinstance(name, str) or not name or Path(name).name != name:
        report["rows without a usable image_id"] += 1
        return None
    places = [folder / file for folder in folders for file in (f"{name}.jpg", name)]
    # Path.is_file() would raise an OSError for a name that is too long.
    path = next((place for place in places if os.path.isfile(place)), None)
    if path is None:
        report["rows whose picture is missing"] += 1
        return None
    try:
        return converter.picture(path)
    except BadImageError:
        report["rows whose picture is broken"] += 1
        return None
