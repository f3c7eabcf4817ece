"""Building the signal of an explicit tree node by node; vocabularies of names."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from hsa_pyg.converters.tokenization import (
    UNKNOWN_TOKEN,
    EncodedText,
    TextEncoder,
    encode_all,
)
from hsa_pyg.data import Feature, NestedSignal, Schema
from hsa_pyg.hierarchy import CHILD_OF

Node = tuple[str, int]
"""A node of a signal: its type and its number within the type."""

Names = Sequence[str] | Mapping[str, int] | int
"""What a :class:`Vocabulary` is made of."""


class TreeBuilder:
    """Collects the nodes of a tree, parents before children, and makes the signal.

    Args:
        schema: Types and attributes of the signal. Every node brings a value for each
            attribute of its type, and every edge one for those of its edge type.

    Example:
        >>> pos = Feature((1,), torch.float)
        >>> schema = Schema(
        ...     nodes={"list": {}, "item": {"x": Feature((), torch.long), "pos": pos}},
        ...     edges=[("item", CHILD_OF, "list")],
        ... )
        >>> builder = TreeBuilder(schema)
        >>> root = builder.add("list")
        >>> builder.add("item", root, x=7, pos=0), builder.add("item", root, x=3, pos=1)
        (('item', 0), ('item', 1))
        >>> builder.signal()["item"].pos.tolist()
        [[0.0], [1.0]]
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._numbers = dict.fromkeys(schema.nodes, 0)
        self._values: dict[str, dict[str, list[Any]]] = {
            kind: {name: [] for name in features}
            for kind, features in schema.nodes.items()
        }
        self._ends: dict[tuple[str, str], tuple[list[int], list[int]]] = {}
        self._edge_values: dict[tuple[str, str], dict[str, list[Any]]] = {}
        for child, _, parent in schema.parent_edges:
            features = schema.edges[child, CHILD_OF, parent]
            self._ends[child, parent] = ([], [])
            self._edge_values[child, parent] = {
                name: [] for name in features if name != "edge_index"
            }

    def add(
        self,
        kind: str,
        parent: Node | None = None,
        edge: Mapping[str, Any] | None = None,
        **values: Any,
    ) -> Node:
        """Add a node.

        Args:
            kind: Its type.
            parent: Its parent, as this method returned it; None for the root.
            edge: Attributes of the edge to the parent.
            **values: Its attributes.
        """
        number = self._numbers[kind]
        self._numbers[kind] = number + 1
        for name, column in self._values[kind].items():
            column.append(values[name])
        if parent is not None:
            children, parents = self._ends[kind, parent[0]]
            children.append(number)
            parents.append(parent[1])
            for name, column in self._edge_values[kind, parent[0]].items():
                column.append((edge or {})[name])
        return kind, number

    def signal(self) -> NestedSignal:
        """The signal of all nodes that were added."""
        signal = NestedSignal(schema=self.schema)
        for kind, columns in self._values.items():
            store = signal[kind]
            if kind in self.schema.counted:
                store["num_nodes"] = self._numbers[kind]
            for name, column in columns.items():
                store[name] = _as_value(column, self.schema.nodes[kind][name])
        for (child, parent), ends in self._ends.items():
            edge_type = (child, CHILD_OF, parent)
            store = signal[edge_type]
            store["edge_index"] = torch.tensor(ends, dtype=torch.long)
            for name, column in self._edge_values[child, parent].items():
                store[name] = _as_value(column, self.schema.edges[edge_type][name])
        return signal


def _as_value(column: list[Any], feature: Feature) -> Any:
    if not isinstance(feature.dtype, torch.dtype):
        return column
    if column and isinstance(column[0], Tensor):
        return torch.stack(column).to(feature.dtype)
    rows = torch.tensor(column, dtype=feature.dtype)
    return rows.view(len(column), *(feature.shape or ()))


class Vocabulary:
    """Gives the names of one kind (keys, taxa, words, labels) their ids.

    Args:
        names: A sequence: the ids are the places in it, counted from ``first``. A
            mapping: it has the ids itself. An integer: names are hashed into ids
            ``first`` to ``names - 1``, the same in every document and every run, at
            the price of names that share one. If there is ``"[UNK]"`` among the names,
            it stands for every other name; else another name is an error.
        what: What a name is, for errors: ``"key"``.
        argument: The converter's argument that ``names`` came from, for errors.
        first: The smallest id.

    Raises:
        TypeError: If ``names`` is none of these.
        ValueError: If a name occurs twice, an id is negative, or there is no id.

    Example:
        >>> ids = Vocabulary(["[UNK]", "headline", "body"], "key", "keys")
        >>> ids("body", "$"), ids("image", "$"), ids.size
        (2, 0, 3)
    """

    def __init__(self, names: Names, what: str, argument: str, first: int = 0) -> None:
        self.what = what
        self.argument = argument
        self.first = first
        self._ids: Mapping[str, int] | None = None
        if isinstance(names, int) and not isinstance(names, bool):
            self.size = names
        elif isinstance(names, Mapping):
            self._ids = names
            self.size = max(names.values(), default=-1) + 1
            if min(names.values(), default=0) < 0:
                raise ValueError(f"{argument} holds a negative id; ids count from 0.")
        elif isinstance(names, Sequence) and not isinstance(names, str | bytes):
            self._ids = {name: first + place for place, name in enumerate(names)}
            self.size = first + len(names)
            if len(self._ids) < len(names):
                twice = next(name for name in names if list(names).count(name) > 1)
                raise ValueError(f"{argument} holds {twice!r} twice; name it once.")
        else:
            raise TypeError(
                f"{argument} is a {type(names).__name__}: pass a list of names, a "
                "mapping from names to ids, or the number of ids to hash into."
            )
        if self.size <= first:
            raise ValueError(f"{argument}={names!r} leaves no id for a {what}.")

    @classmethod
    def of(
        cls, names: Names | Vocabulary, what: str, argument: str, first: int = 0
    ) -> Vocabulary:
        """Make a vocabulary of ``names``, unless they are one already."""
        # Any callable will do that gives the id of a name at a place.
        return names if callable(names) else cls(names, what, argument, first)

    def __call__(self, name: str, where: str | Callable[[], str]) -> int:
        """The id of a name.

        Args:
            name: The name.
            where: Where in the input it stands, for errors; or a function that says so.

        Raises:
            ValueError: If the name is unknown and ``"[UNK]"`` too.
        """
        if self._ids is None:
            # crc32, since Python's own hash differs from process to process.
            code = zlib.crc32(name.encode("utf-8", "surrogatepass"))
            return self.first + code % (self.size - self.first)
        found = self._ids.get(name)
        if found is None:
            found = self._ids.get(UNKNOWN_TOKEN)
        if found is None:
            place = where if isinstance(where, str) else where()
            raise ValueError(
                f"The {self.what} {name!r} at {place} is not in {self.argument}; add it"
                f", or add {UNKNOWN_TOKEN!r} to stand for every unknown {self.what}."
            )
        return found


def encode_texts(
    encode: TextEncoder, texts: Sequence[str], where: Callable[[int], str]
) -> list[EncodedText]:
    """Tokenize texts and check what the tokenizer gave.

    Args:
        encode: The tokenizer.
        texts: The texts.
        where: Says where in the input a text stands, by its number, for errors.

    Raises:
        TypeError: If the tokenizer gives something else than ids and spans.
        ValueError: If there is not one result for each text, a token without a span, a
            negative id, or a span outside of its text.
    """
    encoded = encode_all(encode, texts)
    if len(encoded) != len(texts):
        raise ValueError(
            f"The tokenizer gave {len(encoded)} results for {len(texts)} texts; it must"
            " give one EncodedText for each text."
        )
    for number, ((ids, spans), text) in enumerate(zip(encoded, texts, strict=True)):
        if len(ids) != len(spans):
            raise ValueError(
                f"The tokenizer gave {len(ids)} ids but {len(spans)} spans for the text"
                f" at {where(number)}."
            )
        for token, (start, stop) in zip(ids, spans, strict=True):
            if isinstance(token, float | str) or token < 0:
                raise ValueError(
                    f"The tokenizer gave the id {token!r} for the text at "
                    f"{where(number)}; ids are integers that count from 0."
                )
            if not 0 <= start <= stop <= len(text):
                raise ValueError(
                    f"The tokenizer gave the span ({start}, {stop}) for the text at "
                    f"{where(number)}, which has {len(text)} characters."
                )
    return encoded
