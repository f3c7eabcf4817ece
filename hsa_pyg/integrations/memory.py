"""How much memory this process holds, and has held at most."""

import re
import sys
from pathlib import Path

import psutil


def resident_memory() -> int:
    """Bytes of this process that are resident now."""
    return int(psutil.Process().memory_info().rss)


def peak_memory() -> int:
    """Most bytes that were resident since this process started its program.

    Linux tells it as ``VmHWM``. ``getrusage``, which other systems offer, would there
    also count the parent that started the process.

    Raises:
        NotImplementedError: On systems with neither, such as Windows.
    """
    status = Path("/proc/self/status")
    if status.exists():
        found = re.search(r"^VmHWM:\s*(\d+) kB$", status.read_text(), re.MULTILINE)
        if found is not None:
            return int(found.group(1)) * 1024
    try:
        import resource
    except ImportError as error:
        raise NotImplementedError(
            f"The peak memory of a process cannot be asked for on {sys.platform}."
        ) from error
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
