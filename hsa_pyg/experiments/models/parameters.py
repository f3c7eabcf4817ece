"""How many parameters models have, and the width at which they have as many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class ParameterCount:
    """Trained parameters of a model.

    Args:
        encoder: Those of its leaf encoder.
        body: All others.
    """

    encoder: int
    body: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.encoder + self.body


def count_parameters(model: torch.nn.Module) -> ParameterCount:
    """Count the parameters that are trained; frozen ones and buffers are not.

    Args:
        model: A model whose leaf encoder, if any, is ``model.encoder``.
    """
    total = _trained(model)
    encoder = getattr(model, "encoder", None)
    inside = _trained(encoder) if isinstance(encoder, torch.nn.Module) else 0
    return ParameterCount(inside, total - inside)


def matching_channels(
    make: Callable[[int], torch.nn.Module], body: int, candidates: Sequence[int]
) -> int:
    """The width at which a model's body is nearest to a number of parameters.

    Args:
        make: Makes the model of a width.
        body: Parameters outside of the leaf encoder, see :func:`count_parameters`.
        candidates: The widths to choose from, such as multiples of the heads.

    Returns:
        The candidate with the nearest number; the smallest of equally near ones.

    Raises:
        ValueError: if there is no candidate.
    """
    if not candidates:
        raise ValueError("there is no width to choose from")

    def distance(channels: int) -> tuple[int, int]:
        return abs(count_parameters(make(channels)).body - body), channels

    return min(candidates, key=distance)


def _trained(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters() if p.requires_grad)
