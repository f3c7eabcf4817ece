"""Pixels as tensors ``[channels, height, width]``, and the patches cut from them."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import interpolate

CHANNELS = (1, 3, 4)
# Brightness of red, green and blue (ITU-R BT.601), as PNG and JPEG viewers use it.
_BRIGHTNESS = (0.299, 0.587, 0.114)


def fitted(height: int, width: int, max_size: int | None) -> tuple[int, int]:
    """Return the size scaled down, never up, to a longer side of ``max_size``.

    Example:
        >>> fitted(480, 640, 224), fitted(3, 4, 224), fitted(1, 9000, 224)
        ((168, 224), (3, 4), (1, 224))
    """
    longer = max(height, width)
    if max_size is None or longer <= max_size:
        return height, width
    scale = max_size / longer
    return max(1, round(height * scale)), max(1, round(width * scale))


def convert_channels(pixels: Tensor, channels: int) -> Tensor:
    """Bring a picture to 1 (grey), 3 (RGB) or 4 (RGB and alpha) channels.

    Transparent pixels are composited over white unless alpha is kept.

    Args:
        pixels: ``[1, 3 or 4, height, width]`` float in 0..1.
        channels: Number of channels wanted.

    Example:
        >>> half_red = torch.tensor([1.0, 0.0, 0.0, 0.5]).view(4, 1, 1)
        >>> convert_channels(half_red, 3).flatten().tolist()
        [1.0, 0.5, 0.5]
    """
    if pixels.size(0) == channels:
        return pixels
    if pixels.size(0) == 4:
        alpha = pixels[3:]
        pixels = pixels[:3] * alpha + (1 - alpha)
    if channels == 1:
        weights = torch.tensor(_BRIGHTNESS).view(3, 1, 1)
        return (pixels * weights).sum(dim=0, keepdim=True).clamp(0, 1)
    if pixels.size(0) == 1:
        pixels = pixels.expand(3, -1, -1)
    if channels == 4:
        pixels = torch.cat([pixels, torch.ones_like(pixels[:1])])
    return pixels


def resize(pixels: Tensor, height: int, width: int) -> Tensor:
    """Scale a picture down.

    Colours are weighted by their alpha, so that what is transparent does not shine
    through.

    Args:
        pixels: ``[1, 3 or 4, height, width]`` float in 0..1.
        height: New height.
        width: New width.
    """
    if pixels.shape[1:] == (height, width):
        return pixels
    if pixels.size(0) == 4:
        pixels = torch.cat([pixels[:3] * pixels[3:], pixels[3:]])
    scaled = interpolate(
        pixels[None], (height, width), mode="bilinear", antialias=True
    )[0].clamp(0, 1)
    if scaled.size(0) == 4:
        colour, alpha = scaled[:3], scaled[3:]
        colour = torch.where(alpha > 0, colour / alpha.clamp(min=1e-6), 0).clamp(0, 1)
        scaled = torch.cat([colour, alpha])
    return scaled


def grid_size(height: int, width: int, patch: int) -> tuple[int, int]:
    """Return the rows and columns of patches that cover a picture."""
    return -(-height // patch), -(-width // patch)


def cut_patches(pixels: Tensor, patch: int) -> Tensor:
    """Cut a picture into square patches, row by row.

    A picture whose sides are no multiples of the patch is completed at the bottom and
    at the right by repeating its last row and column.

    Args:
        pixels: ``[channels, height, width]``.
        patch: Side of a patch in pixels.

    Returns:
        ``[rows * cols, channels * patch * patch]``, each patch flattened channel by
        channel.

    Example:
        >>> cut_patches(torch.arange(6).view(1, 2, 3), 2).tolist()
        [[0, 1, 3, 4], [2, 2, 5, 5]]
    """
    channels, height, width = pixels.shape
    rows, cols = grid_size(height, width, patch)
    if (height, width) != (rows * patch, cols * patch):
        down = torch.arange(rows * patch).clamp(max=height - 1)
        across = torch.arange(cols * patch).clamp(max=width - 1)
        pixels = pixels[:, down][:, :, across]
    blocks = pixels.reshape(channels, rows, patch, cols, patch)
    return blocks.permute(1, 3, 0, 2, 4).reshape(rows * cols, -1)


def join_patches(x: Tensor, channels: int, patch: int, size: tuple[int, int]) -> Tensor:
    """Put patches together again: the inverse of :func:`cut_patches`.

    Args:
        x: ``[rows * cols, channels * patch * patch]``.
        channels: Number of channels.
        patch: Side of a patch in pixels.
        size: Height and width of the picture; what lies outside was completed.

    Returns:
        ``[channels, height, width]``.
    """
    height, width = size
    rows, cols = grid_size(height, width, patch)
    blocks = x.reshape(rows, cols, channels, patch, patch).permute(2, 0, 3, 1, 4)
    return blocks.reshape(channels, rows * patch, cols * patch)[:, :height, :width]
