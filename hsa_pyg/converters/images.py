"""Pictures to patches: what all converters that meet pictures share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from hsa_pyg.converters.patch_tree import PatchTree, Tree, patch_tree
from hsa_pyg.converters.pixels import (
    CHANNELS,
    convert_channels,
    cut_patches,
    grid_size,
)
from hsa_pyg.converters.raster import BadImageError, read_raster
from hsa_pyg.converters.svg import looks_like_svg, read_svg

__all__ = [
    "BadImageError",
    "PatchTree",
    "Patches",
    "PictureReader",
    "check_settings",
    "patch_tree",
    "picture_reader",
    "read_pixels",
]


@dataclass(frozen=True, eq=False)
class Patches:
    """The patches of one picture.

    Args:
        x: ``[rows * cols, channels * patch * patch]`` float in 0..1: patches row by
            row, each flattened channel by channel.
        rows: Number of rows of patches.
        cols: Number of columns of patches.
        height: Height of the original picture in pixels, when it stands upright.
        width: Its width.
        left_out: Number of outside pictures that a drawing (SVG) refers to; they are
            not loaded.
        scaled: Height and width of what the patches show.
        patch_shape: Channels, height and width of a patch.
    """

    x: Tensor
    rows: int
    cols: int
    height: int
    width: int
    left_out: int = 0
    scaled: tuple[int, int] = (0, 0)
    patch_shape: tuple[int, int, int] = (0, 0, 0)


class PictureReader:
    """Reads picture files into patches, all with the same settings.

    PNG, JPEG, GIF (the first frame), WebP, BMP and SVG are told from their bytes, not
    from their names. Pictures stand upright as their EXIF data say. A picture whose
    sides are no multiples of the patch is completed at the bottom and at the right by
    repeating its last row and column.

    A drawing (SVG) is rendered at the size that it is scaled to, by a process of its
    own with bounded time and memory, from a copy that refers to nothing but itself:
    like a browser that shows an SVG as a picture, it loads no other file.
    Its text is drawn with the fonts of the system.

    Args:
        patch: Side of a patch in pixels.
        tree: ``"grid"`` or ``"quadtree"``: how converters shall nest the patches, see
            :func:`~hsa_pyg.converters.images.patch_tree`.
        channels: 1 (grey), 3 (RGB), or 4 (RGB and alpha). Without alpha, transparent
            pixels are composited over white.
        max_size: Scale pictures down, never up, to a longer side of at most so many
            pixels. None keeps their size.
        max_pixels: Refuse pictures of more pixels, before decoding them.

    Raises:
        ValueError: If a setting is out of its range.

    Example:
        >>> reader = PictureReader(patch=8, channels=1)
        >>> reader
        PictureReader(patch=8, tree='grid', channels=1, max_size=224,
                      max_pixels=64000000)
        >>> reader.width
        64
    """

    def __init__(
        self,
        patch: int = 16,
        tree: Tree = "grid",
        channels: Literal[1, 3, 4] = 3,
        max_size: int | None = 224,
        max_pixels: int = 64_000_000,
    ) -> None:
        check_settings(patch, tree, channels, max_size, max_pixels)
        self.patch = patch
        self.tree = tree
        self.channels = channels
        self.max_size = max_size
        self.max_pixels = max_pixels

    @property
    def width(self) -> int:
        """Number of features of a patch: ``channels * patch * patch``."""
        return self.channels * self.patch * self.patch

    def read(self, content: bytes, name: str) -> Patches:
        """Read the bytes of a picture file.

        Args:
            content: The file's bytes.
            name: Name of the picture, for errors.

        Raises:
            BadImageError: If the picture cannot be decoded or is too large (a
                ValueError).
            ImportError: If Pillow is not installed, or resvg-py for an SVG.
        """
        pixels, size, left_out = read_pixels(
            content, name, self.max_size, self.max_pixels
        )
        rows, cols = grid_size(pixels.size(1), pixels.size(2), self.patch)
        x = cut_patches(convert_channels(pixels, self.channels), self.patch)
        scaled = (pixels.size(1), pixels.size(2))
        shape = (self.channels, self.patch, self.patch)
        return Patches(x, rows, cols, *size, left_out, scaled, shape)

    def __repr__(self) -> str:
        settings = ", ".join(f"{key}={value!r}" for key, value in vars(self).items())
        return f"{type(self).__name__}({settings})"


def picture_reader(images: bool | PictureReader) -> PictureReader | None:
    """Return the reader that the converters' ``images`` argument asks for.

    Raises:
        TypeError: If it is neither a bool nor a reader.
    """
    if isinstance(images, PictureReader):
        return images
    if isinstance(images, bool):
        return PictureReader() if images else None
    raise TypeError(
        f"images={images!r} is a {type(images).__name__}: pass True, False or a "
        "PictureReader."
    )


def check_settings(
    patch: int,
    tree: str,
    channels: int,
    max_size: int | None,
    max_pixels: int = 1,
) -> None:
    """Raise a ValueError that names the setting that is out of its range.

    Raises:
        TypeError: If a number is no integer.
        ValueError: If a setting is out of its range.
    """
    if tree not in ("grid", "quadtree"):
        raise ValueError(f"tree={tree!r} is not known: use 'grid' or 'quadtree'.")
    if channels not in CHANNELS:
        raise ValueError(
            f"channels must be 1 (grey), 3 (RGB) or 4 (RGB and alpha), got {channels}."
        )
    counts = {"patch": patch, "max_size": max_size, "max_pixels": max_pixels}
    for key, value in counts.items():
        if value is None and key == "max_size":
            continue
        if not isinstance(value, int):
            raise TypeError(f"{key} must be an integer, but is {value!r}.")
        if value < 1:
            raise ValueError(f"{key} must be positive, but is {value}.")


def read_pixels(
    content: bytes, name: str, max_size: int | None, max_pixels: int
) -> tuple[Tensor, tuple[int, int], int]:
    """Decode or render the bytes of a picture.

    Returns:
        ``[channels, height, width]`` float in 0..1, channels as the file has them and
        size as scaled; the original height and width; and the number of outside
        pictures that were not loaded.

    Raises:
        BadImageError: If the picture cannot be read or is too large (a ValueError).
        ImportError: If Pillow is not installed, or resvg-py for an SVG.
    """
    if looks_like_svg(content):
        return read_svg(content, name, max_size, max_pixels)
    return *read_raster(content, name, max_size, max_pixels), 0
