"""Pictures made of pixels: PNG, JPEG, GIF, WebP and BMP, read by Pillow."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from hsa_pyg.converters.pixels import fitted

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP")
_ORIENTATION_TAG = 0x0112
# What brings a picture upright, by its EXIF orientation: names of Pillow's transposes.
_UPRIGHT = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}


class BadImageError(ValueError):
    """A picture cannot be read or is too large; the message names it and says why."""


def need_pillow() -> None:
    """Raise an ImportError that names the extra if there is no Pillow."""
    try:
        import PIL.Image  # noqa: F401
    except ImportError as error:
        raise ImportError(
            'Reading pictures needs Pillow: pip install "hsa-pyg[image]".'
        ) from error


def check_pixels(height: float, width: float, max_pixels: int, name: str) -> None:
    """Raise a BadImageError if a picture has more pixels than allowed."""
    if height * width > max_pixels:
        raise BadImageError(
            f"Picture {name!r} is too large: {width:.10g} x {height:.10g} pixels are "
            f"more than max_pixels={max_pixels}. Allow more, or leave it out."
        )


def read_raster(
    content: bytes, name: str, max_size: int | None, max_pixels: int
) -> tuple[Tensor, tuple[int, int]]:
    """Decode the bytes of a picture.

    Args:
        content: The file's bytes.
        name: Name of the picture, for errors.
        max_size: Scale the picture down to a longer side of so many pixels.
        max_pixels: The most pixels that a picture may have.

    Returns:
        ``[channels, height, width]`` float in 0..1, where channels is 1, 3 or 4 as the
        file has it, scaled and upright; and the upright original's height and width.

    Raises:
        BadImageError: If the bytes are no such picture, end too early or hold more
            than ``max_pixels``.
        ImportError: If Pillow is not installed.
    """
    need_pillow()
    from PIL import Image

    # What a broken file makes a decoder raise or warn of depends on the format and on
    # the library's version; all of it means that the picture cannot be read.
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(content), formats=FORMATS) as image:
                check_pixels(image.height, image.width, max_pixels, name)
                return image_pixels(image, max_size)
    except BadImageError:
        raise
    except Exception as error:
        raise BadImageError(
            f"Picture {name!r} cannot be read: {_reason(content, error)}."
        ) from error


def loaded_pixels(
    image: Image, max_size: int | None, max_pixels: int
) -> tuple[Tensor, tuple[int, int]]:
    """The pixels of the user's own Pillow image, as :func:`read_raster` gives them.

    Raises:
        BadImageError: If it is an open file that cannot be decoded or is too large.
        ValueError: If it holds floats outside of 0..1 or integers outside of 16 bits.
    """
    name = getattr(image, "filename", "") or "<Pillow image>"
    check_pixels(image.height, image.width, max_pixels, str(name))
    try:
        return image_pixels(image, max_size)
    except (OSError, SyntaxError) as error:
        raise BadImageError(f"Picture {name!r} cannot be read: {error}.") from error


def _reason(content: bytes, error: Exception) -> str:
    from PIL import UnidentifiedImageError

    if not content:
        return "it is empty"
    if isinstance(error, UnidentifiedImageError):
        return (
            f"its {len(content)} bytes are neither {', '.join(FORMATS)} nor SVG, or "
            "its header is broken"
        )
    return str(error).rstrip(".") or type(error).__name__


def image_pixels(image: Image, max_size: int | None) -> tuple[Tensor, tuple[int, int]]:
    """The pixels of a Pillow image, as :func:`read_raster` gives them.

    Raises:
        OSError: If the image is a file that cannot be decoded.
        ValueError: If it holds floats outside of 0..1 or integers outside of 16 bits.
    """
    # Loaded first: some formats keep their EXIF data after the pixels.
    image.load()
    image = _upright(image)
    size = (image.height, image.width)
    height, width = fitted(*size, max_size)
    plain = _plain(image)
    if (height, width) != size:
        from PIL.Image import Resampling

        # Pillow weights colours by their alpha, and averages where it scales down.
        plain = plain.resize((width, height), Resampling.BILINEAR)
    values = np.asarray(plain)
    pixels = torch.from_numpy(values.astype(np.float32))
    if values.dtype == np.uint8:
        pixels /= 255
    if pixels.dim() == 2:
        pixels = pixels[..., None]
    return pixels.clamp_(0, 1).permute(2, 0, 1), size


def _upright(image: Image) -> Image:
    from PIL.Image import Transpose

    try:
        orientation = image.getexif().get(_ORIENTATION_TAG)
    except Exception:
        # Broken remarks about a picture do not make the picture unreadable.
        return image
    if not isinstance(orientation, int) or orientation not in _UPRIGHT:
        return image
    return image.transpose(Transpose[_UPRIGHT[orientation]])


def _plain(image: Image) -> Image:
    """Bring an image to mode L, RGB or RGBA, or to F with values in 0..1."""
    if image.mode == "F" or image.mode.startswith("I"):
        return _deep(image)
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or _is_transparent(image):
        # Pillow has no way from La to RGBA but over LA.
        return (image.convert("LA") if image.mode == "La" else image).convert("RGBA")
    if image.mode in ("1", "L"):
        return image.convert("L")
    return image.convert("RGB")


def _is_transparent(image: Image) -> bool:
    return "transparency" in image.info


def _deep(image: Image) -> Image:
    """More than 8 bits of grey: 16-bit PNGs, and floats of the user's own."""
    from PIL import Image as images

    values = np.asarray(image).astype(np.float32)
    if image.mode != "F":
        values /= 65535
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError(
            f"an image of mode {image.mode} holds values from 0 to "
            f"{'1' if image.mode == 'F' else '65535'}, but this one has "
            f"{values.min():.6g} to {values.max():.6g} times that"
        )
    return images.fromarray(values)
