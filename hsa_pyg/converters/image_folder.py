"""Many images at once."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from tqdm import tqdm

from hsa_pyg.converters.folder_files import files_below
from hsa_pyg.converters.image import MAX_PIXELS, convert_image, outside_sentence
from hsa_pyg.converters.labels import Labels, labels_of_files
from hsa_pyg.converters.patch_tree import Tree
from hsa_pyg.converters.raster import BadImageError
from hsa_pyg.data import NestedSignal

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def from_images(
    paths_or_folder: Paths,
    patch: int = 16,
    tree: Tree = "quadtree",
    *,
    channels: Literal[1, 3, 4] = 3,
    max_size: int | None = None,
    max_pixels: int = MAX_PIXELS,
    labels: Labels = None,
    progress: bool = True,
) -> list[NestedSignal]:
    """Convert the images of a folder, or a list of files.

    A folder is searched with its subfolders, in sorted order; names that start with a
    dot are left alone. Files that are no picture, are broken or too large are left out:
    one warning names them all.

    Args:
        paths_or_folder: A folder, or the files themselves.
        patch: Side of a patch in pixels.
        tree: ``"quadtree"`` or ``"grid"``.
        channels: 1 (grey), 3 (RGB) or 4 (RGB and alpha), the same for all, so that
            they batch.
        max_size: Scale images down, never up, to a longer side of so many pixels.
        max_pixels: Leave out images of more pixels.
        labels: ``"folder"`` numbers the names of the folders that the images lie in,
            sorted (``cat``, ``dog``: 0, 1); a callable gives the label of a path.
        progress: Show a progress bar.

    Returns:
        One signal an image, in order. ``signal.source`` is its path.

    Raises:
        FileNotFoundError: If a file or the folder does not exist.
        ImportError: If Pillow or, for SVG, resvg-py is missing.
        ValueError: If no image is left, or a setting is out of its range.

    Example:
        >>> import tempfile
        >>> from PIL import Image
        >>> folder = Path(tempfile.mkdtemp())
        >>> Image.new("RGB", (32, 16), "red").save(folder / "a.png")
        >>> (signal,) = from_images(folder, progress=False)
        >>> signal["image"]["size"].tolist(), signal["patch"].num_nodes
        ([[16, 32]], 2)
    """
    paths, links_out = _find(paths_or_folder)
    label_of = labels_of_files(labels, paths)
    signals, outside = [], []
    bad = [
        f"{path.as_posix()!r} leads out of the folder and is not read."
        for path in links_out
    ]
    for path in tqdm(paths, desc="Converting", unit="image", disable=not progress):
        y = label_of(path)
        try:
            signal, left_out = convert_image(
                path, patch, tree, channels, None, max_size, max_pixels, y
            )
        except BadImageError as error:
            bad.append(str(error))
            continue
        signals.append(signal)
        if left_out:
            outside.append(outside_sentence(signal.source, left_out))
    if bad:
        # Two levels up is the caller.
        warnings.warn(f"{len(bad)} images left out: {' '.join(bad)}", stacklevel=2)
    if outside:
        warnings.warn(" ".join(outside), stacklevel=2)
    if not signals:
        raise ValueError(
            f"There is no image to convert in {paths_or_folder!r}: {len(paths)} files, "
            f"of which {len(bad)} cannot be read."
        )
    return signals


def _find(paths_or_folder: Paths) -> tuple[list[Path], list[Path]]:
    """Return the files to convert, and links out of the folder."""
    if not isinstance(paths_or_folder, str | os.PathLike):
        return [Path(path) for path in paths_or_folder], []
    folder = Path(paths_or_folder)
    if not folder.is_dir():
        raise FileNotFoundError(
            f"There is no folder {folder.as_posix()!r}. "
            "A single file is converted with from_image."
        )
    return files_below(folder)
