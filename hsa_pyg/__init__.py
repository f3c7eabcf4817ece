"""Hierarchical Self-Attention for PyTorch Geometric."""

from hsa_pyg.hierarchy import SignalHierarchy

__version__ = "0.1.0"
__all__ = ["SignalHierarchy", "__version__"]
