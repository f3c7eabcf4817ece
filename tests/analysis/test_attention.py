import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hsa_pyg import SignalHierarchy, hierarchical_attention
from hsa_pyg.analysis import attention, attention_matrix
from tests.dense_theta import dense_theta, dot_scores
from tests.forests import close, forests, inputs, positions, random_parents, star


@pytest.mark.parametrize("self_attention", [True, False])
@given(forests(), st.integers(0, 1000), st.sampled_from([None, 2]))
def test_the_matrix_is_that_of_the_definition(self_attention, hierarchy, seed, heads):
    q, k, _ = inputs(hierarchy, seed=seed)
    position = positions(hierarchy, heads, seed=seed)
    theta = attention_matrix(q, k, hierarchy, position, self_attention)
    eps = position if heads else position[:, None]
    raw = dot_scores(q, k, q.size(2) ** -0.5)
    expected, _ = dense_theta(hierarchy, raw, eps, self_attention)
    assert close(theta, expected)


@pytest.mark.parametrize("seed", range(5))
def test_the_matrix_is_what_attention_multiplies_values_by(seed):
    hierarchy = SignalHierarchy.from_parents(random_parents(120, seed, reach=30))
    q, k, v = inputs(hierarchy, seed=seed)
    theta = attention_matrix(q, k, hierarchy, scale=0.3)
    y = hierarchical_attention(q, k, v, hierarchy, scale=0.3)
    assert close(torch.einsum("hij,jhw->ihw", theta, v), y)


@pytest.mark.parametrize("causal", [True, False])
def test_the_matrix_of_untied_queries(causal):
    hierarchy = SignalHierarchy.from_parents(random_parents(60, 1))
    q, k, v = inputs(hierarchy)
    position = positions(hierarchy)
    form = {"tie_queries": False, "causal": causal}
    theta = attention_matrix(q, k, hierarchy, position, **form)
    y = hierarchical_attention(q, k, v, hierarchy, position=position, **form)
    assert close(torch.einsum("hij,jhw->ihw", theta, v), y)
    assert close(theta.sum(-1), torch.ones(2, theta.size(1), dtype=theta.dtype))
    if causal:  # untied, whatever tie_queries says
        assert theta.equal(attention_matrix(q, k, hierarchy, position, causal=True))


def test_the_matrix_is_differentiable():
    hierarchy = SignalHierarchy.from_parents(torch.tensor([-1, 0, 0, 1, 1, 2, 2]))
    q, k, v = (x.requires_grad_() for x in inputs(hierarchy))
    y = hierarchical_attention(q, k, v, hierarchy)
    z = torch.einsum("hij,jhw->ihw", attention_matrix(q, k, hierarchy), v)
    given = torch.randn_like(y)
    for a, b in zip(
        torch.autograd.grad(z, (q, k, v), given),
        torch.autograd.grad(y, (q, k, v), given),
        strict=True,
    ):
        assert close(a, b)


def test_too_many_leaves_are_refused_with_the_way_out(monkeypatch):
    monkeypatch.setattr(attention, "MAX_LEAVES", 10)
    hierarchy = SignalHierarchy.from_parents(star(11))
    q, k, _ = inputs(hierarchy)
    with pytest.raises(ValueError, match=r"11 leaves .* at most 10 .*family_weights"):
        attention_matrix(q, k, hierarchy)


def test_shapes_that_do_not_fit_are_refused():
    hierarchy = SignalHierarchy.from_parents(star(3))
    q, k, _ = inputs(hierarchy)
    with pytest.raises(ValueError, match="have 2 rows, but the hierarchy has 3 leaves"):
        attention_matrix(q[:2], k[:2], hierarchy)
    with pytest.raises(ValueError, match=r"q \(3, 2, 3\) and k \(3, 1, 3\)"):
        attention_matrix(q, k[:, :1], hierarchy)
    with pytest.raises(ValueError, match=r"\[4, P\] or \[4, 2, P\], got \(3, 2\)"):
        attention_matrix(q, k, hierarchy, position=torch.zeros(3, 2))


def test_a_forest_without_leaves_has_an_empty_matrix():
    parent, mask = torch.tensor([-1, 0]), torch.zeros(2, dtype=torch.bool)
    hierarchy = SignalHierarchy.from_parents(parent, mask)
    q, k, _ = inputs(hierarchy)
    assert attention_matrix(q, k, hierarchy).shape == (2, 0, 0)
