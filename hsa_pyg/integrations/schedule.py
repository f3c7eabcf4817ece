"""The learning rate over a training: up, then down."""

from __future__ import annotations

import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR


def warmup_schedule(
    optimizer: torch.optim.Optimizer, steps: int, warmup: float, schedule: str
) -> SequentialLR:
    """A linear rise, and a fall to zero along a cosine or a line.

    Args:
        optimizer: Has the highest learning rate.
        steps: Of the whole training.
        warmup: Part of them over which the rate rises.
        schedule: ``"cosine"`` or ``"linear"``.
    """
    # One step at least goes down: there may be but one in all.
    rise = min(round(steps * warmup), max(steps - 1, 0))
    up = LinearLR(optimizer, start_factor=1 / (rise + 1), total_iters=rise)
    down: CosineAnnealingLR | LinearLR
    if schedule == "cosine":
        down = CosineAnnealingLR(optimizer, T_max=steps - rise)
    else:
        down = LinearLR(optimizer, 1.0, end_factor=0.0, total_iters=steps - rise)
    return SequentialLR(optimizer, [up, down], milestones=[rise])
