"""Positional embeddings in the parent's domain (eps in docs/mathematics.md)."""

from hsa_pyg.nn.positional.coordinates import (
    CoordinatePosition,
    GridPosition,
    SequencePosition,
)
from hsa_pyg.nn.positional.graph import (
    GraphPosition,
    laplacian_features,
    random_walk_features,
)
from hsa_pyg.nn.positional.hierarchical import HierarchicalPosition
from hsa_pyg.nn.positional.keys import KeyValuePosition, SetPosition

__all__ = [
    "CoordinatePosition",
    "GraphPosition",
    "GridPosition",
    "HierarchicalPosition",
    "KeyValuePosition",
    "SequencePosition",
    "SetPosition",
    "laplacian_features",
    "random_walk_features",
]
