"""The passes of hierarchical self-attention, behind one dispatcher."""

from hsa_pyg.ops.dispatch import (
    BACKENDS,
    available_backends,
    hierarchical_attention,
    last_backend,
)
from hsa_pyg.ops.weights import FamilyWeights, family_weights

__all__ = [
    "BACKENDS",
    "FamilyWeights",
    "available_backends",
    "family_weights",
    "hierarchical_attention",
    "last_backend",
]
