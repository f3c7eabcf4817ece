"""Looking at nested signals and at hierarchical self-attention."""

from hsa_pyg.analysis.attention import attention_matrix
from hsa_pyg.analysis.flops import (
    AttentionFlops,
    attention_flops,
    window_attention_flops,
)
from hsa_pyg.analysis.tree_shape import TreeShape, tree_shape

__all__ = [
    "AttentionFlops",
    "TreeShape",
    "attention_flops",
    "attention_matrix",
    "tree_shape",
    "window_attention_flops",
]
