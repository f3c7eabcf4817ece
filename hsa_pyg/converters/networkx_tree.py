"""Explicit trees given as networkx graphs to signals."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy
import torch
from torch import Tensor

from hsa_pyg.converters.attributes import as_column, common_columns
from hsa_pyg.converters.labels import Label, label_tensor
from hsa_pyg.converters.networkx_structure import Tree, read_tree
from hsa_pyg.data import NestedSignal, Schema, complete
from hsa_pyg.hierarchy import CHILD_OF

if TYPE_CHECKING:
    import networkx

NodeFunction = Callable[[Any, Mapping[Any, Any]], Any]
"""Called with a node and the mapping of its attributes."""

_RESERVED = ("x", "pos", "key", "name", "num_nodes", "edge_index")


def from_networkx(
    tree: networkx.Graph,
    *,
    features: str | NodeFunction = "x",
    type_of: str | NodeFunction = "type",
    order: str | NodeFunction | None = None,
    direction: Literal["parent_to_child", "child_to_parent"] = "parent_to_child",
    root: Hashable | None = None,
    y: Label | None = None,
    schema: Schema | None = None,
) -> NestedSignal:
    """Convert a tree that is given as a networkx graph.

    **Types.** A node's type is its attribute ``type``; without one it is ``"leaf"`` if
    the node is childless, and ``"node"`` if not. **Features.** Leaves have their
    features in ``x``: integers are token ids (``[n]`` long); other numbers, sequences
    and tensors are feature vectors (``[n, F]`` float). A type of which no childless
    node has ``x`` is an internal type (its childless nodes are empty). **Order.**
    Children are ordered by their attribute ``pos``, else ``order``, if every node but
    the root has a number there; else as they were inserted. ``pos`` (``[n, 1]`` float)
    is that attribute, or the place among the siblings. If ``pos`` holds pairs, as a
    layout does, it is kept as ``[n, 2]``, the place in a grid.

    **Other attributes** that all nodes of a type have are kept: numbers, and tensors or
    sequences of numbers of one shape, as a tensor (int64, float32 or bool), strings as
    a list. Names that are no identifiers (``3``) or have a meaning here get the prefix
    ``attribute_``. One warning names all that was left out, and why. Attributes of
    edges are kept likewise, on the edges ``(child_type, "child_of", parent_type)``.

    ``name`` lists the nodes themselves (as ``repr`` if they are not made of strings,
    numbers and tuples). Nodes of a type are numbered depth first.

    Args:
        tree: A ``networkx.DiGraph``, or an undirected tree with ``root``.
        features: Name of the attribute with the features, or a function of a childless
            node and its attributes.
        type_of: Name of the attribute with the type, or a function of a node and its
            attributes that gives a string (None for ``"leaf"`` or ``"node"``).
        order: Name of an attribute, or a function of a node and its attributes, to sort
            siblings by; ``pos`` is then the place among them.
        direction: Whether edges lead from parent to child, as in an arborescence of
            networkx, or from child to parent.
        root: The root; needed if the tree is undirected.
        y: Label of the whole: an int becomes ``[1]`` long, a float ``[1]`` float.
        schema: Types and attributes to fill in, with no rows, so that trees of unlike
            types form one data set (see :func:`hsa_pyg.data.union_schema`).

    Raises:
        TypeError: If ``tree`` is no networkx graph.
        ValueError: If it is no tree (it names the node: a cycle, two parents, several
            roots, not reachable), no leaf has features or only some of a type do, or a
            type has leaves with features and nodes with children.

    Example:
        >>> import networkx
        >>> tree = networkx.DiGraph([("root", "left"), ("root", "right")])
        >>> networkx.set_node_attributes(tree, {"left": 0.5, "right": 2.0}, "x")
        >>> signal = from_networkx(tree)
        >>> signal["leaf"].x.tolist(), signal["leaf"].name
        ([[0.5], [2.0]], ['left', 'right'])
    """
    nodes = read_tree(tree, direction, root)
    converter = _Converter(nodes, features, type_of)
    converter.place(order)
    signal = converter.signal()
    if converter.dropped:
        warnings.warn(
            "Attributes were left out: " + "; ".join(converter.dropped) + ".",
            stacklevel=2,
        )
    if y is not None:
        signal.y = label_tensor(y)
    return signal if schema is None else complete(signal, schema)


class _Converter:
    """Sorts the nodes of a tree by type and makes the columns of each type."""

    def __init__(
        self, tree: Tree, features: str | NodeFunction, type_of: str | NodeFunction
    ) -> None:
        self.tree = tree
        self.dropped: list[str] = []
        self.x = {
            node: _value(features, node, tree.attributes[node])
            for node in tree.attributes
            if not tree.children[node]
        }
        self.kinds = {node: self._kind(node, type_of) for node in tree.attributes}
        self.leaf_kinds = self._leaf_kinds()
        # Attributes that are not kept once more beside what they were used for.
        self.used: set[Any] = {type_of} if isinstance(type_of, str) else set()
        self.features_name = features if isinstance(features, str) else None
        self.pos: dict[Any, list[float]] = {}

    def _kind(self, node: Any, type_of: str | NodeFunction) -> str:
        kind = _value(type_of, node, self.tree.attributes[node])
        if kind is None:
            return "node" if self.tree.children[node] else "leaf"
        if not isinstance(kind, str) or not kind or "__" in kind or "." in kind:
            raise ValueError(
                f"The type of node {node!r} is {kind!r}; a type is a string without "
                "dots and double underscores. Pass type_of= if the type is elsewhere."
            )
        return kind

    def _leaf_kinds(self) -> set[str]:
        having = {self.kinds[n]: n for n, x in self.x.items() if x is not None}
        lacking = {self.kinds[n]: n for n, x in self.x.items() if x is None}
        inner = {self.kinds[n]: n for n, below in self.tree.children.items() if below}
        for kind, leaf in having.items():
            if kind in inner:
                raise ValueError(
                    f"Type {kind!r} has leaves with features, such as {leaf!r}, and "
                    f"nodes with children, such as {inner[kind]!r}; give the leaves a "
                    "type of their own."
                )
            if kind in lacking:
                raise ValueError(
                    f"Leaf {lacking[kind]!r} of type {kind!r} has no features, but "
                    f"{leaf!r} has; set them on both, or give it another type, of "
                    "which it will be an empty node."
                )
        if not having:
            raise ValueError(
                f"None of the {len(self.x)} childless nodes has features, such as "
                f"{next(iter(self.x))!r}; set the attribute 'x', or pass features=, for"
                " example features=lambda node, attributes: [1.0]."
            )
        return set(having)

    def place(self, order: str | NodeFunction | None) -> None:
        """Sort the siblings and find the ``pos`` of every node."""
        tree = self.tree
        below = [node for node in tree.attributes if node != tree.root]
        values: dict[Any, Any] = {n: tree.attributes[n].get("pos") for n in below}
        if order is not None:
            ranked = {n: _value(order, n, tree.attributes[n]) for n in below}
            self._sort(ranked, order)
        elif below and all(_is_number(value) for value in values.values()):
            self._sort(values, "pos")
            self.used.add("pos")
            self.pos = {n: [float(value)] for n, value in values.items()}
        elif below and all(_is_pair(value) for value in values.values()):
            self.used.add("pos")
            self.pos = {n: [float(at) for at in value] for n, value in values.items()}
            self.pos[tree.root] = [0.0, 0.0]
        else:
            ranked = {n: tree.attributes[n].get("order") for n in below}
            if all(_is_number(value) for value in ranked.values()):
                self._sort(ranked, "order")
        if not self.pos:
            for siblings in tree.children.values():
                self.pos.update({n: [float(at)] for at, n in enumerate(siblings)})
        self.pos.setdefault(tree.root, [0.0])

    def _sort(self, values: Mapping[Any, Any], order: Any) -> None:
        for node, siblings in self.tree.children.items():
            for child in siblings:
                if values[child] is None:
                    raise ValueError(
                        f"Node {child!r} has no {order!r} to order it by; set it on "
                        "every node but the root."
                    )
            try:
                siblings.sort(key=values.__getitem__)
            except TypeError as error:
                raise ValueError(
                    f"The children of node {node!r} cannot be ordered by {order!r}: "
                    f"{error}."
                ) from error

    def signal(self) -> NestedSignal:
        members: dict[str, list[Any]] = {}
        number: dict[Any, int] = {}
        for node in self.tree.depth_first():
            of_kind = members.setdefault(self.kinds[node], [])
            number[node] = len(of_kind)
            of_kind.append(node)
        signal = NestedSignal()
        for kind, nodes in members.items():
            store = signal[kind]
            if kind in self.leaf_kinds:
                store["x"] = self._features(kind, nodes)
            else:
                store["num_nodes"] = len(nodes)
            store["pos"] = torch.tensor([self.pos[n] for n in nodes], dtype=torch.float)
            store["name"] = [_plain(node) for node in nodes]
            for name, column in self._columns(kind, nodes):
                store[name] = column
        self._add_edges(signal, members, number)
        return signal

    def _features(self, kind: str, nodes: list[Any]) -> Tensor:
        column = as_column([self.x[node] for node in nodes])
        if not isinstance(column, Tensor) or column.dim() > 2:
            forms = [_form(self.x[node]) for node in nodes]
            other = next((i for i, form in enumerate(forms) if form != forms[0]), 0)
            told = [
                f"those of {nodes[i]!r} are {self.x[nodes[i]]!r}"
                for i in sorted({0, other})
            ]
            raise ValueError(
                f"The features of type {kind!r} are not numbers or vectors of one "
                f"length: {', '.join(told)}. Bring them to one length, give such nodes "
                "types of their own, or, of words, their ids."
            )
        if column.dtype == torch.long and column.dim() == 1:
            return column
        return column.float().view(len(nodes), -1)

    def _columns(
        self, kind: str, nodes: list[Any]
    ) -> Iterator[tuple[str, Tensor | list[str]]]:
        used = self.used | ({self.features_name} if kind in self.leaf_kinds else set())
        rows = [
            {k: v for k, v in self.tree.attributes[n].items() if k not in used}
            for n in nodes
        ]
        columns, dropped = common_columns(rows, _RESERVED)
        self.dropped += [f"{what} of type {kind!r}" for what in dropped]
        for name, column in columns.items():
            # What a key-value domain reads.
            is_key = (
                name == "attribute_key"
                and isinstance(column, Tensor)
                and column.dtype == torch.long
                and column.dim() == 1
                and bool((column >= 0).all())
            )
            yield ("key" if is_key else name), column

    def _add_edges(
        self,
        signal: NestedSignal,
        members: Mapping[str, list[Any]],
        number: Mapping[Any, int],
    ) -> None:
        edges: dict[tuple[str, str], list[tuple[Any, Any]]] = {}
        for child_kind, nodes in members.items():
            for child in nodes:
                if child != self.tree.root:
                    parent = self.tree.parent[child]
                    ends = edges.setdefault((child_kind, self.kinds[parent]), [])
                    ends.append((child, parent))
        for (child_kind, parent_kind), ends in edges.items():
            store = signal[child_kind, CHILD_OF, parent_kind]
            store["edge_index"] = torch.tensor(
                [[number[child] for child, _ in ends], [number[up] for _, up in ends]]
            )
            rows = [self.tree.edge_attributes[child] for child, _ in ends]
            columns, dropped = common_columns(rows, ("edge_index",))
            where = f"edges from {child_kind!r} to {parent_kind!r}"
            self.dropped += [f"{what} of {where}" for what in dropped]
            for name, column in columns.items():
                store[name] = column


def _value(source: str | NodeFunction, node: Any, attributes: Mapping[Any, Any]) -> Any:
    return source(node, attributes) if callable(source) else attributes.get(source)


def _is_number(value: Any) -> bool:
    column = None if value is None else as_column([value])
    return isinstance(column, Tensor) and column.dim() == 1


def _is_pair(value: Any) -> bool:
    column = None if value is None else as_column([value])
    return isinstance(column, Tensor) and column.shape == (1, 2)


def _plain(node: Any) -> Any:
    """The node itself if files of data may hold it, else what it looks like."""
    if isinstance(node, tuple) and type(node) is tuple:
        return node if all(_plain(part) is part for part in node) else repr(node)
    return node if type(node) in (str, int, float, bool) else repr(node)


def _form(value: Any) -> Any:
    """What features of one type have to have in common."""
    try:
        return isinstance(value, str), numpy.shape(value)
    except ValueError:  # lists of unlike lengths
        return None
