"""Fixed patterns: what a node sees of its family by its place in it alone.

They are what a choice by scores is compared with (docs/mathematics.md, section 7). In a
family of one tree they are the masks of Ram et al., "Transformers Learn Faster with
Semantic Focus", NeurIPS 2025.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hsa_pyg.hierarchy import SignalHierarchy


@dataclass(frozen=True)
class Pattern(ABC):
    """What the members of a family see of it, by their places in sibling order.

    Args:
        width: How many members one that is not global sees at most, itself included.
        num_global: How many of a family's last members are global: they see all, and
            all see them. Windows and blocks lie among the others.

    Raises:
        TypeError: if a number is no integer.
        ValueError: if a number is out of range.
    """

    width: int
    num_global: int = 0

    def __post_init__(self) -> None:
        for name, least in (("width", 1), ("num_global", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{name} must be an integer, got {value!r}")
            if value < least:
                raise ValueError(f"{name} must be at least {least}, got {value}")

    @property
    @abstractmethod
    def leaves_none_alone(self) -> bool:
        """Whether every member of every family sees another one."""

    @abstractmethod
    def _window(self, place: int, members: int) -> range:
        """What one of ``members`` that are not global sees of these."""

    @abstractmethod
    def _first(self, place: Tensor, members: Tensor) -> Tensor:
        """The first place in the window of each query."""

    def visible(self, place: int, size: int) -> list[int]:
        """Places that the member at ``place`` of a family of ``size`` sees, its own
        among them.
        """
        members = max(size - self.num_global, 0)
        if place >= members:
            return list(range(size))
        return [*self._window(place, members), *range(members, size)]

    def mask(self, query: Tensor, key: Tensor, size: Tensor) -> Tensor:
        """Which queries see which keys, for places that broadcast.

        Args:
            query: places of queries.
            key: places of keys.
            size: sizes of their families. Who stands behind the last member, as padding
                does, sees all and is seen by all.
        """
        members = (size - self.num_global).clamp_(min=0)
        first = self._first(query, members)
        near = (key >= first) & (key < first + self.width)
        return near | (key >= members) | (query >= members)


@dataclass(frozen=True)
class Banded(Pattern):
    """A window centred on the query, see :func:`banded`."""

    @property
    def leaves_none_alone(self) -> bool:
        """Whether every member of every family sees another one."""
        return self.width > 1 or self.num_global > 0

    def _window(self, place: int, members: int) -> range:
        last = max(members - self.width, 0)
        first = min(max(place - (self.width - 1) // 2, 0), last)
        return range(first, min(first + self.width, members))

    def _first(self, place: Tensor, members: Tensor) -> Tensor:
        first = (place - (self.width - 1) // 2).clamp_(min=0)
        return torch.minimum(first, (members - self.width).clamp_(min=0))


@dataclass(frozen=True)
class BlockLocal(Pattern):
    """Consecutive blocks, see :func:`blocklocal`."""

    @property
    def leaves_none_alone(self) -> bool:
        """Whether every member of every family sees another one."""
        # The last block may hold a single member.
        return self.num_global > 0

    def _window(self, place: int, members: int) -> range:
        first = place - place % self.width
        return range(first, min(first + self.width, members))

    def _first(self, place: Tensor, members: Tensor) -> Tensor:
        return place - place % self.width

    def hierarchy(self, lengths: Sequence[int]) -> SignalHierarchy:
        """The blocks of some sequences as trees of their own.

        Plain attention on this forest is ``blocklocal`` on one family per sequence. It
        is the hierarchy of two levels, sequences of blocks, without the upper one.

        Args:
            lengths: tokens of each sequence; leaf rows follow the tokens.

        Raises:
            ValueError: if there are global members, which blocks would share, or a
                length is negative.

        Example:
            >>> blocklocal(2).hierarchy([3, 2]).parent
            tensor([-1, -1, -1,  0,  0,  1,  2,  2])
        """
        if self.num_global > 0:
            raise ValueError(
                f"blocklocal with num_global={self.num_global} is no hierarchy: the "
                "global members lie in every block; give num_global=0"
            )
        if any(length < 0 for length in lengths):
            raise ValueError(f"lengths must be at least 0, got {list(lengths)}")
        sizes = [
            min(self.width, length - start)
            for length in lengths
            for start in range(0, length, self.width)
        ]
        blocks = torch.arange(len(sizes))
        tokens = blocks.repeat_interleave(torch.tensor(sizes, dtype=torch.long))
        is_leaf = torch.arange(len(sizes) + tokens.numel()) >= len(sizes)
        parent = torch.cat([torch.full_like(blocks, -1), tokens])
        return SignalHierarchy.from_parents(parent, is_leaf)


def banded(width: int, num_global: int = 0) -> Pattern:
    """Each member sees a window of ``width`` members around it.

    The window is shifted at the ends of the family so that it always holds ``width``
    members (all of them where there are no more). One of even width reaches one member
    farther forward than back.

    Args:
        width: members in the window, the query's own place included. An internal node
            is no sibling of its own: it sees one sibling less.
        num_global: how many of the family's last members see all and are seen by all;
            the windows lie among the others.

    Example:
        >>> [banded(3, num_global=1).visible(place, 6) for place in (0, 2, 5)]
        [[0, 1, 2, 5], [1, 2, 3, 5], [0, 1, 2, 3, 4, 5]]
    """
    return Banded(width, num_global)


def blocklocal(width: int, num_global: int = 0) -> BlockLocal:
    """Consecutive blocks of ``width`` members see themselves.

    The last block holds what is left. A node alone in its block sees no sibling; an
    internal one then gives all its weight to what lies below it.

    Args:
        width: members of a block.
        num_global: how many of the family's last members see all and are seen by all;
            the blocks lie among the others.

    Example:
        >>> [blocklocal(2).visible(place, 5) for place in (0, 1, 4)]
        [[0, 1], [0, 1], [4]]
    """
    return BlockLocal(width, num_global)


def make_pattern(
    pattern: str = "", pattern_width: int = 0, num_global: int = 0
) -> Pattern | None:
    """The pattern of the operators' keywords (see :func:`describe`); "" is none."""
    if not pattern:
        return None
    kinds: dict[str, type[Pattern]] = {"banded": Banded, "blocklocal": BlockLocal}
    return kinds[pattern](pattern_width, num_global)


def describe(pattern: Pattern | None) -> dict[str, Any]:
    """A pattern as the operators' keywords; none for no pattern."""
    if pattern is None:
        return {}
    return {
        "pattern": type(pattern).__name__.lower(),
        "pattern_width": pattern.width,
        "num_global": pattern.num_global,
    }
