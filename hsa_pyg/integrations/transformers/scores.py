"""A model's scores: how they are read from its output, checked and compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

Read = Callable[[Any, Mapping[str, Any]], Tensor]
Decide = Callable[[Tensor], Tensor]


def logits(output: Any, batch: Mapping[str, Any]) -> Tensor:
    """``output.logits`` as [B, classes].

    Raises:
        ValueError: if there are none.
    """
    found = getattr(output, "logits", None)
    if not isinstance(found, Tensor):
        raise ValueError(
            f"{type(output).__name__} has no logits; pass read=, a function from the "
            "output and the batch to scores [batch, classes]"
        )
    return found.flatten(1) if found.dim() > 1 else found


def divergence(before: Tensor, after: Tensor) -> float:
    """Mean KL(before || after) of softmax(scores), in nats; scores [S, classes]."""
    old, new = before.double().log_softmax(1), after.double().log_softmax(1)
    # Rounding alone must not give less than nothing.
    return max(0.0, float((old.exp() * (old - new)).sum(1).mean()))


def mean_state(output: Any, batch: Mapping[str, Any]) -> Tensor:
    """Mean of the last hidden states over the tokens that are no padding, [B, C].

    Raises:
        ValueError: if the output has none.
    """
    hidden = getattr(output, "last_hidden_state", None)
    if not isinstance(hidden, Tensor):
        raise ValueError(
            f"{type(output).__name__} has neither logits nor last_hidden_state; "
            "pass read=, a function from the output and the batch to a tensor"
        )
    mask = batch.get("attention_mask")
    if mask is None or mask.shape != hidden.shape[:2]:
        return hidden.float().mean(1)
    weight = mask.to(hidden.device).float()[..., None]
    return (hidden.float() * weight).sum(1) / weight.sum(1).clamp(min=1)


def check_scores(scores: Any, before: Sequence[Tensor]) -> Tensor:
    """Scores of a batch on the CPU, [B, classes], in float32 or wider.

    Args:
        scores: of this batch.
        before: of earlier batches.

    Raises:
        ValueError: if they have another shape.
    """
    if not isinstance(scores, Tensor) or scores.dim() != 2:
        got = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores)
        raise ValueError(
            f"scores must be a tensor [batch, classes], got {got}; pass read=, a "
            "function from the output and the batch to such a tensor"
        )
    if scores.size(1) < 2:
        raise ValueError(
            f"scores have {scores.size(1)} class, and softmax of one says nothing; let "
            "read return a score for each class, such as torch.cat([0 * z, z], 1)"
        )
    if before and before[0].size(1) != scores.size(1):
        raise ValueError(
            f"a batch has scores of {scores.size(1)} classes, another one of "
            f"{before[0].size(1)}; let read return as many for every batch"
        )
    scores = scores.detach().cpu()
    return scores.to(torch.promote_types(scores.dtype, torch.float32))


def check_labels(labels: Sequence[int] | Tensor, scores: Tensor) -> Tensor:
    """Labels as a tensor [S] on the CPU.

    Raises:
        TypeError: if they are no integers.
        ValueError: if there is not one for each row of ``scores``.
    """
    try:
        given = torch.as_tensor(labels).detach().cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"labels must be integers, one for each sample: {error}"
        ) from error
    if given.is_floating_point() or given.is_complex():
        raise TypeError(
            f"labels must be integers, one for each sample, got {given.dtype}"
        )
    if given.shape != scores.shape[:1]:
        raise ValueError(
            f"labels have shape {tuple(given.shape)}, but the batches hold "
            f"{scores.size(0)} samples; give a label for each, in their order"
        )
    return given


def check_classes(labels: Tensor, scores: Tensor) -> None:
    """Raise a ValueError if labels are no columns of ``scores``."""
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= scores.size(1):
        raise ValueError(
            f"labels reach from {low} to {high}, but the scores are of the classes 0 "
            f"to {scores.size(1) - 1}; number them as the model does, or pass decide=, "
            "from scores to predictions"
        )
