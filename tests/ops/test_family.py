"""Families are cut into tiles and runs, and their weights are dropped at random."""

import pytest
import torch

from hsa_pyg import SignalHierarchy, hierarchical_attention
from hsa_pyg.ops import family
from tests.dense_theta import Blocks, measured_theta
from tests.forests import close, inputs, positions, random_parents, regular

# Leaf-only and mixed families, a leaf that is a tree.
UNEVEN = torch.tensor([-1, 0, 0, 0, 1, 1, 1, 2, 2, 6, 6, -1])


def test_tiles_cover_each_family_once(monkeypatch):
    monkeypatch.setattr(family, "_CPU_TILE", 64)
    hierarchy = SignalHierarchy.from_parents(random_parents(200, seed=0, reach=9))
    layout, found = hierarchy.layout, []
    spare = {False: hierarchy.num_leaves, True: layout.entity_node.numel() - 1}
    for mixed in (False, True):
        kind = list(family.tiles(layout, mixed, spare[mixed], channels=8))
        assert [tile.number for tile in kind] == list(range(len(kind)))
        found += [tile.family for tile in kind]
        members = torch.cat([tile.target for tile in kind])
        members = members[members != spare[mixed]]
        assert members.unique().numel() == members.numel()
    assert torch.cat(found).sort().values.tolist() == list(
        range(layout.internal_node.numel())
    )


def test_padding_reads_a_member_of_its_family_and_writes_the_spare_row():
    sizes = [6, 5, 4, 6]
    parent = [-1, 0, 0, 0, 0] + [1 + i for i, n in enumerate(sizes) for _ in range(n)]
    hierarchy = SignalHierarchy.from_parents(torch.tensor(parent))
    (tile,) = family.tiles(hierarchy.layout, False, hierarchy.num_leaves, channels=8)
    assert tile.width == 6
    assert sorted(tile.sizes().view(-1).tolist()) == sorted(sizes)
    grid = tile.member.view(4, 6)
    padded = ~tile.real
    assert torch.equal(grid[padded], grid[:, :1].expand(-1, 6)[padded])
    assert (tile.target.view(4, 6)[padded] == hierarchy.num_leaves).all()
    x = torch.randn(hierarchy.num_leaves, 2, 3)
    loaded = tile.load(x, torch.float32)
    out = x.new_zeros(hierarchy.num_leaves + 1, 2, 3)
    tile.store(out, loaded)
    assert torch.equal(out[:-1], x)
    whose = hierarchy.parent[hierarchy.leaves] - 1
    expected = torch.zeros(4, 2, 3).index_add_(0, whose, x)
    owners = hierarchy.layout.internal_node[tile.family] - 1
    assert close(tile.total(loaded), expected[owners], 1e-6)


def dropped_theta(dropout, seed, parent=UNEVEN, **keywords):
    hierarchy = SignalHierarchy.from_parents(parent)
    q, k, _ = inputs(hierarchy)
    torch.manual_seed(seed)
    return hierarchy, measured_theta(q, k, hierarchy, dropout=dropout, **keywords)


@pytest.mark.parametrize("self_attention", [True, False])
@pytest.mark.parametrize("backend", ["torch", "reference"])
def test_a_block_is_dropped_or_scaled_up_as_a_whole(backend, self_attention):
    keywords = {"self_attention": self_attention, "backend": backend}
    hierarchy, full = dropped_theta(0.0, 0, **keywords)
    blocks = Blocks(hierarchy)
    kept = dropped = 0
    for seed in range(10):
        _, theta = dropped_theta(0.4, seed, **keywords)
        alive = theta != 0
        assert close(theta[alive], full[alive] / 0.6)
        for b, c in blocks.siblings.nonzero().tolist():
            rows, columns = blocks.below[b] > 0, blocks.below[c] > 0
            block = alive[:, rows][:, :, columns].flatten(1)
            assert torch.equal(block.all(1), block.any(1))
        kept += int(alive.sum())
        dropped += int((~alive & (full != 0)).sum())
    assert 0.3 < dropped / (kept + dropped) < 0.5


@pytest.mark.parametrize("backend", ["torch", "reference"])
def test_self_weights_are_dropped_too(backend):
    """Of leaves in leaf-only families, in mixed ones, and of a leaf that is a tree."""
    _, full = dropped_theta(0.0, 0, backend=backend)
    own = torch.stack(
        [
            dropped_theta(0.5, seed, backend=backend)[1].diagonal(dim1=1, dim2=2)
            for seed in range(20)
        ]
    )
    alive = own != 0
    assert close(own[alive], 2 * full.diagonal(dim1=1, dim2=2).expand_as(own)[alive])
    assert alive.any(0).all()
    assert not alive.all(0).any()


@pytest.mark.parametrize("self_attention", [True, False])
def test_dropout_keeps_the_expectation(self_attention):
    """4,000 copies of one tree in one batch: the mean is within 5 deviations."""
    copies, p = 4000, 0.3
    one = SignalHierarchy.from_parents(UNEVEN)
    number = UNEVEN.numel()
    start = torch.arange(copies)[:, None] * number
    parent = torch.where(UNEVEN < 0, -1, UNEVEN + start).view(-1)
    many = SignalHierarchy.from_parents(parent)
    q, k, v = inputs(one, heads=1)
    position = positions(one)
    keywords = {"self_attention": self_attention}
    expected = hierarchical_attention(q, k, v, one, position=position, **keywords)
    y = hierarchical_attention(
        *(x.repeat(copies, 1, 1) for x in (q, k, v)),
        many,
        position=position.repeat(copies, 1),
        dropout=p,
        **keywords,
    ).view(copies, *expected.shape)
    deviation = y.std(0) / copies**0.5
    assert ((y.mean(0) - expected).abs() <= 5 * deviation + 1e-12).all()
    assert (deviation[:-1] > 0).all()  # the last leaf is a tree


def test_the_seed_decides():
    once, again, other = (dropped_theta(0.5, seed)[1] for seed in (1, 1, 2))
    assert torch.equal(once, again)
    assert not torch.equal(once != 0, other != 0)


def test_heads_families_and_rows_are_dropped_independently():
    _, theta = dropped_theta(0.5, 0, regular(4, 3))
    pattern = theta != 0
    assert not torch.equal(pattern[0], pattern[1])
    inside = torch.stack([pattern[0, i : i + 4, i : i + 4] for i in range(0, 64, 4)])
    assert inside.flatten(1).unique(dim=0).size(0) > 12
    assert inside.flatten(0, 1).unique(dim=0).size(0) > 8


@pytest.mark.parametrize("backend", ["torch", "reference"])
def test_no_dropout_and_all_dropped(backend):
    hierarchy = SignalHierarchy.from_parents(UNEVEN)
    q, k, v = (x.requires_grad_() for x in inputs(hierarchy))
    plain = hierarchical_attention(q, k, v, hierarchy, backend=backend)
    none = hierarchical_attention(q, k, v, hierarchy, dropout=0.0, backend=backend)
    assert torch.equal(plain, none)
    y = hierarchical_attention(q, k, v, hierarchy, dropout=1.0, backend=backend)
    assert not y.any()
    for grad in torch.autograd.grad(y.sum(), (q, k, v)):
        assert not grad.any()


@pytest.mark.parametrize("self_attention", [True, False])
def test_gradients_under_dropout(self_attention, monkeypatch):
    """The backward pass draws what the forward pass drew, over tiles and runs too."""
    monkeypatch.setattr(family, "_CPU_TILE", 64)
    monkeypatch.setattr(family, "_SCORES", 1)
    parent = torch.cat([UNEVEN, torch.tensor([3] * 20 + [5] * 3)])
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
        )

    assert torch.autograd.gradcheck(function, tensors, fast_mode=True)
