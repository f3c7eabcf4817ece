"""What the samples of a data set have in common: their types and attributes."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping

import torch
from torch_geometric.data import HeteroData

from hsa_pyg.data.feature import Feature
from hsa_pyg.hierarchy import CHILD_OF

EdgeType = tuple[str, str, str]

#: Attributes from which PyG tells the number of nodes of a store.
COUNTING = ("num_nodes", "x", "pos", "batch")


class Schema:
    r"""Node types, edge types and attributes that all samples of a data set share.

    A signal that carries every type of its data set's schema, empty where it has no
    node, is *schema-complete*: PyG batches and stores such signals right in any order.
    A node type with the attribute ``"x"`` is a leaf type, any other an internal type.
    Two schemas are equal if they hold the same types and attributes in any order.

    Args:
        nodes: attributes of each node type.
        edges: the edge types, ``(child_type, "child_of", parent_type)`` and siblings'
            own relations; as a mapping they come with their attributes.
        graph: attributes of a whole sample, such as the label ``y``.
        counted: types that store ``num_nodes``; by default the internal ones.

    Raises:
        ValueError: if an edge type is no triple, or names an unknown node type.

    .. code-block:: python

        >>> import torch
        >>> from hsa_pyg.data import NestedSignal
        >>> schema = Schema(
        ...     nodes={"page": {}, "word": {"x": Feature(dtype=torch.long)}},
        ...     edges=[("word", "child_of", "page")],
        ... )
        >>> schema.leaf_types, schema.internal_types
        (['word'], ['page'])
        >>> schema == Schema.of(NestedSignal(schema=schema))
        True
    """

    def __init__(
        self,
        nodes: Mapping[str, Mapping[str, Feature]],
        edges: Mapping[EdgeType, Mapping[str, Feature]] | Iterable[EdgeType] = (),
        graph: Mapping[str, Feature] | None = None,
        counted: Iterable[str] | None = None,
    ) -> None:
        index = {"edge_index": Feature((2,), torch.long)}
        listed = edges if isinstance(edges, Mapping) else {kind: {} for kind in edges}
        self.nodes = {kind: dict(features) for kind, features in nodes.items()}
        self.edges = {kind: {**index, **attrs} for kind, attrs in listed.items()}
        self.graph = dict(graph or {})
        self.counted = sorted(self.internal_types if counted is None else counted)
        for kind in self.edges:
            if not isinstance(kind, tuple) or len(kind) != 3:
                raise ValueError(
                    f"an edge type is a triple (child_type, {CHILD_OF!r}, parent_type),"
                    f" got {kind!r}"
                )
            for end in (kind[0], kind[2]):
                if end not in self.nodes:
                    raise ValueError(
                        f"edge type {kind} uses node type {end!r}, which is not among "
                        f"the node types {list(self.nodes)}; add it to nodes"
                    )

    @classmethod
    def of(cls, signal: HeteroData) -> Schema:
        """The schema that a single signal shows."""
        nodes: dict[str, dict[str, Feature]] = {}
        counted = []
        for kind, store in signal.node_items():
            nodes[kind] = {
                name: Feature.of(value, signal.__cat_dim__(name, value, store))
                for name, value in store.items()
                if name != "num_nodes"
            }
            if "num_nodes" in store:
                counted.append(kind)
        edges: dict[EdgeType, dict[str, Feature]] = {}
        for kind, store in signal.edge_items():
            edges[kind] = {
                name: Feature.of(value, signal.__cat_dim__(name, value, store))
                for name, value in store.items()
            }
            # Ends without a store are known here by name only; uncounted() finds them.
            nodes.setdefault(kind[0], {})
            nodes.setdefault(kind[2], {})
        graph = {
            name: Feature.of(value) for name, value in signal._global_store.items()
        }
        return cls(nodes, edges, graph, counted)

    @property
    def leaf_types(self) -> list[str]:
        """Node types that have features ``x``."""
        return [kind for kind, features in self.nodes.items() if "x" in features]

    @property
    def internal_types(self) -> list[str]:
        """Node types without features ``x``."""
        return [kind for kind, features in self.nodes.items() if "x" not in features]

    @property
    def parent_edges(self) -> list[EdgeType]:
        """Edge types from a child to its parent."""
        return [kind for kind in self.edges if kind[1] == CHILD_OF]

    @property
    def sibling_edges(self) -> list[EdgeType]:
        """Edge types of the siblings' own relations."""
        return [kind for kind in self.edges if kind[1] != CHILD_OF]

    def uncounted(self) -> list[str]:
        """Node types whose number of nodes nothing tells."""
        return [
            kind
            for kind, features in self.nodes.items()
            if kind not in self.counted
            and not any(name in features for name in COUNTING)
        ]

    def merge(self, other: Schema) -> Schema:
        """The schema that holds the types and attributes of both.

        Raises:
            ValueError: if an attribute differs in dtype or in the shape of its rows.
        """
        union = SchemaUnion()
        union.add(self, "this schema")
        union.add(other, "the other schema")
        return union.schema()

    def groups(self) -> Iterator[tuple[str, dict[str, Feature]]]:
        """The attributes of every type and of the sample, with a name for messages."""
        for kind, features in self.nodes.items():
            yield f"type {kind!r}", features
        for edge, features in self.edges.items():
            yield f"edge type {edge}", features
        yield "the whole sample", self.graph

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schema):
            return NotImplemented
        return self is other or self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        def attributes(features: Mapping[str, Feature]) -> str:
            return ", ".join(f"{name} {feature}" for name, feature in features.items())

        rows = [f"{kind}: {attributes(self.nodes[kind])}" for kind in self.nodes]
        rows += [" ".join(edge) for edge in self.edges]
        rows += [f"graph: {attributes(self.graph)}"] if self.graph else []
        body = "".join(f"\n  {row.rstrip(': ')}," for row in rows)
        return (
            f"{type(self).__name__}({body}\n)" if rows else f"{type(self).__name__}()"
        )


class SchemaUnion:
    """Joins schemas one by one and remembers who brought each attribute."""

    def __init__(self) -> None:
        self._nodes: dict[str, dict[str, Feature]] = {}
        self._edges: dict[EdgeType, dict[str, Feature]] = {}
        self._graph: dict[str, Feature] = {}
        self._counted: set[str] = set()
        self._origin: dict[tuple[str, str], str] = {}

    def add(self, schema: Schema, source: str) -> None:
        """Add the types and attributes of ``schema``.

        Args:
            schema: the schema to add.
            source: where it comes from, for messages ("sample 3").

        Raises:
            ValueError: if an attribute differs in dtype or in the shape of its rows,
                or if nothing tells the number of nodes of a type. It names the source,
                the type, the attribute and the remedy.
        """
        check_counted(schema, source)
        for kind, features in schema.nodes.items():
            self._join(self._nodes.setdefault(kind, {}), features, kind, source)
        for edge, features in schema.edges.items():
            self._join(self._edges.setdefault(edge, {}), features, edge, source)
        self._join(self._graph, schema.graph, None, source)
        self._counted.update(schema.counted)

    def origin(self, label: str, attribute: str) -> str:
        """Who brought an attribute first."""
        return self._origin[label, attribute]

    def schema(self) -> Schema:
        """The union of what was added."""
        return Schema(self._nodes, self._edges, self._graph, self._counted)

    def _join(
        self,
        known: dict[str, Feature],
        features: Mapping[str, Feature],
        kind: str | EdgeType | None,
        source: str,
    ) -> None:
        label = group_label(kind)
        for name, feature in features.items():
            if known.setdefault(name, feature) != feature:
                last = isinstance(kind, tuple) and "index" in name
                raise ValueError(
                    f"{source}: attribute {name!r} of {label} is "
                    f"{feature.describe(last)}, but it is {known[name].describe(last)} "
                    f"in {self._origin[label, name]}; "
                    f"{_remedy(known[name], feature, kind is None)}"
                )
            self._origin.setdefault((label, name), source)


def group_label(kind: str | EdgeType | None) -> str:
    """How messages call a node type, an edge type or (``None``) the whole sample."""
    if kind is None:
        return "the whole sample"
    return f"type {kind!r}" if isinstance(kind, str) else f"edge type {kind}"


def lists_parts(whole: Container[str], name: str, feature: Feature) -> bool:
    """Whether a sample is a composition of which an attribute lists all parts.

    Args:
        whole: names of the attributes that the sample has.
        name: of the attribute, which the sample may lack.
        feature: what others have there.
    """
    return "parts" in whole and name.startswith("part_") and feature.dtype == "list"


def check_counted(schema: Schema, source: str) -> None:
    """Raise a ValueError if nothing tells how many nodes a type of ``schema`` has."""
    for kind in schema.uncounted():
        raise ValueError(f"{source}: {uncounted_type(kind, schema.edges)}")


def uncounted_type(kind: str, edge_types: Iterable[EdgeType]) -> str:
    """What is said of a node type of which nothing tells the number of nodes."""
    remedy = f"signal[{kind!r}].num_nodes (0 if it has none)"
    if not any(edge[1:] == (CHILD_OF, kind) for edge in edge_types):
        # Never a parent, so its nodes are leaves.
        remedy = f"signal[{kind!r}].x, or signal[{kind!r}].num_nodes = 0 if it has none"
    return (
        f"type {kind!r} has neither 'x' nor 'num_nodes', so its number of nodes is "
        f"unknown; set {remedy}"
    )


def _remedy(known: Feature, feature: Feature, of_sample: bool) -> str:
    if known.shape == feature.shape and isinstance(known.dtype, torch.dtype):
        remedy = f"convert one of them, for example with .to({known.dtype})"
        if {known.dtype, feature.dtype} == {torch.int64, torch.float32}:
            remedy += "; torch.tensor of an empty list has to be told dtype=torch.long"
        return remedy
    if of_sample:
        return "give it one shape and type in all samples, such as torch.tensor([0])"
    return "bring both to one shape, or give the nodes types of their own"
