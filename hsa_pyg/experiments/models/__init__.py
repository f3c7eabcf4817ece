"""The models that hierarchical self-attention is compared with."""

from hsa_pyg.experiments.models.bag_of_words import BagOfWords, bag_of_words
from hsa_pyg.experiments.models.build import MODELS, make_model
from hsa_pyg.experiments.models.global_attention import GlobalAttentionGNN
from hsa_pyg.experiments.models.gps_tree import GPSTree
from hsa_pyg.experiments.models.linked_pages import LinkedPages
from hsa_pyg.experiments.models.parameters import (
    ParameterCount,
    count_parameters,
    matching_channels,
)
from hsa_pyg.experiments.models.segment_transformer import SegmentTransformer
from hsa_pyg.experiments.models.tree_gnn import TreeGNN

__all__ = [
    "MODELS",
    "BagOfWords",
    "GPSTree",
    "GlobalAttentionGNN",
    "LinkedPages",
    "ParameterCount",
    "SegmentTransformer",
    "TreeGNN",
    "bag_of_words",
    "count_parameters",
    "make_model",
    "matching_channels",
]
