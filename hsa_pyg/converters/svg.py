"""Drawings (SVG), rendered by resvg."""

from __future__ import annotations

from torch import Tensor


def looks_like_svg(content: bytes) -> bool:
    """Whether a file is markup; no other kind of picture starts with ``<``."""
    start = content[:256].removeprefix(b"\xef\xbb\xbf")
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        start = start[2:].replace(b"\0", b"")
    return start.lstrip().startswith(b"<")


def read_svg(
    content: bytes, name: str, max_size: int | None, max_pixels: int
) -> tuple[Tensor, tuple[int, int], int]:
    """Render."""
    from hsa_pyg.converters.raster import BadImageError

    raise BadImageError(f"Picture {name!r} is an SVG, which cannot be rendered yet.")
