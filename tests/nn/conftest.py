"""Trees that the tests of the layers share."""

from __future__ import annotations

import pytest
import torch

from hsa_pyg import SignalHierarchy


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


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


def random_parents(num_nodes: int, seed: int) -> torch.Tensor:
    """A random recursive tree of ``num_nodes`` nodes."""
    generator = torch.Generator().manual_seed(seed)
    return torch.tensor(
        [-1]
        + [
            int(torch.randint(max(0, i - 6), i, (), generator=generator))
            for i in range(1, num_nodes)
        ]
    )
