import pytest
import torch

from hsa_pyg.nn.positional.domain_linear import DomainLinear


def test_each_domain_has_its_map():
    lin = DomainLinear(5, heads=2, head_channels=3, num_domains=3)
    position, domain = torch.randn(6, 5), torch.tensor([2, 0, 1, 0, 2, 2])
    out = lin(position, domain)
    for row in range(6):
        expected = position[row] @ lin.weight[domain[row]]
        torch.testing.assert_close(out[row], expected.view(2, 3))


def test_one_domain_needs_no_ids():
    lin = DomainLinear(5, heads=2, head_channels=3)
    position = torch.randn(6, 5)
    torch.testing.assert_close(lin(position).flatten(1), position @ lin.weight[0])


@pytest.mark.parametrize("num_domains", [1, 2])
def test_zero_stays_zero_and_norms_are_kept(num_domains):
    lin = DomainLinear(8, heads=2, head_channels=64, num_domains=num_domains)
    position = torch.nn.functional.normalize(torch.randn(2000, 8), dim=1)
    position[0] = 0.0
    norms = lin(position, torch.arange(2000) % num_domains).square().sum(-1)
    assert norms[0].tolist() == [0.0, 0.0]
    torch.testing.assert_close(norms[1:].mean(), torch.tensor(1.0), atol=0.2, rtol=0.0)


def test_no_node_at_all():
    lin = DomainLinear(5, heads=2, head_channels=3, num_domains=2)
    empty = torch.empty(0, dtype=torch.long)
    assert lin(torch.randn(0, 5), empty).shape == (0, 2, 3)


@pytest.mark.parametrize("num_domains", [1, 2])
def test_positions_of_another_dtype_are_named(num_domains):
    lin = DomainLinear(4, 2, 3, num_domains)
    domain = torch.zeros(5, dtype=torch.long)
    for dtype in (torch.float64, torch.long):
        with pytest.raises(ValueError, match=f"'position' is {dtype} and the layer's"):
            lin(torch.ones(5, 4, dtype=dtype), domain)


@pytest.mark.parametrize(
    ("domain", "error", "message"),
    [
        ([0] * 5, TypeError, "'domain' must be a tensor, got list"),
        (torch.zeros(5), TypeError, "'domain' must hold integers, got torch.float32"),
        (torch.zeros(5) > 0, TypeError, "'domain' must hold integers, got torch.bool"),
        (
            torch.zeros(5, dtype=torch.long, device="meta"),
            ValueError,
            "'domain' is on meta and 'position' on cpu",
        ),
    ],
)
def test_domains_that_are_no_integers_here(domain, error, message):
    with pytest.raises(error, match=message):
        DomainLinear(4, 2, 3, num_domains=2)(torch.ones(5, 4), domain)


@pytest.mark.parametrize("num_domains", [1, 3])
def test_rows_that_nodes_share_are_mapped_once(num_domains):
    lin = DomainLinear(5, heads=2, head_channels=3, num_domains=num_domains).double()
    position = torch.randn(4, 5, dtype=torch.double, requires_grad=True)
    domain = torch.tensor([0, 2, 1, 2]) % num_domains
    index = torch.tensor([3, 0, 0, 2, 3, 3])
    torch.testing.assert_close(
        lin(position, domain, index), lin(position[index], domain[index])
    )

    def mapped(position, weight):
        return torch.func.functional_call(
            lin, {"weight": weight}, (position, domain, index)
        )

    assert torch.autograd.gradcheck(mapped, (position, lin.weight))


def test_the_gradient_of_a_shared_row_is_no_sum_in_half_precision():
    """4,096 times 1 / 64 is 64; in bfloat16 such a sum stops at 4."""
    lin = DomainLinear(2, heads=1, head_channels=1)
    index = torch.zeros(4096, dtype=torch.long)
    with torch.autocast("cpu", torch.bfloat16):
        eps = lin(torch.ones(1, 2), position_index=index)
    assert eps.dtype == torch.bfloat16
    eps.backward(torch.full_like(eps, 1 / 64))
    assert lin.weight.grad.flatten().tolist() == [64.0, 64.0]


@pytest.mark.parametrize(
    ("index", "error", "message"),
    [
        (
            torch.zeros(5),
            TypeError,
            "'position_index' must hold integers, got torch.float32",
        ),
        (
            torch.tensor([0, 4]),
            ValueError,
            "'position_index' must lie between 0 and 3, got 4",
        ),
        (
            torch.tensor([0, -1]),
            ValueError,
            "'position_index' must lie between 0 and 3, got -1",
        ),
    ],
)
def test_rows_that_are_not_there(index, error, message):
    with pytest.raises(error, match=message):
        DomainLinear(4, 2, 3)(torch.ones(4, 4), position_index=index)
