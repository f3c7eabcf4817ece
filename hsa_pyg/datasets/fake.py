"""Random nested signals for tests and benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import InMemoryDataset

from hsa_pyg.data import Feature, NestedSignal, Schema
from hsa_pyg.hierarchy import CHILD_OF

#: Chance that a token tells the class; the others are drawn from the whole vocabulary.
_TELLING = 0.5


class FakeNestedDataset(InMemoryDataset):
    r"""A data set of random trees whose leaves tell the label.

    Internal types are ``root``, ``level1``, ``level2``, ...; a child is a leaf of a
    random type or a node of the next level. Every node but the root has its place
    among its siblings in ``pos``, [n, 1]. The label ``y``, [1], is learnable from any
    leaf type: half of the tokens equal ``y`` modulo ``num_classes``, vectors lie around
    a centre of their class. Every signal is schema-complete.

    Args:
        num_samples: number of signals.
        depth: edges between the root and the deepest leaves. 1: all leaves are children
            of the root.
        branching: largest number of children of a node; it is drawn between 1 and it.
        vocab_sizes: leaf types of token ids, with the size of their vocabulary.
        in_channels: leaf types of vectors, with their width. Without any leaf type:
            ``word`` with 64 tokens and ``picture`` with 8 channels.
        num_classes: number of classes.
        missing: chance that a sample has no leaf of a type. One type always stays.
        empty: chance that an internal node has no children. Each sample keeps a leaf.
        shallow: chance that a child above the lowest level is a leaf already.
        seed: seed of the generator. Equal arguments give equal data.
        transform: called on each signal when it is read.

    Raises:
        ValueError: if a size is too small or a chance lies outside of 0 and 1.

    .. code-block:: python

        >>> dataset = FakeNestedDataset(num_samples=10, depth=2, seed=1)
        >>> dataset
        FakeNestedDataset(10)
        >>> dataset.schema.leaf_types
        ['word', 'picture']
        >>> dataset[0].validate()
        True
    """

    def __init__(
        self,
        num_samples: int = 100,
        depth: int = 3,
        branching: int = 4,
        vocab_sizes: Mapping[str, int] | None = None,
        in_channels: Mapping[str, int] | None = None,
        num_classes: int = 2,
        missing: float = 0.0,
        empty: float = 0.0,
        shallow: float = 0.2,
        seed: int = 0,
        transform: Callable[[NestedSignal], Any] | None = None,
    ) -> None:
        super().__init__(None, transform)
        if not vocab_sizes and not in_channels:
            vocab_sizes, in_channels = {"word": 64}, {"picture": 8}
        if num_samples < 1:
            raise ValueError(f"num_samples must be at least 1, got {num_samples}")
        self.vocab_sizes = dict(vocab_sizes or {})
        self.in_channels = dict(in_channels or {})
        self._classes = num_classes
        # The source is not kept: workers that are spawned cannot receive a generator.
        source = _SignalSource(
            depth=depth,
            branching=branching,
            vocab_sizes=self.vocab_sizes,
            in_channels=self.in_channels,
            num_classes=num_classes,
            missing=missing,
            empty=empty,
            shallow=shallow,
            seed=seed,
        )
        schema = source.schema()
        signals = [source.signal(schema) for _ in range(num_samples)]
        self.data, self.slices = self.collate(signals)

    @property
    def schema(self) -> Schema:
        """The schema of every signal."""
        return self._data.schema

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return self._classes


@dataclass
class _SignalSource:
    """Draws signals; the arguments are those of :class:`FakeNestedDataset`."""

    depth: int
    branching: int
    vocab_sizes: Mapping[str, int]
    in_channels: Mapping[str, int]
    num_classes: int
    missing: float
    empty: float
    shallow: float
    seed: int

    def __post_init__(self) -> None:
        least = {"depth": 1, "branching": 1, "num_classes": 1}
        sizes = {name: getattr(self, name) for name in least}
        for kind, size in self.vocab_sizes.items():
            name = f"vocab_sizes[{kind!r}]"
            sizes[name], least[name] = size, self.num_classes
        for kind, size in self.in_channels.items():
            name = f"in_channels[{kind!r}]"
            sizes[name], least[name] = size, 1
        for name, size in sizes.items():
            if size < least[name]:
                raise ValueError(f"{name} must be at least {least[name]}, got {size}")
        for name in ("missing", "empty", "shallow"):
            chance = getattr(self, name)
            if not 0 <= chance <= 1:
                raise ValueError(f"{name} is a chance between 0 and 1, got {chance}")
        self._random = torch.Generator().manual_seed(self.seed)
        self._centres = {
            name: torch.randn(self.num_classes, width, generator=self._random)
            for name, width in self.in_channels.items()
        }

    def schema(self) -> Schema:
        levels = self._levels()
        pos = {"pos": Feature((1,))}
        leaves = {name: Feature((), torch.long) for name in self.vocab_sizes}
        leaves |= {name: Feature((width,)) for name, width in self.in_channels.items()}
        parents = [(below, CHILD_OF, level) for level, below in pairwise(levels)]
        parents += [
            (leaf, CHILD_OF, level)
            for leaf in leaves
            for level in (levels if self.shallow > 0 else levels[-1:])
        ]
        return Schema(
            nodes={
                **{level: pos if level != "root" else {} for level in levels},
                **{name: {"x": feature, **pos} for name, feature in leaves.items()},
            },
            edges=parents,
            graph={"y": Feature((), torch.long)},
        )

    def _levels(self) -> list[str]:
        return ["root", *(f"level{level}" for level in range(1, self.depth))]

    def signal(self, schema: Schema) -> NestedSignal:
        signal = NestedSignal(schema=schema)
        label = self._draw(self.num_classes, 1)
        signal.y = label
        leaf_types = self._present_types(schema.leaf_types)
        places: dict[str, list[Tensor]] = {name: [] for name in leaf_types}
        number = 1
        levels = self._levels()
        for level, name in enumerate(levels):
            signal[name].num_nodes = number
            parent, pos = self._draw_children(number)
            bottom = level == self.depth - 1
            is_leaf = self._happens(1.0 if bottom else self.shallow, parent.numel())
            kind = torch.where(is_leaf, self._draw(len(leaf_types), parent.numel()), -1)
            for index, leaf in enumerate(leaf_types):
                places[leaf].append(pos[kind == index])
                first = sum(part.numel() for part in places[leaf][:-1])
                _attach(signal, leaf, name, parent[kind == index], first)
            if not bottom:
                number = int((~is_leaf).sum())
                signal[levels[level + 1]].pos = pos[~is_leaf].view(-1, 1)
                _attach(signal, levels[level + 1], name, parent[~is_leaf], 0)
        for leaf, parts in places.items():
            signal[leaf].pos = torch.cat(parts).view(-1, 1)
            signal[leaf].x = self._draw_features(leaf, label, signal[leaf].pos.size(0))
        return signal

    def _present_types(self, leaf_types: list[str]) -> list[str]:
        stays = ~self._happens(self.missing, len(leaf_types))
        stays[self._draw(len(leaf_types), 1)] |= ~stays.any()
        return [name for name, here in zip(leaf_types, stays, strict=True) if here]

    def _draw_children(self, number: int) -> tuple[Tensor, Tensor]:
        """The parent of each child of ``number`` nodes, and its place among them."""
        size = 1 + self._draw(self.branching, number)
        childless = self._happens(self.empty, number)
        childless[:1] = False  # the first node of each level leads to a leaf
        size = torch.where(childless, 0, size)
        parent = torch.repeat_interleave(torch.arange(number), size)
        first = size.cumsum(0) - size
        return parent, (torch.arange(parent.numel()) - first[parent]).float()

    def _draw_features(self, leaf: str, label: Tensor, number: int) -> Tensor:
        if leaf in self.in_channels:
            noise = torch.randn(number, self.in_channels[leaf], generator=self._random)
            return noise + self._centres[leaf][label]
        vocabulary = self.vocab_sizes[leaf]
        token = self._draw(vocabulary, number)
        telling = token - token % self.num_classes + label
        telling = torch.where(telling < vocabulary, telling, label)
        return torch.where(self._happens(_TELLING, number), telling, token)

    def _draw(self, below: int, number: int) -> Tensor:
        return torch.randint(below, (number,), generator=self._random)

    def _happens(self, chance: float, number: int) -> Tensor:
        return torch.rand(number, generator=self._random) < chance


def _attach(
    signal: NestedSignal, child: str, parent: str, parents: Tensor, first: int
) -> None:
    """Hang nodes ``first``, ``first`` + 1, ... of type ``child`` under ``parents``."""
    if parents.numel() > 0:
        children = first + torch.arange(parents.numel())
        signal[child, CHILD_OF, parent].edge_index = torch.stack([children, parents])
