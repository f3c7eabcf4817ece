"""The signals that a composition is made of, with their names and roots."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Batch

from hsa_pyg.converters.trees import Names, Vocabulary
from hsa_pyg.data import Feature, NestedSignal
from hsa_pyg.forest import NodeNames, join_parents, number_nodes, select_parent_edges

_PLACE_OF: dict[str, dict[str, Feature]] = {
    "set": {},
    "sequence": {"pos": Feature((1,), torch.float)},
    "grid": {"pos": Feature((2,), torch.float)},
    "key_value": {"key": Feature((), torch.long)},
}
PLACES = ("pos", "key")
"""Attributes that say where a child is in its parent's domain."""


class Parts:
    """The signals to compose, shallow copies, with their names and roots."""

    def __init__(self, signals: Any, names: Sequence[str] | None) -> None:
        if isinstance(signals, Mapping):
            if names is not None:
                raise ValueError("Signals given by name have their names; leave names=")
            names, signals = list(signals), signals.values()
        if isinstance(signals, NestedSignal) or not isinstance(signals, Iterable):
            raise TypeError(
                f"A list or dict of signals is wanted, got a {type(signals).__name__}."
            )
        given = list(signals)
        self.names = [str(n) for n in (range(len(given)) if names is None else names)]
        if len(self.names) != len(given) or len(set(self.names)) != len(given):
            raise ValueError(
                f"There are {len(given)} signals and the names {self.names}; give each "
                "signal a name of its own."
            )
        self.all = [
            None if signal is None else _checked(signal, name)
            for name, signal in zip(self.names, given, strict=True)
        ]
        self.present = [
            (name, part)
            for name, part in zip(self.names, self.all, strict=True)
            if part is not None
        ]
        if not self.present:
            raise ValueError(
                f"None of the {len(given)} signals is there; leave the item out, or "
                "let a part without members be a NestedSignal of one node: "
                "signal[kind].num_nodes = 1."
            )
        self.roots = {name: _root(part, name) for name, part in self.present}
        self.device = _device(self.present[0][1])

    def place(
        self, domain: str, keys: Names | None, places: Sequence[Sequence[float]] | None
    ) -> None:
        """Give the roots their places, and zeros to others of their types."""
        if domain not in _PLACE_OF:
            raise ValueError(f"domain={domain!r} is not one of {list(_PLACE_OF)}.")
        if domain == "grid" and (
            places is None
            or len(places) != len(self.names)
            or any(len(place) != 2 for place in places)
        ):
            raise ValueError(
                "domain='grid' needs places=, one (row, column) for each of the "
                f"{len(self.names)} signals; got {places!r}."
            )
        find = Vocabulary(self.names if keys is None else keys, "name", "keys")
        for number, (name, part) in enumerate(zip(self.names, self.all, strict=True)):
            if part is None:
                continue
            kind, node = self.roots[name]
            value: Any = {
                "sequence": [number],
                "grid": places[number] if places else None,
                "key_value": find(name, "names") if domain == "key_value" else None,
            }.get(domain)
            for attribute, feature in _PLACE_OF[domain].items():
                self._write(part, name, kind, node, attribute, feature, value)
        self._fill()

    def _write(
        self,
        part: NestedSignal,
        name: str,
        kind: str,
        node: int,
        attribute: str,
        feature: Feature,
        value: Any,
    ) -> None:
        number = int(part[kind].num_nodes)
        known = part[kind].get(attribute)
        if known is None:
            known = zeros(number, feature, self.device)
        elif Feature.of(known) != feature:
            raise ValueError(
                f"Signal {name!r}: {attribute!r} of type {kind!r} is "
                f"{Feature.of(known)}, but the new root's domain needs {feature}; "
                "take another domain, or give the root a type of its own."
            )
        else:
            known = known.clone()  # The signal given stays as it is.
        known[node] = torch.tensor(value, dtype=known.dtype)
        part[kind][attribute] = known

    def _fill(self) -> None:
        for kind in sorted({kind for kind, _ in self.roots.values()}):
            having = [part for _, part in self.present if kind in part.node_types]
            for attribute in PLACES:
                known = [p[kind][attribute] for p in having if attribute in p[kind]]
                for part in having if known else ():
                    if attribute not in part[kind]:
                        number = int(part[kind].num_nodes)
                        part[kind][attribute] = zeros(
                            number, Feature.of(known[0]), self.device
                        )

    def whole_attributes(self) -> list[str]:
        """Names of the attributes of whole signals, ``y`` aside."""
        names = [name for _, part in self.present for name in part._global_store]
        return [name for name in dict.fromkeys(names) if name != "y"]


def _checked(signal: Any, name: str) -> NestedSignal:
    if isinstance(signal, Batch):
        raise TypeError(
            f"Signal {name!r} is a batch of several; take it apart by to_data_list()."
        )
    if not isinstance(signal, NestedSignal):
        raise TypeError(
            f"Signal {name!r} is a {type(signal).__name__}, no signal: make one of it "
            "by a converter of hsa_pyg.converters, such as from_nested or from_image."
        )
    return copy.copy(signal)


def _root(part: NestedSignal, name: str) -> tuple[str, int]:
    """Type and number of the node that has no parent.

    All else that a tree has to fulfil is checked once, in the composition.
    """
    edges = {
        kind: torch.as_tensor(store["edge_index"])
        for kind, store in part.edge_items()
        if "edge_index" in store
    }
    try:
        slices = number_nodes({kind: part[kind].num_nodes for kind in part.node_types})
        parent = join_parents(select_parent_edges(edges), slices, NodeNames(slices))
    except (TypeError, ValueError) as error:
        raise ValueError(f"Signal {name!r}: {error}") from error
    roots = (parent < 0).nonzero().view(-1).tolist()
    if len(roots) != 1:
        raise ValueError(
            f"Signal {name!r} has {len(roots)} roots instead of one; compose its trees,"
            " or leave an empty one out (None)."
        )
    kind, start = next(
        (kind, start)
        for kind, (start, stop) in slices.items()
        if start <= roots[0] < stop
    )
    return kind, roots[0] - start


def _device(part: NestedSignal) -> torch.device:
    features = (store.get("x") for store in part.node_stores)
    return next(
        (x.device for x in features if isinstance(x, Tensor)), torch.device("cpu")
    )


def zeros(number: int, feature: Feature, device: torch.device) -> Tensor:
    """Rows of zeros."""
    row = feature.empty()
    return torch.zeros(number, *row.shape[1:], dtype=row.dtype, device=device)
