"""The process that renders one drawing: SVG on its input, PNG on its output.

It is started by :mod:`hsa_pyg.converters.svg`, since renderers run out of stack, memory
or time over drawings made for that: this process then dies alone. It imports nothing
of this package, so that it starts fast.
"""

from __future__ import annotations

import contextlib
import json
import sys


def limit(memory: int, seconds: int) -> None:
    """Bound the memory and the processor time of this process, where that works."""
    try:
        import resource
    except ImportError:  # Windows: the time limit of the parent process remains.
        return
    limits = (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_AS, memory),
    )
    for kind, value in limits:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (value, value))


def main(site: str, memory: str, seconds: str, text: str, *size: str) -> int:
    """Render the drawing on the standard input.

    Args:
        site: Folder that holds the renderer's package.
        memory: Bytes of address space that the process may have.
        seconds: Processor time that it may use.
        text: Names of fonts for generic families, as JSON: the renderer's arguments.
            The system's fonts are loaded. Empty for a drawing without text.
        *size: Width and height in pixels, if known.

    Returns:
        The exit status: 0, or 3 if the renderer refused the drawing, whose message is
        then on the standard error.
    """
    sys.path.append(site)
    import resvg_py

    markup = sys.stdin.buffer.read().decode()
    limit(int(memory), int(seconds))
    width, height = map(int, size) if size else (None, None)
    try:
        png = resvg_py.svg_to_bytes(
            svg_string=markup,
            width=width,
            height=height,
            # Without, the renderer knows no unit but pixels.
            dpi=96,
            skip_system_fonts=not text,
            **(json.loads(text) if text else {}),
        )
    except ValueError as error:
        sys.stderr.write(str(error))
        return 3
    # Earlier versions of the renderer give a list of numbers.
    sys.stdout.buffer.write(bytes(png))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
