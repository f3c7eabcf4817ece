"""The movie reviews of Pang and Lee: long documents with a sentiment label."""

from __future__ import annotations

import filecmp
import hashlib
import os
import shutil
import zipfile
import zlib
from collections.abc import Callable
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor
from torch_geometric.data import InMemoryDataset
from tqdm import tqdm

from hsa_pyg.converters import DocumentConverter, train_word_tokenizer
from hsa_pyg.converters.formats import decode

if TYPE_CHECKING:
    from tokenizers import Tokenizer

ZIP_NAME = "movie_reviews.zip"
SPLIT_SHARES = {"train": 0.8, "val": 0.1, "test": 0.1}


class MovieReviews(InMemoryDataset):
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
        tokenizer: A ``tokenizers.Tokenizer`` or a fast tokenizer of transformers.
        max_vocab_size: Size of the vocabulary, at most, unless a tokenizer is given.
        min_frequency: Words seen less often in the training split become ``[UNK]``.
        max_tokens: Keep the first so many tokens of each review. None keeps all.
        raw_zip: The archive, if it is not to be looked for in this installation.
        transform: Called on each signal at every access.
        pre_transform: Called on each signal before it is stored.
        pre_filter: Says of each signal whether to keep it.
        force_reload: Process the reviews again.
        log: Show a progress bar while processing.

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

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: Literal["train", "val", "test"] | None = None,
        *,
        tokenizer: Any = None,
        max_vocab_size: int = 20_000,
        min_frequency: int = 2,
        max_tokens: int | None = None,
        raw_zip: str | os.PathLike[str] | None = None,
        transform: Callable | None = None,
        pre_transform: Callable | None = None,
        pre_filter: Callable | None = None,
        force_reload: bool = False,
        log: bool = True,
    ) -> None:
        if split is not None and split not in SPLIT_SHARES:
            raise ValueError(
                f"split={split!r} is not known: use 'train', 'val', 'test', or None "
                "for all reviews."
            )
        self.split = split
        self.max_vocab_size = max_vocab_size
        self.min_frequency = min_frequency
        self.max_tokens = max_tokens
        self.raw_zip = None if raw_zip is None else Path(raw_zip)
        self._given_tokenizer = _backend(tokenizer)
        self._check_raw_zip(Path(root))
        super().__init__(
            os.fspath(root),
            transform,
            pre_transform,
            pre_filter,
            log=log,
            force_reload=force_reload,
        )
        self.load(self.processed_paths[0])
        if split is not None:
            chosen = split_names(_review_names(Path(self.raw_paths[0])))[split]
            self._indices = [
                index for index, name in enumerate(self.sources) if name in chosen
            ]

    @property
    def raw_file_names(self) -> list[str]:
        """The archive."""
        return [ZIP_NAME]

    @property
    def processed_file_names(self) -> list[str]:
        """Signals and tokenizer; each combination of settings has its own."""
        if self._given_tokenizer is None:
            words = f"vocab{self.max_vocab_size}_min{self.min_frequency}"
        else:
            words = f"given{zlib.crc32(self._given_tokenizer.to_str().encode()):08x}"
        kept = "all" if self.max_tokens is None else self.max_tokens
        key = f"{words}_tokens{kept}"
        return [f"reviews_{key}.pt", f"tokenizer_{key}.json"]

    def download(self) -> None:
        """Copy the archive into ``raw_dir``; nothing is fetched from a network."""
        source = self.raw_zip or _shipped_zip()
        _review_names(source)
        # All of it or nothing: what lies in raw_dir is never copied again.
        part = f"{self.raw_paths[0]}.part"
        shutil.copyfile(source, part)
        os.replace(part, self.raw_paths[0])

    def process(self) -> None:
        """Tokenize the reviews and store their signals."""
        reviews = _read_reviews(Path(self.raw_paths[0]))
        tokenizer = self._given_tokenizer
        if tokenizer is None:
            train = split_names(list(reviews))["train"]
            tokenizer = train_word_tokenizer(
                (text for name, text in reviews.items() if name in train),
                vocab_size=self.max_vocab_size,
                min_frequency=self.min_frequency,
            )
        convert = DocumentConverter(
            tokenizer, sentences="lines", max_tokens=self.max_tokens
        )
        signals = []
        for name, text in tqdm(
            reviews.items(), desc="Converting reviews", disable=not self.log
        ):
            label = self.classes.index(PurePosixPath(name).parent.name)
            signal = convert.text(text, name, y=label)
            if self.pre_filter is not None and not self.pre_filter(signal):
                continue
            if self.pre_transform is not None:
                signal = self.pre_transform(signal)
            signals.append(signal)
        # The signals last: they are what a later run looks for.
        tokenizer.save(self.processed_paths[1])
        self.save(signals, self.processed_paths[0])

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that made the token ids."""
        from tokenizers import Tokenizer

        return Tokenizer.from_file(self.processed_paths[1])

    @property
    def vocab_size(self) -> int:
        """Number of token ids: rows that an embedding table needs."""
        return self.tokenizer.get_vocab_size()

    @property
    def sources(self) -> list[str]:
        """Name of each review in the archive, such as ``"neg/cv000_29416.txt"``."""
        return [self._data.source[index] for index in self.indices()]

    @property
    def folds(self) -> Tensor:
        """Fold of each review, 0 to 9, ``[num_reviews]`` long.

        The ten folds of Pang and Lee: files cv000 to cv099 are the first (they count
        from 1), and so on. Experiments on folds should count their own vocabulary.
        """
        names = [PurePosixPath(source).name for source in self.sources]
        return torch.tensor([int(name[len("cv")]) for name in names], dtype=torch.long)

    def text(self, index: int) -> str:
        """Return the text of a review, which its spans point into.

        Args:
            index: Place of the review in this data set.
        """
        with zipfile.ZipFile(self.raw_paths[0]) as archive:
            return _read_member(archive, self.sources[index])

    def _check_raw_zip(self, root: Path) -> None:
        kept = root / "raw" / ZIP_NAME
        if self.raw_zip is None or not kept.exists():
            return
        if not filecmp.cmp(self.raw_zip, kept, shallow=False):
            raise ValueError(
                f"{kept.as_posix()!r} is another archive than raw_zip="
                f"{self.raw_zip.as_posix()!r}: use another root, or delete this one."
            )


def split_names(names: list[str]) -> dict[str, set[str]]:
    """Split reviews 80/10/10 within each class.

    The order is that of a hash of the name, so the split is the same with every
    version of Python and PyTorch, which their random generators do not promise.

    Args:
        names: Names such as ``"neg/cv000_29416.txt"``.

    Returns:
        The names of ``"train"``, ``"val"`` and ``"test"``.
    """
    parts: dict[str, set[str]] = {part: set() for part in SPLIT_SHARES}
    for label in MovieReviews.classes:
        ordered = sorted(
            (name for name in names if PurePosixPath(name).parent.name == label),
            key=lambda name: hashlib.sha256(name.encode()).digest(),
        )
        first = 0
        share = 0.0
        for part in parts:
            share += SPLIT_SHARES[part]
            stop = round(share * len(ordered))
            parts[part].update(ordered[first:stop])
            first = stop
    return parts


def _shipped_zip() -> Path:
    # Wheels carry the repository's datasets/ as package data (force-include in
    # pyproject.toml); a checkout, also an editable install, has the folder itself.
    here = Path(__file__).resolve()
    places = (
        here.parent / "_shipped" / "movie_reviews" / ZIP_NAME,
        here.parents[2] / "datasets" / "movie_reviews" / ZIP_NAME,
    )
    for place in places:
        if place.is_file():
            return place
    raise FileNotFoundError(
        "The archive of the movie reviews is neither at "
        + " nor at ".join(repr(place.as_posix()) for place in places)
        + ". Pass raw_zip=: the repository of hsa_pyg has it in datasets/, and "
        "NLTK's corpus 'movie_reviews' is the same file."
    )


def _review_names(raw_zip: Path) -> list[str]:
    """Names below the archive's only folder, negative first, each class sorted."""
    try:
        with zipfile.ZipFile(raw_zip) as archive:
            members = {PurePosixPath(name) for name in archive.namelist()}
    except zipfile.BadZipFile as error:
        raise ValueError(
            f"{raw_zip.as_posix()!r} is no zip archive, or a part of one ({error}): "
            "fetch it again."
        ) from error
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
    with zipfile.ZipFile(raw_zip) as archive:
        return {name: _read_member(archive, name) for name in _review_names(raw_zip)}


def _read_member(archive: zipfile.ZipFile, name: str) -> str:
    return decode(archive.read(f"movie_reviews/{name}"), name)


def _backend(tokenizer: Any) -> Tokenizer | None:
    """Return the ``tokenizers.Tokenizer`` inside, which can be saved."""
    tokenizer = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if tokenizer is None or hasattr(tokenizer, "to_str"):
        return tokenizer
    raise TypeError(
        f"tokenizer is a {type(tokenizer).__name__}, which cannot be saved with the "
        "data: pass a tokenizers.Tokenizer or a fast tokenizer of transformers."
    )
