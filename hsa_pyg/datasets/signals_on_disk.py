"""Signals in a database on disk, for data sets that do not fit into memory."""

from __future__ import annotations

import io
import os
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Database, OnDiskDataset

from hsa_pyg.data import NestedSignal


class SignalsOnDisk(OnDiskDataset):
    r"""Base class of data sets that keep their signals in an SQLite database.

    Pixels (``patch.x``) take a byte each, in 256 steps; signals have them as floats in
    0 to 1. Every process opens the database for itself, so that the workers of a
    DataLoader, forked or spawned, may read it.

    Args:
        root: Folder for raw and processed data.
        transform: Called on each signal at every access.
        pre_filter: Says of each signal whether to keep it.
        force_reload: Process the raw files again.
        log: Show progress bars while processing.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        transform: Any = None,
        pre_filter: Any = None,
        force_reload: bool = False,
        log: bool = True,
    ) -> None:
        self._owner = os.getpid()
        self._ending = ""
        if force_reload:
            self.root = os.fspath(root)
            self._remove()
        super().__init__(
            os.fspath(root),
            transform,
            pre_filter,
            schema={"dtype": torch.uint8, "size": (-1,)},
            log=log,
        )

    def _remove(self) -> None:
        """Remove what an earlier or interrupted run has left."""
        for path in self.processed_paths:
            if os.path.exists(path):
                os.remove(path)

    @property
    def processed_paths(self) -> list[str]:
        """Paths of the processed files; while they are made, of their parts."""
        return [path + self._ending for path in super().processed_paths]

    def _process(self) -> None:
        # What exists is taken for whole, so it gets its name when it is: a run may be
        # killed, and several processes may start at once.
        if all(map(os.path.exists, self.processed_paths)):
            super()._process()
            return
        places = self.processed_paths
        self._ending = f".{os.getpid()}.part"
        self._remove()
        try:
            super()._process()
            self.close()
            for part, place in zip(self.processed_paths, places, strict=True):
                os.replace(part, place)
        finally:
            self.close()
            self._remove()
            self._ending = ""

    @property
    def db(self) -> Database:
        """The database, which every process opens for itself."""
        if self._owner != os.getpid():
            # A connection of SQLite must not be used in a forked process.
            self._owner, self._db = os.getpid(), None
        with self._reading():
            return super().db

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise ValueError(
                f"{self.processed_paths[0]!r} cannot be read ({error}): pass "
                "force_reload=True to make it again."
            ) from error

    def close(self) -> None:
        """Close the database; it opens again when it is needed."""
        super().close()
        self._db = None

    def serialize(self, data: NestedSignal) -> Tensor:
        """The packed bytes of a signal, pixels as bytes."""
        stores = data.to_dict()
        if "patch" in stores:
            pixels = stores["patch"]["x"].mul(255).round_().to(torch.uint8)
            stores["patch"] = {**stores["patch"], "x": pixels}
        buffer = io.BytesIO()
        torch.save(stores, buffer)
        # The fastest level: it takes half of the space, mostly of spans and edges.
        packed = bytearray(zlib.compress(buffer.getbuffer(), 1))
        return torch.frombuffer(packed, dtype=torch.uint8)

    def deserialize(self, data: Tensor) -> NestedSignal:
        """The signal of its bytes; nothing in them is executed."""
        content = io.BytesIO(zlib.decompress(data.numpy().tobytes()))
        stores = torch.load(content, weights_only=True)
        if "patch" in stores:
            pixels = stores["patch"]["x"]
            stores["patch"]["x"] = pixels.to(torch.float32).div_(255)
        return NestedSignal.from_dict(stores)

    def get(self, idx: int) -> NestedSignal:
        """The signal of a place in the database."""
        with self._reading():
            return super().get(idx)

    def __getitems__(self, indices: Sequence[int]) -> list[NestedSignal]:
        # PyG's own would take the places in a part of the data set, dataset[10:], for
        # places in the whole.
        chosen = self.indices()
        return self.multi_get([chosen[index] for index in indices])

    def __getstate__(self) -> dict[str, Any]:
        # Connections cannot be pickled; the other process opens its own.
        return {**self.__dict__, "_db": None}
