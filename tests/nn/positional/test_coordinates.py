import pytest
import torch

from hsa_pyg.nn import GridPosition, SequencePosition


def test_sinusoids_are_those_of_the_transformer():
    eps = SequencePosition(8)(torch.tensor([0.0, 3.0]))
    frequency = 10_000.0 ** -(torch.arange(4) / 3)
    expected = torch.cat([(3 * frequency).cos(), (3 * frequency).sin()]) / 2
    torch.testing.assert_close(eps[1], expected)
    torch.testing.assert_close(eps[0], torch.tensor([0.5] * 4 + [0.0] * 4))


@pytest.mark.parametrize("kind", ["sinusoidal", "fourier"])
def test_products_depend_on_the_distance_alone(kind):
    position = SequencePosition(64, kind=kind).double()
    # Any length: places far beyond what was ever seen.
    near = position(torch.tensor([0.0, 3.0, 500_000.0, 500_003.0], dtype=torch.double))
    kernel = near @ near.t()
    torch.testing.assert_close(kernel[0, 1], kernel[2, 3])
    torch.testing.assert_close(kernel.diag(), torch.ones(4).double())


def test_random_features_start_as_a_gaussian_kernel():
    position = SequencePosition(20_000, kind="fourier", length_scale=5.0)
    eps = position(torch.tensor([[0.0], [4.0], [15.0]]))
    expected = torch.exp(-(torch.tensor([0.0, 4.0, 15.0]) ** 2) / (2 * 5.0**2))
    torch.testing.assert_close(eps @ eps[0], expected, atol=0.03, rtol=0.0)


def test_random_features_learn_and_sinusoids_do_not():
    learned = SequencePosition(8, kind="fourier")
    learned(torch.arange(5.0))[:, 3].sum().backward()
    assert learned.frequency.grad.abs().sum() > 0
    assert list(SequencePosition(8).parameters()) == []
    # A fixed series is no part of a checkpoint.
    assert SequencePosition(8).state_dict() == {}


def test_grid_tells_rows_from_columns():
    for kind in ("sinusoidal", "fourier"):
        eps = GridPosition(64, kind=kind)(torch.tensor([[0.0, 5.0], [5.0, 0.0]]))
        assert not torch.allclose(eps[0], eps[1], atol=0.1)
    # Half of the fixed features belong to each axis.
    eps = GridPosition(8, kind="sinusoidal")(torch.tensor([[2.0, 0.0], [2.0, 9.0]]))
    changed = (eps[0] - eps[1]).abs() > 1e-6
    assert changed.view(2, 2, 2).any(0).tolist() == [[False, False], [True, True]]


def test_half_precision_keeps_the_phase():
    position = SequencePosition(8)
    exact = position(torch.tensor([3001.0]))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(position(torch.tensor([3001])), exact)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_sinusoids_of_a_module_that_was_cast_are_those_it_had(dtype):
    places = torch.arange(5000.0)
    exact = SequencePosition(32)(places)
    cast = SequencePosition(32).to(dtype)
    assert cast(places).dtype == dtype
    assert (cast(places) - exact).abs().max() < 2e-3
    assert torch.equal(cast.float()(places), exact)


def test_wrong_arguments():
    with pytest.raises(ValueError, match=r"multiple of 4 .*, got 6"):
        GridPosition(6)
    with pytest.raises(ValueError, match="'sinusoidal' or 'fourier', got 'cosine'"):
        SequencePosition(6, kind="cosine")
    with pytest.raises(ValueError, match=r"\[num_nodes, 2\], got \(3,\)"):
        GridPosition(8)(torch.arange(3.0))
