"""Graphs become signals inside of any data set of PyG."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from hsa_pyg.converters.graph import EDGE_WEIGHT, Features, from_graph
from hsa_pyg.converters.graph_columns import Level
from hsa_pyg.converters.partition import Method, Partition
from hsa_pyg.data import NestedSignal


class ToHierarchy(BaseTransform):
    r"""A transform that calls :func:`~hsa_pyg.converters.from_graph` on each graph.

    It serves as ``transform`` and as ``pre_transform``, which stores the communities
    with the data, so that they are found once; it comes last, since other transforms
    expect a graph. All graphs of a data set give signals of one schema. The graph that
    it is given stays as it is.

    Args:
        method: As in :func:`~hsa_pyg.converters.from_graph`, as are the others.
        max_family: Largest number of children of a node.
        branching: Number of parts for ``"metis"`` and ``"bisection"``.
        seed: Seed of the method.
        features: ``vertex.x`` of graphs without.
        weight: Edge attribute that weighs the edges.
        rename: New names of attributes.
        levels: What attributes belong to.

    Raises:
        ValueError: If a setting is out of range.
        TypeError: If a setting is of another type.

    .. code-block:: python

        >>> from torch_geometric.datasets import FakeDataset
        >>> dataset = FakeDataset(2, transform=ToHierarchy("metis", max_family=8))
        >>> dataset[0].schema.leaf_types
        ['vertex']
        >>> dataset[1].hierarchy.max_branching <= 8
        True
    """

    def __init__(
        self,
        method: Method = "leiden",
        *,
        max_family: int = 64,
        branching: int | None = None,
        seed: int = 0,
        features: Features = "degree",
        weight: str | None = EDGE_WEIGHT,
        rename: Mapping[str, str | None] | None = None,
        levels: Mapping[str, Level] | None = None,
    ) -> None:
        # Wrong settings show here, not after a data set has been downloaded.
        Partition(method, max_family, branching, seed)
        self.method = method
        self.settings: dict[str, Any] = {
            "max_family": max_family,
            "branching": branching,
            "seed": seed,
            "features": features,
            "weight": weight,
            "rename": None if rename is None else dict(rename),
            "levels": None if levels is None else dict(levels),
        }

    def forward(self, data: Data) -> NestedSignal:
        """The signal of a graph."""
        return from_graph(data, self.method, **self.settings)

    def __repr__(self) -> str:
        # All settings: by this text PyG sees that stored data were made otherwise.
        shown = [repr(self.method)]
        if callable(self.method) and hasattr(self.method, "__qualname__"):
            shown = [f"{self.method.__module__}.{self.method.__qualname__}"]
        shown += [f"{name}={value!r}" for name, value in self.settings.items()]
        return f"{type(self).__name__}({', '.join(shown)})"
