import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hsa_pyg import SignalHierarchy
from hsa_pyg.ops import family_weights
from tests.dense_theta import Blocks, dense_theta, dot_scores
from tests.forests import close, forests, inputs, positions


@pytest.mark.parametrize("self_attention", [True, False])
@given(forests(), st.integers(0, 1000), st.sampled_from([1, 2]))
def test_weights_are_those_of_the_definition(self_attention, hierarchy, seed, heads):
    q, k, _ = inputs(hierarchy, heads, seed=seed)
    position = positions(hierarchy, heads, seed=seed)
    pair_index, pair_weight, self_weight = family_weights(
        q, k, hierarchy, self_attention=self_attention, position=position, scale=0.7
    )
    raw = dot_scores(q, k, 0.7)
    theta, _ = dense_theta(hierarchy, raw, position, self_attention)
    blocks = Blocks(hierarchy)
    source, target = pair_index.tolist()
    # Each ordered pair of siblings once.
    pairs = {tuple(pair) for pair in blocks.siblings.nonzero().tolist()}
    assert len(pairs) == len(target)
    assert set(zip(target, source, strict=True)) == pairs
    # The weight of any leaf below the one on all leaves below the other.
    total = torch.einsum("hij,cj->hic", theta, blocks.below)
    first = blocks.below.argmax(1)
    assert close(pair_weight, total[:, first[target], source].T)
    assert close(self_weight, theta.diagonal(dim1=1, dim2=2).T)


@pytest.mark.parametrize("self_attention", [True, False])
def test_weights_stay_finite_at_scores_of_ten_thousand(self_attention):
    parent = torch.tensor([-1, 0, 0, 0, 1, 1, 1, 2, 2, 6, 6, -1])
    hierarchy = SignalHierarchy.from_parents(parent)
    q, k, _ = inputs(hierarchy, 2, 4)
    q, k = (x.sign().requires_grad_() for x in (q, k))
    weights = family_weights(
        100 * q, 100 * k, hierarchy, self_attention=self_attention, scale=1.0
    )
    assert weights.pair_weight.isfinite().all()
    assert weights.self_weight.isfinite().all()
    loss = weights.pair_weight.square().sum() + weights.self_weight.square().sum()
    for grad in torch.autograd.grad(loss, (q, k)):
        assert grad.isfinite().all()


def test_gradients_of_weights():
    hierarchy = SignalHierarchy.from_parents(torch.tensor([-1, 0, 0, 1, 1, 2, 2, 0]))
    q, k, _ = (x.requires_grad_() for x in inputs(hierarchy, 1, 2))
    position = positions(hierarchy, 1).requires_grad_()

    def function(q, k, position):
        weights = family_weights(q, k, hierarchy, position=position)
        return weights.pair_weight, weights.self_weight

    assert torch.autograd.gradcheck(function, (q, k, position), fast_mode=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda q, k, eps: (q[:3], k[:3], eps), "q has 3 rows, .* has 5 leaves"),
        (
            lambda q, k, eps: (q, k[:, :1], eps),
            r"q \(5, 2, 3\) and k \(5, 1, 3\) must have the same shape",
        ),
        (
            lambda q, k, eps: (q, k, eps[:, 0]),
            r"position must have shape \[8, 1 or 2, P\], got \(8, 2\)",
        ),
        (lambda q, k, eps: (q, k, eps[1:]), r"\[8, 1 or 2, P\], got \(7, 2, 2\)"),
    ],
)
def test_shapes_that_do_not_fit(change, message):
    hierarchy = SignalHierarchy.from_parents(torch.tensor([-1, 0, 0, 1, 1, 2, 2, 0]))
    q, k, _ = inputs(hierarchy)
    q, k, position = change(q, k, positions(hierarchy, 2))
    with pytest.raises(ValueError, match=message):
        family_weights(q, k, hierarchy, position=position)
