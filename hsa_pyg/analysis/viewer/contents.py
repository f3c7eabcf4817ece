"""What the viewer page needs to know of a signal, as values that JSON can hold."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch

from hsa_pyg.analysis.node_labels import named_nodes
from hsa_pyg.analysis.viewer.pictures import find_pictures
from hsa_pyg.data import NestedSignal
from hsa_pyg.hierarchy import CHILD_OF


class TreeOrder:
    """The nodes of a signal's tree in the order in which a reader meets them.

    Parents come before their children, and the descendants of a node follow it at once.

    Args:
        signal: a signal of one tree.

    Attributes:
        number: [M] place in this order of every node of the hierarchy.
        node: [M] node of the hierarchy at every place.
        parent: [M] place of the parent of the node at each place, -1 for the root.
    """

    def __init__(self, signal: NestedSignal) -> None:
        hierarchy = signal.hierarchy
        parent = hierarchy.parent.cpu().numpy()
        nodes = parent.size
        below = np.ones(nodes, dtype=np.int64)
        order = np.argsort(hierarchy.depth.cpu().numpy(), kind="stable")
        # A root hangs below the extra last place.
        above = np.where(parent < 0, nodes, parent)
        first = np.zeros(nodes + 1, dtype=np.int64)
        below = np.append(below, 0)
        starts = np.searchsorted(
            hierarchy.depth.cpu().numpy()[order], np.arange(hierarchy.max_depth + 2)
        )
        levels = [
            order[starts[depth] : starts[depth + 1]]
            for depth in range(hierarchy.max_depth + 1)
        ]
        for level in reversed(levels):
            np.add.at(below, above[level], below[level])
        # What the elder siblings take up.
        by_family = np.lexsort((*_sort_keys(signal), above))
        size = below[by_family]
        before = np.cumsum(size) - size
        family = above[by_family]
        new = np.ones(nodes, dtype=bool)
        new[1:] = family[1:] != family[:-1]
        base = np.maximum.accumulate(np.where(new, before, 0))
        elder = np.empty(nodes, dtype=np.int64)
        elder[by_family] = before - base
        first[nodes] = -1
        for level in levels:
            first[level] = first[above[level]] + 1 + elder[level]
        self.number = first[:nodes]
        self.node = np.argsort(self.number)
        self.parent = first[above[self.node]]


def _sort_keys(signal: NestedSignal) -> tuple[np.ndarray, ...]:
    """Keys for np.lexsort, the weightiest last: places first, then the node ids."""
    nodes = signal.hierarchy.num_nodes
    place = np.zeros((nodes, 2))
    has_place = np.zeros(nodes, dtype=bool)
    for name, (start, stop) in signal.hierarchy.node_slices.items():
        pos = signal[name].get("pos")
        if start == stop or not isinstance(pos, Tensor):
            continue
        if pos.dim() in (1, 2) and pos.size(0) == stop - start:
            columns = pos.detach().cpu().double().reshape(stop - start, -1)[:, :2]
            place[start:stop, : columns.size(1)] = columns.numpy()
            has_place[start:stop] = True
    return np.arange(nodes), place[:, 1], place[:, 0], has_place


def tree_contents(
    signal: NestedSignal,
    order: TreeOrder,
    roles: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Any]:
    """Types, tree, texts, names and pictures of a signal.

    Arrays are base64 of their little-endian bytes; nodes go by their place in
    ``order``, characters by UTF-16 units, as JavaScript counts them.

    Args:
        signal: a signal of one tree.
        order: the order of its nodes.
        roles: names of the numbers in ``role``, by node type.
    """
    slices = signal.hierarchy.node_slices
    count = signal.hierarchy.num_nodes
    kind = np.zeros(count, dtype=np.uint16)
    within = np.zeros(count, dtype=np.int32)
    role = np.full(count, -1, dtype=np.int8)
    types, labels = [], {}
    for number, (name, (start, stop)) in enumerate(slices.items()):
        store = signal[name]
        kind[start:stop] = number
        within[start:stop] = np.arange(stop - start)
        if isinstance(store.get("role"), Tensor):
            role[start:stop] = store["role"].cpu().numpy()
        texts = store.get("text")
        has_text = isinstance(texts, list) and len(texts) == stop - start > 0
        types.append(
            {
                "name": name,
                "leaf": "x" in store,
                "text": has_text,
                "roles": list((roles or {}).get(name, ())),
            }
        )
        for offset, label in named_nodes(store, stop - start):
            labels[int(order.number[start + offset])] = label
    texts, spans = _texts_and_spans(signal, order)
    pictures = find_pictures(signal, order)
    return {
        "types": types,
        "kind": encode(kind[order.node]),
        "within": encode(within[order.node]),
        "parent": encode(order.parent.astype(np.int32)),
        "role": encode(role[order.node]),
        "leaves": encode(
            signal.hierarchy.leaf_counts.cpu().numpy()[order.node].astype(np.int32)
        ),
        "labels": {str(node): labels[node] for node in sorted(labels)},
        "texts": texts,
        "spans": encode(spans),
        "pictures": [
            {**picture, **{key: encode(picture[key]) for key in ("cells", "pixels")}}
            for picture in pictures
        ],
        "shows": _shows(signal, order),
        "dropped": _dropped(signal),
    }


def encode(values: np.ndarray) -> str:
    """Base64 of the little-endian bytes of an array."""
    little = values.astype(values.dtype.newbyteorder("<"), copy=False)
    return base64.b64encode(np.ascontiguousarray(little).tobytes()).decode("ascii")


def check_signal(signal: NestedSignal, max_leaves: int) -> None:
    """Raise unless a page can show this signal.

    Raises:
        TypeError: if it is no signal.
        ValueError: if it is a batch or no single tree, or has too many leaves.
    """
    if not isinstance(signal, NestedSignal):
        raise TypeError(
            f"a NestedSignal is wanted, got a {type(signal).__name__}; a list has its "
            "signals at [0], [1], ..."
        )
    if isinstance(signal, Batch):
        raise ValueError(
            f"a page shows one signal, and this is a batch of {signal.num_graphs}; "
            "take one of them, batch[0]"
        )
    hierarchy = signal.hierarchy
    if hierarchy.num_roots != 1:
        raise ValueError(
            f"a page shows one tree, and this signal has {hierarchy.num_roots} roots; "
            "signal.validate() names what is not joined to the rest"
        )
    if max(hierarchy.num_leaves, hierarchy.num_nodes // 4) > max_leaves:
        raise ValueError(
            f"the tree has {hierarchy.num_leaves:,} leaves and {hierarchy.num_nodes:,} "
            f"nodes, and a page of more than {max_leaves:,} leaves is slow to use: cut "
            "the document (max_tokens), take a page of the site, or raise max_leaves"
        )


def _texts_and_spans(
    signal: NestedSignal, order: TreeOrder
) -> tuple[list[str], np.ndarray]:
    """All texts in the order of their nodes, and the span [M, 2] of each node.

    Spans count in the text of the nearest node above that has one; -1 without a text.
    """
    count = signal.hierarchy.num_nodes
    spans = np.full((count, 2), -1, dtype=np.int64)
    own = np.full(count, -1, dtype=np.int64)
    found: list[str] = []
    for name, (start, stop) in signal.hierarchy.node_slices.items():
        store = signal[name]
        if isinstance(store.get("span"), Tensor) and store["span"].dim() == 2:
            spans[start:stop] = store["span"].cpu().numpy()
        texts = store.get("text")
        if isinstance(texts, list) and len(texts) == stop - start:
            own[start:stop] = len(found) + np.arange(len(texts))
            found += [str(text) for text in texts]
    spans, own = spans[order.node], own[order.node]
    texts = [found[number] for number in own[own >= 0]]
    own[own >= 0] = np.arange(len(texts))
    owner = own.copy()
    for node, parent in enumerate(order.parent.tolist()):
        if owner[node] < 0 and parent >= 0:
            owner[node] = owner[parent]
    for number, text in enumerate(texts):
        inside = (owner == number) & (spans[:, 0] >= 0)
        spans[inside] = _utf16_offsets(text)[np.clip(spans[inside], 0, len(text))]
        whole = (own == number) & (spans[:, 0] < 0)
        spans[whole] = (0, _utf16_offsets(text)[-1])
    spans[owner < 0] = -1
    return texts, spans.astype(np.int32)


def _utf16_offsets(text: str) -> np.ndarray:
    """Number of UTF-16 units before each character, and in all: [len(text) + 1]."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    return np.append(0, np.cumsum(1 + (codes > 0xFFFF)))


def _shows(signal: NestedSignal, order: TreeOrder) -> list[list[int]]:
    """Places where a picture is shown that hangs elsewhere: [figure, picture]."""
    rows = []
    for source, relation, target in signal.edge_types:
        if relation == CHILD_OF or relation != "shows":
            continue
        ends = signal[source, relation, target].edge_index.cpu()
        first = [signal.hierarchy.node_slices[name][0] for name in (source, target)]
        nodes = order.number[(ends + torch.tensor(first)[:, None]).numpy()]
        rows += nodes.T.tolist()
    return sorted(rows)


def _dropped(signal: NestedSignal) -> list[list[Any]]:
    dropped = signal._global_store.get("dropped")
    if not isinstance(dropped, list):
        return []
    return [[str(reason), int(count)] for reason, count in dropped]
