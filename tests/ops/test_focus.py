"""Top-k inside families: what is kept, and what is true of what is kept."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hsa_pyg import HSAConv, SignalHierarchy, hierarchical_attention
from hsa_pyg.analysis import attention_matrix
from hsa_pyg.ops.focus import keep_largest
from tests.dense_theta import Blocks, dot_scores, leaf_scores
from tests.differentiation import differences, results, tensors_for
from tests.divergence import Problem
from tests.forests import close, forests, inputs, positions, star

seeds = st.integers(0, 1000)
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


def test_the_largest_are_kept_and_of_equal_ones_the_earlier():
    infinite = float("-inf")
    s = torch.tensor(
        [
            [1.0, 3.0, 2.0, 0.0],
            [1.0, 1.0, 1.0, 1.0],
            [0.0, 2.0, 1.0, 1.0],
            [infinite, 5.0, infinite, infinite],
            [1.0, infinite, 1.0, 1.0],
        ]
    )
    keep = keep_largest(s, 2)
    finite = keep & s.isfinite()
    assert finite.long().tolist() == [
        [0, 1, 1, 0],
        [1, 1, 0, 0],
        [0, 1, 1, 0],
        [0, 1, 0, 0],
        [1, 0, 1, 0],
    ]
    assert (keep.sum(-1) == 2).all()
    assert keep_largest(s[:3], 4).all()


@forms
@settings(max_examples=30)
@given(forests(), seeds, st.booleans())
def test_the_backends_agree(
    top_k, includes_self, self_attention, hierarchy, seed, ties
):
    tensors = tensors_for(hierarchy, 2, 3, 4, "per head", seed=seed)
    if ties:
        tensors = (*(x.round() for x in tensors[:2]), *tensors[2:])
    form = options(top_k, includes_self, self_attention)
    expected = results(hierarchy, tensors, backend="reference", **form)
    actual = results(hierarchy, tensors, backend="torch", **form)
    assert differences(actual, expected, 1e-10) == []


@forms
@settings(max_examples=30)
@given(forests(), seeds)
def test_the_matrix_is_the_one_that_is_applied(
    top_k, includes_self, self_attention, hierarchy, seed
):
    q, k, v = inputs(hierarchy, seed=seed)
    position = positions(hierarchy, 2, seed=seed)
    form = options(top_k, includes_self, self_attention)
    y = hierarchical_attention(q, k, v, hierarchy, position=position, **form)
    theta = attention_matrix(q, k, hierarchy, position=position, **form)
    assert close(y, torch.einsum("hij,jhd->ihd", theta, v))
    rows = theta.sum(-1)
    assert ((rows - 1).abs() < 1e-10).logical_or(rows == 0).all()


@pytest.mark.parametrize("includes_self", [False, True])
@settings(max_examples=30)
@given(st.integers(2, 12), st.integers(2, 6), seeds)
def test_one_family_is_top_k_softmax_attention(includes_self, leaves, top_k, seed):
    hierarchy = SignalHierarchy.from_parents(star(leaves))
    q, k, v = inputs(hierarchy, seed=seed)
    s = dot_scores(q, k, q.size(2) ** -0.5)
    own = torch.eye(leaves, dtype=torch.bool)
    candidates = s if includes_self else s.masked_fill(own, float("-inf"))
    number = min(top_k, leaves if includes_self else leaves - 1)
    least = candidates.sort(-1, descending=True).values[..., number - 1, None]
    keep = candidates >= least
    if not includes_self:
        keep = keep | own
    theta = s.masked_fill(~keep, float("-inf")).softmax(-1)
    y = hierarchical_attention(
        q, k, v, hierarchy, top_k=top_k, top_k_includes_self=includes_self
    )
    assert close(y, torch.einsum("hij,jhd->ihd", theta, v))


@settings(max_examples=20)
@given(forests(), seeds)
def test_families_that_are_small_enough_are_left_as_they_are(hierarchy, seed):
    q, k, v = inputs(hierarchy, seed=seed)
    whole = hierarchical_attention(q, k, v, hierarchy)
    largest = max(1, hierarchy.max_branching - 1)
    same = hierarchical_attention(q, k, v, hierarchy, top_k=largest)
    assert torch.equal(whole, same)


@pytest.mark.parametrize("self_attention", [True, False])
@settings(max_examples=25)
@given(forests(max_nodes=16, trees=1), seeds, st.integers(1, 3))
def test_theta_is_optimal_on_what_is_kept(self_attention, hierarchy, seed, top_k):
    if hierarchy.num_leaves == 1:
        return
    q, k, _ = inputs(hierarchy, heads=1, seed=seed)
    position = positions(hierarchy, 1, seed=seed)
    score = leaf_scores(
        Blocks(hierarchy), dot_scores(q, k, q.size(2) ** -0.5), position
    )[0]
    form = options(top_k, False, self_attention)
    theta = attention_matrix(q, k, hierarchy, position=position, **form)[0].numpy()
    problem = Problem(hierarchy, score, self_attention)
    # The blocks that are kept, and no others.
    problem.block = problem.block[(problem.block * (theta > 0)).sum((1, 2)) > 0]
    problem.rows = problem.block.sum(2).T
    x = problem.numbers_of(theta)
    assert np.abs(problem.theta(x) - theta).max() < 1e-12
    assert np.abs(problem.rows @ x - 1).max() < 1e-12
    assert problem.slope_left(theta) < 1e-10


def test_no_other_choice_of_siblings_has_less_energy():
    hierarchy = SignalHierarchy.from_parents(torch.tensor([-1, 0, 0, 0, 1, 1, 2, 2, 2]))
    q, k, v = inputs(hierarchy, heads=1, seed=3)
    _, phi = hierarchical_attention(q, k, v, hierarchy, top_k=1, return_energy=True)
    q_mean = [q[hierarchy_rows(hierarchy, node)].mean(0)[0] for node in range(9)]
    k_mean = [k[hierarchy_rows(hierarchy, node)].mean(0)[0] for node in range(9)]
    count = hierarchy.leaf_counts.tolist()
    children = {0: [1, 2, 3], 1: [4, 5], 2: [6, 7, 8]}

    def gain(node, choice):
        if node not in children:
            return (q_mean[node] @ k_mean[node] * q.size(2) ** -0.5).exp()
        total = 0.0
        for b in children[node]:
            c = choice[b]
            s = q_mean[b] @ k_mean[c] * q.size(2) ** -0.5
            bracket = gain(b, choice) + count[c] * s.exp()
            total = total + count[b] / count[node] * bracket.log()
        return total.exp()

    members = [b for family in children.values() for b in family]
    rivals = [
        [c for c in family if c != b] for family in children.values() for b in family
    ]
    energies = [
        float(-gain(0, dict(zip(members, chosen, strict=True))).log())
        for chosen in itertools.product(*rivals)
    ]
    assert len(energies) == 2 * 2 * 2 * 1 * 1 * 2 * 2 * 2
    assert float(phi[0]) == pytest.approx(min(energies), abs=1e-12)


def hierarchy_rows(hierarchy, node):
    below = Blocks(hierarchy).below[node]
    return below.nonzero().view(-1)


@forms
def test_gradients(top_k, includes_self, self_attention):
    # A chain, a leaf beside sections, two trees, and families of unlike sizes.
    parent = torch.tensor([-1, 0, 0, 0, 1, 1, 1, 2, 2, 6, 6, 3, -1, 12, 12, 12, 12])
    hierarchy = SignalHierarchy.from_parents(parent)
    tensors = [x.requires_grad_() for x in tensors_for(hierarchy, 2, 3, 2, "per head")]
    form = options(top_k, includes_self, self_attention)

    def attention(q, k, v, position):
        return hierarchical_attention(q, k, v, hierarchy, position=position, **form)

    assert torch.autograd.gradcheck(attention, tensors)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_low_precision(dtype):
    hierarchy = SignalHierarchy.from_parents(star(40))
    q, k, v = (x.to(dtype) for x in inputs(hierarchy, seed=5))
    y = hierarchical_attention(q, k, v, hierarchy, top_k=4)
    wide = (x.double() for x in (q, k, v))
    expected = hierarchical_attention(*wide, hierarchy, top_k=4)
    assert y.dtype == dtype
    assert close(y.double(), expected, 4 * torch.finfo(dtype).eps)


def test_large_families_in_runs_of_queries(monkeypatch):
    monkeypatch.setattr("hsa_pyg.ops.family._SCORES", 1)
    hierarchy = SignalHierarchy.from_parents(star(100))
    tensors = tensors_for(hierarchy, 2, 3, 4, "shared")
    for form in (options(5, False, True), options(5, True, True)):
        expected = results(hierarchy, tensors, backend="reference", **form)
        actual = results(hierarchy, tensors, backend="torch", **form)
        assert differences(actual, expected, 1e-10) == []


def test_the_layer_keeps_so_many_blocks_a_row():
    hierarchy = SignalHierarchy.from_parents(star(9))
    conv = HSAConv(5, 8, heads=2, top_k=3)
    x = torch.randn(9, 5, generator=torch.Generator().manual_seed(0))
    _, (index, alpha) = conv(x, hierarchy, return_attention_weights=True)
    kept = torch.zeros(hierarchy.num_nodes, 2, dtype=torch.long)
    kept.index_add_(0, index[1], (alpha > 0).long())
    assert kept[hierarchy.leaves].tolist() == [[4, 4]] * 9
    whole = HSAConv(5, 8, heads=2)
    whole.load_state_dict(conv.state_dict())
    assert not torch.allclose(whole(x, hierarchy), conv(x, hierarchy))


def test_a_model_compiles_whole():
    conv = HSAConv(5, 8, heads=2, top_k=2)
    compiled = torch.compile(conv, fullgraph=True, dynamic=True, backend="aot_eager")
    for leaves in (5, 9, 13):
        hierarchy = SignalHierarchy.from_parents(star(leaves))
        x = torch.randn(leaves, 5)
        with torch.no_grad():
            assert close(compiled(x, hierarchy), conv(x, hierarchy), 1e-5)


@pytest.mark.parametrize(
    ("form", "error", "message"),
    [
        ({"top_k": 0}, ValueError, "top_k must be at least 1, got 0"),
        ({"top_k": -3}, ValueError, "top_k must be at least 1, got -3"),
        ({"top_k": 2.0}, TypeError, "top_k must be an integer or None, got 2.0"),
        ({"top_k": True}, TypeError, "top_k must be an integer or None, got True"),
        ({"top_k_includes_self": True}, ValueError, "needs top_k; give both"),
        (
            {"top_k": 1, "top_k_includes_self": True},
            ValueError,
            "at least 2, of which one may be the leaf itself, got 1",
        ),
        (
            {"top_k": 3, "top_k_includes_self": True, "self_attention": False},
            ValueError,
            "needs self_attention=True",
        ),
    ],
)
def test_forms_that_do_not_exist_are_refused(form, error, message):
    hierarchy = SignalHierarchy.from_parents(star(4))
    q, k, v = inputs(hierarchy)
    with pytest.raises(error, match=message):
        hierarchical_attention(q, k, v, hierarchy, **form)
    with pytest.raises(error, match=message):
        HSAConv(4, 4, **form)
