"""The compiled hierarchy of a signal, kept until something it depends on changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch import Tensor

from hsa_pyg.hierarchy import SignalHierarchy

#: State of a tensor's content: its version counter, or a copy where torch keeps none.
Stamp = int | Tensor


@dataclass(frozen=True)
class Fingerprint:
    """All that a hierarchy is compiled from.

    Args:
        tensors: parent edges and, in a batch, the samples of the nodes.
        sizes: types, numbers of nodes, leaf types and number of samples.
    """

    tensors: tuple[Tensor, ...]
    sizes: tuple[Any, ...]

    def stamps(self) -> tuple[Stamp, ...]:
        """The state of the tensors now."""
        return tuple(_stamp(tensor) for tensor in self.tensors)


@dataclass(frozen=True)
class _Entry:
    hierarchy: SignalHierarchy
    source: Fingerprint
    stamps: tuple[Stamp, ...]

    def holds_for(self, source: Fingerprint) -> bool:
        """Whether ``source`` is the very same data, and nobody wrote to it since."""
        # The entry keeps its tensors alive, so an identity is never a recycled one.
        return (
            self.source.sizes == source.sizes
            and len(self.source.tensors) == len(source.tensors)
            and all(
                mine is other and _unchanged(mine, stamp)
                for mine, other, stamp in zip(
                    self.source.tensors, source.tensors, self.stamps, strict=True
                )
            )
        )


class HierarchyCache:
    """Holds one compiled hierarchy.

    It is checked on every read against the identity and version of the tensors that it
    was compiled from, so edits need not be announced. (Only writes that torch does not
    count go unseen: through ``tensor.data``, NumPy or ``EdgeIndex.as_tensor()``.)

    Copies and files leave the hierarchy out, since it can be compiled again; only the
    way from a DataLoader's worker to the main process takes it along.
    """

    def __init__(self) -> None:
        self._entry: _Entry | None = None

    @property
    def filled(self) -> bool:
        """Whether a hierarchy is kept, be it valid or not."""
        return self._entry is not None

    def lookup(self, source: Fingerprint) -> SignalHierarchy | None:
        """The hierarchy, if it was compiled from ``source`` as it is now."""
        if self._entry is None or not self._entry.holds_for(source):
            return None
        return self._entry.hierarchy

    def store(self, source: Fingerprint, hierarchy: SignalHierarchy) -> None:
        """Keep a hierarchy that was compiled from ``source``."""
        self._entry = _Entry(hierarchy, source, source.stamps())

    def compiled(
        self, source: Fingerprint, compile_hierarchy: Callable[[], SignalHierarchy]
    ) -> SignalHierarchy:
        """The hierarchy of ``source``, compiled if it is not there."""
        hierarchy = self.lookup(source)
        if hierarchy is None:
            hierarchy = compile_hierarchy()
            self.store(source, hierarchy)
        return hierarchy

    def fork(self) -> HierarchyCache:
        """A second cache that starts with what this one holds (for shallow copies)."""
        other = HierarchyCache()
        other._entry = self._entry
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        return HierarchyCache, ()


def _stamp(tensor: Tensor) -> Stamp:
    # Inference tensors keep no version counter; only their content can be compared.
    return tensor.clone() if tensor.is_inference() else tensor._version


def _unchanged(tensor: Tensor, stamp: Stamp) -> bool:
    if isinstance(stamp, Tensor):
        return torch.equal(tensor, stamp)
    return tensor._version == stamp


def _rebuild(tensors: tuple[Tensor, ...], sizes: Any, hierarchy: Any) -> HierarchyCache:
    cache = HierarchyCache()
    cache.store(Fingerprint(tensors, sizes), hierarchy)
    return cache


def _reduce_between_processes(cache: HierarchyCache) -> tuple[Any, ...]:
    entry = cache._entry
    if entry is None or not entry.holds_for(entry.source):
        return HierarchyCache, ()
    # The signal's stores name the same tensors in the same pickle, so they are the
    # same objects again on the other side.
    return _rebuild, (entry.source.tensors, entry.source.sizes, entry.hierarchy)


ForkingPickler.register(HierarchyCache, _reduce_between_processes)
