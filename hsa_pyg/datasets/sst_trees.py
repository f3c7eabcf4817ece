"""The Stanford Sentiment Treebank: parse trees with a label on every node."""

from __future__ import annotations

import gzip
import json
import os
import sys
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal

import torch
from tqdm import tqdm

from hsa_pyg.converters.brackets import bracket_words, from_brackets
from hsa_pyg.converters.formats import decode
from hsa_pyg.converters.tokenization import PAD_TOKEN, UNKNOWN_TOKEN
from hsa_pyg.converters.trees import Vocabulary
from hsa_pyg.data import NestedSignal
from hsa_pyg.datasets.raw_files import check_same, copy_whole, fetch, part_of
from hsa_pyg.datasets.stored_whole import StoredWhole, write_whole
from hsa_pyg.datasets.word_dataset import check_split, describe

FILES = {"train": "train.txt", "val": "dev.txt", "test": "test.txt"}
URL = "https://nlp.stanford.edu/sentiment/trainDevTestTrees_PTB.zip"
_NEUTRAL = 2
_REMEDY = (
    "Put train.txt, dev.txt and test.txt (or each as .txt.gz) there, or pass "
    "raw_folder= with a folder that has them."
)


class SSTTrees(StoredWhole):
    r"""11,855 sentences of film reviews as parse trees with a sentiment on each phrase.

    From R. Socher et al., "Recursive Deep Models for Semantic Compositionality Over a
    Sentiment Treebank", EMNLP 2013 (https://aclanthology.org/D13-1170). It has no
    licence of its own and does not come with this package; without ``raw_folder`` and
    without raw files under ``root`` it is downloaded from where its authors put it.

    Each sentence is a signal phrase > ... > word as
    :func:`~hsa_pyg.converters.from_brackets` describes it: a binary tree whose nodes
    all have a label in ``y`` (0 very negative, 2 neutral, 4 very positive). The
    signal's own ``y`` is the label of its root. ``source`` is the line in its file,
    such as ``"dev.txt:17"``.

    Vocabulary: the words of the training sentences, the most frequent first, kept with
    the processed data; id 0 is ``[PAD]`` (no word has it), id 1 ``[UNK]``.

    Args:
        root: Folder for raw and processed data.
        split: ``"train"`` (8,544 sentences), ``"val"`` (1,101) or ``"test"`` (2,210),
            as its authors split them. None gives all in this order.
        binary: Make ``y`` of the signals 0 for negative and 1 for positive, and leave
            out sentences that are neutral as a whole, which leaves 6,920, 872 and
            1,821. The labels of the nodes stay as they are.
        phrases: Make a signal of each phrase of two words or more besides, by the label
            of its own root, after all sentences: of those that are written alike with
            the same labels, one, and none that is a sentence of the split. That makes
            another 132,482, 18,298 and 35,909 signals (binary: 66,000, 9,112 and
            17,769); models of sentences are trained so on the labels of phrases.
            ``source`` is the place of the first, as ``"dev.txt:17, character 4"``.
        lowercase: Whether words that differ in case alone have one id.
        max_vocab_size: Number of ids, at most.
        min_frequency: Words seen less often in the training split become ``[UNK]``.
        raw_folder: Folder with the files ``train.txt``, ``dev.txt`` and ``test.txt``,
            each of them also as ``.txt.gz``.
        transform: Called on each signal at every access.
        pre_transform: Called on each signal before it is stored.
        pre_filter: Says of each signal whether to keep it.
        force_reload: Process the sentences again.
        log: Show a progress bar while processing.

    Raises:
        ValueError: If ``split`` is not known, or a raw file is broken (it names file
            and line).
        FileNotFoundError: If the raw files are not there and cannot be downloaded.

    Shapes:
        - ``word.x``: ``[num_words]`` long, ids below :attr:`vocab_size`
        - ``word.y``, ``phrase.y``: ``[n]`` long, 0 to 4
        - ``y``: ``[1]`` long
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: Literal["train", "val", "test"] | None = None,
        *,
        binary: bool = False,
        phrases: bool = False,
        lowercase: bool = True,
        max_vocab_size: int = 20_000,
        min_frequency: int = 1,
        raw_folder: str | os.PathLike[str] | None = None,
        transform: Callable | None = None,
        pre_transform: Callable | None = None,
        pre_filter: Callable | None = None,
        force_reload: bool = False,
        log: bool = True,
    ) -> None:
        check_split(split, "all sentences")
        if max_vocab_size < 3:
            raise ValueError(
                f"max_vocab_size must be at least 3, for {PAD_TOKEN}, {UNKNOWN_TOKEN} "
                f"and a word, but is {max_vocab_size}."
            )
        self.split = split
        self.binary = binary
        self.phrases = phrases
        self.lowercase = lowercase
        self.max_vocab_size = max_vocab_size
        self.min_frequency = min_frequency
        self.raw_folder = None if raw_folder is None else Path(raw_folder)
        self._check_raw_folder(Path(root) / "raw")
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
    def classes(self) -> tuple[str, ...]:
        """Names of the classes of ``y`` of a whole sentence."""
        if self.binary:
            return ("negative", "positive")
        return ("very negative", "negative", "neutral", "positive", "very positive")

    @property
    def num_classes(self) -> int:
        """5, or 2 if ``binary``."""
        return len(self.classes)

    @property
    def raw_file_names(self) -> list[str]:
        """The three files, packed or not, as they lie there."""
        folder = Path(self.raw_dir)
        return [(_find(folder, name) or folder / name).name for name in FILES.values()]

    @property
    def processed_file_names(self) -> list[str]:
        """Signals, vocabulary, report; each combination of settings has its own."""
        case = "lower" if self.lowercase else "cased"
        words = f"{case}{self.max_vocab_size}_min{self.min_frequency}"
        labels = "binary" if self.binary else "fine"
        parts = "_phrases" if self.phrases else ""
        key = f"{self.split or 'whole'}_{labels}{parts}_{words}"
        return [f"trees_{key}.pt", f"vocabulary_{words}.json", f"report_{key}.json"]

    def download(self) -> None:
        """Copy the files from ``raw_folder``, or download them."""
        folder = Path(self.raw_dir)
        if self.raw_folder is None:
            archive = fetch(URL, folder, _REMEDY, _check_archive, self.log)
            with zipfile.ZipFile(archive) as members:
                for name in FILES.values():
                    part = part_of(folder / name)
                    part.write_bytes(members.read(f"trees/{name}"))
                    os.replace(part, folder / name)
            archive.unlink()
            return
        for name in FILES.values():
            found = _find(self.raw_folder, name)
            if found is None:
                raise FileNotFoundError(
                    f"{name!r} or '{name}.gz' is not in raw_folder="
                    f"{self.raw_folder.as_posix()!r}. {_REMEDY}"
                )
            copy_whole(found, folder / found.name)

    def process(self) -> None:
        """Convert the trees of the split and store their signals."""
        paths = dict(zip(FILES, map(Path, self.raw_paths), strict=True))
        vocabulary = self._count_words(paths["train"])
        ids = Vocabulary(vocabulary, "word", "vocabulary")
        report: Counter[str] = Counter()
        lines = [
            line
            for split in ([self.split] if self.split else FILES)
            for line in _read(paths[split])
        ]
        sentences = len(lines)
        if self.phrases:
            lines += _phrases(lines)
        signals = []
        bar = tqdm(lines, f"Converting {type(self).__name__}", disable=not self.log)
        for number, (where, text) in enumerate(bar):
            kind = "sentences" if number < sentences else "phrases"
            signal = self._convert(where, text, ids)
            if signal is None:
                report[f"neutral {kind}"] += 1
            elif self.pre_filter is not None and not self.pre_filter(signal):
                report[f"{kind} that pre_filter refused"] += 1
            else:
                if self.pre_transform is not None:
                    signal = self.pre_transform(signal)
                signals.append(signal)
        if not signals:
            raise ValueError(
                f"The raw files in {self.raw_dir!r} have no tree to keep"
                + (f" ({describe(report)})." if report else ".")
            )
        # The signals last: they are what a later run looks for.
        _, *beside = self.processed_paths
        for path, kept in zip(beside, (vocabulary, report), strict=True):
            write_whole(path, json.dumps(kept, ensure_ascii=False))
        self.save(signals, self.processed_paths[0])
        if report and self.log:
            print(f"Left out: {describe(report)}.", file=sys.stderr)

    def _convert(self, where: str, text: str, ids: Vocabulary) -> NestedSignal | None:
        try:
            signal = from_brackets(text, vocabulary=ids, lowercase=self.lowercase)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error
        _check_labels(signal, where)
        # The first node of its type is the root, if it is of that type.
        root = "phrase" if signal["phrase"].num_nodes else "word"
        label = int(signal[root].y[0])
        if self.binary:
            if label == _NEUTRAL:
                return None
            label = int(label > _NEUTRAL)
        signal.y = torch.tensor([label])
        signal.source = where
        return signal

    def _count_words(self, path: Path) -> list[str]:
        counts: Counter[str] = Counter()
        for where, text in _read(path):
            try:
                counts.update(self._cased(bracket_words(text)))
            except ValueError as error:
                raise ValueError(f"{where}: {error}") from error
        known = sorted(
            (word for word, count in counts.items() if count >= self.min_frequency),
            key=lambda word: (-counts[word], word),
        )
        return [PAD_TOKEN, UNKNOWN_TOKEN, *known[: self.max_vocab_size - 2]]

    def _cased(self, words: Iterable[str]) -> Iterator[str]:
        return (word.lower() if self.lowercase else word for word in words)

    @cached_property
    def vocabulary(self) -> list[str]:
        """The words in the order of their ids."""
        return json.loads(Path(self.processed_paths[1]).read_text("utf-8"))

    @property
    def vocab_size(self) -> int:
        """Number of word ids: rows that an embedding table needs."""
        return len(self.vocabulary)

    @property
    def report(self) -> dict[str, int]:
        """What was left out when the raw files were processed, and how often."""
        return json.loads(Path(self.processed_paths[2]).read_text("utf-8"))

    def _check_raw_folder(self, kept: Path) -> None:
        for name in FILES.values():
            given = None if self.raw_folder is None else _find(self.raw_folder, name)
            if given is not None and (kept / given.name).exists():
                check_same(given, kept / given.name, "raw_folder")


def _find(folder: Path, name: str) -> Path | None:
    places = (folder / name, folder / f"{name}.gz")
    return next((place for place in places if place.is_file()), None)


def _read(path: Path) -> Iterator[tuple[str, str]]:
    """Yield each tree of a file with its place, such as ``dev.txt:17``."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(
                f"{path.as_posix()!r} is no gzip file, or a part of one ({error}): "
                "fetch it again."
            ) from error
    # An empty file is taken for a packed one without content.
    if not content.strip():
        raise ValueError(f"{path.as_posix()!r} has no tree: fetch it again.")
    name = path.name.removesuffix(".gz")
    # By line feeds alone: words hold characters that str.splitlines takes for ends.
    for number, line in enumerate(decode(content, path.as_posix()).split("\n"), 1):
        if line.strip():
            yield f"{name}:{number}", line


def _phrases(sentences: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield each distinct bracket of brackets that is no sentence, with its place.

    What is no tree is left to its sentence's conversion to refuse.
    """
    seen = {text.strip() for _, text in sentences}
    for where, text in sentences:
        # Of each open bracket, where it opens and whether it holds one.
        opened: list[tuple[int, bool]] = []
        for place, character in enumerate(text):
            if character == "(":
                if opened:
                    opened[-1] = (opened[-1][0], True)
                opened.append((place, False))
            elif character == ")" and opened:
                begin, full = opened.pop()
                phrase = text[begin : place + 1]
                if full and phrase not in seen:
                    seen.add(phrase)
                    yield f"{where}, character {begin}", phrase


def _check_labels(signal: NestedSignal, where: str) -> None:
    for kind in ("phrase", "word"):
        labels = signal[kind].y
        wrong = labels[(labels < 0) | (labels > 4)]
        if wrong.numel():
            raise ValueError(
                f"{where}: a {kind} has the label {int(wrong[0])}; labels of the "
                "Stanford Sentiment Treebank are 0 to 4."
            )


def _check_archive(path: Path) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
    except zipfile.BadZipFile as error:
        raise ValueError(f"{URL} gave no zip archive ({error}).") from error
    missing = [name for name in FILES.values() if f"trees/{name}" not in names]
    if missing:
        raise ValueError(f"{URL} gave an archive without trees/{missing[0]}.")
