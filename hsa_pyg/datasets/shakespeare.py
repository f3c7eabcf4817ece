"""Plays of Shakespeare: who speaks?"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from tqdm import tqdm

from hsa_pyg.datasets.play_trees import PlayConverter
from hsa_pyg.datasets.plays import Speech, read_plays
from hsa_pyg.datasets.raw_files import check_same, copy_whole
from hsa_pyg.datasets.shipped import shipped_file
from hsa_pyg.datasets.splits import TRAIN_VAL_TEST, hash_split
from hsa_pyg.datasets.stored_whole import StoredWhole, write_whole
from hsa_pyg.datasets.word_dataset import WordDataset, check_split, describe

ZIP_NAME = "shakespeare.zip"


class Shakespeare(WordDataset, StoredWhole):
    r"""Eight plays as trees play > act > scene > speech > line > token: who speaks?

    Antony and Cleopatra, Hamlet, Julius Caesar, Macbeth, The Merchant of Venice, A
    Midsummer Night's Dream, Othello, Romeo and Juliet; Jon Bosak's XML, public domain.

    With ``level="speech"`` a sample is a speech of lines of tokens, and ``y`` its
    speaker. With ``"scene"`` or ``"play"`` a sample is a whole scene or play, and ``y``
    is an attribute of its speeches, -100 where the speaker has no class; ``speaker``
    lists their names. The classes are the speakers with at least ``min_speeches``
    speeches, told apart by play (:attr:`classes`). Names of speakers, stage directions
    and titles are no part of the text.

    ``source`` is the place, such as ``"hamlet/3/1"`` for act 3, scene 1, and with
    ``"/5"`` for its fifth speech. The text of a sample, one line of verse a line, is
    kept as ``text`` of its root; every type has the characters of its nodes in ``span``
    (``[n, 2]`` long), and all but the root their place among the siblings in ``pos``.

    The split is by scene, 80/10/10 within each play in the order of a hash of their
    names: neighbours, which answer one another, are never in different parts. Scenes
    and plays mark the parts in ``speech.train_mask``, ``val_mask`` and ``test_mask``.

    Args:
        root: Folder for raw and processed data.
        split: ``"train"``, ``"val"`` or ``"test"``. None gives all. A play has scenes
            of all parts, so ``level="play"`` takes None alone.
        level: ``"speech"``, ``"scene"`` or ``"play"``.
        min_speeches: Speeches that a speaker has, at least, to be a class.
        tokenizer: A ``tokenizers.Tokenizer`` or a fast tokenizer of transformers.
            Without one, a vocabulary is counted on the speeches of the training split.
        max_vocab_size: Size of the vocabulary, at most, unless a tokenizer is given.
        min_frequency: Words seen less often in the training split become ``[UNK]``.
        raw_zip: The archive, if it is not to be looked for in this installation.
        transform: Called on each signal at every access.
        pre_transform: Called on each signal before it is stored.
        pre_filter: Says of each signal whether to keep it.
        force_reload: Process the plays again.
        log: Show a progress bar while processing.

    Raises:
        ValueError: If an argument is not known, no speaker has ``min_speeches``, or
            the archive is broken or another one than ``root`` holds.
        FileNotFoundError: If the archive is not found.

    Shapes:
        - ``token.x``: ``[num_tokens]`` long, ids below :attr:`vocab_size`
        - ``y``: ``[1]`` long; ``speech.y``: ``[num_speeches]`` long
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: Literal["train", "val", "test"] | None = None,
        *,
        level: Literal["speech", "scene", "play"] = "speech",
        min_speeches: int = 50,
        tokenizer: Any = None,
        max_vocab_size: int = 20_000,
        min_frequency: int = 2,
        raw_zip: str | os.PathLike[str] | None = None,
        transform: Callable | None = None,
        pre_transform: Callable | None = None,
        pre_filter: Callable | None = None,
        force_reload: bool = False,
        log: bool = True,
    ) -> None:
        if level not in ("speech", "scene", "play"):
            raise ValueError(f"level={level!r} is not 'speech', 'scene' or 'play'.")
        check_split(split, f"every {level}")
        if level == "play" and split is not None:
            raise ValueError(
                f"split={split!r} divides scenes, and a play has scenes of every part: "
                "use level='scene', or split=None and the masks of the speeches."
            )
        self.split = split
        self.level = level
        self.min_speeches = min_speeches
        self.raw_zip = None if raw_zip is None else Path(raw_zip)
        self._use_tokenizer(tokenizer, max_vocab_size, min_frequency)
        kept = Path(root) / "raw" / ZIP_NAME
        if self.raw_zip is not None and kept.exists():
            check_same(self.raw_zip, kept, "raw_zip")
        super().__init__(
            os.fspath(root),
            transform,
            pre_transform,
            pre_filter,
            log=log,
            force_reload=force_reload,
        )
        self.load(self.processed_paths[0])

    @property
    def raw_file_names(self) -> list[str]:
        """The archive."""
        return [ZIP_NAME]

    @property
    def processed_file_names(self) -> list[str]:
        """Signals, tokenizer, report, classes; each setting has its own."""
        words = self._tokenizer_key
        key = f"{self.level}_{self.split or 'whole'}_from{self.min_speeches}_{words}"
        return [
            f"plays_{key}.pt",
            f"tokenizer_{words}.json",
            f"report_{key}.json",
            f"speakers_from{self.min_speeches}.json",
        ]

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """The speakers, such as ``"hamlet/OPHELIA"``, in the order of ``y``."""
        return tuple(json.loads(Path(self.processed_paths[3]).read_text("utf-8")))

    @property
    def num_classes(self) -> int:
        """Number of speakers that are a class."""
        return len(self.classes)

    def download(self) -> None:
        """Copy the archive into ``raw_dir``; nothing is fetched from a network."""
        source = self.raw_zip or shipped_file(
            "shakespeare",
            ZIP_NAME,
            "Pass raw_zip=, a zip archive of the plays in Jon Bosak's XML, such as "
            "NLTK's corpus 'shakespeare'.",
        )
        read_plays(source)
        copy_whole(source, Path(self.raw_paths[0]))

    def process(self) -> None:
        """Tokenize the plays and store the signals."""
        report: Counter[str] = Counter()
        speeches = read_plays(Path(self.raw_paths[0]), report)
        parts = split_scenes(speeches)
        tokenizer = self._fit_tokenizer(
            line
            for speech in speeches
            if parts[speech.place] == "train"
            for line in speech.lines
        )
        classes = frequent_speakers(speeches, self.min_speeches)
        build = PlayConverter(self.level, tokenizer, classes, parts)
        signals = []
        samples = list(self._samples(speeches, parts, classes, report))
        for source, sample in tqdm(
            samples, desc=f"Converting {self._described()}", disable=not self.log
        ):
            signal = build(source, sample)
            if signal is None:
                report["samples without a token"] += 1
                continue
            if self.pre_filter is not None and not self.pre_filter(signal):
                report["samples that pre_filter refused"] += 1
                continue
            if self.pre_transform is not None:
                signal = self.pre_transform(signal)
            signals.append(signal)
        report = +report  # Without what did not occur.
        if not signals:
            raise ValueError(f"{self._described()} has no sample ({describe(report)}).")
        # The signals last: they are what a later run looks for.
        self._keep(tokenizer, report)
        write_whole(self.processed_paths[3], json.dumps(classes))
        self.save(signals, self.processed_paths[0])

    def _samples(
        self,
        speeches: Sequence[Speech],
        parts: Mapping[str, str],
        classes: Sequence[str],
        report: Counter[str],
    ) -> Iterator[tuple[str, list[Speech]]]:
        wanted = [s for s in speeches if self.split in (None, parts[s.place])]
        if self.level != "speech":
            name = "place" if self.level == "scene" else "play"
            for source, group in groupby(wanted, lambda speech: getattr(speech, name)):
                yield source, list(group)
            return
        for speech in wanted:
            if speech.speaker is None:
                report["speeches without one speaker"] += 1
            elif speech.speaker not in classes:
                report[f"speeches of speakers with fewer than {self.min_speeches}"] += 1
            else:
                yield f"{speech.place}/{speech.number}", [speech]

    def _described(self) -> str:
        return type(self).__name__ + (f" ({self.split})" if self.split else "")


def split_scenes(speeches: Sequence[Speech]) -> dict[str, str]:
    """Split the scenes 80/10/10 within each play, in the order of a hash.

    Args:
        speeches: All speeches.

    Returns:
        Name of each scene to its part.
    """
    return hash_split({s.place: s.play for s in speeches}, TRAIN_VAL_TEST)


def frequent_speakers(speeches: Sequence[Speech], min_speeches: int) -> list[str]:
    """The speakers with so many speeches of their own, sorted by name.

    Args:
        speeches: All speeches.
        min_speeches: How many, at least.

    Raises:
        ValueError: If no speaker has so many.
    """
    counts = Counter(speech.speaker for speech in speeches if speech.speaker)
    found = sorted(name for name, count in counts.items() if count >= min_speeches)
    if not found:
        most = max(counts.values(), default=0)
        raise ValueError(
            f"No speaker has min_speeches={min_speeches} speeches; the most is {most}."
        )
    return found
