"""The passes as fused Triton kernels, on a GPU.

Triton is imported when a kernel is wanted, so that the package works without it.
"""

from __future__ import annotations

import torch

#: The first version whose kernels take tuples.
_OLDEST = (3, 3)


def why_not(device: torch.device) -> str | None:
    """Why the kernels cannot run on a device; None if they can.

    They run on a GPU, or on the CPU if the environment variable TRITON_INTERPRET=1 was
    set when they were imported: slowly, to test them.

    Args:
        device: where the inputs are.
    """
    available, reason = is_available(device)
    return None if available else reason


def is_available(device: torch.device) -> tuple[bool, str]:
    """Whether the kernels can run on a device, and else why not."""
    if device.type not in ("cuda", "cpu"):
        return False, f"it runs on CUDA devices, and the inputs are on {device}"
    try:
        import triton
    except ImportError as error:
        return False, f"Triton cannot be imported ({error}); install the package triton"
    version = tuple(int(part) for part in triton.__version__.split(".")[:2])
    if version < _OLDEST:
        return False, f"Triton is {triton.__version__}; install 3.3 or newer"
    from hsa_pyg.ops.triton.plan import INTERPRETED

    if device.type == "cpu" and not INTERPRETED:
        return False, (
            "the inputs are on the CPU, where Triton runs only if TRITON_INTERPRET=1 "
            "is set before Python starts"
        )
    if device.type == "cuda" and torch.cuda.get_device_capability(device) < (8, 0):
        return False, "it needs a GPU of compute capability 8.0 or higher"
    return True, ""
