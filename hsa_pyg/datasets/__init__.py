"""Data sets: PyG data sets whose samples are :class:`~hsa_pyg.NestedSignal`."""

from hsa_pyg.datasets.fake import FakeNestedDataset
from hsa_pyg.datasets.movie_reviews import MovieReviews

__all__ = ["FakeNestedDataset", "MovieReviews"]
