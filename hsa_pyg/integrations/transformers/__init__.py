"""Hierarchical attention within pretrained models of Hugging Face transformers."""

from hsa_pyg.integrations.transformers.energy import Energy
from hsa_pyg.integrations.transformers.features import SentenceFeatures, token_vectors
from hsa_pyg.integrations.transformers.measure import (
    Measurement,
    ReplacementTrials,
    measure_replacement,
)
from hsa_pyg.integrations.transformers.model_flops import (
    LayerFlops,
    ModelAttentionFlops,
    model_attention_flops,
)
from hsa_pyg.integrations.transformers.positions import extend_positions
from hsa_pyg.integrations.transformers.remembered import Remembered
from hsa_pyg.integrations.transformers.replace import (
    original_text,
    replace_attention,
    replaced_layers,
    restore_attention,
)
from hsa_pyg.integrations.transformers.search import Clusters, Ward
from hsa_pyg.integrations.transformers.selection import LayerSelection, select_layers
from hsa_pyg.integrations.transformers.sentences import Sentences
from hsa_pyg.integrations.transformers.text_vectors import TextVectors
from hsa_pyg.integrations.transformers.trees import (
    Flat,
    Quadtree,
    Tokens,
    TreeBuilder,
    Windows,
    make_builder,
    nested_forest,
)
from hsa_pyg.integrations.transformers.word_states import word_states

__all__ = [
    "Clusters",
    "Energy",
    "Flat",
    "LayerFlops",
    "LayerSelection",
    "Measurement",
    "ModelAttentionFlops",
    "Quadtree",
    "Remembered",
    "ReplacementTrials",
    "SentenceFeatures",
    "Sentences",
    "TextVectors",
    "Tokens",
    "TreeBuilder",
    "Ward",
    "Windows",
    "extend_positions",
    "make_builder",
    "measure_replacement",
    "model_attention_flops",
    "nested_forest",
    "original_text",
    "replace_attention",
    "replaced_layers",
    "restore_attention",
    "select_layers",
    "token_vectors",
    "word_states",
]
