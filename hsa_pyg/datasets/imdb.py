"""The film reviews of IMDB: the usual benchmark of sentiment in long texts."""

from __future__ import annotations

import os
import re
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import torch

from hsa_pyg.converters.formats import decode
from hsa_pyg.datasets.raw_files import (
    TAR_SUFFIXES,
    check_same,
    copy_whole,
    fetch,
    part_of,
    reading_tar,
)
from hsa_pyg.datasets.splits import hash_split
from hsa_pyg.datasets.text_dataset import LabelledText, TextDataset

URL = "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz"
VAL_SHARES = {"train": 0.8, "val": 0.2}

# train/pos/123_9.txt, perhaps below one folder: number 123, nine stars.
_REVIEW = re.compile(
    r"(?:\./)?(?:[^/]+/)?((train|val|test)/(neg|pos|unsup)/\d+_(\d+)\.txt)"
)
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_STARS = {"neg": range(1, 5), "pos": range(7, 11)}


class IMDB(TextDataset):
    r"""50,000 film reviews, half of them positive.

    From A. L. Maas et al., "Learning Word Vectors for Sentiment Analysis", ACL 2011
    (https://aclanthology.org/P11-1015; data at
    https://ai.stanford.edu/~amaas/data/sentiment). No licence is stated; cite it.

    The raw data is the folder ``aclImdb`` or a tar archive of it (``train/pos/*.txt``
    and so on); the 50,000 unlabelled reviews are not used, but counted in
    :attr:`report`. The test split has 25,000 reviews. Of the 25,000 others, 5,000 are
    ``"val"``: those in a folder ``val``, if there is one, and otherwise a fifth of each
    class in the order of a hash of the file names.

    Each review is a signal document > paragraph > sentence > token. Its line breaks
    ``<br />`` become line ends, two of them a blank line and so a new paragraph; spans
    count in the text after that, which :meth:`text` returns. Everything else stays as
    it is. ``rating`` is ``[1]`` long, 1 to 4 stars for negative and 7 to 10 for
    positive reviews; ``source`` is a name such as ``"train/neg/0_3.txt"``.

    Args:
        root: Folder for raw and processed data.
        split: ``"train"``, ``"val"`` or ``"test"``; None gives all 50,000.
        raw_archive: The archive, copied into ``root``.
        raw_dir: The folder, packed into one file in ``root``, once. Without both, what
            lies in ``root/raw`` is used, or the archive is downloaded.
        **kwargs: As for :class:`~hsa_pyg.datasets.TextDataset`.

    Raises:
        ValueError: If the archive is broken or has other files, or ``root`` holds
            another one; or a review lies in the folder of the other class.
        FileNotFoundError: If there is no raw data and no network.

    Shapes:
        - ``token.x``: ``[num_tokens]`` long, ids below :attr:`vocab_size`
        - ``token.span``: ``[num_tokens, 2]`` long
        - ``y``, ``rating``: ``[1]`` long
    """

    classes = ("neg", "pos")

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: Literal["train", "val", "test"] | None = None,
        *,
        raw_archive: str | os.PathLike[str] | None = None,
        raw_dir: str | os.PathLike[str] | None = None,
        **kwargs: Any,
    ) -> None:
        if raw_archive is not None and raw_dir is not None:
            raise ValueError(
                "raw_archive and raw_dir were both given: pass the archive or the "
                "folder that was unpacked from it."
            )
        self.raw_archive = None if raw_archive is None else Path(raw_archive)
        self.raw_folder = None if raw_dir is None else Path(raw_dir)
        self._check_given(Path(root) / "raw")
        super().__init__(root, split, **kwargs)

    @property
    def raw_file_names(self) -> list[str]:
        """The archive or folder in ``raw_dir``, whichever is there."""
        return [_find(Path(self.raw_dir)) or URL.rpartition("/")[2]]

    def download(self) -> None:
        """Copy, pack or download the reviews into ``raw_dir``."""
        folder = Path(self.raw_dir)
        if self.raw_archive is not None:
            _read_reviews(self.raw_archive)
            suffix = next(filter(self.raw_archive.name.endswith, TAR_SUFFIXES), "")
            if not suffix:
                raise ValueError(
                    f"raw_archive={self.raw_archive.as_posix()!r} is not named like a "
                    f"tar archive: its name should end in {', '.join(TAR_SUFFIXES)}."
                )
            copy_whole(self.raw_archive, folder / f"aclImdb{suffix}")
        elif self.raw_folder is not None:
            _read_reviews(self.raw_folder)
            _pack(self.raw_folder, folder / "aclImdb.tar")
        else:
            remedy = (
                f"Put it into {folder.as_posix()!r} (the archive or the folder "
                "'aclImdb' in it), or pass raw_archive= or raw_dir=."
            )
            fetch(URL, folder, remedy, _read_reviews, self.log)

    def documents(self) -> list[LabelledText]:
        """Read the labelled reviews: train, val, test, the negative ones first."""
        reviews, self._unused = _read_reviews(Path(self.raw_paths[0]))
        parts = {name: name.partition("/")[0] for name in reviews}
        if "val" not in parts.values():
            training = {
                name: name.split("/")[1]
                for name, part in parts.items()
                if part == "train"
            }
            parts |= hash_split(training, VAL_SHARES)
        documents = []
        for name, content in reviews.items():
            label, rating = _labels(name)
            documents.append(
                LabelledText(
                    name, _text(content, name), label, parts[name], {"rating": rating}
                )
            )
        order = ("train", "val", "test")
        return sorted(documents, key=lambda text: (order.index(text.split), text.label))

    def _left_out(self) -> Mapping[str, int]:
        return self._unused

    def _read_text(self, name: str) -> str:
        for found, content in _members(Path(self.raw_paths[0]), name):
            if found == name:
                return _text(content, name)
        return super()._read_text(name)

    def _check_given(self, raw: Path) -> None:
        kept = _find(raw)
        if kept is None:
            return
        if self.raw_archive is not None:
            if not (raw / kept).is_file():
                raise ValueError(
                    f"{raw.as_posix()!r} holds the folder {kept!r} already: use "
                    "another root instead of raw_archive=, or delete it."
                )
            check_same(self.raw_archive, raw / kept, "raw_archive")


def _find(raw: Path) -> str | None:
    """Name of the archive or folder of reviews in ``raw``; None if there is none."""
    if (raw / "train").is_dir():
        return "."
    found = sorted(
        path.name
        for path in (raw.iterdir() if raw.is_dir() else ())
        if (path / "train").is_dir()
        or (path.is_file() and path.name.endswith(TAR_SUFFIXES))
    )
    if len(found) > 1:
        raise ValueError(
            f"{raw.as_posix()!r} holds {' and '.join(map(repr, found))}: leave only "
            "the one with the reviews there."
        )
    return found[0] if found else None


def _members(source: Path, only: str | None = None) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each review of a folder or archive.

    Unlabelled reviews come without their content. ``only``: skip all other reviews.
    """
    if source.is_dir():
        for part in ("train", "val", "test"):
            for path in sorted(source.glob(f"{part}/*/*.txt")):
                name = path.relative_to(source).as_posix()
                if _REVIEW.fullmatch(name) and only in (None, name):
                    yield name, b"" if "/unsup/" in name else path.read_bytes()
        return
    with reading_tar(source) as archive:
        for member in archive:
            match = _REVIEW.fullmatch(member.name)
            if not match or not member.isfile() or only not in (None, match[1]):
                continue
            content = archive.extractfile(member)
            if content is not None:
                yield match[1], b"" if match[3] == "unsup" else content.read()


def _read_reviews(source: Path) -> tuple[dict[str, bytes], Counter[str]]:
    """Read the labelled reviews, sorted by name, and count the others."""
    if not source.exists():
        raise FileNotFoundError(
            f"There is no {source.as_posix()!r}: it should be the folder or archive of "
            f"the reviews, see {URL}."
        )
    reviews: dict[str, bytes] = {}
    unused: Counter[str] = Counter()
    for name, content in _members(source):
        if "/unsup/" in name:
            unused["reviews without a label (unsup)"] += 1
        elif name in reviews:
            raise ValueError(
                f"{source.as_posix()!r} has {name!r} in two folders: it should hold "
                "the reviews once."
            )
        else:
            _labels(name)
            reviews[name] = content
    present = {name.rpartition("/")[0] for name in reviews}
    for folder in ("train/neg", "train/pos", "test/neg", "test/pos"):
        if folder not in present:
            raise ValueError(
                f"{source.as_posix()!r} is not the IMDB reviews: it has no file "
                f"{folder}/NUMBER_STARS.txt. See {URL}."
            )
    return dict(sorted(reviews.items())), unused


def _labels(name: str) -> tuple[int, torch.Tensor]:
    """Class and rating, of which the folder and the file's name tell."""
    match = _REVIEW.fullmatch(name)
    label, stars = (match[3], int(match[4])) if match else ("", 0)
    if stars not in _STARS.get(label, ()):
        raise ValueError(
            f"{name!r} is labelled wrong: {stars} stars do not belong into a folder "
            f"{label!r} (1 to 4 are negative, 7 to 10 positive)."
        )
    return IMDB.classes.index(label), torch.tensor([stars])


def _text(content: bytes, name: str) -> str:
    return _BREAK.sub("\n", decode(content, name))


def _pack(source: Path, target: Path) -> None:
    """Write the reviews of a folder into one archive, unpacked."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = part_of(target)
    with tarfile.open(part, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in _members(source):
            member = tarfile.TarInfo(f"aclImdb/{name}")
            member.size = len(content)
            archive.addfile(member, BytesIO(content))
    os.replace(part, target)
