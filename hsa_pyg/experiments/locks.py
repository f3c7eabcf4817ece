"""Locks that keep one process out of what another has at work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    from filelock import FileLock, Timeout
except ImportError as error:
    raise ImportError(
        'Experiments need filelock: pip install "hsa-pyg[train]".'
    ) from error


@contextmanager
def locked(path: Path, seconds: float) -> Iterator[bool]:
    """Hold a lock, if it is free in time.

    A process that is killed leaves it to the next.

    Args:
        path: The lock file; its folder is made.
        seconds: How long to wait for it; negative: as long as it takes.

    Yields:
        Whether the lock is held.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    with suppress(Timeout):
        lock.acquire(timeout=seconds)
    try:
        yield lock.is_locked
    finally:
        lock.release()  # nothing, if it is not held
