import pytest
import torch

from hsa_pyg import SignalHierarchy
from hsa_pyg.nn import FlatConv, HSAConv, flat_attention
from hsa_pyg.nn.flat_attention import bucket_trees, path_sum


def forest(*sizes: int) -> SignalHierarchy:
    """Trees of two levels with the given numbers of leaves, mixed up."""
    parents, leaf_mask = [], []
    for size in sizes:
        root = len(parents)
        parents += [-1, root, root] + [root + 1 + i % 2 for i in range(size)]
        leaf_mask += [False] * 3 + [True] * size
    parent, leaf_mask = torch.tensor(parents), torch.tensor(leaf_mask)
    order = torch.randperm(len(parents))
    place = torch.empty_like(order)
    place[order] = torch.arange(len(parents))
    above = parent[order]
    above = torch.where(above >= 0, place[above.clamp(min=0)], -1)
    return SignalHierarchy.from_parents(above, leaf_mask[order])


@pytest.mark.parametrize("self_attention", [True, False])
@pytest.mark.parametrize("sizes", [(5,), (1, 1, 2, 0), (20, 3, 19, 0, 1, 18, 3, 17)])
def test_each_tree_is_softmax_attention(sizes, self_attention):
    h = forest(*sizes)
    q, k, v = torch.randn(3, h.num_leaves, 2, 4, dtype=torch.double).requires_grad_()
    y = flat_attention(q, k, v, h, self_attention=self_attention)
    score = torch.einsum("ihd,jhd->hij", q, k) / 2
    apart = h.leaf_tree[:, None] != h.leaf_tree
    if not self_attention:
        apart = apart | torch.eye(h.num_leaves, dtype=torch.bool)
    weight = score.masked_fill(apart, -float("inf")).softmax(-1).nan_to_num()
    expected = torch.einsum("hij,jhd->ihd", weight, v)
    torch.testing.assert_close(y, expected)
    grad = torch.autograd.grad((y * v.detach().flip(0)).sum(), v)[0]
    assert grad.isfinite().all()


def test_buckets_hold_every_leaf_once_and_little_padding():
    h = forest(*torch.randint(0, 60, (80,)).tolist())
    buckets = bucket_trees(h)
    rows = torch.cat(
        [b.rows.flatten() if b.real is None else b.rows[b.real] for b in buckets]
    )
    assert torch.equal(rows.sort().values, torch.arange(h.num_leaves))
    assert sum(b.rows.numel() for b in buckets) <= 1.15 * h.num_leaves
    assert len(buckets) < 30


def test_alone_equals_batched():
    parent = torch.tensor([-1, 0, 0, 0])
    alone = SignalHierarchy.from_parents(parent)
    batch = torch.cat([parent, torch.tensor([-1] + [4] * 40)])
    together = SignalHierarchy.from_parents(batch)
    conv = FlatConv(4, 8, heads=2)
    x = torch.randn(43, 4)
    torch.testing.assert_close(conv(x, together)[:3], conv(x[:3], alone))
    # What happens in the second tree changes no bit of the first.
    other = x.clone()
    other[3:] += 100
    assert torch.equal(conv(x, together)[:3], conv(other, together)[:3])


def test_positions_are_summed_along_the_path(deep):
    position = torch.randn(13, 2, 3)
    total = path_sum(position, deep)
    for row, node in enumerate(deep.leaves.tolist()):
        expected = torch.zeros(2, 3)
        while node >= 0:
            expected += position[node]
            node = int(deep.parent[node])
        torch.testing.assert_close(total[row], expected)


def test_positions_enter_the_scores():
    h = forest(6)
    q, k, v = torch.randn(3, 6, 2, 4)
    position = torch.randn(h.num_nodes, 2, 3)
    eps = path_sum(position, h)
    score = torch.einsum("ihd,jhd->hij", q, k) / 2
    score = score + torch.einsum("ihd,jhd->hij", eps, eps)
    expected = torch.einsum("hij,jhd->ihd", score.softmax(-1), v)
    y = flat_attention(q, k, v, h, position=position)
    torch.testing.assert_close(y, expected)


def test_twins_have_the_same_parameters_and_agree_on_flat_trees():
    options = {"heads": 2, "position_dim": 4, "self_attention": False}
    hsa, flat = HSAConv(4, 8, **options), FlatConv(4, 8, **options)
    flat.load_state_dict(hsa.state_dict())
    h = SignalHierarchy.from_parents(torch.tensor([-1] + [0] * 5 + [-1] + [6] * 3))
    x, position = torch.randn(8, 4), torch.randn(10, 4)
    position[h.roots] = 0.0
    torch.testing.assert_close(
        hsa(x, h, position=position), flat(x, h, position=position)
    )


def test_dropout_is_of_attention_weights():
    h = SignalHierarchy.from_parents(torch.tensor([-1] + [0] * 50))
    q, k, v = torch.zeros(50, 1, 2), torch.zeros(50, 1, 2), torch.ones(50, 1, 2)
    y = flat_attention(q, k, v, h, dropout=0.5)
    # Means of 50 weights that are 0 or 2.
    assert y.std() > 0.05
    torch.testing.assert_close(y.mean(), torch.tensor(1.0), atol=0.1, rtol=0.0)


def test_flat_conv_has_no_sibling_weights(deep):
    with pytest.raises(NotImplementedError, match="no sibling weights"):
        FlatConv(4, 8)(torch.randn(7, 4), deep, return_attention_weights=True)


def test_repr():
    assert str(FlatConv(4, 8, heads=2)) == "FlatConv(4, 8, heads=2)"
