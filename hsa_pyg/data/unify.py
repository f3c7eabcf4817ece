"""Bring signals of unlike types to one schema."""

from __future__ import annotations

from collections.abc import Iterable

from torch_geometric.data import Data, HeteroData

from hsa_pyg.data.completion import complete
from hsa_pyg.data.schema import Schema, SchemaUnion, lists_parts
from hsa_pyg.data.signal import NestedSignal


def union_schema(signals: Iterable[NestedSignal]) -> Schema:
    """The schema that holds every type and attribute of ``signals``.

    Raises:
        TypeError: if one of them is no NestedSignal.
        ValueError: if two of them differ in the dtype or the shape of an attribute, if
            only some have an attribute of the whole sample, or if nothing tells the
            number of nodes of a type. It names sample, type, attribute and remedy.
    """
    if isinstance(signals, HeteroData):
        raise TypeError(
            f"a list of signals is wanted, got a {type(signals).__name__}; put it into "
            "a list, or take a batch apart by to_data_list()"
        )
    union = SchemaUnion()
    graphs = []
    for number, signal in enumerate(signals):
        if not isinstance(signal, NestedSignal):
            remedy = "NestedSignal.from_dict(data.to_dict())"
            if isinstance(signal, Data):
                remedy = "hsa_pyg.converters.from_graph(data)"
            raise TypeError(
                f"sample {number} is a {type(signal).__name__}, no NestedSignal; make "
                f"it one by {remedy}"
            )
        own = Schema.of(signal)
        union.add(own, f"sample {number}")
        graphs.append(own.graph)
    schema = union.schema()
    for number, graph in enumerate(graphs):
        for name, feature in schema.graph.items():
            if name not in graph and not lists_parts(graph, name, feature):
                origin = union.origin("the whole sample", name)
                raise ValueError(
                    f"sample {number} has no attribute {name!r}, which {origin} has; "
                    f"set signal.{name} in every sample or in none"
                )
    return schema


def unify(signals: Iterable[NestedSignal]) -> list[NestedSignal]:
    """Give all signals the same types and attributes, empty where they have none.

    PyG then batches and stores them right in any order. Tensors are shared with the
    signals given, which stay as they are.

    Args:
        signals: signals of unlike types.

    Returns:
        As many signals with equal schemas, their types in one order.

    Raises:
        TypeError: if one of them is no NestedSignal.
        ValueError: if two of them cannot agree on an attribute, or if some nodes lack
            one that others have. It names sample, type, attribute and remedy.

    .. code-block:: python

        >>> import torch
        >>> from hsa_pyg import NestedSignal
        >>> edge = torch.tensor([[0, 1], [0, 0]])
        >>> text, picture = NestedSignal(), NestedSignal()
        >>> for page in (text, picture):
        ...     page["page"].num_nodes = 1
        >>> text["word"].x = torch.tensor([7, 3])
        >>> text["word", "child_of", "page"].edge_index = edge
        >>> picture["patch"].x = torch.rand(2, 16)
        >>> picture["patch", "child_of", "page"].edge_index = edge
        >>> unify([text, picture])[0]["patch"].x.shape
        torch.Size([0, 16])
    """
    if not isinstance(signals, HeteroData):
        signals = list(signals)  # An iterator would be used up by its schema.
    schema = union_schema(signals)
    return [
        complete(signal, schema, f"sample {number}")
        for number, signal in enumerate(signals)
    ]
