"""Give a signal every store of its data set's schema, empty where it has no node."""

from __future__ import annotations

import copy
from typing import TypeVar

from torch_geometric.data import HeteroData
from torch_geometric.data.storage import BaseStorage

from hsa_pyg.data.feature import Feature
from hsa_pyg.data.schema import EdgeType, Schema, group_label, lists_parts

Signal = TypeVar("Signal", bound=HeteroData)


def complete(signal: Signal, schema: Schema, source: str = "the signal") -> Signal:
    """A shallow copy of ``signal`` that holds every type and attribute of ``schema``.

    What it lacks is there with no rows: features of the right width and dtype, edges
    [2, 0], ``num_nodes`` 0. Its types come in the order of the schema. What a
    composition (:func:`~hsa_pyg.converters.concat`) lists for its parts and none of the
    parts has, such as ``part_source``, is None for each.

    Args:
        signal: the signal; it is not changed.
        schema: the schema of its data set.
        source: what to call the signal in messages ("sample 3").

    Raises:
        ValueError: if the signal has what the schema lacks, differs from it in a dtype
            or a shape, or has nodes without one of their attributes. Attributes of the
            whole sample (``y``) need not be in the schema.
    """
    own = Schema.of(signal)
    out = copy.copy(signal)
    if own != schema or [*own.nodes, *own.edges] != [*schema.nodes, *schema.edges]:
        fill_in(out, schema, source)
    return out


def fill_in(signal: HeteroData, schema: Schema, source: str = "the signal") -> None:
    """As :func:`complete`, but on the signal itself."""
    _check_covered(Schema.of(signal), schema, source)
    nodes, edges = signal._node_store_dict, signal._edge_store_dict
    # A new order of the types needs new dicts; a shallow copy has its own.
    signal.__dict__["_node_store_dict"] = {}
    signal.__dict__["_edge_store_dict"] = {}
    for kind, features in schema.nodes.items():
        if kind in nodes:
            signal._node_store_dict[kind] = nodes[kind]
        store = signal.get_node_store(kind)
        number = store.num_nodes if store.can_infer_num_nodes else 0
        if kind in schema.counted:
            store["num_nodes"] = number
        elif "x" in features and "num_nodes" in store:
            _drop_redundant_count(store, kind, source)
        _fill(store, features, number, kind, source)
    for edge, features in schema.edges.items():
        if edge in edges:
            signal._edge_store_dict[edge] = edges[edge]
        store = signal.get_edge_store(*edge)
        number = store["edge_index"].size(1) if "edge_index" in store else 0
        _fill(store, features, number, edge, source)
    sample = signal._global_store
    for name, feature in schema.graph.items():
        if name not in sample and lists_parts(sample, name, feature):
            sample[name] = [None] * len(sample["parts"])


def _drop_redundant_count(store: BaseStorage, kind: str, source: str) -> None:
    number = store["num_nodes"]
    rows = store["x"].size(0) if "x" in store else number
    if rows != number:
        raise ValueError(
            f"{source}: type {kind!r} has num_nodes {number}, but {rows} rows of 'x'; "
            "leave num_nodes of a leaf type away"
        )
    del store["num_nodes"]


def _fill(
    store: BaseStorage,
    features: dict[str, Feature],
    number: int,
    kind: str | EdgeType,
    source: str,
) -> None:
    unit = "nodes" if isinstance(kind, str) else "edges"
    for name, feature in features.items():
        if name in store:
            continue
        if number > 0:
            raise ValueError(
                f"{source}: the {number} {unit} of {group_label(kind)} have no "
                f"attribute {name!r} ({feature}), which the schema or other samples "
                "have; set it, or remove it everywhere"
            )
        if not feature.can_be_empty:
            raise ValueError(
                f"{source}: {group_label(kind)} has no attribute {name!r}, and a value "
                f"like {feature} has no empty form; set it, or use a tensor or a list"
            )
        rows_last = isinstance(kind, tuple) and "index" in name
        store[name] = feature.empty(rows_last)


def _check_covered(own: Schema, schema: Schema, source: str) -> None:
    theirs = dict(schema.groups())
    for label, features in own.groups():
        # Samples may carry labels, names and the like that the schema need not list.
        strict = features is not own.graph
        if strict and label not in theirs:
            raise ValueError(
                f"{source} has {label}, which its schema lacks; the schema has "
                f"{', '.join(theirs)}"
            )
        for name, feature in features.items():
            wanted = theirs[label].get(name)
            if strict and wanted is None:
                raise ValueError(
                    f"{source}: {label} has an attribute {name!r}, which the schema "
                    "lacks; add it to the schema, or remove it"
                )
            if wanted not in (None, feature):
                raise ValueError(
                    f"{source}: attribute {name!r} of {label} is {feature}, but the "
                    f"schema wants {wanted}; convert the attribute or change the schema"
                )
