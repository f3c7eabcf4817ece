import pytest
import torch

from hsa_pyg.experiments.semantic_focus.dropping import Dropper


def dropper(probability, seed=0):
    return Dropper(probability, torch.Generator().manual_seed(seed))


def test_each_element_is_dropped_with_the_probability_and_alone():
    draws = [dropper(0.3, seed).draw([50])[0] for seed in range(4_000)]
    hits = torch.zeros(4_000, 50)
    for row, places in zip(hits, draws, strict=True):
        row[places] = 1
    error = (0.3 * 0.7 / 4_000) ** 0.5
    assert ((hits.mean(0) - 0.3).abs() < 5 * error).all()
    # Neighbours know nothing of one another.
    both = (hits[:, 1:] * hits[:, :-1]).mean(0)
    assert ((both - 0.09).abs() < 5 * (0.09 * 0.91 / 4_000) ** 0.5).all()


def test_places_lie_in_their_tensors():
    sizes = [3, 0, 100_000, 7]
    places = dropper(0.01).draw(sizes)
    assert [one.numel() <= size for one, size in zip(places, sizes, strict=True)]
    for one, size in zip(places, sizes, strict=True):
        assert ((one >= 0) & (one < size)).all()
        assert (one.diff() > 0).all()
    assert 850 < places[2].numel() < 1_150


def test_a_high_probability_needs_further_draws():
    (places,) = dropper(0.97).draw([10_000])
    assert 9_600 < places.numel() < 9_800


def test_nothing_is_dropped_at_zero():
    assert [one.numel() for one in dropper(0.0).draw([5, 6])] == [0, 0]
    assert dropper(0.0).scale == 1.0


def test_a_generator_decides():
    one, same, other = (dropper(0.1, s).draw([500])[0] for s in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert dropper(0.1, 1).draw_seed() == dropper(0.1, 1).draw_seed()


def test_a_probability_of_one_is_refused():
    with pytest.raises(ValueError, match=r"in \[0, 1\), got 1"):
        dropper(1.0)
