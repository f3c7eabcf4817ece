"""Trees that the tests of the layers share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from hsa_pyg import SignalHierarchy


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True, scope="package")
def _one_thread() -> Iterator[None]:
    """Threads cost more than they bring on trees of a dozen leaves."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def deep() -> SignalHierarchy:
    """Two trees with leaves at unequal depths, a chain and an empty inner node."""
    parent = torch.tensor([-1, 0, 0, 1, 1, 2, 5, 5, 0, -1, 9, 9, 0])
    leaf_mask = torch.zeros(13, dtype=torch.bool)
    leaf_mask[[3, 4, 6, 7, 8, 10, 11]] = True
    return SignalHierarchy.from_parents(parent, leaf_mask)


@pytest.fixture
def edges() -> dict[tuple[str, str, str], torch.Tensor]:
    """Sections of words and images: 5 words, 2 images, 2 sections, 1 page."""
    return {
        ("section", "child_of", "page"): torch.tensor([[0, 1], [0, 0]]),
        ("word", "child_of", "section"): torch.tensor(
            [[0, 1, 2, 3, 4], [0, 0, 1, 1, 1]]
        ),
        ("image", "child_of", "section"): torch.tensor([[0], [1]]),
        ("image", "child_of", "page"): torch.tensor([[1], [0]]),
        ("word", "before", "word"): torch.tensor([[0, 1], [1, 2]]),
    }
