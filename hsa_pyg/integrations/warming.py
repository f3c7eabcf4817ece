"""What is made ready before the clocks of training start."""

from __future__ import annotations

import torch

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
