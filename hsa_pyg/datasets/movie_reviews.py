"""The movie reviews of Pang and Lee: long documents with a sentiment label."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import torch
from torch import Tensor

from hsa_pyg.converters.formats import decode
from hsa_pyg.datasets.raw_files import check_same, copy_whole, reading_zip
from hsa_pyg.datasets.shipped import shipped_file
from hsa_pyg.datasets.splits import TRAIN_VAL_TEST, hash_split
from hsa_pyg.datasets.text_dataset import LabelledText, TextDataset

ZIP_NAME = "movie_reviews.zip"


class MovieReviews(TextDataset):
    r"""2,000 film reviews, 1,000 negative and 1,000 positive: polarity data set v2.0.

    From B. Pang and L. Lee, "A Sentimental Education: Sentiment Analysis Using
    Subjectivity Summarization Based on Minimum Cuts", ACL 2004
    (https://aclanthology.org/P04-1035). CC BY 4.0; the reviews come with this package.

    Each review is a signal document > paragraph > sentence > token as
    :class:`~hsa_pyg.converters.DocumentConverter` describes it: the data set has one
    sentence a line and one paragraph a review. ``y`` is ``[1]`` long, 0 for negative
    and 1 for positive; ``source`` is the name of the review in the archive
    (``"neg/cv000_29416.txt"``), which the spans of its tokens point into.

    Without a tokenizer of your own, a vocabulary of words is counted on the training
    split alone (also for the folds below) and kept with the processed data.

    Args:
        root: Folder for raw and processed data.
        split: ``"train"``, ``"val"`` or ``"test"``: a fixed 80/10/10 split with as many
            negative as positive reviews in each part. None gives all reviews, the
            negative ones first, each class in the order of its file names.
        raw_zip: The archive, if it is not to be looked for in this installation.
        **kwargs: As for :class:`~hsa_pyg.datasets.TextDataset`.

    Raises:
        ValueError: If ``split`` is not known, ``raw_zip`` is not the archive of the
            reviews, or ``root`` holds another one.
        FileNotFoundError: If the archive is not found.

    Shapes:
        - ``token.x``: ``[num_tokens]`` long, ids below :attr:`vocab_size`
        - ``token.span``: ``[num_tokens, 2]`` long
        - ``y``: ``[1]`` long
    """

    classes = ("neg", "pos")
    sentences = "lines"

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: Literal["train", "val", "test"] | None = None,
        *,
        raw_zip: str | os.PathLike[str] | None = None,
        **kwargs: Any,
    ) -> None:
        self.raw_zip = None if raw_zip is None else Path(raw_zip)
        kept = Path(root) / "raw" / ZIP_NAME
        if self.raw_zip is not None and kept.exists():
            check_same(self.raw_zip, kept, "raw_zip")
        super().__init__(root, split, **kwargs)

    @property
    def raw_file_names(self) -> list[str]:
        """The archive."""
        return [ZIP_NAME]

    def download(self) -> None:
        """Copy the archive into ``raw_dir``; nothing is fetched from a network."""
        source = self.raw_zip or shipped_file(
            "movie_reviews",
            ZIP_NAME,
            "Pass raw_zip=: the repository of hsa_pyg has the archive in datasets/, "
            "and NLTK's corpus 'movie_reviews' is the same file.",
        )
        _review_names(source)
        copy_whole(source, Path(self.raw_paths[0]))

    def documents(self) -> list[LabelledText]:
        """Read the reviews, the negative ones first."""
        reviews = _read_reviews(Path(self.raw_paths[0]))
        parts = hash_split(_labels(reviews), TRAIN_VAL_TEST)
        return [
            LabelledText(name, text, self.classes.index(_label(name)), parts[name])
            for name, text in reviews.items()
        ]

    @property
    def folds(self) -> Tensor:
        """Fold of each review, 0 to 9, ``[num_reviews]`` long.

        The ten folds of Pang and Lee: files cv000 to cv099 are the first (they count
        from 1), and so on. Experiments on folds should count their own vocabulary.
        """
        names = [PurePosixPath(source).name for source in self.sources]
        return torch.tensor([int(name[len("cv")]) for name in names], dtype=torch.long)

    def _read_text(self, name: str) -> str:
        with reading_zip(Path(self.raw_paths[0])) as archive:
            return _read_member(archive, name)


def split_names(names: list[str]) -> dict[str, set[str]]:
    """Split reviews 80/10/10 within each class.

    The order is that of a hash of the name, so the split is the same with every
    version of Python and PyTorch, which their random generators do not promise.

    Args:
        names: Names such as ``"neg/cv000_29416.txt"``.

    Returns:
        The names of ``"train"``, ``"val"`` and ``"test"``.
    """
    parts = hash_split(_labels(names), TRAIN_VAL_TEST)
    return {
        part: {name for name in names if parts[name] == part} for part in TRAIN_VAL_TEST
    }


def _review_names(raw_zip: Path) -> list[str]:
    """Names below the archive's only folder, negative first, each class sorted."""
    with reading_zip(raw_zip) as archive:
        members = {PurePosixPath(name) for name in archive.namelist()}
    names = sorted(
        f"{member.parent.name}/{member.name}"
        for member in members
        if len(member.parts) == 3
        and member.match("movie_reviews/*/cv[0-9]*.txt")
        and member.parent.name in MovieReviews.classes
    )
    missing = set(MovieReviews.classes) - {name.split("/")[0] for name in names}
    if missing:
        raise ValueError(
            f"{raw_zip.as_posix()!r} is not the archive of the movie reviews: it has "
            f"no file movie_reviews/{sorted(missing)[0]}/cv*.txt."
        )
    return names


def _read_reviews(raw_zip: Path) -> dict[str, str]:
    with reading_zip(raw_zip) as archive:
        return {name: _read_member(archive, name) for name in _review_names(raw_zip)}


def _read_member(archive: zipfile.ZipFile, name: str) -> str:
    return decode(archive.read(f"movie_reviews/{name}"), name)


def _label(name: str) -> str:
    return PurePosixPath(name).parent.name


def _labels(names: Iterable[str]) -> dict[str, str]:
    return {name: _label(name) for name in names}
