"""Clocks of training: what is ready before they start, and which a table shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

import torch

from hsa_pyg.experiments.records import Record
from hsa_pyg.hierarchy import SignalHierarchy
from hsa_pyg.nn import FlatConv, HSAConv
from hsa_pyg.nn.functional import hierarchical_attention


def warm_up(model: torch.nn.Module, device: torch.device | None = None) -> bool:
    """Run hierarchical attention once, there and back, if a model has any.

    Its kernels are compiled on their first use, which is not the first epoch's work. No
    random number is drawn.

    Args:
        model: What is to be trained.
        device: Where that will be; None for the CPU.

    Returns:
        Whether the model has hierarchical attention.
    """
    if not any(
        isinstance(module, HSAConv) and not isinstance(module, FlatConv)
        for module in model.modules()
    ):
        return False
    parent = torch.tensor([-1, 0, 0], device=device)
    x = torch.ones(2, 1, 8, device=device, requires_grad=True)
    hierarchical_attention(
        x, x, x, SignalHierarchy.from_parents(parent)
    ).sum().backward()
    return True


def epoch_seconds(
    groups: Mapping[str, Sequence[Record]],
) -> tuple[dict[str, float], str]:
    """Seconds of an epoch's training (median) of each setting, and of which clock.

    That of the processor, which other work on the machine leaves alone; the one on the
    wall if a run was on an accelerator, or is of a version that had no other.

    Args:
        groups: Runs by the name of their setting.

    Returns:
        Seconds by setting, all of one clock, and ``"processor s"`` or ``"wall s"``.
    """
    rows = {
        name: [row for record in group for row in record.history]
        for name, group in groups.items()
    }
    here = all(
        record.facts.get("device", "cpu") == "cpu"
        for group in groups.values()
        for record in group
    )
    key, title = "processor_seconds", "processor s"
    if not here or not all(key in row for found in rows.values() for row in found):
        key, title = "seconds", "wall s"
    return {
        name: median(row[key] for row in found) for name, found in rows.items()
    }, title
