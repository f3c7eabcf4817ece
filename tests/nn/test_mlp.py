import copy

import pytest
import torch
from torch.nn import functional as F
from torch_geometric.nn.dense.linear import Linear

from hsa_pyg.nn import by_hand
from hsa_pyg.nn import mlp as module
from hsa_pyg.nn.mlp import PointwiseMLP


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """So that few rows make several chunks."""
    monkeypatch.setattr(by_hand, "_LEAST_ROWS", 4)
    monkeypatch.setattr(by_hand, "_CHUNK", 40)


@pytest.fixture
def runs(monkeypatch):
    """How often the MLP ran in chunks."""
    calls = []

    def counted(*args):
        calls.append(args)
        return forward(*args)

    forward = module._forward
    monkeypatch.setattr(module, "_forward", counted)
    return calls


def make(dtype=torch.double) -> PointwiseMLP:
    torch.manual_seed(0)
    return PointwiseMLP(6, 10).to(dtype)


def one_by_one(mlp: PointwiseMLP, x: torch.Tensor) -> torch.Tensor:
    return F.linear(F.gelu(F.linear(x, mlp[0].weight, mlp[0].bias)), *_last(mlp))


def _last(mlp):
    return mlp[2].weight, mlp[2].bias


@pytest.mark.parametrize("rows", [0, 1, 3, 4, 5, 8, 23])
def test_value_and_gradients_are_those_of_the_parts(rows, runs):
    mlp = make()
    x = torch.randn(rows, 6, dtype=torch.double, requires_grad=True)
    cotangent = torch.randn(rows, 6, dtype=torch.double)
    inputs = [x, *mlp.parameters()]
    results = []
    for function in (mlp, lambda x: one_by_one(mlp, x)):
        y = function(x)
        results.append((y, *torch.autograd.grad(y, inputs, cotangent)))
    assert len(runs) == 1
    for actual, expected in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


def test_gradcheck_and_gradients_of_gradients():
    mlp = make()
    x = torch.randn(9, 6, dtype=torch.double, requires_grad=True)
    inputs = (x, *mlp.parameters())
    assert torch.autograd.gradcheck(module._ChunkedMLP.apply, inputs)
    assert torch.autograd.gradgradcheck(module._ChunkedMLP.apply, inputs)


def test_rows_that_do_not_lie_next_to_each_other(runs):
    mlp = make()
    x = torch.randn(6, 30, dtype=torch.double).T[::2]
    torch.testing.assert_close(mlp(x), one_by_one(mlp, x))
    out = mlp(x.requires_grad_())
    (grad,) = torch.autograd.grad(out[:, :1].expand(-1, 3).sum(), x)
    (expected,) = torch.autograd.grad(3 * one_by_one(mlp, x)[:, 0].sum(), x)
    torch.testing.assert_close(grad, expected)
    assert len(runs) == 2


@pytest.mark.parametrize("frozen", ["0.weight", "0.bias", "2.weight", "2.bias", "x"])
def test_frozen_parameters_get_no_gradient(frozen, runs):
    mlp = make()
    x = torch.randn(9, 6, dtype=torch.double, requires_grad=frozen != "x")
    if frozen != "x":
        mlp.get_parameter(frozen).requires_grad_(False)
    twin = copy.deepcopy(mlp)
    mlp(x).square().sum().backward()
    one_by_one(twin, x.detach()).square().sum().backward()
    assert len(runs) == 1
    assert (x.grad is None) == (frozen == "x")
    for (name, ours), theirs in zip(
        mlp.named_parameters(), twin.parameters(), strict=True
    ):
        if name == frozen:
            assert ours.grad is None
        else:
            torch.testing.assert_close(ours.grad, theirs.grad)


def test_without_gradients(runs):
    mlp = make()
    x = torch.randn(9, 6, dtype=torch.double)
    with torch.no_grad():
        y = mlp(x)
    assert not y.requires_grad
    assert len(runs) == 1
    torch.testing.assert_close(y, one_by_one(mlp, x))
    with torch.inference_mode():
        torch.testing.assert_close(mlp(x), y)


def test_hooks_on_the_parts_are_called(runs):
    mlp, seen = make(), []
    mlp[1].register_forward_hook(lambda *args: seen.append(args[2].shape))
    mlp(torch.randn(9, 6, dtype=torch.double))
    assert seen == [(9, 10)]
    hook = torch.nn.modules.module.register_module_forward_hook(
        lambda *args: seen.append(type(args[0]))
    )
    try:
        make()(torch.randn(9, 6, dtype=torch.double))
    finally:
        hook.remove()
    assert seen[1:] == [Linear, torch.nn.GELU, Linear, PointwiseMLP]
    assert runs == []


@pytest.mark.parametrize(
    "part", [torch.nn.ReLU(), torch.nn.GELU(approximate="tanh"), torch.nn.Dropout(1.0)]
)
def test_other_parts_are_called(part, runs):
    mlp, x = make(), torch.randn(9, 6, dtype=torch.double)
    mlp[1] = part
    torch.testing.assert_close(mlp(x), mlp[2](part(mlp[0](x))))
    assert runs == []


def test_other_shapes_and_dtypes(runs):
    mlp, x = make(torch.float32), torch.randn(2, 5, 6)
    torch.testing.assert_close(mlp(x), one_by_one(mlp, x))
    half = make(torch.bfloat16)
    assert half(x.bfloat16()).dtype == torch.bfloat16
    with torch.autocast("cpu", torch.bfloat16):
        assert mlp(x[0]).dtype == torch.bfloat16
    assert runs == []
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        mlp(torch.randn(3, 7))
    mlp[2] = Linear(10, 6, bias=False)
    assert mlp(x[0]).shape == (5, 6)
    assert runs == []


def test_transforms_and_forward_mode():
    mlp = make()
    x, tangent = torch.randn(2, 9, 6, dtype=torch.double)
    expected = torch.func.jvp(lambda x: one_by_one(mlp, x), (x,), (tangent,))
    actual = torch.func.jvp(mlp, (x,), (tangent,))
    torch.testing.assert_close(actual, expected)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, tangent)
        out = torch.autograd.forward_ad.unpack_dual(mlp(dual)).tangent
    torch.testing.assert_close(out, expected[1])
    hessian = torch.func.hessian(lambda x: mlp(x[None]).square().sum())(x[0])
    assert hessian.shape == (6, 6)


def test_compiled_without_a_break():
    mlp = make()
    compiled = torch.compile(mlp, backend="aot_eager", fullgraph=True)
    x = torch.randn(9, 6, dtype=torch.double)
    torch.testing.assert_close(compiled(x), mlp(x))


def test_names_of_parameters():
    names = ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert list(make().state_dict()) == names
