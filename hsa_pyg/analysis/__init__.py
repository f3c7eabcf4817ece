"""Looking at hierarchical self-attention: its matrix, and what it costs."""

from hsa_pyg.analysis.attention import attention_matrix
from hsa_pyg.analysis.flops import (
    AttentionFlops,
    attention_flops,
    window_attention_flops,
)

__all__ = [
    "AttentionFlops",
    "attention_flops",
    "attention_matrix",
    "window_attention_flops",
]
