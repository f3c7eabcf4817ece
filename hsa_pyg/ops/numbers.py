"""Which floating point numbers the operators compute in."""

from __future__ import annotations

import torch
from torch import Tensor


def compute_dtype(*tensors: Tensor) -> torch.dtype:
    """float64 if an input is; float32 otherwise, also for half precision."""
    wide = any(x.dtype == torch.float64 for x in tensors)
    return torch.float64 if wide else torch.float32
