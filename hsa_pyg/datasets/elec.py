"""Reviews of electronics: the Elec data of Johnson and Zhang."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from hsa_pyg.converters.formats import decode
from hsa_pyg.datasets.raw_files import (
    check_same_archive,
    check_same_files,
    copy_whole,
    digest_of,
    fetch,
    part_of,
    reading_tar,
)
from hsa_pyg.datasets.stored_whole import write_whole
from hsa_pyg.datasets.text_dataset import LabelledText, TextDataset

URL = "http://riejohnson.com/software/elec2.tar.gz"

_CLASSES = {"1": 0, "2": 1}
_VAL_PART = 5


class Elec(TextDataset):
    r"""Reviews of electronic products, half of them positive.

    From R. Johnson and T. Zhang, "Effective Use of Word Order for Text Categorization
    with Convolutional Neural Networks", NAACL 2015 (https://aclanthology.org/N15-1011;
    data at http://riejohnson.com/software/elec2.tar.gz), who drew them from the Amazon
    reviews of McAuley and Leskovec. No licence is stated; cite the papers.

    The raw files are ``elec-25k-train.txt.tok`` and ``elec-test.txt.tok``, one review a
    line, its words and marks separated by blanks, and beside them ``.cat``, a label a
    line: 1 is negative, 2 is positive. Other files, such as unlabelled reviews, are not
    used.

    The products of the test split are none of the training files. Their authors ordered
    each training file so that five equal parts of it share no product: the last fifth
    is ``"val"``.

    Each review is a signal document > paragraph > sentence > token of one paragraph;
    ``source`` is its file and line, such as ``"elec-test.txt.tok:1"``.

    Args:
        root: Folder for raw and processed data.
        split: ``"train"``, ``"val"`` or ``"test"``; None gives all reviews.
        size: Reviews of the training file: ``"25k"``, ``"50k"``, ``"100k"`` or
            ``"200k"``.
        raw_archive: The archive ``elec2.tar.gz``; the files are taken out of it, once.
        raw_dir: A folder with the files. Without both, what lies in ``root/raw`` is
            used, or the archive is downloaded.
        encoding: Encoding of the reviews.
        **kwargs: As for :class:`~hsa_pyg.datasets.TextDataset`.

    Raises:
        ValueError: If a text and a label file differ in their number of lines, a label
            is neither 1 nor 2, the archive is broken or lacks a file, or ``size`` is
            not known.
        FileNotFoundError: If there is no raw data and no network.

    Shapes:
        - ``token.x``: ``[num_tokens]`` long, ids below :attr:`vocab_size`
        - ``token.span``: ``[num_tokens, 2]`` long
        - ``y``: ``[1]`` long
    """

    classes = ("neg", "pos")

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: Literal["train", "val", "test"] | None = None,
        *,
        size: Literal["25k", "50k", "100k", "200k"] = "25k",
        raw_archive: str | os.PathLike[str] | None = None,
        raw_dir: str | os.PathLike[str] | None = None,
        encoding: str = "utf-8",
        **kwargs: Any,
    ) -> None:
        if size not in ("25k", "50k", "100k", "200k"):
            raise ValueError(
                f"size={size!r} is not known: use '25k', '50k', '100k' or '200k'."
            )
        if raw_archive is not None and raw_dir is not None:
            raise ValueError(
                "raw_archive and raw_dir were both given: pass the archive or the "
                "folder that was unpacked from it."
            )
        self.size = size
        self.raw_archive = None if raw_archive is None else Path(raw_archive)
        self.raw_folder = None if raw_dir is None else Path(raw_dir)
        self.encoding = encoding
        if self.raw_folder is not None:
            check_same_files(self.raw_folder, Path(root) / "raw", self.raw_file_names)
        if self.raw_archive is not None:
            check_same_archive(self.raw_archive, Path(root) / "raw" / self._stamp)
        super().__init__(root, split, **kwargs)

    @property
    def variant(self) -> str:
        """The size of the training file, and the encoding."""
        return f"{self.size}_{self.encoding}"

    @property
    def raw_file_names(self) -> list[str]:
        """Texts and labels of training and test."""
        stems = (f"elec-{self.size}-train", "elec-test")
        return [f"{stem}.{end}" for stem in stems for end in ("txt.tok", "cat")]

    @property
    def _stamp(self) -> str:
        """File that tells the archive that the files of this size are of."""
        return f"elec-{self.size}.sha256"

    def download(self) -> None:
        """Copy the files into ``raw_dir``, or unpack them from the archive."""
        folder = Path(self.raw_dir)
        if self.raw_folder is not None:
            for name in self.raw_file_names:
                if not (self.raw_folder / name).is_file():
                    raise FileNotFoundError(
                        f"raw_dir={self.raw_folder.as_posix()!r} has no file {name!r}: "
                        f"it should be the folder unpacked from {URL}."
                    )
                copy_whole(self.raw_folder / name, folder / name)
            return
        archive = self.raw_archive
        if archive is None:
            remedy = (
                f"Put {', '.join(self.raw_file_names)} into {folder.as_posix()!r}, or "
                "pass raw_archive= or raw_dir=."
            )
            archive = fetch(URL, folder, remedy, self._unpack, self.log)
        else:
            self._unpack(archive)

    def documents(self) -> list[LabelledText]:
        """Read the reviews: train, val, test, in the order of the files."""
        train, train_labels, test, test_labels = map(Path, self.raw_paths)
        training = list(self._read(train, train_labels))
        first_val = len(training) - len(training) // _VAL_PART
        documents = [
            LabelledText(name, text, label, "train" if row < first_val else "val")
            for row, (name, text, label) in enumerate(training)
        ]
        documents += [
            LabelledText(name, text, label, "test")
            for name, text, label in self._read(test, test_labels)
        ]
        return documents

    def _read(self, texts: Path, labels: Path) -> Iterator[tuple[str, str, int]]:
        """Yield name, text and class of each review of a file."""
        lines = _lines(decode(texts.read_bytes(), texts.as_posix(), self.encoding))
        classes = _lines(decode(labels.read_bytes(), labels.as_posix()))
        if len(lines) != len(classes):
            raise ValueError(
                f"{texts.as_posix()!r} has {len(lines)} reviews, but "
                f"{labels.as_posix()!r} {len(classes)} labels: one of them is not "
                "whole; delete both, so that they are copied again."
            )
        for number, (text, label) in enumerate(zip(lines, classes, strict=True), 1):
            if label.strip() not in _CLASSES:
                raise ValueError(
                    f"{labels.as_posix()!r}: line {number} is {label!r}, but labels "
                    "are 1 (negative) or 2 (positive)."
                )
            yield f"{texts.name}:{number}", text, _CLASSES[label.strip()]

    def _unpack(self, archive: Path) -> None:
        """Take the files out of the archive: all of them or none."""
        found: dict[str, bytes] = {}
        with reading_tar(archive) as members:
            for member in members:
                name = PurePosixPath(member.name).name
                content = members.extractfile(member) if member.isfile() else None
                if name in self.raw_file_names and content is not None:
                    found[name] = content.read()
        missing = [name for name in self.raw_file_names if name not in found]
        if missing:
            raise ValueError(
                f"{archive.as_posix()!r} has no file {missing[0]!r}: it should be the "
                f"archive of {URL}."
            )
        for name, lines in found.items():
            part = part_of(Path(self.raw_dir) / name)
            part.write_bytes(lines)
            os.replace(part, Path(self.raw_dir) / name)
        write_whole(Path(self.raw_dir) / self._stamp, digest_of(archive))


def _lines(text: str) -> list[str]:
    """Lines of a file, which only a line feed ends; the last may lack its end."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]
