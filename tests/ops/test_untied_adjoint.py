"""Gradients of untied queries under dropout: what was dropped stays dropped."""

import pytest
import torch

from hsa_pyg import SignalHierarchy, hierarchical_attention
from tests.dense_theta import measured_theta
from tests.forests import inputs, positions, random_parents, regular, star

TREES = {
    "one leaf": torch.tensor([-1]),
    "random": random_parents(14, 3),
    "beyond a run": star(70),
}


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("self_attention", [True, False])
@pytest.mark.parametrize("name", TREES)
def test_gradients_by_finite_differences(name, self_attention, causal):
    """Of queries, keys and positions too: their gradients know of what was dropped."""
    hierarchy = SignalHierarchy.from_parents(TREES[name])
    tensors = [
        x.requires_grad_()
        for x in (*inputs(hierarchy, 1, 2, 2), positions(hierarchy, 1))
    ]

    def attend(q, k, v, position):
        torch.manual_seed(3)
        return hierarchical_attention(
            q,
            k,
            v,
            hierarchy,
            position=position,
            self_attention=self_attention,
            tie_queries=False,
            causal=causal,
            dropout=0.4,
            return_energy=self_attention,
        )

    assert torch.autograd.gradcheck(attend, tensors, fast_mode=True)


def test_levels_and_families_are_dropped_independently():
    """Families of eight below a family of eight: patterns of one shape, two draws."""
    hierarchy = SignalHierarchy.from_parents(regular(8, 2))
    q, k, _ = inputs(hierarchy, heads=1)
    torch.manual_seed(0)
    kept = measured_theta(q, k, hierarchy, tie_queries=False, dropout=0.5)[0] > 0
    family = torch.arange(64) // 8
    leaf, other = torch.meshgrid(torch.arange(64), torch.arange(8), indexing="ij")
    inside = kept[leaf, 8 * family[:, None] + other]
    across = kept[leaf, 8 * other]
    seen = (other != leaf % 8) & (other != family[:, None])
    equal = (inside == across)[seen].double().mean()
    assert abs(float(equal) - 0.5) < 0.15
    patterns = inside.view(8, 8, 8)
    assert patterns.flatten(1).unique(dim=0).size(0) == 8
