"""One process at a time prepares the data of a task."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hsa_pyg.experiments.locks import locked

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
    path = cache / f"{task}.lock"
    # Reading what is prepared is short, and no news.
    with locked(path, seconds=1.0) as ours:
        if ours:
            yield
            return
    logger.warning("waiting for another process to prepare %s", task)
    with locked(path, seconds=-1):
        yield
