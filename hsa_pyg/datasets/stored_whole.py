"""Processed files that are there as a whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from torch_geometric.data import InMemoryDataset
from torch_geometric.data.data import BaseData

from hsa_pyg.datasets.raw_files import part_of


class StoredWhole(InMemoryDataset):
    """An InMemoryDataset whose file of signals is never there in part.

    PyG takes a file that exists for a whole one, also where an earlier run was killed
    while it wrote or another process is writing.
    """

    @classmethod
    def save(cls, data_list: Sequence[BaseData], path: str) -> None:
        """Save the signals, then move the file to its place."""
        part = part_of(Path(path))
        try:
            super().save(data_list, os.fspath(part))
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Write a text in UTF-8 so that the file is never there in part."""
    part = part_of(Path(path))
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)
