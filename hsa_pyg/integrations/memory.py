"""How much memory this process holds, and has held at most."""

import ctypes
import re
import sys
from pathlib import Path

import psutil


def resident_memory() -> int:
    """Bytes of this process that are resident now."""
    return int(psutil.Process().memory_info().rss)


def return_free_memory() -> bool:
    """Give back to the system what the C library keeps of tensors that are gone.

    Batches of unlike sizes leave gaps between each other in its heap, which grows from
    epoch to epoch, many times beyond what is in use.

    Returns:
        Whether something was given back; only glibc can be asked to.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, TypeError, OSError):  # another C library, or Windows
        return False
    return bool(trim(0))


def forget_peak() -> bool:
    """Let :func:`peak_memory` count from now on, where the system can do so.

    Returns:
        Whether it can: Linux, if the process may write its own ``clear_refs``.
    """
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


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
