"""Looking at nested signals and at hierarchical self-attention."""

from hsa_pyg.analysis.attention import attention_matrix
from hsa_pyg.analysis.block_weights import collect_block_weights
from hsa_pyg.analysis.counted_flops import CountedFlops, counted_flops
from hsa_pyg.analysis.flops import (
    AttentionFlops,
    attention_flops,
    window_attention_flops,
)
from hsa_pyg.analysis.node_labels import NodeLabels
from hsa_pyg.analysis.score_statistics import (
    ScoreStatistics,
    collect_score_statistics,
    score_statistics,
)
from hsa_pyg.analysis.tree_shape import TreeShape, tree_shape
from hsa_pyg.analysis.viewer import render_viewer, write_viewer

__all__ = [
    "AttentionFlops",
    "CountedFlops",
    "NodeLabels",
    "ScoreStatistics",
    "TreeShape",
    "attention_flops",
    "attention_matrix",
    "collect_block_weights",
    "collect_score_statistics",
    "counted_flops",
    "render_viewer",
    "score_statistics",
    "tree_shape",
    "window_attention_flops",
    "write_viewer",
]
