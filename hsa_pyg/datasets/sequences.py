"""Generated token sequences, and the expressions that some of them are."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

#: The parent of what hangs under the whole sequence.
ROOT = -1


@dataclass(frozen=True)
class Sequences:
    """Labelled sequences one after another, each with the tree of its expression.

    Expressions are numbered from 0 within their sequence, parents before children and
    else in the order of their first tokens. Sequences without a tree have none.

    Args:
        lengths: ``[n]`` tokens of each sequence.
        labels: ``[n]`` class of each sequence.
        tokens: ``[num_tokens]`` token ids.
        token_parent: ``[num_tokens]`` expression of each token, or ``ROOT``.
        num_expressions: ``[n]`` expressions of each sequence.
        expression_parent: ``[num_expressions]`` expression above each, or ``ROOT``.
        expression_start: ``[num_expressions]`` place of its first token.
    """

    lengths: Ints
    labels: Ints
    tokens: Ints
    token_parent: Ints
    num_expressions: Ints
    expression_parent: Ints
    expression_start: Ints

    @classmethod
    def from_rows(cls, tokens: Ints, labels: Ints) -> Sequences:
        """Sequences of one length, ``[n, length]``, without a tree."""
        number, length = tokens.shape
        none = np.zeros(0, dtype=np.int64)
        return cls(
            lengths=np.full(number, length),
            labels=labels,
            tokens=tokens.reshape(-1),
            token_parent=np.full(tokens.size, ROOT),
            num_expressions=np.zeros(number, dtype=np.int64),
            expression_parent=none,
            expression_start=none,
        )

    def first(self, number: int) -> Sequences:
        """The first ``number`` sequences."""
        tokens = int(self.lengths[:number].sum())
        expressions = int(self.num_expressions[:number].sum())
        return Sequences(
            self.lengths[:number],
            self.labels[:number],
            self.tokens[:tokens],
            self.token_parent[:tokens],
            self.num_expressions[:number],
            self.expression_parent[:expressions],
            self.expression_start[:expressions],
        )

    def __len__(self) -> int:
        return self.lengths.size


def random_stream(name: str, seed: int) -> np.random.RandomState:
    """A generator of its own for every name and seed.

    Only its ``random_sample`` is meant to be used: NumPy keeps what this class draws
    the same for ever, which it does not promise of its newer generators.

    Args:
        name: What is drawn, such as ``"parity train"``.
        seed: Not negative.
    """
    key = zlib.crc32(name.encode())
    sequence = np.random.SeedSequence(seed, spawn_key=(key,))
    return np.random.RandomState(np.random.MT19937(sequence))


def scale(uniform: NDArray[np.float64], below: int) -> Ints:
    """Integers 0 to ``below`` - 1 from numbers that are uniform between 0 and 1."""
    return (uniform * below).astype(np.int64)


def offsets(counts: Ints) -> Ints:
    """Where each of so many rows starts, ``[n]``."""
    return np.cumsum(counts) - counts
