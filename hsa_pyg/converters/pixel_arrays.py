"""Arrays and tensors of pixels, in the layouts and types that people have them in."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from hsa_pyg.converters.pixels import CHANNELS

Layout = Literal["hwc", "chw"]

_GREATEST = {torch.uint8: 255, torch.uint16: 65535, torch.bool: 1}


def pixels_of(array: Any, layout: Layout | None = None) -> Tensor:
    """Bring an array to ``[channels, height, width]`` float in 0..1.

    Args:
        array: NumPy array or tensor, ``[height, width]``, ``[height, width, channels]``
            or ``[channels, height, width]``, of floats in 0..1, bools, or unsigned
            integers of 8 or 16 bits, which are divided by their greatest value.
        layout: ``"hwc"`` or ``"chw"``. Without it, the axis of size 1, 3 or 4 holds
            the channels; it must be the first or the last one, and not both.

    Raises:
        TypeError: If the array holds something else.
        ValueError: If the layout cannot be told, there is no pixel, or floats are not
            in 0..1.

    Example:
        >>> pixels_of(torch.tensor([[0, 51], [102, 255]], dtype=torch.uint8))
        tensor([[[0.0000, 0.2000],
                 [0.4000, 1.0000]]])
    """
    values = _tensor(array)
    greatest = _GREATEST.get(values.dtype)
    if greatest is None and not values.is_floating_point():
        raise TypeError(
            f"Pixels are floats in 0..1, bools, uint8 or uint16, got "
            f"{_name(values.dtype)}. Convert them, for example with "
            ".astype('uint8') or .to(torch.uint8)."
        )
    pixels = _channels_first(values, layout).to(torch.float32, copy=True)
    if pixels.numel() == 0:
        raise ValueError(f"A picture of shape {list(values.shape)} has no pixel.")
    if greatest is not None:
        return pixels.div_(greatest)
    _check_range(pixels)
    return pixels


def _tensor(array: Any) -> Tensor:
    if isinstance(array, Tensor):
        return array.detach().cpu()
    if array.dtype.kind not in "buif":
        raise TypeError(f"Pixels are numbers, got a NumPy array of {array.dtype}.")
    # Of any byte order, strides and rights: a copy in the order of this machine.
    native = array.astype(array.dtype.newbyteorder("="), order="C")
    return torch.from_numpy(np.ascontiguousarray(native))


def _channels_first(values: Tensor, layout: str | None) -> Tensor:
    shape = list(values.shape)
    if layout not in (None, "hwc", "chw"):
        raise ValueError(f"layout={layout!r} is not known: use 'hwc' or 'chw'.")
    if values.dim() == 2:
        return values[None]
    if values.dim() != 3:
        raise ValueError(
            "A picture is [height, width], [height, width, channels] or [channels, "
            f"height, width], got the shape {shape}. Convert pictures one by one."
        )
    if layout is None:
        first, last = shape[0] in CHANNELS, shape[2] in CHANNELS
        if first and last:
            raise ValueError(
                f"The shape {shape} may be [height, width, channels] or [channels, "
                "height, width]: say layout='hwc' or layout='chw'."
            )
        layout = "hwc" if last else "chw"
    channels = shape[2] if layout == "hwc" else shape[0]
    if channels not in CHANNELS:
        raise ValueError(
            f"A picture has 1 (grey), 3 (RGB) or 4 (RGB and alpha) channels, in its "
            f"first or last axis, got the shape {shape}."
        )
    return values.permute(2, 0, 1) if layout == "hwc" else values


def _check_range(pixels: Tensor) -> None:
    # One pass: a NaN anywhere makes both ends NaN.
    low, high = (end.item() for end in pixels.aminmax())
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError("Pixels must be finite, but some are NaN or infinite.")
    if low < 0 or high > 1:
        raise ValueError(
            f"Pixels of type float lie in 0..1, but these lie in {low:.6g}.."
            f"{high:.6g}. Divide them by their greatest value, or give uint8."
        )


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
