"""Dropout in the C++ backend: what is drawn depends on the seed and the place alone."""

import pytest
import torch

from hsa_pyg import SignalHierarchy, hierarchical_attention
from tests.forests import close, inputs, positions, regular, side_by_side, star

# Leaf-only and mixed families, leaves between sections, a tree of one leaf.
UNEVEN = torch.tensor([-1, 0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 10, 10, -1])


def theta(hierarchy, dropout, seed, **keywords):
    """What is applied to one value per leaf: [H, N, N]."""
    q, k, _ = inputs(hierarchy)
    v = torch.eye(hierarchy.num_leaves, dtype=q.dtype)[:, None].expand(-1, 2, -1)
    torch.manual_seed(seed)
    y = hierarchical_attention(
        q, k, v, hierarchy, dropout=dropout, backend="cpp", **keywords
    )
    return y.transpose(0, 1)


@pytest.mark.parametrize("self_attention", [True, False])
def test_a_weight_is_dropped_or_scaled_up(self_attention):
    hierarchy = SignalHierarchy.from_parents(UNEVEN)
    full = theta(hierarchy, 0.0, 0, self_attention=self_attention)
    kept = dropped = 0
    for seed in range(20):
        found = theta(hierarchy, 0.4, seed, self_attention=self_attention)
        alive = found != 0
        assert close(found[alive], full[alive] / 0.6)
        kept += int(alive.sum())
        dropped += int((~alive & (full != 0)).sum())
    assert 0.35 < dropped / (kept + dropped) < 0.45


def test_self_weights_are_dropped_too():
    """Of leaves in leaf-only families, in mixed ones, and of a leaf that is a tree."""
    hierarchy = SignalHierarchy.from_parents(UNEVEN)
    full = theta(hierarchy, 0.0, 0).diagonal(dim1=1, dim2=2)
    own = torch.stack(
        [theta(hierarchy, 0.5, seed).diagonal(dim1=1, dim2=2) for seed in range(20)]
    )
    alive = own != 0
    assert close(own[alive], 2 * full.expand_as(own)[alive])
    assert alive.any(0).all()
    assert not alive.all(0).any()


@pytest.mark.parametrize("self_attention", [True, False])
def test_dropout_keeps_the_expectation(self_attention):
    """4,000 copies of one tree in one batch: the mean is within 5 deviations."""
    copies = 4000
    one = SignalHierarchy.from_parents(UNEVEN)
    many = SignalHierarchy.from_parents(side_by_side(*[UNEVEN] * copies)[0])
    q, k, v = inputs(one, heads=1)
    keywords = {"self_attention": self_attention, "backend": "cpp"}
    expected = hierarchical_attention(q, k, v, one, **keywords)
    repeated = (x.repeat(copies, 1, 1) for x in (q, k, v))
    y = hierarchical_attention(*repeated, many, dropout=0.3, **keywords)
    y = y.view(copies, *expected.shape)
    deviation = y.std(0) / copies**0.5
    assert ((y.mean(0) - expected).abs() <= 5 * deviation + 1e-12).all()
    assert (deviation[:-1] > 0).all()  # the last leaf is a tree


def test_the_seed_decides():
    hierarchy = SignalHierarchy.from_parents(regular(4, 3))
    once, again, other = (theta(hierarchy, 0.5, seed) for seed in (1, 1, 2))
    assert torch.equal(once, again)
    assert not torch.equal(once != 0, other != 0)


def test_heads_families_and_rows_are_dropped_independently():
    pattern = theta(SignalHierarchy.from_parents(regular(4, 3)), 0.5, 0) != 0
    assert not torch.equal(pattern[0], pattern[1])
    inside = torch.stack([pattern[0, i : i + 4, i : i + 4] for i in range(0, 64, 4)])
    assert inside.flatten(1).unique(dim=0).size(0) > 12
    assert inside.flatten(0, 1).unique(dim=0).size(0) > 8


@pytest.mark.parametrize("members", [60, 150])
def test_rows_and_columns_of_one_family_are_independent(members):
    pattern = theta(SignalHierarchy.from_parents(star(members)), 0.5, 0)[0] != 0
    assert abs(float(pattern.double().mean()) - 0.5) < 0.05
    for x in (pattern, pattern.T):
        share = x.double().mean(1)
        assert float((share - 0.5).abs().max()) < 0.35
        neighbours = (x[1:] == x[:-1]).double().mean()
        assert abs(float(neighbours) - 0.5) < 0.05


def test_no_dropout_and_all_dropped():
    hierarchy = SignalHierarchy.from_parents(UNEVEN)
    q, k, v = (x.requires_grad_() for x in inputs(hierarchy))
    plain = hierarchical_attention(q, k, v, hierarchy, backend="cpp")
    none = hierarchical_attention(q, k, v, hierarchy, dropout=0.0, backend="cpp")
    assert torch.equal(plain, none)
    y = hierarchical_attention(q, k, v, hierarchy, dropout=1.0, backend="cpp")
    assert not y.any()
    for grad in torch.autograd.grad(y.sum(), (q, k, v)):
        assert not grad.any()


@pytest.mark.parametrize("self_attention", [True, False])
@pytest.mark.parametrize("top_k", [None, 3])
def test_gradients_under_dropout(self_attention, top_k):
    """The backward pass draws what the forward pass drew, in large families too."""
    parent = torch.cat([UNEVEN, torch.tensor([3] * 20 + [5] * 70 + [1] * 70)])
    hierarchy = SignalHierarchy.from_parents(parent)
    tensors = [x.requires_grad_() for x in (*inputs(hierarchy), positions(hierarchy))]

    def function(q, k, v, position):
        torch.manual_seed(3)
        return hierarchical_attention(
            q,
            k,
            v,
            hierarchy,
            position=position,
            self_attention=self_attention,
            dropout=0.4,
            top_k=top_k,
            backend="cpp",
        )

    assert torch.autograd.gradcheck(function, tensors, fast_mode=True)
