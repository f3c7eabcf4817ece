"""Data sets: PyG data sets whose samples are :class:`~hsa_pyg.NestedSignal`."""

from typing import TYPE_CHECKING, Any

from hsa_pyg.datasets.movie_reviews import MovieReviews

if TYPE_CHECKING:
    from hsa_pyg.datasets.fake import FakeNestedDataset

__all__ = ["FakeNestedDataset", "MovieReviews"]


def __getattr__(name: str) -> Any:
    if name == "FakeNestedDataset":
        from hsa_pyg.datasets.fake import FakeNestedDataset

        return FakeNestedDataset
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
