"""The layer with a fixed pattern."""

import pickle

import pytest
import torch

from hsa_pyg import SignalHierarchy
from hsa_pyg.nn import FlatConv, HSAConv, banded, blocklocal, hierarchical_attention
from tests.forests import star

PATTERNS = [banded(3), banded(1, num_global=1), blocklocal(1), blocklocal(2)]
patterns = pytest.mark.parametrize("pattern", PATTERNS, ids=repr)


@patterns
def test_it_is_the_function_of_its_projections(deep, pattern):
    conv = HSAConv(5, 8, heads=2, position_dim=4, pattern=pattern).double()
    x = torch.randn(7, 5, dtype=torch.double)
    position = torch.randn(13, 4, dtype=torch.double)
    q, k, v = conv.lin_qkv(x, deep).view(-1, 3, 2, 4).unbind(1)
    eps = conv.lin_position(position)
    y = hierarchical_attention(
        q, k, v, deep, position=eps, pattern=pattern, backend="reference"
    )
    torch.testing.assert_close(conv(x, deep, position), conv.lin_out(y.flatten(1)))


def test_edges_are_those_that_are_seen():
    hierarchy = SignalHierarchy.from_parents(star(7))
    conv = HSAConv(5, 8, heads=2, pattern=banded(3))
    _, (index, alpha) = conv(
        torch.randn(7, 5), hierarchy, return_attention_weights=True
    )
    assert torch.bincount(index[1], minlength=8).tolist() == [0, *[3] * 7]
    total = torch.zeros(8, 2).index_add(0, index[1], alpha)
    torch.testing.assert_close(total[1:], torch.ones(7, 2))


@patterns
def test_a_model_compiles_whole(pattern):
    conv = HSAConv(5, 8, heads=2, pattern=pattern)
    torch._dynamo.reset()
    compiled = torch.compile(conv, fullgraph=True, dynamic=True, backend="aot_eager")
    for leaves in (5, 9):
        hierarchy = SignalHierarchy.from_parents(star(leaves))
        found = []
        for layer in (compiled, conv):
            conv.zero_grad()
            y = layer(torch.ones(leaves, 5) * torch.arange(5), hierarchy)
            y.square().sum().backward()
            found.append([y.detach(), *(p.grad.clone() for p in conv.parameters())])
        torch.testing.assert_close(*found)
    torch._dynamo.reset()


def test_it_travels_and_says_what_it_is():
    conv = HSAConv(5, 8, pattern=blocklocal(2, num_global=1))
    again = pickle.loads(pickle.dumps(conv))
    assert again.pattern == conv.pattern
    assert "pattern=BlockLocal(width=2, num_global=1)" in repr(conv)


@pytest.mark.parametrize("backend", ["cpp", "triton"])
def test_backends_without_patterns_are_refused_where_the_layer_is_made(backend):
    with pytest.raises(NotImplementedError, match=f"'{backend}' has no pattern"):
        HSAConv(5, 8, pattern=banded(3), backend=backend)


@pytest.mark.parametrize(
    ("form", "error", "message"),
    [
        ({"pattern": 3}, TypeError, "pattern must be"),
        ({"pattern": banded(3), "top_k": 2}, ValueError, "leave one of them out"),
        ({"pattern": blocklocal(3), "self_attention": False}, ValueError, "no key"),
        (
            {"pattern": banded(3), "tie_queries": False},
            NotImplementedError,
            "pattern is not available with tie_queries=False",
        ),
    ],
)
def test_forms_that_do_not_exist_are_refused(form, error, message):
    with pytest.raises(error, match=message):
        HSAConv(5, 8, **form)


@pytest.mark.parametrize("form", [{"pattern": banded(3)}, {"top_k": 2}])
def test_flat_attention_has_none(form):
    (name,) = form
    with pytest.raises(NotImplementedError, match=f"flat attention has no {name}"):
        FlatConv(5, 8, **form)
