"""The seconds of an epoch that a table shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from hsa_pyg.experiments.records import Record


def epoch_seconds(
    groups: Mapping[str, Sequence[Record]],
) -> tuple[dict[str, float], str]:
    """Seconds of an epoch's training (median) of each setting, and of which clock.

    That of the processor, which other work on the machine leaves alone; the one on the
    wall if a run was on an accelerator, or is of a version that had no other.

    Args:
        groups: Runs by the name of their setting.

    Returns:
        Seconds by setting, all of one clock, and ``"processor s"`` or ``"wall s"``.
    """
    rows = {
        name: [row for record in group for row in record.history]
        for name, group in groups.items()
    }
    here = all(
        record.facts.get("device", "cpu") == "cpu"
        for group in groups.values()
        for record in group
    )
    key, title = "processor_seconds", "processor s"
    if not here or not all(key in row for found in rows.values() for row in found):
        key, title = "seconds", "wall s"
    return {
        name: median(row[key] for row in found) for name, found in rows.items()
    }, title
