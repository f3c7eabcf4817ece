"""Hierarchical Self-Attention for PyTorch Geometric."""

from hsa_pyg.data import NestedSignal
from hsa_pyg.hierarchy import SignalHierarchy
from hsa_pyg.nn import HSAConv
from hsa_pyg.nn.functional import hierarchical_attention

__version__ = "0.1.0"
__all__ = [
    "HSAConv",
    "NestedSignal",
    "SignalHierarchy",
    "__version__",
    "hierarchical_attention",
]
