"""One process at a time prepares the data of a task."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    from filelock import FileLock, Timeout
except ImportError as error:
    raise ImportError(
        'Experiments need filelock: pip install "hsa-pyg[train]".'
    ) from error

logger = logging.getLogger(__name__)


@contextmanager
def alone(task: str, cache: Path) -> Iterator[None]:
    """Within it, no other process prepares the data of a task; it waits for its turn.

    A process that has waited finds the data prepared. One that is killed leaves the
    turn to the next.

    Args:
        task: Name of the task.
        cache: Folder of processed data, in which the lock file lies.
    """
    cache.mkdir(parents=True, exist_ok=True)
    lock = FileLock(cache / f"{task}.lock")
    try:
        # Reading what is prepared is short, and no news.
        lock.acquire(timeout=1.0)
    except Timeout:
        logger.warning("waiting for another process to prepare %s", task)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
