"""Drawings (SVG), rendered by resvg in a process of its own."""

from __future__ import annotations

import importlib.util
import json
import math
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from torch import Tensor

from hsa_pyg.converters import svg_process
from hsa_pyg.converters.pixels import fitted
from hsa_pyg.converters.raster import (
    BadImageError,
    check_pixels,
    need_pillow,
    read_raster,
)
from hsa_pyg.converters.svg_markup import Drawing

# Bounds of the rendering process, besides the canvas itself.
_MEMORY = 2**30
_PROCESSOR_SECONDS = 10
# Of the clock, for a machine that has much else to do.
_SECONDS = 120
_LONGEST_SIDE = 2**31


def looks_like_svg(content: bytes) -> bool:
    """Whether a file is markup: no other kind of picture starts with ``<``.

    Example:
        >>> looks_like_svg(b" <?xml version='1.0'?>"), looks_like_svg(b"GIF89a")
        (True, False)
    """
    start = content[:256].removeprefix(b"\xef\xbb\xbf")
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        start = start[2:].replace(b"\0", b"")
    return start.lstrip().startswith(b"<")


def read_svg(
    content: bytes, name: str, max_size: int | None, max_pixels: int
) -> tuple[Tensor, tuple[int, int], int]:
    """Render a drawing, at the size that it is scaled to.

    Args:
        content: The file's bytes.
        name: Name of the picture, for errors.
        max_size: Scale the drawing down to a longer side of so many pixels.
        max_pixels: The most pixels that the rendered drawing may have.

    Returns:
        ``[4, height, width]`` float in 0..1, with alpha; the drawing's own height and
        width; and the number of outside pictures that it refers to, which are not
        loaded.

    Raises:
        BadImageError: If it is no SVG, cannot be rendered within bounded time and
            memory, or has too many pixels.
        ImportError: If Pillow or resvg-py is not installed.
    """
    need_pillow()
    site = _renderer_folder()
    # Whatever the parser makes of foreign bytes means that there is no drawing.
    try:
        drawing = Drawing(content)
    except Exception as error:
        raise BadImageError(f"Picture {name!r} cannot be read: {error}.") from error
    size, target = None, None
    if drawing.size is not None:
        size = _whole(drawing.size, name)
        target = fitted(*size, max_size)
        check_pixels(*target, max_pixels, name)
    png = _render(drawing, target, site, name)
    pixels, rendered = read_raster(png, name, max_size, max_pixels)
    return pixels, size or rendered, drawing.left_out


def _renderer_folder() -> str:
    spec = importlib.util.find_spec("resvg_py")
    if spec is None or spec.origin is None:
        raise ImportError('Rendering SVG needs resvg-py: pip install "hsa-pyg[image]".')
    return str(Path(spec.origin).parents[1])


def _whole(size: tuple[float, float], name: str) -> tuple[int, int]:
    height, width = size
    if not (0 < height < _LONGEST_SIDE and 0 < width < _LONGEST_SIDE):
        raise BadImageError(
            f"Picture {name!r} cannot be read: it states a size of {width:.6g} x "
            f"{height:.6g} pixels."
        )
    return max(1, math.floor(height + 0.5)), max(1, math.floor(width + 0.5))


def _render(
    drawing: Drawing, target: tuple[int, int] | None, site: str, name: str
) -> bytes:
    height, width = target or (0, 0)
    arguments = [
        site,
        str(_MEMORY + 8 * height * width),
        str(_PROCESSOR_SECONDS),
        json.dumps(_fonts()) if drawing.has_text else "",
        *((str(width), str(height)) if target else ()),
    ]
    try:
        done = subprocess.run(
            # -I and -S: neither the environment nor installed packages have a say.
            [sys.executable, "-I", "-S", svg_process.__file__, *arguments],
            input=drawing.markup.encode(),
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BadImageError(
            f"Picture {name!r} cannot be read: it is not rendered in {_SECONDS} s."
        ) from error
    if done.returncode == 0:
        return done.stdout
    if done.returncode in (1, 3):
        # 3: the renderer's own words; 1: a traceback, whose last line says it.
        words = done.stderr.decode(errors="replace").strip().rstrip(".")
        reason = words.splitlines()[-1] if words else "the renderer failed"
    else:
        reason = (
            f"rendering it takes more than {_PROCESSOR_SECONDS} s, {_MEMORY >> 20} MB "
            f"or the stack (the process ended with {done.returncode})"
        )
    raise BadImageError(f"Picture {name!r} cannot be read: {reason}.")


@cache
def _fonts() -> dict[str, str]:
    """Fonts for generic families, by the renderer's names of these.

    The renderer's own guesses are fonts of Windows, and it leaves out text for which it
    finds none. Where there is no fontconfig to ask, they have to do.
    """
    program = shutil.which("fc-match")
    if program is None:
        return {}
    found = {}
    for family in ("serif", "sans-serif", "monospace", "cursive", "fantasy"):
        done = subprocess.run(
            [program, "-f", "%{family[0]}", family],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0 and done.stdout:
            found[f"{family.replace('-', '_')}_family"] = done.stdout
    return found
