"""Numbers of leaves on one scale, as the training signals have them."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Batch
from torch_geometric.transforms import BaseTransform

from hsa_pyg.data.signal import NestedSignal

#: Values of an attribute that say that a node has none of its own.
_NONE = ("", 0, None)


class Standardize(BaseTransform):
    r"""Brings the features of a leaf type to mean 0 and standard deviation 1.

    A linear map of a year, a price in cents or a time stamp as it is drowns what could
    be told by it. This transform subtracts a mean and divides by a standard deviation
    in each column, both of the signals that it was fitted to (those to train on), and
    leaves all else as it is. A column that never changes becomes 0.

    With ``by`` each kind of leaves has its own mean and deviation, such as the numbers
    under each key of records. Kinds that were not seen in fitting become 0, the mean of
    any kind, and one warning for each call names them.

    Where leaves have an attribute ``clipped`` (:func:`~hsa_pyg.converters.from_nested`
    gives it to what is not finite), those take no part in fitting: an ``x`` of 0 stays
    0, another becomes the largest or smallest that fitting saw of its kind.

    Args:
        node_type: The leaf type.
        by: Attribute of nodes that tells the kinds, a list (``"key_name"``) or integers
            ``[n]`` (``"key"``). A leaf that has none of its own (``""`` or 0), as
            in a list of numbers, is of the kind of its nearest ancestor that has one.

    Shapes:
        - **x:** of the leaf type, floats :math:`(n, F)`, before and after

    Raises:
        TypeError: if a signal is none, or a batch.
        ValueError: if a signal lacks the type or ``by``, ``x`` is not as above, there
            is no leaf to fit to, or the transform is called before it was fitted.

    Example:
        >>> from hsa_pyg.converters import from_nested
        >>> items = [{"year": 1990, "price": 9.0}, {"year": 2010, "price": 11.0}]
        >>> signals = [from_nested(item) for item in items]
        >>> scale = Standardize("number", by="key_name").fit(signals)
        >>> scale(signals[1])["number"].x.view(-1)
        tensor([1., 1.])
    """

    def __init__(self, node_type: str, by: str | None = None) -> None:
        self.node_type = node_type
        self.by = by
        self.kinds: dict[Hashable, int] = {}
        # Mean, deviation, smallest and largest after: [number of kinds, F].
        self.statistics: Tensor | None = None

    def fit(self, signals: Iterable[NestedSignal]) -> Standardize:
        """Take mean and deviation from signals, those to train on.

        Args:
            signals: Signals as they are, not yet standardised.
        """
        kinds: dict[Hashable, int] = {}
        rows, of_kind = [], []
        for signal in signals:
            x, clipped = self._features(signal)
            numbers = [kinds.setdefault(one, len(kinds)) for one in self._told(signal)]
            rows.append(x[~clipped].double())
            of_kind.append(torch.tensor(numbers, dtype=torch.long)[~clipped])
        if not sum(map(len, rows)):
            raise ValueError(
                f"there is no leaf of type {self.node_type!r} with a finite x to fit to"
            )
        x, kind = torch.cat(rows), torch.cat(of_kind)
        number = torch.bincount(kind, minlength=len(kinds)).clamp(min=1)[:, None]
        zero = x.new_zeros(len(kinds), x.size(1))
        mean = zero.index_add(0, kind, x) / number
        away = x - mean[kind]
        deviation = (zero.index_add(0, kind, away**2) / number).sqrt()
        # What changes by the rounding of the mean alone.
        still = deviation <= 1e-12 * mean.abs()
        deviation[still] = 1.0
        away = torch.where(still[kind], 0.0, away / deviation[kind])
        index = kind[:, None].expand_as(away)
        low = zero.scatter_reduce(0, index, away, "amin")
        high = zero.scatter_reduce(0, index, away, "amax")
        self.kinds, self.statistics = kinds, torch.stack([mean, deviation, low, high])
        return self

    def forward(self, data: NestedSignal) -> NestedSignal:
        """The signal with standardised features; the one given stays as it is."""
        if self.statistics is None:
            raise ValueError(
                f"{self} knows no mean yet: call .fit(signals) with those to train on"
            )
        x, clipped = self._features(data)
        if x.size(1) != self.statistics.size(2):
            raise ValueError(
                f"x of type {self.node_type!r} has {x.size(1)} columns, but "
                f"{self.statistics.size(2)} in the signals that {self} was fitted to"
            )
        told = self._told(data)
        unseen = dict.fromkeys(one for one in told if one not in self.kinds)
        if unseen:
            warnings.warn(
                f"leaves of type {self.node_type!r} have {self.by} {list(unseen)}, "
                "which were not among the signals that Standardize was fitted to: "
                "their x becomes 0",
                stacklevel=2,
            )
        numbers = [self.kinds.get(one, -1) for one in told]
        kind = torch.tensor(numbers, dtype=torch.long, device=x.device)
        mean, deviation, low, high = self.statistics.to(x.device)[:, kind]
        out = (x.double() - mean) / deviation
        out = torch.where(
            clipped[:, None], low.where(x < 0, high).where(x != 0, 0), out
        )
        out = torch.where((kind < 0)[:, None], 0.0, out)
        data[self.node_type].x = out.to(x.dtype)
        return data

    def _features(self, signal: NestedSignal) -> tuple[Tensor, Tensor]:
        """Features [n, F], and which rows are no numbers of their own, [n]."""
        if not isinstance(signal, NestedSignal) or isinstance(signal, Batch):
            raise TypeError(
                f"Standardize takes a NestedSignal, got {type(signal).__name__}; of a "
                "batch take the samples, batch.to_data_list()"
            )
        if self.node_type not in signal.node_types:
            raise ValueError(
                f"the signal has no type {self.node_type!r}; its leaf types are "
                f"{signal.schema.leaf_types}"
            )
        store = signal[self.node_type]
        x = store.get("x")
        if not isinstance(x, Tensor) or x.dim() != 2 or not x.is_floating_point():
            got = f"{x.dtype} {list(x.shape)}" if isinstance(x, Tensor) else repr(x)
            raise ValueError(
                f"x of type {self.node_type!r} must be floats [n, F], got {got}; "
                "numbers get a second dimension by x[:, None], ids need no scale"
            )
        clipped = store.get("clipped")
        if clipped is None:
            clipped = x.new_zeros(len(x), dtype=torch.bool)
        return x, clipped

    def _told(self, signal: NestedSignal) -> list[Hashable]:
        """The kind of each leaf of the type."""
        number = int(signal[self.node_type].num_nodes or 0)
        if self.by is None:
            return [None] * number
        if self.by not in signal[self.node_type]:
            raise ValueError(
                f"leaves of type {self.node_type!r} have no attribute {self.by!r}, by "
                f"which to standardise; they have {list(signal[self.node_type])}"
            )
        hierarchy = signal.hierarchy
        parent = hierarchy.parent.tolist()
        told: list[Any] = [None] * hierarchy.num_nodes
        for kind, (start, stop) in hierarchy.node_slices.items():
            values = signal[kind].get(self.by)
            if values is not None:
                listed = values.tolist() if isinstance(values, Tensor) else values
                told[start:stop] = listed
        start, stop = hierarchy.node_slices[self.node_type]
        found = []
        for node in range(start, stop):
            while told[node] in _NONE and parent[node] >= 0:
                node = parent[node]
            found.append(None if told[node] in _NONE else told[node])
        return found

    def __repr__(self) -> str:
        by = "" if self.by is None else f", by={self.by!r}"
        return f"{self.__class__.__name__}({self.node_type!r}{by})"
