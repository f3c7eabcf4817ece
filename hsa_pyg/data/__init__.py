"""Nested signals as PyG data objects, their schemas, and batching."""

import torch

from hsa_pyg.compilation import FamilyLayout
from hsa_pyg.data.completion import complete
from hsa_pyg.data.feature import Feature
from hsa_pyg.data.hierarchy_cache import HierarchyCache
from hsa_pyg.data.schema import Schema
from hsa_pyg.data.signal import NestedSignal
from hsa_pyg.data.standardize import Standardize
from hsa_pyg.data.storage import SAFE_STORES
from hsa_pyg.data.unify import unify, union_schema
from hsa_pyg.hierarchy import SignalHierarchy

__all__ = [
    "Feature",
    "NestedSignal",
    "Schema",
    "Standardize",
    "complete",
    "unify",
    "union_schema",
]

# Files of signals load with torch.load(weights_only=True): all of these hold data only.
torch.serialization.add_safe_globals(
    [
        *(NestedSignal, Schema, Feature, HierarchyCache, *SAFE_STORES),
        *(SignalHierarchy, FamilyLayout, Standardize),
    ]
)
