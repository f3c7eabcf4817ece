import pytest
import torch

from hsa_pyg.nn import GraphPosition
from hsa_pyg.nn.positional import laplacian_features, random_walk_features


def both_ways(*pairs: tuple[int, int]) -> torch.Tensor:
    edges = torch.tensor(pairs).t()
    return torch.cat([edges, edges.flip(0)], dim=1)


def test_walks_return_with_known_probability():
    # A triangle: back after one step never, after two with 1/2, after three with 1/4.
    walks = random_walk_features(both_ways((0, 1), (1, 2), (2, 0)), 4, 3)
    expected = torch.tensor([[0.0, 0.5, 0.25]] * 3 + [[0.0, 0.0, 0.0]])
    torch.testing.assert_close(walks, expected)


def test_eigenvectors_of_paths():
    # Normalised Laplacian of a path of three: eigenvalues 0, 1, 2.
    edges = torch.cat([both_ways((0, 2), (2, 4)), both_ways((1, 3))], dim=1)
    family = torch.tensor([7, 3, 7, 3, 7])
    vector, value, real = laplacian_features(edges, family, 3)
    torch.testing.assert_close(value[0], torch.tensor([1.0, 2.0, 0.0]).double())
    torch.testing.assert_close(value[1], torch.tensor([2.0, 0.0, 0.0]).double())
    assert real.sum(1).tolist() == [2, 1, 2, 1, 2]
    # The vector of eigenvalue 1 is antisymmetric about the middle.
    first = vector[[0, 2, 4], 0]
    torch.testing.assert_close(
        first.abs(), torch.tensor([1.5**0.5, 0, 1.5**0.5]).double()
    )
    torch.testing.assert_close(first[0], -first[2])


@pytest.mark.parametrize("kind", ["random_walk", "laplacian"])
def test_members_in_any_order_and_families_alone_or_together(kind):
    position = GraphPosition(8, kind=kind, num_features=4).double()
    # Asymmetric trees, so that no eigenvalue is repeated.
    first = both_ways((0, 1), (1, 2), (2, 3), (1, 4), (4, 5), (5, 6))
    second = both_ways((0, 1), (1, 2), (2, 0), (2, 3), (3, 4))
    together = torch.cat([first, second + 7], dim=1)
    family = torch.tensor([0] * 7 + [1] * 5)
    eps = position(together, family)
    torch.testing.assert_close(eps[:7], position(first, family[:7]))
    torch.testing.assert_close(eps[7:], position(second, family[7:]))
    order = torch.randperm(12)
    place = torch.empty_like(order)
    place[order] = torch.arange(12)
    torch.testing.assert_close(position(place[together], family[order]), eps[order])
    assert not torch.allclose(eps[0], eps[1])


@pytest.mark.parametrize("kind", ["random_walk", "laplacian"])
def test_edges_between_families_play_no_part(kind):
    position = GraphPosition(8, kind=kind, num_features=4)
    family = torch.tensor([0, 0, 0, 1, 1])
    inside = both_ways((0, 1), (1, 2), (3, 4))
    across = torch.cat([inside, both_ways((2, 3))], dim=1)
    torch.testing.assert_close(position(across, family), position(inside, family))


@pytest.mark.parametrize("kind", ["random_walk", "laplacian"])
def test_gradients_and_scale(kind):
    position = GraphPosition(64, kind=kind, num_features=4)
    edges = both_ways(
        *[(i, (i + 1) % 50) for i in range(50)], *[(0, i) for i in range(9)]
    )
    eps = position(edges, torch.zeros(50, dtype=torch.long))
    assert 0.01 < eps.square().sum(1).mean() < 10
    (eps * torch.randn_like(eps)).sum().backward()
    assert all(p.grad.abs().sum() > 0 for p in position.parameters())


@pytest.mark.parametrize("kind", ["random_walk", "laplacian"])
def test_without_members_or_edges(kind):
    position = GraphPosition(8, kind=kind)
    none = torch.empty(2, 0, dtype=torch.long)
    assert position(none, torch.empty(0, dtype=torch.long)).shape == (0, 8)
    eps = position(none, torch.tensor([0, 0, 1]))
    torch.testing.assert_close(eps[0], eps[2])
    assert eps.isfinite().all()


def test_wrong_arguments():
    with pytest.raises(ValueError, match="'random_walk' or 'laplacian', got 'heat'"):
        GraphPosition(8, kind="heat")
    with pytest.raises(IndexError, match="names member 5, but the families have 3"):
        GraphPosition(8)(torch.tensor([[0], [5]]), torch.zeros(3).long())
