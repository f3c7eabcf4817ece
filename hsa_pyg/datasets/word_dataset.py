"""What data sets of words keep beside their signals."""

from __future__ import annotations

import json
import sys
import zlib
from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hsa_pyg.converters import train_word_tokenizer
from hsa_pyg.datasets.stored_whole import write_whole

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SPLITS = ("train", "val", "test")


class WordDataset:
    """A tokenizer and a report, kept with the processed data of a PyG data set.

    A mix-in: the data set's ``processed_file_names`` are the signals, the tokenizer
    and the report, in this order.
    """

    processed_paths: list[str]
    log: bool
    max_vocab_size: int
    min_frequency: int
    _given_tokenizer: Tokenizer | None

    def _use_tokenizer(
        self, tokenizer: Any, max_vocab_size: int, min_frequency: int
    ) -> None:
        self.max_vocab_size = max_vocab_size
        self.min_frequency = min_frequency
        self._given_tokenizer = _backend(tokenizer)

    @property
    def _tokenizer_key(self) -> str:
        """What tells the tokenizer from others in the names of processed files."""
        if self._given_tokenizer is None:
            return f"vocab{self.max_vocab_size}_min{self.min_frequency}"
        return f"given{zlib.crc32(self._given_tokenizer.to_str().encode()):08x}"

    def _fit_tokenizer(self, training_texts: Iterable[str]) -> Tokenizer:
        """Return the tokenizer that was given, or count a vocabulary."""
        if self._given_tokenizer is not None:
            return self._given_tokenizer
        return train_word_tokenizer(
            training_texts,
            vocab_size=self.max_vocab_size,
            min_frequency=self.min_frequency,
        )

    def _keep(self, tokenizer: Tokenizer, report: Counter[str]) -> None:
        """Store both and tell the report; call it before the signals are stored."""
        write_whole(self.processed_paths[1], tokenizer.to_str(pretty=True))
        self.__dict__.pop("tokenizer", None)
        kept = json.dumps(dict(sorted((+report).items())), indent=2)
        write_whole(self.processed_paths[2], kept)
        if self.log and +report:
            print(f"Left out: {describe(+report)}.", file=sys.stderr)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that made the token ids."""
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise ImportError(
                'Reading a tokenizer needs tokenizers: pip install "hsa-pyg[text]".'
            ) from error
        return Tokenizer.from_file(self.processed_paths[1])

    @property
    def vocab_size(self) -> int:
        """Number of token ids: rows that an embedding table needs."""
        return self.tokenizer.get_vocab_size()

    @property
    def report(self) -> dict[str, int]:
        """What was left out when the raw files were processed, and how often."""
        return json.loads(Path(self.processed_paths[2]).read_text(encoding="utf-8"))


def check_split(split: str | None, whole: str) -> None:
    """Raise a ValueError unless ``split`` is a part or None.

    Args:
        split: The argument of a data set.
        whole: What None gives, for the error.
    """
    if split is not None and split not in SPLITS:
        raise ValueError(
            f"split={split!r} is not known: use 'train', 'val', 'test', or None "
            f"for {whole}."
        )


def describe(report: Counter[str]) -> str:
    """A report on one line; empty if nothing was left out."""
    return ", ".join(f"{count} {reason}" for reason, count in sorted(report.items()))


def _backend(tokenizer: Any) -> Tokenizer | None:
    """Return the ``tokenizers.Tokenizer`` inside, which can be saved."""
    tokenizer = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if tokenizer is None or hasattr(tokenizer, "to_str"):
        return tokenizer
    raise TypeError(
        f"tokenizer is a {type(tokenizer).__name__}, which cannot be saved with the "
        "data: pass a tokenizers.Tokenizer or a fast tokenizer of transformers."
    )
