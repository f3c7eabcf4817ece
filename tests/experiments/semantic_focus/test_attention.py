import pytest
import torch

from hsa_pyg import hierarchical_attention
from hsa_pyg.experiments.semantic_focus.attention import (
    DenseAttention,
    TreeAttention,
    draw_dropped,
)
from hsa_pyg.experiments.semantic_focus.dropping import Dropper
from hsa_pyg.experiments.semantic_focus.sequences import window_tree
from hsa_pyg.hierarchy import SignalHierarchy
from hsa_pyg.ops.patterns import banded, blocklocal


def hierarchy(windows=()):
    tree = torch.from_numpy(window_tree(20, windows))
    trees = [torch.where(tree < 0, -1, tree + i * tree.numel()) for i in range(3)]
    return SignalHierarchy.from_parents(torch.cat(trees))


CASES = [
    (DenseAttention(3, 20), (), {}),
    (DenseAttention(3, 20, banded(5, 1)), (), {"pattern": banded(5, 1)}),
    (DenseAttention(3, 20, blocklocal(5, 3)), (), {"pattern": blocklocal(5, 3)}),
    (
        TreeAttention(hierarchy([4]), top_k=3),
        [4],
        {"top_k": 3, "top_k_includes_self": True},
    ),
    (TreeAttention(hierarchy([5, 2])), [5, 2], {}),
]


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("case", range(len(CASES)))
def test_it_is_hierarchical_attention(case, heads):
    attention, windows, options = CASES[case]
    torch.manual_seed(case)
    qkv = torch.randn(60, 3 * heads * 64, requires_grad=True)
    q, k, v = qkv.view(60, 3, heads, 64).unbind(1)
    expected = hierarchical_attention(q, k, v, hierarchy(windows), **options)
    with torch.no_grad():
        found, kept = attention.forward(qkv, None)
        torch.testing.assert_close(found, expected.flatten(1), rtol=0, atol=1e-5)
        grad = torch.randn_like(found)
        mine = attention.backward(grad, qkv, kept, None)
    (theirs,) = torch.autograd.grad(expected.flatten(1), qkv, grad)
    torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-5)


def test_dropout_needs_places_only_where_weights_are_at_hand():
    assert DenseAttention(3, 20).num_weights(2) == 3 * 2 * 400
    assert TreeAttention(hierarchy()).num_weights(2) == 0


def test_kernels_drop_other_weights_in_each_block_and_step():
    dropper = Dropper(0.5, torch.Generator().manual_seed(0))
    attention = TreeAttention(hierarchy([5]), dropout=0.5)
    _, first = draw_dropped(dropper, attention, (60, 64, 2), 1)
    _, second = draw_dropped(dropper, attention, (60, 64, 2), 1)
    seeds = [dropped.seed for dropped in (*first, *second)]
    assert len(set(seeds)) == 4
    qkv = torch.randn(60, 3 * 64)
    one, other = (attention.forward(qkv, dropped)[0] for dropped in first)
    assert not torch.equal(one, other)
    assert torch.equal(one, attention.forward(qkv, first[0])[0])
