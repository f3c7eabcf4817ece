"""Fixed splits of raw data that come without one."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Hashable, Mapping

TRAIN_VAL_TEST = {"train": 0.8, "val": 0.1, "test": 0.1}
"""Shares of the usual split."""


def hash_split(
    labels: Mapping[str, Hashable], shares: Mapping[str, float]
) -> dict[str, str]:
    """Split samples within each class, in the order of a hash of their names.

    The split is the same with every version of Python and PyTorch, which their random
    generators do not promise, and in any order of the samples.

    Args:
        labels: Name of each sample to its class.
        shares: Name of each part to its share of every class; they add up to 1.

    Returns:
        Name of each sample to its part.

    Example:
        >>> found = hash_split(
        ...     {f"{i}.txt": i % 2 for i in range(8)}, {"train": 0.5, "test": 0.5}
        ... )
        >>> sorted(name for name, part in found.items() if part == "test")
        ['0.txt', '3.txt', '5.txt', '6.txt']
    """
    classes: dict[Hashable, list[str]] = defaultdict(list)
    for name, label in labels.items():
        classes[label].append(name)
    parts: dict[str, str] = {}
    for names in classes.values():
        ordered = sorted(names, key=_digest)
        first = 0
        share = 0.0
        for part in shares:
            share += shares[part]
            stop = round(share * len(ordered))
            parts.update(dict.fromkeys(ordered[first:stop], part))
            first = stop
    return {name: parts[name] for name in labels}


def _digest(name: str) -> bytes:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
