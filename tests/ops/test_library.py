"""The operators as PyTorch knows them: schema, shapes, autograd, autocast.

``torch.library.opcheck`` raises by itself where an operator is not what it says.
"""

import pytest
import torch

from hsa_pyg import SignalHierarchy, banded, blocklocal, hierarchical_attention
from hsa_pyg.ops.library import attention_backward, attention_forward, flatten
from hsa_pyg.ops.patterns import describe
from tests.differentiation import tensors_for

MIXED = torch.tensor([-1, 0, 0, 0, 1, 1, 1, 2, 2, 6, 6, -1])


def forward_arguments(
    kind, dtype=torch.float32, *, dropout, energy, keep, grad, top_k=0
):
    hierarchy = SignalHierarchy.from_parents(MIXED)
    q, k, v, *position = (x.to(dtype) for x in tensors_for(hierarchy, 2, 4, 3, kind))
    if kind == "shared":
        position = [position[0][:, None]]
    tensors = [x.requires_grad_(grad) for x in (q, k, v, *position)]
    if not position:
        tensors.append(None)
    seed = torch.tensor(7)
    options = (0.5, True, top_k, False, dropout, "torch", energy, keep)
    return (*tensors, flatten(hierarchy), seed, *options)


@pytest.mark.parametrize("kind", ["none", "shared", "per head"])
@pytest.mark.parametrize("energy", [True, False])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_opcheck_of_the_forward_pass(kind, energy, dropout):
    arguments = forward_arguments(
        kind, dropout=dropout, energy=energy, keep=True, grad=True
    )
    torch.library.opcheck(attention_forward, arguments)


@pytest.mark.parametrize("top_k", [1, 2])
def test_opcheck_of_the_forward_pass_with_top_k(top_k):
    arguments = forward_arguments(
        "shared", dropout=0.0, energy=True, keep=True, grad=True, top_k=top_k
    )
    torch.library.opcheck(attention_forward, arguments)


@pytest.mark.parametrize("pattern", [banded(2), blocklocal(1, 1)])
def test_opcheck_with_a_pattern(pattern):
    """Keywords that are left out where there is none."""
    for dropout in (0.0, 0.5):
        arguments = forward_arguments(
            "shared", dropout=dropout, energy=True, keep=True, grad=True
        )
        torch.library.opcheck(attention_forward, arguments, describe(pattern))


def test_opcheck_without_gradients_and_in_half_precision():
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        arguments = forward_arguments(
            "shared", dtype, dropout=0.0, energy=True, keep=False, grad=False
        )
        torch.library.opcheck(attention_forward, arguments)


@pytest.mark.parametrize("kind", ["none", "shared", "per head"])
@pytest.mark.parametrize("energy", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_opcheck_of_the_backward_pass(kind, energy, dtype):
    arguments = forward_arguments(
        kind, dtype, dropout=0.5, energy=energy, keep=True, grad=False
    )
    y, phi, rest, *saved = attention_forward(*arguments)
    assert rest.shape == (y.shape if dtype == torch.bfloat16 else (0,))
    q, k, v, position, layout, seed, *options, _, _ = arguments
    torch.library.opcheck(
        attention_backward,
        (
            q,
            k,
            v,
            y,
            rest,
            position,
            layout,
            saved,
            torch.randn_like(y),
            torch.randn_like(phi) if energy else None,
            seed,
            *options,
        ),
    )


def test_nothing_is_kept_where_nothing_is_differentiated():
    hierarchy = SignalHierarchy.from_parents(MIXED)
    q, k, v = tensors_for(hierarchy, 2, 4, 3)
    assert not hierarchical_attention(q, k, v, hierarchy).requires_grad
    q.requires_grad_()
    with torch.no_grad():
        quiet = hierarchical_attention(q, k, v, hierarchy)
    y = hierarchical_attention(q, k, v, hierarchy)
    assert y.requires_grad
    assert not quiet.requires_grad
    assert torch.equal(quiet, y)


@pytest.mark.parametrize("needing", [(0,), (1,), (2,), (3,), (0, 3), (1, 2)])
def test_gradients_of_some_inputs_only(needing):
    hierarchy = SignalHierarchy.from_parents(MIXED)
    tensors = tensors_for(hierarchy, 2, 4, 3, "shared")

    def grads(wanted):
        held = [x.clone().requires_grad_(i in wanted) for i, x in enumerate(tensors)]
        y = hierarchical_attention(*held[:3], hierarchy, position=held[3])
        y.square().sum().backward()
        return [x.grad for x in held]

    some, full = grads(needing), grads(range(4))
    for i in range(4):
        assert (some[i] is None) if i not in needing else torch.equal(some[i], full[i])


@pytest.mark.parametrize("tie_queries", [True, False])
def test_a_second_derivative_is_refused(tie_queries):
    """The backward pass is no differentiable operator; silence would be a wrong 0."""
    hierarchy = SignalHierarchy.from_parents(MIXED)
    q, k, v = (x.requires_grad_() for x in tensors_for(hierarchy, 1, 2, 2))
    y = hierarchical_attention(q, k, v, hierarchy, tie_queries=tie_queries)
    (grad,) = torch.autograd.grad(y.square().sum(), q, create_graph=True)
    with pytest.raises(NotImplementedError, match=r"second derivative.*'reference'"):
        torch.autograd.grad(grad.sum(), k)


@pytest.mark.parametrize("backend", ["torch", "reference"])
def test_autocast_rounds_inputs_and_accumulates_in_float32(backend):
    hierarchy = SignalHierarchy.from_parents(MIXED)
    tensors = [x.float() for x in tensors_for(hierarchy, 2, 4, 3, "per head")]
    with torch.autocast("cpu", torch.bfloat16):
        y, phi = hierarchical_attention(
            *tensors[:3],
            hierarchy,
            position=tensors[3],
            return_energy=True,
            backend=backend,
        )
    assert y.dtype == torch.bfloat16
    assert phi.dtype == torch.float32
    rounded = [x.bfloat16().double() for x in tensors[:3]]
    expected = hierarchical_attention(
        *rounded, hierarchy, position=tensors[3].double(), return_energy=True
    )
    # Only the output is rounded: far below what bf16 scores would give.
    assert float((phi - expected[1]).abs().max()) < 1e-5
    assert torch.allclose(y.double(), expected[0], rtol=2**-8, atol=1e-6)


def test_autocast_takes_mixed_dtypes_and_leaves_float64_alone():
    hierarchy = SignalHierarchy.from_parents(MIXED)
    q, k, v = tensors_for(hierarchy, 2, 4, 3)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = hierarchical_attention(q.float(), k.bfloat16(), v.float(), hierarchy)
        exact = hierarchical_attention(q, k, v, hierarchy)
    assert mixed.dtype == torch.bfloat16
    assert torch.equal(exact, hierarchical_attention(q, k, v, hierarchy))
