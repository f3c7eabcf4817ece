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


class Standardize(BaseTransform):
    r"""Brings the features of a leaf type to mean 0 and standard deviation 1.

    A linear map of a year, a price in cents or a time stamp as it is drowns what could
    be told by it. This transform subtracts a mean and divides by a standard deviation
    in each column, both of the signals that it was fitted to (those to train on), and
    leaves all else as it is. A column that never changes becomes 0.

    With ``by`` each kind of leaves has its own mean and deviation, such as the numbers
    under each key of records. Kinds of which fitting saw no number become 0, the mean
    of any kind, and one warning for each call names them.

    Where leaves have an attribute ``clipped`` (:func:`~hsa_pyg.converters.from_nested`
    gives it to what is not finite), those take no part in fitting: an ``x`` of 0 stays
    0, another becomes the largest or smallest that fitting saw of its kind.

    Args:
        node_type: The leaf type.
        by: Attribute of nodes that tells the kinds: a list of names (``"key_name"``),
            or a tensor ``[n]`` of the leaf type alone. A leaf without a name of its own
            (``""`` or None), as in a list of numbers, is of the kind of its nearest
            ancestor that has one.

    Shapes:
        - **x:** of the leaf type, floats :math:`(n, F)`, before and after

    Raises:
        TypeError: if a signal is none, or a batch.
        ValueError: if a signal lacks the type or ``by``, ``x`` is not as above or not
            finite, there is no leaf to fit to, or the transform is called before it was
            fitted.

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
        if isinstance(signals, NestedSignal):
            raise TypeError(
                f"fit takes a list of signals, got a {type(signals).__name__}; put it "
                "into a list"
            )
        kinds: dict[Hashable, int] = {}
        rows: list[Tensor] = []
        of_kind: list[Tensor] = []
        for signal in signals:
            x, clipped = (one.cpu() for one in self._features(signal))
            if rows and x.size(1) != rows[0].size(1):
                raise ValueError(
                    f"x of type {self.node_type!r} has {x.size(1)} columns in one "
                    f"signal and {rows[0].size(1)} in another"
                )
            told = zip(self._told(signal), clipped.tolist(), strict=True)
            numbers = [
                kinds.setdefault(one, len(kinds)) for one, off in told if not off
            ]
            rows.append(x[~clipped].double())
            of_kind.append(torch.tensor(numbers, dtype=torch.long))
        if not kinds:
            raise ValueError(
                f"there is no leaf of type {self.node_type!r} with a finite x to fit to"
            )
        x, kind = torch.cat(rows), torch.cat(of_kind)
        index, zero = kind[:, None].expand_as(x), x.new_zeros(len(kinds), x.size(1))
        least, most = (
            zero.scatter_reduce(0, index, x, how, include_self=False)
            for how in ("amin", "amax")
        )
        number = torch.bincount(kind)[:, None]
        still = least == most
        mean = torch.where(still, least, zero.index_add(0, kind, x) / number)
        spread = zero.index_add(0, kind, (x - mean[kind]) ** 2) / number
        deviation = torch.where(still, 1.0, spread.sqrt())
        low, high = ((one - mean) / deviation for one in (least, most))
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
        clipped = torch.as_tensor(store.get("clipped", [False] * len(x)))
        clipped = clipped.to(x.device).bool()
        if clipped.shape != x.shape[:1]:
            raise ValueError(
                f"'clipped' of type {self.node_type!r} must tell of each of {len(x)} "
                f"leaves whether it is no number of its own, got {list(clipped.shape)}"
            )
        odd = (~x.isfinite().all(1) & ~clipped).nonzero()
        if len(odd):
            raise ValueError(
                f"'x' of node {int(odd[0])} of type {self.node_type!r} holds nan or "
                "inf, which has no scale; replace it, or set its 'clipped' to True"
            )
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
        own = signal[self.node_type][self.by]
        if isinstance(own, Tensor):
            if own.shape != (number,):
                raise ValueError(
                    f"{self.by!r} of type {self.node_type!r} must have shape "
                    f"[{number}], got {list(own.shape)}"
                )
            return own.tolist()
        hierarchy = signal.hierarchy
        told: list[Any] = [None] * hierarchy.num_nodes
        for kind, (start, stop) in hierarchy.node_slices.items():
            names = signal[kind].get(self.by)
            if not isinstance(names, list | tuple):
                continue
            if len(names) != stop - start:
                raise ValueError(
                    f"{self.by!r} of type {kind!r} has {len(names)} entries for "
                    f"{stop - start} nodes"
                )
            told[start:stop] = names
        parent = hierarchy.parent.tolist()
        # From the roots down, so that each parent is told before its children.
        for node in torch.argsort(hierarchy.depth).tolist():
            if told[node] in (None, "") and parent[node] >= 0:
                told[node] = told[parent[node]]
        start, stop = hierarchy.node_slices[self.node_type]
        return [None if one == "" else one for one in told[start:stop]]

    def __repr__(self) -> str:
        by = "" if self.by is None else f", by={self.by!r}"
        return f"{self.__class__.__name__}({self.node_type!r}{by})"
