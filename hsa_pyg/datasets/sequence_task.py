"""What data sets of generated sequences share."""

from __future__ import annotations

import os
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence

from tqdm import tqdm

from hsa_pyg.converters.tokenization import PAD_TOKEN
from hsa_pyg.data import NestedSignal, Schema
from hsa_pyg.datasets.sequence_nesting import SequenceNesting
from hsa_pyg.datasets.sequences import Sequences
from hsa_pyg.datasets.stored_whole import StoredWhole
from hsa_pyg.datasets.word_dataset import SPLITS

SIZES = {"train": 5_000, "val": 2_000, "test": 2_000}
"""Number of sequences of each split, if it is not given."""


class SequenceTask(StoredWhole):
    r"""Base class of data sets that draw labelled sequences of tokens.

    Each split has a random stream of its own, and so has each seed: equal arguments
    give equal data, with every version of NumPy and PyTorch. The generators of these
    are left alone. A larger data set begins with the sequences of a smaller one.

    A task says what its :attr:`symbols` are and draws its :meth:`sequences`.

    Args:
        split: ``"train"``, ``"val"`` or ``"test"``.
        root: Folder to keep the signals in. None keeps them in memory alone.
        num_samples: Number of sequences; by default 5,000, 2,000 and 2,000.
        nesting: What the signals look like.
        seed: Seed, not negative.
        transform: Called on each signal at every access.
        pre_transform: Called on each signal once.
        pre_filter: Says of each signal whether to keep it.
        force_reload: Draw the sequences again although ``root`` has them.
        log: Show a progress bar if drawing takes long.

    Raises:
        ValueError: If an argument is not known or out of its range.
    """

    #: Name of each token but the padding, in the order of their ids.
    symbols: tuple[str, ...] = ()
    #: Which of them are brackets.
    bracket_symbols: tuple[str, ...] = ("(", ")")
    #: Whether the sequences are expressions, which have a tree.
    has_tree = False

    def __init__(
        self,
        split: str,
        *,
        root: str | os.PathLike[str] | None,
        num_samples: int | None,
        nesting: SequenceNesting,
        seed: int,
        transform: Callable | None,
        pre_transform: Callable | None,
        pre_filter: Callable | None,
        force_reload: bool,
        log: bool,
    ) -> None:
        if split not in SPLITS:
            raise ValueError(f"split={split!r} is not known: use one of {SPLITS}")
        self.split = split
        self.num_samples = SIZES[split] if num_samples is None else num_samples
        self.nesting = nesting
        self.seed = seed
        self._check()
        folder = None if root is None else os.fspath(root)
        self._is_kept = folder is not None
        super().__init__(
            folder, transform, pre_transform, pre_filter, log, force_reload
        )
        if self._is_kept:
            self.load(self.processed_paths[0])
        else:
            self.data, self.slices = self.collate(self._signals())

    @abstractmethod
    def sequences(self) -> Iterator[Sequences]:
        """Draw the sequences of this data set, some at a time."""

    @property
    @abstractmethod
    def key(self) -> str:
        """What tells the task and its settings in the names of files."""

    @property
    @abstractmethod
    def longest(self) -> int:
        """Largest number of tokens of a sequence, without padding."""

    @property
    def has_process(self) -> bool:
        """Whether there is a folder to process into."""
        return self._is_kept

    @property
    def processed_file_names(self) -> list[str]:
        """The signals; each combination of settings has its own."""
        size = f"{self.split}{self.num_samples}_seed{self.seed}"
        return [f"{self.key}_{size}_{self.nesting.key}.pt"]

    def process(self) -> None:
        """Draw the sequences and store their signals."""
        self.save(self._signals(), self.processed_paths[0])

    @property
    def schema(self) -> Schema:
        """The schema of every signal, before ``pre_transform``."""
        return self.nesting.schema

    @property
    def token_names(self) -> tuple[str, ...]:
        """Name of each token, in the order of their ids; the padding is the last."""
        return (*self.symbols, PAD_TOKEN)

    @property
    def vocab_size(self) -> int:
        """Number of token ids: rows that an embedding table needs."""
        return len(self.token_names)

    def text(self, index: int) -> str:
        """Return the names of the tokens of a sequence, without padding.

        Args:
            index: Place of the sequence in this data set.
        """
        signal = self.get(self.indices()[index])
        names = [self.token_names[token] for token in signal["token"].x.tolist()]
        return " ".join(name for name in names if name != PAD_TOKEN)

    def _check(self) -> None:
        for name, least in (("num_samples", 1), ("seed", 0)):
            if getattr(self, name) < least:
                raise ValueError(
                    f"{name} must be at least {least}, got {getattr(self, name)}"
                )
        if self.nesting.hierarchy == "tree" and not self.has_tree:
            raise ValueError(
                f"hierarchy='tree' needs sequences that are expressions, but those of "
                f"{self.key!r} are none: use 'flat' or 'windows'"
            )
        pad_to = self.nesting.pad_to
        if pad_to is not None and pad_to < self.longest:
            raise ValueError(
                f"pad_to={pad_to} is too short: sequences of {self.key!r} have up to "
                f"{self.longest} tokens"
            )

    def _signals(self) -> Sequence[NestedSignal]:
        names = self.bracket_symbols if self.has_tree else ()
        brackets = [self.symbols.index(name) for name in names]
        drawn = (
            signal
            for part in self.sequences()
            for signal in self.nesting.signals(part, len(self.symbols), brackets)
        )
        signals = []
        for signal in tqdm(
            drawn,
            desc=f"Drawing {self.key}",
            total=self.num_samples,
            delay=5,
            disable=not self.log,
        ):
            if self.pre_filter is not None and not self.pre_filter(signal):
                continue
            if self.pre_transform is not None:
                signal = self.pre_transform(signal)
            signals.append(signal)
        if not signals:
            raise ValueError(f"pre_filter refused all {self.num_samples} sequences")
        if self.log and len(signals) < self.num_samples:
            left_out = self.num_samples - len(signals)
            print(f"Left out: {left_out} sequences by pre_filter.", file=sys.stderr)
        return signals

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.key}, {len(self)})"
