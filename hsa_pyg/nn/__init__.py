"""Layers over nested signals: attention, positions, encoders, readouts, models."""

from hsa_pyg.nn.category_embedding import CategoryEmbedding
from hsa_pyg.nn.encoder import LeafEncoder, TokenEmbedding
from hsa_pyg.nn.flat_attention import FlatConv, flat_attention
from hsa_pyg.nn.functional import banded, blocklocal, hierarchical_attention
from hsa_pyg.nn.hsa_conv import HSAConv
from hsa_pyg.nn.positional import (
    CoordinatePosition,
    GraphPosition,
    GridPosition,
    HierarchicalPosition,
    KeyValuePosition,
    SequencePosition,
    SetPosition,
)
from hsa_pyg.nn.readout import LeafReadout, leaf_means
from hsa_pyg.nn.transformer import HSATransformer, PaperBlock, PreNormBlock
from hsa_pyg.nn.word_vectors import (
    WordVectorEmbedding,
    WordVectors,
    read_word_vectors,
)

__all__ = [
    "CategoryEmbedding",
    "CoordinatePosition",
    "FlatConv",
    "GraphPosition",
    "GridPosition",
    "HSAConv",
    "HSATransformer",
    "HierarchicalPosition",
    "KeyValuePosition",
    "LeafEncoder",
    "LeafReadout",
    "PaperBlock",
    "PreNormBlock",
    "SequencePosition",
    "SetPosition",
    "TokenEmbedding",
    "WordVectorEmbedding",
    "WordVectors",
    "banded",
    "blocklocal",
    "flat_attention",
    "hierarchical_attention",
    "leaf_means",
    "read_word_vectors",
]
