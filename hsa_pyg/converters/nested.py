"""JSON-like nested lists and dicts to signals."""

from __future__ import annotations

import decimal
import math
import numbers
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy
import torch

from hsa_pyg.converters.labels import Label, label_tensor
from hsa_pyg.converters.tokenization import as_text_encoder
from hsa_pyg.converters.trees import (
    Names,
    Node,
    TreeBuilder,
    Vocabulary,
    encode_texts,
)
from hsa_pyg.data import Feature, NestedSignal, Schema
from hsa_pyg.hierarchy import CHILD_OF

NUM_KEYS = 1024
CONSTANTS = (None, False, True)
"""The values of the leaf type ``constant``; their places are its ids."""

_LARGEST = torch.finfo(torch.float32).max
_INTERNAL = ("sequence", "record", "text")
_LEAVES = ("number", "constant", "token")
_PLACED = ("sequence", "record", "text", "number", "constant")


def nested_schema(types: Mapping[str, str] | None = None) -> Schema:
    """Types and attributes of every signal that :func:`from_nested` makes.

    Args:
        types: Other names for types, as for :func:`from_nested`.

    Raises:
        ValueError: If a name that shall be replaced is unknown, or two become one.
    """
    names = _type_names(types)
    place = {
        "pos": Feature((1,), torch.float),
        "key": Feature((), torch.long),
        "key_name": Feature(None, "list"),
    }
    nodes: dict[str, dict[str, Feature]] = {
        "sequence": place,
        "record": place,
        "text": {**place, "text": Feature(None, "list")},
        "number": {
            "x": Feature((1,), torch.float),
            "clipped": Feature((), torch.bool),
            **place,
        },
        "constant": {"x": Feature((), torch.long), **place},
        "token": {
            "x": Feature((), torch.long),
            "pos": Feature((1,), torch.float),
            "span": Feature((2,), torch.long),
        },
    }
    edges = [
        (names[child], CHILD_OF, names[parent])
        for parent in ("sequence", "record")
        for child in _PLACED
    ]
    edges.append((names["token"], CHILD_OF, names["text"]))
    return Schema({names[kind]: nodes[kind] for kind in nodes}, edges)


def from_nested(
    obj: Any,
    *,
    tokenizer: Any = None,
    keys: Names = NUM_KEYS,
    types: Mapping[str, str] | None = None,
    y: Label | None = None,
) -> NestedSignal:
    r"""Convert nested lists and dicts, such as ``json.load`` gives.

    - ``sequence``: a list or tuple. Its children have their places in ``pos``;
    - ``record``: a dict. Its children have the ids of their keys in ``key``;
    - ``text``: a string, kept in ``text``; its children are of type
    - ``token``, a leaf: ``x`` ids ``[n]`` long, ``pos``, and ``span`` ``[n, 2]`` long,
      the token's characters in its own string;
    - ``number``, a leaf: ``x`` ``[n, 1]`` float, the value in float32. What float32
      cannot hold becomes its largest number of that sign, NaN becomes 0; there
      ``clipped`` (``[n]`` bool) is True, and one warning counts them;
    - ``constant``, a leaf: ``x`` ``[n]`` long, 0 for None, 1 for False, 2 for True.

    All but ``token`` have ``pos`` (``[n, 1]`` float, 0 in records), ``key`` (``[n]``
    long, 0 in sequences) and ``key_name`` (a list, ``""`` in sequences). Nodes of a
    type are numbered in the order of the input. Empty lists, dicts and strings are
    empty internal nodes, which weigh nothing. Every signal has all these types.

    Key ids start at 1 and are the same in every document: hashes of the names, unless
    ``keys`` lists them. ``KeyValuePosition`` needs 1024 keys for the default, and one
    more than ``keys`` has names for a list.

    Args:
        obj: Lists, tuples, dicts, strings, numbers, booleans and None.
        tokenizer: As in :class:`~hsa_pyg.converters.DocumentConverter`.
        keys: A list of key names, a mapping from names to ids, or the number of ids to
            hash into; see :class:`~hsa_pyg.converters.Vocabulary`.
        types: Other names for types, such as ``{"record": "article"}``.
        y: Label of the whole: an int becomes ``[1]`` long, a float ``[1]`` float.

    Raises:
        TypeError: If there is another object inside, or a key that is neither a string
            nor a whole number; the message has its path, such as ``$.a[3].b``.
        ValueError: If a list or dict contains itself, a key is not among ``keys``, two
            keys have one name (``1`` and ``"1"``), or a string holds half a character.

    Example:
        >>> signal = from_nested({"title": "A storm", "wind": [9.5, 11]})
        >>> signal["number"].x.tolist(), signal["number"].pos.tolist()
        ([[9.5], [11.0]], [[0.0], [1.0]])
        >>> signal["text"].key_name, signal["sequence"].key_name
        (['title'], ['wind'])
    """
    encode = as_text_encoder(tokenizer)
    names = _type_names(types)
    tree = _Tree(TreeBuilder(nested_schema(types)), names, keys)
    tree.grow(obj)
    texts = [step.value for step, _ in tree.texts]
    encoded = encode_texts(encode, texts, lambda row: _path(tree.texts[row][0]))
    for (_, node), (ids, spans) in zip(tree.texts, encoded, strict=True):
        for place, (token, span) in enumerate(zip(ids, spans, strict=True)):
            tree.builder.add(names["token"], node, x=token, pos=place, span=span)
    if tree.clipped:
        warnings.warn(
            f"{len(tree.clipped)} numbers are not finite in float32, the first at "
            f"{_path(tree.clipped[0])}; their 'clipped' is True, and x is 0 for NaN and"
            " the largest number for the others.",
            stacklevel=2,
        )
    signal = tree.builder.signal()
    if y is not None:
        signal.y = label_tensor(y)
    return signal


class _Step(NamedTuple):
    """A value and the way to it from the outermost one."""

    value: Any
    above: _Step | None
    parent: Node | None
    pos: int = 0
    key: int = 0
    # Name of the key, or None for a place in a list.
    name: str | None = None


class _Tree:
    """Adds the nodes of nested values to a builder, depth first."""

    def __init__(
        self, builder: TreeBuilder, names: Mapping[str, str], keys: Names
    ) -> None:
        self.builder = builder
        self.names = names
        self.find_key = Vocabulary(keys, "key", "keys", first=1)
        self.texts: list[tuple[_Step, Node]] = []
        self.clipped: list[_Step] = []

    def grow(self, obj: Any) -> None:
        # A stack of our own: values nest deeper than Python recurses. An integer on it
        # says that all inside the container of that identity is done.
        stack: list[_Step | int] = [_Step(obj, None, None)]
        opened: set[int] = set()
        while stack:
            step = stack.pop()
            if isinstance(step, int):
                opened.remove(step)
                continue
            kind = _kind(step)
            node = self._add(step, kind)
            if kind not in ("sequence", "record"):
                continue
            if id(step.value) in opened:
                raise ValueError(
                    f"The {type(step.value).__name__} at {_path(step)} contains itself,"
                    " so the tree would have no end; break the cycle."
                )
            opened.add(id(step.value))
            stack.append(id(step.value))
            children = self._children(step, node, kind)
            stack.extend(reversed(list(children)))

    def _add(self, step: _Step, kind: str) -> Node:
        values: dict[str, Any] = {
            "pos": step.pos,
            "key": step.key,
            "key_name": step.name or "",
        }
        if kind == "text":
            values["text"] = step.value
        elif kind == "number":
            values["x"], values["clipped"] = _float32(step.value)
            if values["clipped"]:
                self.clipped.append(step)
        elif kind == "constant":
            value = None if step.value is None else bool(step.value)
            values["x"] = CONSTANTS.index(value)
        node = self.builder.add(self.names[kind], step.parent, **values)
        if kind == "text":
            self.texts.append((step, node))
        return node

    def _children(self, step: _Step, node: Node, kind: str) -> Iterator[_Step]:
        if kind == "sequence":
            for place, value in enumerate(step.value):
                yield _Step(value, step, node, pos=place)
            return
        seen: set[str] = set()
        for key, value in step.value.items():
            if isinstance(key, bool) or not isinstance(key, str | int):
                raise TypeError(
                    f"The key {key!r} in {_path(step)} is a {type(key).__name__}; keys "
                    "are strings or whole numbers."
                )
            name = str(key)
            if name in seen:
                raise ValueError(
                    f"Two keys in {_path(step)} have the name {name!r}: a whole number "
                    "stands for its digits; rename one."
                )
            seen.add(name)
            key_id = self.find_key(name, lambda: _path(step))
            yield _Step(value, step, node, key=key_id, name=name)


def _kind(step: _Step) -> str:
    value = step.value
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"The string at {_path(step)} holds a lone surrogate at character "
                f"{error.start}, which no tokenizer can take; replace it."
            ) from error
        return "text"
    if value is None or isinstance(value, bool | numpy.bool_):
        return "constant"
    if isinstance(value, numbers.Real | decimal.Decimal):
        return "number"
    if isinstance(value, Mapping):
        return "record"
    if isinstance(value, list | tuple):
        return "sequence"
    raise TypeError(
        f"The object at {_path(step)} is a {type(value).__name__}, which has no node "
        "type; convert it to lists, dicts, strings, numbers, booleans or None."
    )


def _path(step: _Step) -> str:
    parts: list[str] = []
    here: _Step | None = step
    while here is not None and here.above is not None:
        name = here.name
        if name is None:
            parts.append(f"[{here.pos}]")
        else:
            parts.append(f".{name}" if name.isidentifier() else f"[{name!r}]")
        here = here.above
    if len(parts) > 40:
        # The whole way down a deep chain helps nobody.
        parts[20:-20] = [f"...({len(parts) - 40} more)..."]
    return "$" + "".join(reversed(parts))


def _float32(value: Any) -> tuple[float, bool]:
    """The nearest finite number in float32, and whether it was out of reach."""
    try:
        number = float(value)
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    except ValueError:  # A signalling NaN.
        number = math.nan
    if math.isnan(number):
        return 0.0, True
    if abs(number) > _LARGEST:
        return math.copysign(_LARGEST, number), True
    return number, False


def _type_names(types: Mapping[str, str] | None) -> dict[str, str]:
    names = {kind: kind for kind in (*_INTERNAL, *_LEAVES)}
    for kind, name in (types or {}).items():
        if kind not in names:
            raise ValueError(
                f"types renames {kind!r}, which is not among the types {list(names)}."
            )
        names[kind] = name
    if len(set(names.values())) < len(names):
        raise ValueError(f"types gives two types one name: {names}.")
    return names
