"""The weight of a leaf on itself, where no softmax of a leaf-only family holds it."""

import pytest
import torch

from hsa_pyg import hierarchical_attention
from tests.forests import side_by_side, star
from tests.ops.triton.agreement import mixed_family, tree

ALONE = torch.full((64,), -1)
MIXED = side_by_side(*[mixed_family(3)] * 5)[0]


def own_weights(parent, device, dropout, **keywords):
    """What each leaf takes of its own value: [N, H]."""
    hierarchy = tree(parent).to(device)
    number = hierarchy.num_leaves
    q = torch.zeros(number, 4, 2, dtype=torch.float64, device=device)
    v = torch.eye(number, dtype=torch.float64, device=device)
    v = v[:, None].expand(-1, 4, -1)
    torch.manual_seed(0)
    y = hierarchical_attention(
        q, q, v, hierarchy, dropout=dropout, backend="triton", **keywords
    )
    return y.diagonal(dim1=0, dim2=2).T


@pytest.mark.parametrize("name", ["alone", "mixed"])
def test_it_is_dropped_or_scaled_up(name, device):
    parent = ALONE if name == "alone" else MIXED
    full = own_weights(parent, device, 0.0)
    found = own_weights(parent, device, 0.4)
    kept = found != 0
    assert torch.allclose(found[kept], full[kept] / 0.6)
    share = kept[full != 0].double().mean()
    assert abs(float(share) - 0.6) < 0.12
    assert not torch.equal(kept[:, 0], kept[:, 1])


def test_there_is_none_without_self_attention(device):
    for parent in (ALONE[:3], mixed_family(3), star(3)):
        assert not own_weights(parent, device, 0.0, self_attention=False).any()
