"""Dropout by the places that it hits, which at a small probability are few."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor


class Dropper:
    """Draws which elements of some tensors are dropped, each independently.

    The gaps between what is dropped are drawn, which have a geometric distribution:
    the outcome is distributed as one coin per element would have it, for one draw per
    element that is dropped.

    Args:
        probability: Of each element to be dropped.
        generator: What is drawn from.
    """

    def __init__(self, probability: float, generator: torch.Generator) -> None:
        if not 0.0 <= probability < 1.0:
            raise ValueError(f"dropout must be in [0, 1), got {probability}")
        self.probability = probability
        self.generator = generator

    @property
    def scale(self) -> float:
        """What is kept is multiplied by it."""
        return 1.0 / (1.0 - self.probability)

    def draw(self, sizes: Sequence[int]) -> list[Tensor]:
        """Places that are dropped in flat tensors of these sizes, ascending."""
        bounds = torch.tensor([0, *sizes]).cumsum(0)
        total = int(bounds[-1])
        if self.probability == 0.0 or total == 0:
            return [torch.empty(0, dtype=torch.long) for _ in sizes]
        expected = total * self.probability
        number = int(expected + 5 * math.sqrt(expected)) + 16
        places = self._places(number, -1)
        while int(places[-1]) < total:
            places = torch.cat([places, self._places(number, int(places[-1]))])
        cuts = torch.searchsorted(places, bounds).tolist()
        starts = bounds.tolist()
        return [
            places[first:last] - start
            for (first, last), start in zip(pairwise(cuts), starts, strict=False)
        ]

    def draw_seed(self) -> int:
        """A seed for what draws its own dropout."""
        return int(torch.randint(2**50, (), generator=self.generator))

    def _places(self, number: int, before: int) -> Tensor:
        gaps = torch.empty(number, dtype=torch.long)
        gaps.geometric_(self.probability, generator=self.generator)
        return gaps.cumsum(0) + before
