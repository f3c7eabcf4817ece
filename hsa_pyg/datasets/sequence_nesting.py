"""Sequences as nested signals: flat, in windows, or as the tree of an expression."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hsa_pyg.data import Feature, NestedSignal, Schema
from hsa_pyg.datasets.sequences import ROOT, Ints, Sequences, offsets
from hsa_pyg.hierarchy import CHILD_OF

Hierarchy = Literal["flat", "tree", "windows"]

_INNER = {"flat": None, "tree": "expression", "windows": "window"}


@dataclass(frozen=True)
class SequenceNesting:
    """How sequences become nested signals.

    The root is a ``sequence``, the leaves are ``token``, in the order of the sequence
    whatever the hierarchy. ``"tree"`` has ``expression`` nodes between them,
    ``"windows"`` has ``window`` nodes.

    Args:
        hierarchy: ``"flat"``, ``"tree"`` or ``"windows"``.
        windows: Widths of the windows from the bottom up: how many tokens a window of
            the lowest level has, how many of these one of the next level has, and so
            on. The last window of a level has what remains.
        brackets: Whether brackets are leaves; only a tree tells the value without them.
        pad_to: Pad sequences at the end to this length.
        pad_multiple: Pad them on to a multiple of this.

    Raises:
        ValueError: If an argument is not known, out of its range, or does not go with
            the hierarchy.
    """

    hierarchy: Hierarchy = "flat"
    windows: tuple[int, ...] = ()
    brackets: bool = True
    pad_to: int | None = None
    pad_multiple: int = 1

    def __post_init__(self) -> None:
        if self.hierarchy not in _INNER:
            raise ValueError(
                f"hierarchy={self.hierarchy!r} is not known: use one of {list(_INNER)}"
            )
        if (self.hierarchy == "windows") != bool(self.windows):
            raise ValueError(
                f"windows={self.windows!r} does not go with hierarchy="
                f"{self.hierarchy!r}: give widths from the bottom up, such as "
                "hierarchy='windows', windows=[5, 4], or leave windows away"
            )
        for width in self.windows:
            if width < 2:
                raise ValueError(f"a width in windows must be at least 2, got {width}")
        if not self.brackets and self.hierarchy != "tree":
            raise ValueError(
                "brackets=False needs hierarchy='tree': without them nothing else "
                "tells where an expression ends"
            )
        for name in ("pad_to", "pad_multiple"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")

    @property
    def key(self) -> str:
        """What tells this nesting from others in the names of files."""
        widths = "-".join(map(str, self.windows))
        brackets = "" if self.brackets else "_nobrackets"
        pad = f"_pad{self.pad_to or 0}x{self.pad_multiple}"
        return f"{self.hierarchy}{widths}{brackets}{pad}"

    @property
    def schema(self) -> Schema:
        """Types and attributes of the signals."""
        pos = {"pos": Feature((1,))}
        inner = _INNER[self.hierarchy]
        nodes = {"sequence": {}, **({inner: pos} if inner else {})}
        if self.hierarchy == "flat":
            above = [("token", "sequence")]
        elif self.hierarchy == "tree":
            above = [(child, "sequence") for child in ("expression", "token")]
            above += [(child, "expression") for child in ("expression", "token")]
        else:
            above = [("window", "sequence"), ("token", "window")]
            above += [("window", "window")] * (len(self.windows) > 1)
        return Schema(
            nodes={**nodes, "token": {"x": Feature((), torch.long), **pos}},
            edges=[(child, CHILD_OF, parent) for child, parent in above],
            graph={"y": Feature((), torch.long)},
        )

    def signals(
        self, sequences: Sequences, pad: int, brackets: Sequence[int] = ()
    ) -> Iterator[NestedSignal]:
        """Yield the signal of each sequence.

        Args:
            sequences: The sequences.
            pad: Token id of the padding.
            brackets: Token ids of the brackets.
        """
        if not self.brackets:
            sequences = _without(sequences, brackets)
        sequences = self._nest(self._pad(sequences, pad))
        token_pos, inner_pos = map(torch.from_numpy, _places(sequences))
        tokens = torch.from_numpy(sequences.tokens).long()
        token_parent = torch.from_numpy(sequences.token_parent).long()
        inner_parent = torch.from_numpy(sequences.expression_parent).long()
        schema, inner = self.schema, _INNER[self.hierarchy]
        first = first_inner = 0
        for length, number, label in zip(
            sequences.lengths.tolist(),
            sequences.num_expressions.tolist(),
            sequences.labels.tolist(),
            strict=True,
        ):
            signal = NestedSignal(schema=schema)
            signal["sequence"].num_nodes = 1
            here = slice(first, first := first + length)
            signal["token"].x = tokens[here]
            signal["token"].pos = token_pos[here]
            _attach(signal, "token", inner, token_parent[here])
            if inner is not None:
                here = slice(first_inner, first_inner := first_inner + number)
                signal[inner].num_nodes = number
                signal[inner].pos = inner_pos[here]
                _attach(signal, inner, inner, inner_parent[here])
            signal.y = torch.tensor([label])
            yield signal

    def padded_length(self, length: int) -> int:
        """Length of a sequence once it is padded."""
        length = max(length, self.pad_to or 0)
        return length + -length % self.pad_multiple

    def _pad(self, sequences: Sequences, pad: int) -> Sequences:
        lengths = np.array(
            [self.padded_length(length) for length in sequences.lengths.tolist()]
        )
        shift = offsets(lengths) - offsets(sequences.lengths)
        place = np.arange(sequences.tokens.size) + np.repeat(shift, sequences.lengths)
        tokens = np.full(lengths.sum(), pad)
        tokens[place] = sequences.tokens
        parent = np.full(lengths.sum(), ROOT)
        parent[place] = sequences.token_parent
        return replace(sequences, lengths=lengths, tokens=tokens, token_parent=parent)

    def _nest(self, sequences: Sequences) -> Sequences:
        if self.hierarchy == "tree":
            return sequences
        parts = [
            _windows(length, self.windows) for length in sequences.lengths.tolist()
        ]
        token_parent, parent, start = map(np.concatenate, zip(*parts, strict=True))
        return replace(
            sequences,
            token_parent=token_parent,
            num_expressions=np.array([part[1].size for part in parts]),
            expression_parent=parent,
            expression_start=start,
        )


@lru_cache(maxsize=4096)
def _windows(length: int, widths: tuple[int, ...]) -> tuple[Ints, Ints, Ints]:
    """Window of each token, window above each window, and its first token.

    Without widths every token hangs under the root. The windows of the highest level
    come first.
    """
    none = np.zeros(0, dtype=np.int64)
    if not widths:
        return np.full(length, ROOT), none, none
    spans = [prod(widths[:level]) for level in range(len(widths), 0, -1)]
    numbers = np.array([-(-length // span) for span in spans])
    firsts = offsets(numbers).tolist()
    starts = [np.arange(0, length, span) for span in spans]
    parents = [np.full(starts[0].size, ROOT)]
    for level, (wide, _) in enumerate(pairwise(spans)):
        parents.append(firsts[level] + starts[level + 1] // wide)
    token_parent = firsts[-1] + np.arange(length) // spans[-1]
    return token_parent, np.concatenate(parents), np.concatenate(starts)


def _without(sequences: Sequences, dropped: Sequence[int]) -> Sequences:
    """The sequences without these tokens."""
    stays = ~np.isin(sequences.tokens, dropped)
    owner = np.repeat(np.arange(len(sequences)), sequences.lengths)
    lengths = np.bincount(owner[stays], minlength=len(sequences))
    # An expression starts where the first token that stays in it comes to stand.
    before = offsets(stays.astype(np.int64))
    shift = np.repeat(offsets(sequences.lengths), sequences.num_expressions)
    first = np.repeat(offsets(lengths), sequences.num_expressions)
    return replace(
        sequences,
        lengths=lengths,
        tokens=sequences.tokens[stays],
        token_parent=sequences.token_parent[stays],
        expression_start=before[sequences.expression_start + shift] - first,
    )


def _places(sequences: Sequences) -> tuple[NDArray, NDArray]:
    """Places of tokens and inner nodes among their siblings, ``[n, 1]`` float."""
    lengths, numbers = sequences.lengths, sequences.num_expressions
    start = np.arange(lengths.sum()) - np.repeat(offsets(lengths), lengths)
    start = np.concatenate([start, sequences.expression_start])
    owner = np.arange(len(sequences))
    owner = np.concatenate([np.repeat(owner, lengths), np.repeat(owner, numbers)])
    parent = np.concatenate([sequences.token_parent, sequences.expression_parent])
    # Roots are numbered behind all inner nodes.
    parent = np.where(
        parent == ROOT, numbers.sum() + owner, parent + offsets(numbers)[owner]
    )
    order = np.lexsort((start, parent))
    number = np.arange(order.size)
    opens = np.diff(parent[order], prepend=-1) != 0
    place = np.empty((order.size, 1), dtype=np.float32)
    place[order, 0] = number - np.maximum.accumulate(np.where(opens, number, 0))
    return place[: lengths.sum()], place[lengths.sum() :]


def _attach(
    signal: NestedSignal, child: str, inner: str | None, parents: Tensor
) -> None:
    """Hang nodes of type ``child`` under the root or nodes of type ``inner``."""
    at_root = parents == ROOT
    for kind, here in (("sequence", at_root), (inner, ~at_root)):
        children = here.nonzero().view(-1)
        if kind is not None and children.numel() > 0:
            above = parents[children].clamp(min=0)
            edge = torch.stack([children, above])
            signal[child, CHILD_OF, kind].edge_index = edge
