"""Data sets: PyG data sets whose samples are :class:`~hsa_pyg.NestedSignal`."""

from hsa_pyg.datasets.elec import Elec
from hsa_pyg.datasets.fake import FakeNestedDataset
from hsa_pyg.datasets.imdb import IMDB
from hsa_pyg.datasets.movie_reviews import MovieReviews
from hsa_pyg.datasets.sst_trees import SSTTrees
from hsa_pyg.datasets.text_dataset import LabelledText, RawTexts, TextDataset

__all__ = [
    "IMDB",
    "Elec",
    "FakeNestedDataset",
    "LabelledText",
    "MovieReviews",
    "RawTexts",
    "SSTTrees",
    "TextDataset",
]
