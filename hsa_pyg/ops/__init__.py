"""The passes of hierarchical self-attention, behind one dispatcher."""

import hsa_pyg.ops.flop_formulas  # noqa: F401  (torch's FlopCounterMode uses them)
from hsa_pyg.ops.backends import BACKENDS, available_backends, last_backend
from hsa_pyg.ops.dispatch import hierarchical_attention, untied_attention
from hsa_pyg.ops.weights import FamilyWeights, family_weights

__all__ = [
    "BACKENDS",
    "FamilyWeights",
    "available_backends",
    "family_weights",
    "hierarchical_attention",
    "last_backend",
    "untied_attention",
]
