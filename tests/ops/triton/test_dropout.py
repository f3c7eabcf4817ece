"""Dropout in the kernels: what the forward pass drops, the backward pass drops."""

import pytest
import torch

from hsa_pyg import hierarchical_attention
from tests.differentiation import tensors_for
from tests.forests import star
from tests.ops.triton.agreement import mixed_family, tree


def dropped(tensors, hierarchy, seed=0, dropout=0.4):
    torch.manual_seed(seed)
    return hierarchical_attention(
        *tensors, hierarchy, dropout=dropout, backend="triton"
    )


@pytest.mark.parametrize("name", ["leaf-only", "mixed", "several tiles", "tree"])
def test_gradients_by_finite_differences(name, device):
    parent = {
        "leaf-only": star(4),
        "mixed": mixed_family(4),
        "several tiles": star(66),
        "tree": torch.tensor([-1]),
    }[name]
    hierarchy = tree(parent).to(device)
    tensors = [x.to(device).requires_grad_() for x in tensors_for(hierarchy, 1, 2, 2)]

    def function(q, k, v):
        return dropped((q, k, v), hierarchy)

    assert torch.autograd.gradcheck(function, tensors, fast_mode=True)


def test_weights_are_dropped_or_enlarged(device):
    """Of 24 x 24 pairs of four heads; values are a basis, so that y shows weights."""
    hierarchy = tree(star(24)).to(device)
    q, k, _ = (x.to(device) for x in tensors_for(hierarchy, 4, 3, 2))
    v = torch.eye(24, dtype=torch.float64, device=device)[:, None].expand(-1, 4, -1)
    ratio = dropped((q, k, v), hierarchy) / dropped((q, k, v), hierarchy, dropout=0.0)
    kept = ratio > 0
    assert torch.allclose(ratio[kept], torch.tensor(1 / 0.6).to(ratio))
    assert abs(float(kept.double().mean()) - 0.6) < 0.03
    heads = kept.permute(1, 0, 2).flatten(1).double()
    together = torch.corrcoef(heads) - torch.eye(4, device=device)
    assert float(together.abs().max()) < 0.15
    other = dropped((q, k, v), hierarchy, seed=1)
    assert not torch.equal(other > 0, kept)
