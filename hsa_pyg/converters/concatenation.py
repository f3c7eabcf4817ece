"""Composing signals of any kinds: a parent node over their roots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from hsa_pyg.converters.labels import Label, label_tensor
from hsa_pyg.converters.parts import PLACES, Parts, zeros
from hsa_pyg.converters.trees import Names
from hsa_pyg.data import NestedSignal, Schema, complete
from hsa_pyg.data.schema import EdgeType, SchemaUnion, group_label
from hsa_pyg.hierarchy import CHILD_OF

Domain = Literal["set", "sequence", "key_value", "grid"]


def concat(
    signals: Sequence[NestedSignal | None] | Mapping[str, NestedSignal | None],
    domain: Domain = "set",
    *,
    parent: str = "item",
    names: Sequence[str] | None = None,
    keys: Names | None = None,
    places: Sequence[Sequence[float]] | None = None,
    y: Label | None = None,
    schema: Schema | None = None,
) -> NestedSignal:
    r"""Compose signals, of one kind or of many, under a new root.

    The nodes of each type stand behind one another in the order of the signals; all
    edges, also those between siblings, keep their attributes. The signals themselves
    are not changed. The new root is the last node of type ``parent``, which may occur
    in the signals, so that a composition can be composed again.

    **Places.** The old roots are the new root's children. ``domain`` says what they
    get: nothing in a ``"set"``; in a ``"sequence"`` their place in ``pos``; in a
    ``"grid"`` their ``places`` in ``pos``; in a ``"key_value"`` record the id of their
    name in ``key``: its place among ``names``, or what ``keys`` gives. Nodes whose type
    is that of a root have zeros in the one of ``pos`` and ``key`` that they lack and
    others of their type have (their parents' domains do not read it). Every other
    attribute must be on all nodes of a type or on none.

    **Attributes of a whole signal.** ``y`` of the result is the argument ``y``; without
    it, the ``y`` of the signals that have one, if they are equal. Of any other
    attribute ``a`` (such as ``source``), ``part_a`` lists the value for each name
    (tensors as numbers), None where a signal lacks it. ``parts`` lists the names. An
    item whose signals all lack ``a`` has no ``part_a`` until it is brought to a schema
    with others (:func:`~hsa_pyg.data.unify`, the loader), which lists None then.

    Args:
        signals: The signals, by name or in a row. None stands for one that is not
            there: its name keeps its place among the names.
        domain: How the children of the new root relate to one another.
        parent: Type of the new root.
        names: Names of the signals, if they are no mapping; by default their numbers.
        keys: Ids of the names for ``"key_value"``: a list, a mapping, or a number; see
            :class:`~hsa_pyg.converters.Vocabulary`.
        places: ``(row, column)`` of each signal for ``"grid"``.
        y: Label of the whole: an int becomes ``[1]`` long, a float ``[1]`` float.
        schema: Types and attributes to fill in, with no rows, so that an item without
            picture still has the picture's types (:func:`hsa_pyg.data.union_schema`).

    Raises:
        TypeError: If a signal is no NestedSignal, or a batch of them.
        ValueError: If there is no signal; one has no root or several; two differ in
            dtype or width of an attribute, or only one has it; labels differ and there
            is no ``y``; or ``parent`` is a type of leaves. It names signal, type,
            attribute and remedy.

    Example:
        >>> from hsa_pyg.converters.brackets import from_brackets
        >>> from hsa_pyg.converters.nested import from_nested
        >>> item = concat(
        ...     {
        ...         "title": from_brackets("(3 (2 It) (4 works))"),
        ...         "price": from_nested(9),
        ...     },
        ...     "key_value",
        ... )
        >>> item["phrase"].key.tolist(), item["number"].key.tolist(), item.parts
        ([0], [1], ['title', 'price'])
        >>> item.hierarchy
        SignalHierarchy(nodes=5, leaves=3, roots=1, families=2, depth=2, branching=2)
    """
    parts = Parts(signals, names)
    taken = {"y", "parts", *(f"part_{name}" for name in parts.whole_attributes())}
    types = {kind for _, part in parts.present for kind in part.node_types}
    for kind in sorted(taken & {parent, *types}):
        raise ValueError(
            f"The type {kind!r} has the name of an attribute that the whole gets; "
            + ("choose another parent=." if kind == parent else "rename the type.")
        )
    parts.place(domain, keys, places)
    out = _join(parts, parent)
    _label(out, parts, y)
    out.parts = list(parts.names)
    for name in parts.whole_attributes():
        out[f"part_{name}"] = [_plain(part, name) for part in parts.all]
    return out if schema is None else complete(out, schema)


def _join(parts: Parts, parent: str) -> NestedSignal:
    union = SchemaUnion()
    for name, part in parts.present:
        own = Schema.of(part)
        union.add(Schema(own.nodes, own.edges, counted=own.counted), f"signal {name!r}")
    schema = union.schema()
    _check_rows(parts, schema, union)
    out = NestedSignal()
    starts: dict[str, dict[str, int]] = {name: {} for name, _ in parts.present}
    for kind, features in schema.nodes.items():
        number = 0
        for name, part in parts.present:
            starts[name][kind] = number
            number += int(part[kind].num_nodes) if kind in part.node_types else 0
        store = out[kind]
        if kind in schema.counted:
            store["num_nodes"] = number
        for attribute in features:
            store[attribute] = _gather(parts, kind, attribute)
    for edge_type, features in schema.edges.items():
        for attribute in features:
            out[edge_type][attribute] = _gather(parts, edge_type, attribute, starts)
    root = _add_root(out, parent, schema, parts.device)
    _hang_up(out, parts, starts, (parent, root))
    return out


def _check_rows(parts: Parts, schema: Schema, union: SchemaUnion) -> None:
    """No node may lack an attribute that other nodes of its type have."""
    for kind, features in [*schema.nodes.items(), *schema.edges.items()]:
        label = group_label(kind)
        for name, part in parts.present:
            number = _rows(part, kind)
            for attribute in features if number else ():
                if attribute not in part[kind]:
                    raise ValueError(
                        f"Signal {name!r}: {number} rows of {label} have no "
                        f"{attribute!r}, which {union.origin(label, attribute)} has; "
                        "set it in both or in none, or rename the type in one of them."
                    )


def _rows(part: NestedSignal, kind: str | EdgeType) -> int:
    if isinstance(kind, str):
        return int(part[kind].num_nodes) if kind in part.node_types else 0
    return part[kind].edge_index.size(1) if kind in part.edge_types else 0


def _gather(
    parts: Parts,
    kind: str | EdgeType,
    attribute: str,
    starts: Mapping[str, Mapping[str, int]] | None = None,
) -> Any:
    """The attribute of all signals, one behind the other."""
    values: list[Any] = []
    dim = 0
    for name, part in parts.present:
        if kind not in (part.node_types if isinstance(kind, str) else part.edge_types):
            continue
        store = part[kind]
        if attribute not in store:
            continue
        value = store[attribute]
        if starts is not None and "index" in attribute:
            ends = [starts[name][kind[0]], starts[name][kind[2]]]
            value = torch.as_tensor(value) + torch.tensor(ends).view(2, 1).to(
                value.device
            )
        if isinstance(value, Tensor) and value.dim() > 0:
            dim = part.__cat_dim__(attribute, value, store)
        values.append(value)
    first = values[0]
    if isinstance(first, Tensor) and first.dim() > 0:
        return torch.cat(values, dim)
    if isinstance(first, list):
        return [row for value in values for row in value]
    if all(_equal(first, value) for value in values):
        return first
    raise ValueError(
        f"Attribute {attribute!r} of {group_label(kind)} has no rows and differs: "
        f"{values}; make it a tensor or a list with a row for each node."
    )


def _add_root(
    out: NestedSignal, parent: str, schema: Schema, device: torch.device
) -> int:
    """Add a node of type ``parent`` behind those that there are."""
    features = schema.nodes.get(parent, {})
    if "x" in features:
        raise ValueError(
            f"parent={parent!r} is a type of leaves in the signals; choose another."
        )
    store = out[parent]
    number = int(store.num_nodes) if parent in schema.nodes else 0
    for attribute, feature in features.items():
        if attribute not in PLACES:
            raise ValueError(
                f"parent={parent!r} is a type of the signals with the attribute "
                f"{attribute!r}, which the new root would lack; choose another type."
            )
        store[attribute] = torch.cat([store[attribute], zeros(1, feature, device)])
    store["num_nodes"] = number + 1
    return number


def _hang_up(
    out: NestedSignal,
    parts: Parts,
    starts: Mapping[str, Mapping[str, int]],
    root: tuple[str, int],
) -> None:
    children: dict[str, list[int]] = {}
    for name, _ in parts.present:
        kind, node = parts.roots[name]
        children.setdefault(kind, []).append(starts[name][kind] + node)
    for kind, nodes in children.items():
        edge = torch.tensor([nodes, [root[1]] * len(nodes)], device=parts.device)
        store = out[kind, CHILD_OF, root[0]]
        if "edge_index" in store:
            others = [name for name in store if name != "edge_index"]
            if others:
                raise ValueError(
                    f"Edges from {kind!r} to {root[0]!r} have the attributes {others} "
                    "in the signals, which the new ones would lack; choose another "
                    "parent=."
                )
            edge = torch.cat([store["edge_index"], edge], dim=1)
        store["edge_index"] = edge


def _label(out: NestedSignal, parts: Parts, y: Label | None) -> None:
    if y is not None:
        out.y = label_tensor(y)
        return
    known = [
        (name, part._global_store["y"])
        for name, part in parts.present
        if "y" in part._global_store
    ]
    for name, label in known[1:]:
        if not _equal(label, known[0][1]):
            raise ValueError(
                f"Signal {known[0][0]!r} has the label {known[0][1]}, signal {name!r} "
                f"{label}; pass y= for the whole."
            )
    if known:
        label = known[0][1]
        # As all else, it is the composition's own.
        out.y = label.clone() if isinstance(label, Tensor) else label


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return type(one) is type(other) and bool(one == other)


def _plain(part: NestedSignal | None, name: str) -> Any:
    value = None if part is None else part._global_store.get(name)
    return value.tolist() if isinstance(value, Tensor) else value
