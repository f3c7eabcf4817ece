"""Reading what a run that is not finished has left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from hsa_pyg.cli import SettingsError


def load_checkpoint(path: Path, *, weights_only: bool = True) -> Any:
    """What a checkpoint holds, on the CPU.

    Args:
        path: The file.
        weights_only: Whether it holds nothing but tensors and plain values.

    Raises:
        SettingsError: if it is damaged.
    """
    try:
        return torch.load(path, weights_only=weights_only, map_location="cpu")
    except Exception as error:  # a damaged pickle raises whatever it comes upon
        raise damaged(path, type(error).__name__) from error


def damaged(path: Path, reason: object) -> SettingsError:
    """What is said of a file in the folder of a run that cannot be read."""
    return SettingsError(
        f"{path} is damaged ({reason}): delete the folder {path.parent} to begin the "
        "run again."
    )
