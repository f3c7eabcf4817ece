"""Hierarchical Self-Attention for PyTorch Geometric.

Where things are, in the order of a project that uses them:

* raw data to signals: :func:`hsa_pyg.converters.from_document`,
  :func:`hsa_pyg.converters.from_documents`, or a :class:`NestedSignal` by hand, checked
  by its ``validate()``; signals of unlike types: :func:`hsa_pyg.data.unify`;
* data sets: :mod:`hsa_pyg.datasets`;
* batches: :class:`hsa_pyg.loader.DataLoader`;
* the compiled forest: :class:`SignalHierarchy` (``batch.hierarchy``);
* the function and the layer: :func:`hierarchical_attention`, :class:`HSAConv`; what
  a node may see of its siblings: :func:`banded`, :func:`blocklocal`;
* whole models, positions, encoders, readouts: :mod:`hsa_pyg.nn`, above all
  :class:`hsa_pyg.nn.HSATransformer`;
* training: :mod:`hsa_pyg.integrations.lightning`, or ``hsa-pyg train``;
* looking inside: :func:`hsa_pyg.analysis.attention_matrix`.
"""

from hsa_pyg.data import NestedSignal
from hsa_pyg.hierarchy import SignalHierarchy
from hsa_pyg.nn import HSAConv
from hsa_pyg.nn.functional import banded, blocklocal, hierarchical_attention

__version__ = "0.1.0"
__all__ = [
    "HSAConv",
    "NestedSignal",
    "SignalHierarchy",
    "__version__",
    "banded",
    "blocklocal",
    "hierarchical_attention",
]
