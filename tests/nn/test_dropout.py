import pytest
import torch
import torch.nn.functional as F

from hsa_pyg.nn.dropout import Dropout, dropout_factors


@pytest.mark.parametrize("p", [0.01, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_factors_are_zero_as_often_as_they_should(p, dtype):
    torch.manual_seed(0)
    factors = dropout_factors(torch.empty(1000, 401, dtype=dtype), p)
    assert factors.dtype == dtype
    kept = factors != 0
    # Half of the values of 16 bits round one way, half the other.
    share = 1 - round(p * 65536) / 65536
    assert abs(share - (1 - p)) <= 2**-17
    error = (share * (1 - share) / factors.numel()) ** 0.5
    assert abs(kept.double().mean() - share) < 4 * error
    torch.testing.assert_close(factors[kept], torch.full_like(factors[kept], 1 / share))
    # Expected sums are kept: the rounding of p is made up for.
    assert float(factors.max()) * share == pytest.approx(1.0)


def test_elements_are_dropped_independently():
    """Neighbours share a word of the generator: none may follow from the others."""
    torch.manual_seed(0)
    kept = (dropout_factors(torch.empty(200_000, 4), 0.5) != 0).double()
    together = torch.corrcoef(kept.T)
    assert (together - torch.eye(4)).abs().max() < 0.01
    later = torch.corrcoef(torch.stack([kept[:-1].flatten(), kept[1:].flatten()]))
    assert later[0, 1].abs() < 0.01


@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (7, 5), (3, 2, 2)])
def test_any_shape(shape):
    x = torch.ones(shape)
    y = Dropout(0.5).train()(x)
    assert y.shape == x.shape
    assert ((y == 0) | (y == 2)).all()


def test_gradient_passes_where_the_value_did():
    x = torch.rand(40, 30, dtype=torch.double)[:, ::2].requires_grad_()
    y = Dropout(0.3).train()(x)
    (grad,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(y, x * grad)
    assert 0 < int((grad == 0).sum()) < grad.numel()


def test_seeds_repeat_draws():
    x, dropout = torch.ones(50, 50), Dropout(0.4).train()
    torch.manual_seed(3)
    once, again = dropout(x), dropout(x)
    torch.manual_seed(3)
    assert torch.equal(dropout(x), once)
    assert not torch.equal(once, again)


def test_nothing_is_dropped_in_evaluation():
    x = torch.randn(5, 5)
    assert Dropout(0.5).eval()(x) is x


def test_in_place():
    x = torch.ones(20, 20)
    y = Dropout(0.5, inplace=True).train()(x)
    assert y is x
    assert ((x == 0) | (x == 2)).all()


@pytest.mark.parametrize("p", [0.0, 0.001, 0.999, 1.0])
def test_probabilities_that_16_bits_do_not_tell_are_pytorchs(p):
    x = torch.ones(300, 100)
    torch.manual_seed(0)
    expected = F.dropout(x, p)
    torch.manual_seed(0)
    assert torch.equal(Dropout(p).train()(x), expected)


def test_half_precision():
    torch.manual_seed(0)
    y = Dropout(0.5).train()(torch.ones(100, 100, dtype=torch.bfloat16))
    assert y.dtype == torch.bfloat16
    assert set(y.unique().tolist()) == {0.0, 2.0}


def test_compiled_models_draw_with_pytorch():
    compiled = torch.compile(Dropout(0.5).train(), backend="aot_eager", fullgraph=True)
    y = compiled(torch.ones(100, 100))
    assert set(y.unique().tolist()) == {0.0, 2.0}
    assert not torch.equal(y, compiled(torch.ones(100, 100)))
