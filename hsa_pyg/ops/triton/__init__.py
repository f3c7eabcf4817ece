"""The passes as fused Triton kernels, on a GPU."""

from __future__ import annotations

import torch


def why_not(device: torch.device) -> str | None:
    """Why the kernels cannot run on a device; None if they can."""
    return "it is not part of this version"
