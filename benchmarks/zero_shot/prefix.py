"""Forward passes that begin at a layer, from what came out below it before.

Layers below the first replaced one compute the same in every trial. Their output is
kept, and passes begin with it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm


class _Reached(Exception):
    """Ends a forward pass at the layer that it was to reach."""

    def __init__(self, state: Tensor) -> None:
        super().__init__()
        self.state = state


def states_before(
    model: Any, batches: Sequence[Mapping[str, Any]], layer: int
) -> dict[int, Tensor]:
    """What enters a layer of the original model.

    Args:
        model: a BERT of transformers, or one with a head.
        batches: with ``input_ids`` and ``attention_mask``.
        layer: its number, from 0.

    Returns:
        Hidden states by the ``id`` of the batch's ``input_ids``.
    """

    def stop(_: nn.Module, given: tuple[Tensor, ...]) -> None:
        raise _Reached(given[0])

    found: dict[int, Tensor] = {}
    handle = model.base_model.encoder.layer[layer].register_forward_pre_hook(stop)
    try:
        for batch in tqdm(batches, f"below layer {layer}", leave=False):
            try:
                with torch.no_grad():
                    model(
                        input_ids=batch["input_ids"],
                        attention_mask=batch["attention_mask"],
                    )
            except _Reached as reached:
                found[id(batch["input_ids"])] = reached.state
    finally:
        handle.remove()
    return found


@contextlib.contextmanager
def resumed(model: Any, states: Mapping[int, Tensor], layer: int) -> Iterator[None]:
    """Within, passes over the same batches skip what lies below a layer.

    Args:
        model: as for :func:`states_before`.
        states: what it gave.
        layer: likewise.
    """
    base = model.base_model
    skipped = list(base.encoder.layer[:layer])

    def kept(input_ids: Tensor, **_: Any) -> Tensor:
        if id(input_ids) not in states:
            raise ValueError(
                "these input_ids were not among the batches whose states were kept; "
                "pass the batches themselves, not copies"
            )
        return states[id(input_ids)]

    base.embeddings.forward = kept
    for module in skipped:
        module.forward = _unchanged
    try:
        yield
    finally:
        for module in (base.embeddings, *skipped):
            del module.forward


def _unchanged(hidden_states: Tensor, *_: Any, **__: Any) -> Tensor:
    return hidden_states
