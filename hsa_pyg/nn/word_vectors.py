"""Pretrained word vectors: read for a vocabulary, and used as leaf vectors."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from torch_geometric.nn.dense.linear import Linear

from hsa_pyg.nn.word_vector_files import find_in_array, find_in_text

Missing = Literal["zero", "mean", "random"]


@dataclass(frozen=True, eq=False)
class WordVectors:
    """The vectors of a vocabulary, and which of its words have none.

    Args:
        words: V words, by id.
        vectors: [V, D] float32, a row per word; zeros for those without a vector.
        found: [V] bool, the words that have a vector.
    """

    words: tuple[str, ...]
    vectors: Tensor
    found: Tensor

    @property
    def missing(self) -> list[str]:
        """The words without a vector, by id."""
        return [self.words[i] for i in (~self.found).nonzero().view(-1).tolist()]

    @property
    def coverage(self) -> float:
        """Share of the words that have a vector."""
        return float(self.found.double().mean())

    def token_coverage(self, ids: Tensor) -> float:
        """Share of the tokens ``ids`` [n] whose word has a vector."""
        return float(self.found[ids].double().mean())

    def table(self, missing: Missing = "mean", seed: int = 0) -> Tensor:
        """The vectors, with something in the place of those that are missing.

        Args:
            missing: ``"zero"``; ``"mean"``, the mean of the words found; or
                ``"random"``, normal numbers with the mean and the deviation that the
                words found have in each channel.
            seed: Of the random numbers.

        Returns:
            [V, D] float32, a new tensor.

        Raises:
            ValueError: if ``missing`` is something else.
        """
        table = self.vectors.clone()
        known = self.vectors[self.found]
        absent = ~self.found
        if missing == "mean":
            table[absent] = known.mean(dim=0)
        elif missing == "random":
            generator = torch.Generator().manual_seed(seed)
            size = (int(absent.sum()), table.size(1))
            noise = torch.randn(size, generator=generator)
            table[absent] = known.mean(0) + known.std(0, correction=0) * noise
        elif missing != "zero":
            raise ValueError(
                f"'missing' must be 'zero', 'mean' or 'random', got {missing!r}"
            )
        return table

    def __repr__(self) -> str:
        absent = self.missing
        some = ", ".join(map(repr, absent[:8])) + (", ..." if len(absent) > 8 else "")
        return (
            f"{type(self).__name__}({self.vectors.size(1)} channels, vectors for "
            f"{int(self.found.sum()):,} of {len(self.words):,} words "
            f"({self.coverage:.1%}), {len(absent):,} missing"
            f"{': ' + some if some else ''})"
        )


def read_word_vectors(
    path: str | Path,
    vocabulary: Sequence[str] | Mapping[str, int],
    *,
    index: str | Path | None = None,
    member: str | None = None,
    lowercase: bool = False,
    log: bool = True,
) -> WordVectors:
    r"""Read the vectors of a vocabulary's words from a file, and no others.

    The file is one of text, a word and its numbers a line, as GloVe, word2vec and
    fastText write it, with or without a first line "words channels". It is streamed,
    packed (``.gz``, or in a ``.zip``) or not. Or it is a ``.npy`` array of a row per
    word, with a second file that says which word.

    Args:
        path: The file of vectors.
        vocabulary: The words by id, or each word with its id, such as
            ``tokenizer.get_vocab()``; ids without a word are then called ``""``.
        index: The words of a ``.npy`` file in the order of its rows: a text file of a
            word a line, a JSON list, a JSON object from word to row, or a Parquet file
            of one column (which needs PyArrow).
        member: Name of the file within a ``.zip`` of several.
        lowercase: Whether a word without a vector takes that of its lower-case form.
        log: Tell on the standard error stream how many words were found, and which
            were not.

    Returns:
        The vectors, and which words have none. Of a word that the file has twice the
        first vector counts.

    Raises:
        ValueError: if the file is broken (it names the line), has none of the words, or
            lacks an index or has one it cannot use.
        TypeError: if ``vocabulary`` is no sequence or mapping of words.
        FileNotFoundError: if there is no such file.
    """
    words = _by_id(vocabulary)
    path = Path(path)
    wanted = set(words) - {""}
    if lowercase:
        wanted |= {word.lower() for word in wanted}
    if path.suffix == ".npy":
        if index is None:
            raise ValueError(
                f"{path.as_posix()!r} is an array without words: pass index=, the file "
                "of the words of its rows"
            )
        found = find_in_array(path, Path(index), wanted)
    elif index is not None:
        raise ValueError(f"index= is for .npy files, but the vectors are in {path}")
    else:
        found = find_in_text(path, wanted, member)
    if not found:
        raise ValueError(
            f"{path.as_posix()!r} has a vector for none of the {len(words)} words of "
            "the vocabulary; the first are "
            f"{', '.join(map(repr, words[:5]))}: is it in another language or case, or "
            "not of words and numbers with spaces between them?"
        )
    vectors = _align(words, found, lowercase)
    if log:
        print(f"{path.name}: {vectors}", file=sys.stderr)
    return vectors


def _by_id(vocabulary: Sequence[str] | Mapping[str, int]) -> tuple[str, ...]:
    if isinstance(vocabulary, str) or not isinstance(vocabulary, Sequence | Mapping):
        raise TypeError(
            "vocabulary must be a list of words, or a dictionary from word to id, got "
            f"{type(vocabulary).__name__}"
        )
    if len(vocabulary) == 0:
        raise ValueError("vocabulary has no word")
    strange: list[object] = [word for word in vocabulary if not isinstance(word, str)]
    if isinstance(vocabulary, Mapping):
        strange += [
            place for place in vocabulary.values() if not isinstance(place, Integral)
        ]
    if strange:
        raise TypeError(
            "vocabulary must be of words, in a dictionary with integer ids, but holds "
            f"{strange[0]!r}"
        )
    if not isinstance(vocabulary, Mapping):
        return tuple(vocabulary)
    words = [""] * (max(vocabulary.values()) + 1)
    for word, place in vocabulary.items():
        if place < 0 or words[place]:
            raise ValueError(
                f"the id {place} of {word!r} is negative or that of another word, too; "
                "vocabulary must give each word an id of its own"
            )
        words[place] = word
    return tuple(words)


def _align(
    words: tuple[str, ...], found: Mapping[str, Tensor], lowercase: bool
) -> WordVectors:
    width = next(iter(found.values())).numel()
    vectors = torch.zeros(len(words), width)
    known = torch.zeros(len(words), dtype=torch.bool)
    for place, word in enumerate(words):
        vector = found.get(word)
        if vector is None and lowercase:
            vector = found.get(word.lower())
        if vector is not None:
            vectors[place], known[place] = vector, True
    return WordVectors(words, vectors, known)


class WordVectorEmbedding(torch.nn.Module):
    r"""Token ids to a given table of vectors, then a learned linear map.

    Put it into :class:`~hsa_pyg.nn.LeafEncoder` by ``modules={"token": ...}``.

    Args:
        vectors: The vectors of the vocabulary, or a table [V, D].
        channels: Size of the leaf vectors.
        trainable: Whether the table is trained. Otherwise it is a buffer, which is
            saved and moved along with the model and stays as it is.
        missing: What words without a vector get, see :meth:`WordVectors.table`.
        seed: Of random numbers in their place.

    Shapes:
        - **input:** token ids :math:`(n)`
        - **output:** vectors :math:`(n, F)`
    """

    table: Tensor

    def __init__(
        self,
        vectors: WordVectors | Tensor,
        channels: int,
        *,
        trainable: bool = False,
        missing: Missing = "mean",
        seed: int = 0,
    ) -> None:
        super().__init__()
        if isinstance(vectors, WordVectors):
            vectors = vectors.table(missing, seed)
        if not isinstance(vectors, Tensor):
            raise TypeError(
                "the table must be WordVectors or a tensor [words, channels], got "
                f"{type(vectors).__name__}"
            )
        if not bool(vectors.isfinite().all()):
            raise ValueError("the table has numbers that are not finite; replace them")
        if vectors.dim() != 2 or not vectors.is_floating_point() or not len(vectors):
            raise ValueError(
                "the table must hold a vector per word [words, channels], got "
                f"{vectors.dtype} of shape {tuple(vectors.shape)}"
            )
        table = vectors.detach().to(torch.float32, copy=True)
        # What reset_parameters goes back to; a frozen table is never another one.
        self._start = table.clone() if trainable else None
        self.trainable = trainable
        if trainable:
            self.table = torch.nn.Parameter(table)
        else:
            self.register_buffer("table", table)
        self.lin = Linear(table.size(1), channels)

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        self.lin.reset_parameters()
        if self._start is not None:
            with torch.no_grad():
                self.table.copy_(self._start)

    def forward(self, ids: Tensor) -> Tensor:
        r"""The vectors of tokens.

        Raises:
            TypeError: if ``ids`` is no tensor.
            ValueError: if ``ids`` is no [n] of int64 or int32.
            IndexError: if an id is out of the table.
        """
        if not isinstance(ids, Tensor):
            raise TypeError(f"token ids must be a tensor [n], got {type(ids).__name__}")
        if ids.dtype not in (torch.int32, torch.int64) or ids.dim() != 1:
            raise ValueError(
                "word vectors are looked up by token ids [n] of int64 or int32, got "
                f"{ids.dtype} of shape {tuple(ids.shape)}"
            )
        try:
            found = torch.nn.functional.embedding(ids, self.table)
        except IndexError as error:
            raise IndexError(
                f"tokens have ids from {int(ids.min())} to {int(ids.max())}, but there "
                f"are vectors for the ids 0 to {self.table.size(0) - 1}; read them for "
                "the vocabulary that made the ids"
            ) from error
        return self.lin(found)

    def __repr__(self) -> str:
        kind = "trainable" if self.trainable else "frozen"
        return (
            f"{self.__class__.__name__}({self.table.size(0)}, {self.table.size(1)} -> "
            f"{self.lin.out_channels}, {kind})"
        )
