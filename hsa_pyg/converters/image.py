"""Images to signals: image > quadrants > patches, and back."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch

from hsa_pyg.converters.document_schema import IMAGE_SIZES
from hsa_pyg.converters.folder_files import read_file
from hsa_pyg.converters.images import check_settings, read_pixels
from hsa_pyg.converters.labels import Label, label_tensor
from hsa_pyg.converters.patch_tree import PatchTree, Tree, patch_tree
from hsa_pyg.converters.pixel_arrays import Layout, pixels_of
from hsa_pyg.converters.pixels import (
    convert_channels,
    cut_patches,
    fitted,
    grid_size,
    join_patches,
    resize,
)
from hsa_pyg.converters.raster import loaded_pixels
from hsa_pyg.data import Feature, NestedSignal, Schema
from hsa_pyg.hierarchy import CHILD_OF

MAX_PIXELS = 64_000_000


def image_schema(channels: int = 3, patch: int = 16, tree: Tree = "quadtree") -> Schema:
    """Return the types and attributes of the signals of :func:`from_image`.

    Args:
        channels: 1, 3 or 4.
        patch: Side of a patch in pixels.
        tree: ``"grid"``, or ``"quadtree"``, which has the type ``quadrant``.

    Example:
        >>> image_schema(channels=1, patch=4, tree="grid")
        Schema(
          image: size [n, 2] of int64, scaled [n, 2] of int64,
                 patch_shape [n, 3] of int64,
          patch: pos [n, 2] of float32, x [n, 16] of float32,
          patch child_of image,
        )
    """
    check_settings(patch, tree, channels, None)
    place = {"pos": Feature((2,))}
    nodes: dict[str, dict[str, Feature]] = {
        "image": dict(IMAGE_SIZES),
        "patch": {**place, "x": Feature((channels * patch * patch,))},
    }
    edges = [("patch", CHILD_OF, "image")]
    if tree == "quadtree":
        nodes["quadrant"] = place
        edges.append(("patch", CHILD_OF, "quadrant"))
        edges += [("quadrant", CHILD_OF, end) for end in ("image", "quadrant")]
    return Schema(nodes, edges)


def from_image(
    array_or_path: Any,
    patch: int = 16,
    tree: Tree = "quadtree",
    *,
    channels: Literal[1, 3, 4] | None = None,
    layout: Layout | None = None,
    max_size: int | None = None,
    max_pixels: int = MAX_PIXELS,
    y: Label | None = None,
) -> NestedSignal:
    r"""Convert one image: pixels > patches > quadrants > image.

    The signal has the node types

    - ``image``, the root: ``size`` ``[1, 2]`` long, height and width of the original;
      ``scaled``, the same of what the patches show; ``patch_shape`` ``[1, 3]`` long,
      channels, height and width of a patch;
    - ``quadrant``, in a quadtree: ``pos`` ``[n, 2]`` float, row and column among its at
      most three siblings (see :func:`~hsa_pyg.converters.images.patch_tree`);
    - ``patch``: ``x`` ``[n, channels * patch * patch]`` float in 0..1, flattened
      channel by channel, patches numbered row by row; ``pos`` ``[n, 2]`` float, row and
      column in the parent's grid.

    A picture whose sides are no multiples of ``patch`` is completed at the bottom and
    at the right by repeating its last row and column. :func:`to_image` is the inverse.
    Signals of unlike size batch; for batches of files give ``channels``, so that all
    patches have one width.

    Args:
        array_or_path: One of

            - a path, or the bytes of a file: PNG, JPEG, GIF, WebP, BMP or SVG, read as
              by :class:`~hsa_pyg.converters.PictureReader`;
            - a Pillow image;
            - a NumPy array or tensor, ``[height, width]``, ``[height, width,
              channels]`` or ``[channels, height, width]``, of floats in 0..1, bools,
              uint8 or uint16.
        patch: Side of a patch in pixels.
        tree: ``"quadtree"`` or ``"grid"``, in which all patches hang from the image.
        channels: 1 (grey), 3 (RGB) or 4 (RGB and alpha). Without alpha, transparent
            pixels are composited over white. None keeps what the image has (an SVG
            has 4).
        layout: ``"hwc"`` or ``"chw"`` of an array. By default the channels are the
            first or the last axis, whichever has size 1, 3 or 4.
        max_size: Scale the image down, never up, to a longer side of so many pixels.
        max_pixels: Refuse files of more pixels, before decoding them.
        y: Label of the image: an int becomes ``[1]`` long, a float ``[1]`` float, a
            tensor stays as it is.

    Raises:
        BadImageError: If a file cannot be decoded or is too large (a ValueError).
        FileNotFoundError: If there is no such file.
        ImportError: If a file is given and Pillow or, for SVG, resvg-py is missing.
        TypeError: If ``array_or_path``, its pixels or ``y`` are of another type.
        ValueError: If a setting is out of its range, or an array is: floats beyond
            0..1, NaN, a layout that cannot be told.

    Example:
        >>> import torch
        >>> signal = from_image(torch.rand(3, 48, 64), patch=16)
        >>> signal
        NestedSignal(
          image: 1 node, size=[1, 2] int64, scaled=[1, 2] int64,
                 patch_shape=[1, 3] int64,
          patch: 12 leaves in image or quadrant, pos=[12, 2], x=[12, 768],
          quadrant: 4 nodes in image or quadrant, pos=[4, 2],
          source='',
        )
        >>> to_image(signal).shape
        torch.Size([3, 48, 64])
    """
    signal, left_out = convert_image(
        array_or_path, patch, tree, channels, layout, max_size, max_pixels, y
    )
    if left_out:
        warnings.warn(outside_sentence(signal.source, left_out), stacklevel=2)
    return signal


def convert_image(
    picture: Any,
    patch: int,
    tree: Tree,
    channels: Literal[1, 3, 4] | None,
    layout: Layout | None,
    max_size: int | None,
    max_pixels: int,
    y: Label | None,
) -> tuple[NestedSignal, int]:
    """Convert one image as :func:`from_image` does, without its warning.

    Returns:
        The signal, and the number of outside pictures that were not loaded.
    """
    check_settings(
        patch, tree, 3 if channels is None else channels, max_size, max_pixels
    )
    pixels, size, left_out = _read(picture, layout, max_size, max_pixels)
    if channels is not None:
        pixels = convert_channels(pixels, channels)
    signal = _signal(pixels, size, patch, tree)
    is_path = isinstance(picture, str | os.PathLike)
    signal.source = Path(picture).as_posix() if is_path else ""
    if y is not None:
        named = f"image {signal.source!r}" if is_path else "an image"
        signal.y = label_tensor(y, named)
    return signal, left_out


def outside_sentence(name: str, left_out: int) -> str:
    """What to tell of pictures outside of a drawing."""
    return (
        f"Picture {name!r} refers to {left_out} pictures outside of it, which are not "
        "loaded."
    )


def to_image(signal: NestedSignal) -> Tensor:
    """Put the patches of a signal of :func:`from_image` together again.

    Args:
        signal: The signal of one image. Its ``patch.x`` may have been changed, to show
            something else on the same patches.

    Returns:
        ``[channels, height, width]``: the image as it was scaled, without what
        completed its last patches.

    Raises:
        ValueError: If this is no signal of one image.

    Example:
        >>> import torch
        >>> picture = torch.rand(3, 5, 9)
        >>> to_image(from_image(picture, patch=4)).equal(picture)
        True
    """
    if isinstance(signal, Batch):
        raise ValueError("A batch holds many images: use to_image(batch[i]) of each.")
    missing = {"image", "patch"} - set(signal.node_types)
    if missing or "patch_shape" not in signal["image"]:
        raise ValueError(
            f"A signal of from_image is wanted, but this one has the types "
            f"{signal.node_types} and no 'patch_shape' of an image."
        )
    channels, patch, _ = signal["image"].patch_shape[0].tolist()
    height, width = signal["image"].scaled[0].tolist()
    x, shape = signal["patch"].x, (channels, patch, patch)
    rows, cols = grid_size(height, width, patch)
    if x.numel() != rows * cols * channels * patch * patch:
        raise ValueError(
            f"{rows * cols} patches of shape {list(shape)} make up the image, but "
            f"patch.x has the shape {list(x.shape)}."
        )
    return join_patches(x, channels, patch, (height, width))


def _read(
    picture: Any, layout: Layout | None, max_size: int | None, max_pixels: int
) -> tuple[Tensor, tuple[int, int], int]:
    """Return what :func:`~hsa_pyg.converters.images.read_pixels` returns."""
    if isinstance(picture, np.ndarray | Tensor):
        pixels = pixels_of(picture, layout)
        size = (pixels.size(1), pixels.size(2))
        return resize(pixels, *fitted(*size, max_size)), size, 0
    if layout is not None:
        raise ValueError(
            f"layout={layout!r} is for arrays, got a {type(picture).__name__}."
        )
    if isinstance(picture, bytes | bytearray):
        return read_pixels(bytes(picture), "<bytes>", max_size, max_pixels)
    if isinstance(picture, str | os.PathLike):
        path = Path(picture)
        return read_pixels(
            read_file(path, path.as_posix()), path.as_posix(), max_size, max_pixels
        )
    # Nobody holds a Pillow image without having imported Pillow.
    pillow = sys.modules.get("PIL.Image")
    if pillow is not None and isinstance(picture, pillow.Image):
        return *loaded_pixels(picture, max_size, max_pixels), 0
    raise TypeError(
        "An image is a path, the bytes of a file, a Pillow image, a NumPy array or a "
        f"tensor, got a {type(picture).__name__}."
    )


def _signal(
    pixels: Tensor, size: tuple[int, int], patch: int, tree: Tree
) -> NestedSignal:
    channels, height, width = pixels.shape
    signal = NestedSignal(schema=image_schema(channels, patch, tree))
    signal["image"].num_nodes = 1
    signal["image"].size = torch.tensor([size])
    signal["image"].scaled = torch.tensor([[height, width]])
    signal["image"].patch_shape = torch.tensor([[channels, patch, patch]])
    nesting = patch_tree(*grid_size(height, width, patch), tree)
    signal["patch"].x = cut_patches(pixels, patch)
    signal["patch"].pos = nesting.patch_pos
    _connect(signal, "patch", nesting.patch_parent)
    if tree == "quadtree":
        _connect_quadrants(signal, nesting)
    return signal


def _connect_quadrants(signal: NestedSignal, nesting: PatchTree) -> None:
    signal["quadrant"].num_nodes = len(nesting.quadrant_parent)
    signal["quadrant"].pos = nesting.quadrant_pos
    _connect(signal, "quadrant", nesting.quadrant_parent)


def _connect(signal: NestedSignal, kind: str, parent: Tensor) -> None:
    """Add the edges of nodes whose parent is a quadrant, or -1 for the image."""
    in_image = (parent < 0).nonzero().view(-1)
    edge = torch.stack([in_image, torch.zeros_like(in_image)])
    signal[kind, CHILD_OF, "image"].edge_index = edge
    if "quadrant" in signal.node_types:
        inside = (parent >= 0).nonzero().view(-1)
        edge = torch.stack([inside, parent[inside]])
        signal[kind, CHILD_OF, "quadrant"].edge_index = edge
