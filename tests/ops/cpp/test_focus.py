"""Top-k in the C++ backend: the same siblings as the reference, the same gradients."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hsa_pyg import SignalHierarchy, hierarchical_attention
from tests.differentiation import differences, results, tensors_for
from tests.forests import forests, inputs, side_by_side, star

# (top_k, top_k_includes_self, self_attention)
FORMS = [
    (1, False, True),
    (2, False, True),
    (3, False, False),
    (1, False, False),
    (2, True, True),
    (3, True, True),
]
forms = pytest.mark.parametrize(("top_k", "includes_self", "self_attention"), FORMS)


def options(top_k, includes_self, self_attention):
    return {
        "top_k": top_k,
        "top_k_includes_self": includes_self,
        "self_attention": self_attention,
    }


@forms
@settings(max_examples=30)
@given(forests(), st.integers(0, 1000), st.booleans())
def test_the_reference_agrees(
    top_k, includes_self, self_attention, hierarchy, seed, ties
):
    tensors = tensors_for(hierarchy, 2, 3, 4, "per head", seed=seed)
    if ties:
        tensors = (*(x.round() for x in tensors[:2]), *tensors[2:])
    form = options(top_k, includes_self, self_attention)
    expected = results(hierarchy, tensors, backend="reference", **form)
    actual = results(hierarchy, tensors, backend="cpp", **form)
    assert differences(actual, expected, 1e-10) == []


def large_families(members):
    """Leaf-only and mixed ones beyond a tile, and a small one."""
    mixed = torch.cat([star(members), torch.tensor([1] * 4 + [5] * 2)])
    return side_by_side(star(members), star(20), mixed)[0]


@pytest.mark.parametrize("ties", [False, True])
@forms
def test_families_larger_than_a_tile(top_k, includes_self, self_attention, ties):
    hierarchy = SignalHierarchy.from_parents(large_families(200))
    tensors = tensors_for(hierarchy, 2, 3, 4, "shared")
    if ties:
        tensors = (*(x.round() for x in tensors[:3]), tensors[3].round())
    # A scale of 1, so that equal scores are equal whatever the order of a sum.
    form = {**options(top_k, includes_self, self_attention), "scale": 1.0}
    expected = results(hierarchy, tensors, backend="torch", **form)
    actual = results(hierarchy, tensors, backend="cpp", **form)
    assert differences(actual, expected, 1e-10) == []


@pytest.mark.parametrize("top_k", [31, 32, 33, 60, 63, 64, 150, 198, 199, 200, 300])
@pytest.mark.parametrize("includes_self", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_many_kept_siblings(top_k, includes_self, dtype):
    """By a list up to 32, bit by bit beyond, up to more than there are."""
    parent = side_by_side(large_families(200), star(64), star(63))[0]
    hierarchy = SignalHierarchy.from_parents(parent)
    tensors = tensors_for(hierarchy, 1, 3, 2)
    tensors = [x.to(dtype).round() for x in tensors]
    form = {**options(top_k, includes_self, True), "scale": 1.0}
    expected = results(hierarchy, tensors, backend="torch", **form)
    actual = results(hierarchy, tensors, backend="cpp", **form)
    rtol = 1e-10 if dtype == torch.float64 else 1e-4
    assert differences(actual, expected, rtol) == []


@settings(max_examples=20)
@given(forests(), st.integers(0, 1000))
def test_families_that_are_small_enough_are_left_as_they_are(hierarchy, seed):
    q, k, v = inputs(hierarchy, seed=seed)
    whole = hierarchical_attention(q, k, v, hierarchy, backend="cpp")
    largest = max(1, hierarchy.max_branching - 1)
    same = hierarchical_attention(q, k, v, hierarchy, top_k=largest, backend="cpp")
    assert torch.equal(whole, same)


def test_a_large_family_may_keep_all_but_one():
    hierarchy = SignalHierarchy.from_parents(star(100))
    q, k, v = inputs(hierarchy)
    whole = hierarchical_attention(q, k, v, hierarchy, backend="cpp")
    same = hierarchical_attention(q, k, v, hierarchy, top_k=99, backend="cpp")
    fewer = hierarchical_attention(q, k, v, hierarchy, top_k=98, backend="cpp")
    assert torch.equal(whole, same)
    assert not torch.equal(whole, fewer)


@pytest.mark.parametrize("includes_self", [True, False])
@pytest.mark.parametrize("members", [20, 100])
def test_of_equal_scores_the_earlier_are_kept(members, includes_self):
    """Where all scores are 0 the first siblings are averaged, and the leaf itself."""
    hierarchy = SignalHierarchy.from_parents(star(members))
    zero = torch.zeros(members, 1, 2)
    one_each = torch.eye(members)[:, None]
    theta = hierarchical_attention(
        zero,
        zero,
        one_each,
        hierarchy,
        top_k=3,
        top_k_includes_self=includes_self,
        backend="cpp",
    )
    expected = torch.zeros(members, members)
    if includes_self:
        expected[:, :3] = 1
    else:
        expected[:, :3] = 1
        expected[:3, 3] = 1
        expected.fill_diagonal_(1)
    expected /= expected.sum(-1, keepdim=True)
    assert torch.allclose(theta[:, 0], expected)
