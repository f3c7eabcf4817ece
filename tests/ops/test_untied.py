"""Untied queries: what the reference gives, and what is true of it.

In float64, 1e-10 of the largest number unless a line says otherwise.
"""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention

from hsa_pyg import SignalHierarchy, hierarchical_attention
from hsa_pyg.ops import last_backend
from tests.dense_theta import Blocks, dot_scores, leaf_scores, measured_theta
from tests.differentiation import differences, results, tensors_for
from tests.forests import (
    caterpillar,
    childless,
    close,
    forests,
    inputs,
    positions,
    random_parents,
    regular,
    side_by_side,
    star,
)

KINDS = ("none", "shared", "per head")
TREES = {
    "one leaf": torch.tensor([-1]),
    "an only child": torch.tensor([-1, 0]),
    "star": star(5),
    "beyond a run": star(70),
    "many leaves below": regular(3, 5),
    "chains": torch.tensor([-1, 0, 1, 1, 2, 3, 3, 5, 7]),
    "one leaf beside a tree": torch.tensor([-1, -1, 1, 1, 2, 2, 2]),
    "caterpillar": caterpillar(7),
}


def untied(*tensors, causal=False, **keywords):
    return hierarchical_attention(
        *tensors, tie_queries=False, causal=causal, **keywords
    )


def assert_agrees(hierarchy, tensors, **keywords):
    actual = results(hierarchy, tensors, untied, **keywords)
    expected = results(hierarchy, tensors, untied, backend="reference", **keywords)
    assert differences(actual, expected, 1e-10) == []


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("self_attention", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TREES)
def test_awkward_trees(name, kind, self_attention, causal):
    hierarchy = SignalHierarchy.from_parents(TREES[name])
    tensors = tensors_for(hierarchy, heads=2, width=5, value=3, kind=kind)
    options = {"self_attention": self_attention, "causal": causal}
    assert_agrees(hierarchy, tensors, **options)


@pytest.mark.parametrize("seed", range(24))
def test_random_forests(seed):
    parent = random_parents((9, 20, 45)[seed % 3], seed, reach=(None, 3)[seed % 2])
    empty = torch.rand(parent.numel()) < 0.15
    hierarchy = SignalHierarchy.from_parents(parent, childless(parent) & ~empty)
    tensors = tensors_for(hierarchy, 2, 3, 4, KINDS[seed % 3], seed)
    options = {"self_attention": seed % 4 < 2, "causal": seed % 8 < 4, "seed": seed}
    assert_agrees(hierarchy, tensors, **options)


@pytest.mark.parametrize("causal", [True, False])
def test_gradcheck(causal):
    hierarchy = SignalHierarchy.from_parents(random_parents(12, 3))
    tensors = [x.requires_grad_() for x in tensors_for(hierarchy, 1, 2, 2, "shared")]

    def attend(q, k, v, position):
        return untied(
            q, k, v, hierarchy, position=position, causal=causal, return_energy=True
        )

    assert torch.autograd.gradcheck(attend, tensors)


@pytest.mark.parametrize("causal", [True, False])
def test_one_family_is_softmax_attention(causal):
    hierarchy = SignalHierarchy.from_parents(star(9))
    tensors = inputs(hierarchy)
    expected = scaled_dot_product_attention(
        *(x.transpose(0, 1) for x in tensors), is_causal=causal
    ).transpose(0, 1)
    assert close(untied(*tensors, hierarchy, causal=causal), expected)
    assert last_backend() == "torch"


def rows_divergence(theta, target):
    """KL(theta_i || target_i) of every row, [N]."""
    return torch.special.entr(theta).neg().sum(-1) - torch.where(
        theta > 0, theta * target.clamp(min=1e-300).log(), 0
    ).sum(-1)


@given(forests(max_nodes=14, empty=False, trees=1), st.integers(0, 1000))
def test_every_row_is_the_nearest_to_softmax(hierarchy, seed):
    """No move along the constraints (blocks of the keys, sum 1) comes nearer."""
    q, k, _ = inputs(hierarchy, heads=1, seed=seed)
    position = positions(hierarchy, 1, seed=seed)
    blocks = Blocks(hierarchy)
    score = leaf_scores(blocks, dot_scores(q, k, q.size(2) ** -0.5), position)[0]
    target = score.softmax(-1)
    theta = measured_theta(q, k, hierarchy, position=position, tie_queries=False)[0]
    assert close(theta.sum(-1), torch.ones(len(theta), dtype=theta.dtype))
    # The slope of KL, averaged over a block, is the same for all blocks of a row.
    slope = theta.log() - target.log()
    siblings = blocks.siblings.nonzero().tolist()
    for i in range(len(theta)):
        seen = [slope[i, i]]
        for b, c in siblings:
            if blocks.below[b, i]:
                block = blocks.below[c] > 0
                assert close(theta[i, block], theta[i, block][:1].expand(block.sum()))
                seen.append(slope[i, block].mean())
        assert float(torch.stack(seen).max() - torch.stack(seen).min()) < 1e-9


@given(forests(max_nodes=14, empty=False, trees=1), st.integers(0, 1000))
def test_no_farther_from_softmax_than_tied_queries(hierarchy, seed):
    q, k, _ = inputs(hierarchy, heads=1, seed=seed)
    score = dot_scores(q, k, q.size(2) ** -0.5)[0]
    tied = measured_theta(q, k, hierarchy)[0]
    loose = measured_theta(q, k, hierarchy, tie_queries=False)[0]
    divergence = rows_divergence(loose, score.softmax(-1)).sum()
    assert divergence <= rows_divergence(tied, score.softmax(-1)).sum() + 1e-10
    # The energy of the root is that divergence, up to the log-normalisers.
    _, phi = untied(q, k, q, hierarchy, return_energy=True)
    total = divergence - score.logsumexp(-1).sum()
    assert close(hierarchy.num_leaves * phi[hierarchy.roots[0], 0], total)


@given(forests(max_nodes=14), st.integers(0, 1000))
def test_a_causal_row_knows_nothing_of_later_leaves(hierarchy, seed):
    """Later in the order of the siblings that two leaves lie below."""
    q, k, v = inputs(hierarchy, seed=seed)
    theta = measured_theta(q, k, hierarchy, tie_queries=False, causal=True)
    blocks, leaves = Blocks(hierarchy), hierarchy.leaves.tolist()
    for b, c in blocks.siblings.nonzero().tolist():
        if c > b:
            block = blocks.below[b, :, None] * blocks.below[c] > 0
            assert (theta[:, block] == 0).all()
    last = len(leaves) - 1
    changed = [x.index_fill(0, torch.tensor([last]), 7.0) for x in (q, k, v)]
    before = untied(q, k, v, hierarchy, causal=True)
    after = untied(*changed, hierarchy, causal=True)
    blind = theta[:, :, last].amax(0) == 0
    assert torch.equal(before[blind], after[blind])


def test_a_batch_gives_each_tree_what_it_gets_alone():
    trees = [regular(3, 2), star(4), caterpillar(4), torch.tensor([-1])]
    joined, _ = side_by_side(*trees)
    batch = SignalHierarchy.from_parents(joined)
    tensors = inputs(batch)
    together = untied(*tensors, batch)
    own = batch.leaf_tree
    for number, parent in enumerate(trees):
        part = [x[own == number] for x in tensors]
        alone = untied(*part, SignalHierarchy.from_parents(parent))
        assert close(together[own == number], alone)


@pytest.mark.parametrize("size", [50.0, 1e4])
@pytest.mark.parametrize("causal", [True, False])
def test_large_scores_stay_finite(size, causal):
    hierarchy = SignalHierarchy.from_parents(random_parents(40, 5))
    tensors = [x.requires_grad_() for x in inputs(hierarchy, dtype=torch.float32)]
    y, phi = untied(*tensors, hierarchy, scale=size, causal=causal, return_energy=True)
    grads = torch.autograd.grad(y.sum() + phi.sum(), tensors)
    assert all(x.isfinite().all() for x in (y, phi, *grads))


@pytest.mark.parametrize(
    ("dtype", "rtol"), [(torch.bfloat16, 2**-7), (torch.float16, 2**-10)]
)
def test_half_precision_is_rounded_at_the_ends_alone(dtype, rtol):
    hierarchy = SignalHierarchy.from_parents(random_parents(60, 2))
    tensors = [x.to(dtype) for x in inputs(hierarchy)]
    wide = [x.double() for x in tensors]
    actual = results(hierarchy, tensors, untied)
    expected = results(hierarchy, wide, untied)
    assert actual[0].dtype == dtype
    assert differences(actual, expected, 4 * rtol) == []


def test_dropout_keeps_the_expectation_and_repeats_in_the_backward_pass():
    hierarchy = SignalHierarchy.from_parents(regular(3, 2))
    q, k, v = inputs(hierarchy)
    exact = untied(q, k, v, hierarchy)
    mean = sum(untied(q, k, v, hierarchy, dropout=0.3) for _ in range(600)) / 600
    assert float((mean - exact).abs().max()) < 0.15
    v.requires_grad_()
    y = untied(q, k, v, hierarchy, dropout=0.5)
    # y is linear in v: <dy/dv, v> gives y back, if the same weights were dropped.
    cotangent = torch.randn_like(y)
    (grad,) = torch.autograd.grad(y, v, cotangent)
    assert close((grad * v).sum().detach(), (y * cotangent).sum().detach())
    assert not untied(q, k, v, hierarchy, dropout=1.0).any()


def test_no_leaves():
    hierarchy = SignalHierarchy.from_parents(torch.empty(0, dtype=torch.long))
    assert untied(*inputs(hierarchy), hierarchy).shape == (0, 2, 2)
