import math

import pytest
import torch
from torch_geometric.data import Batch

from hsa_pyg import SignalHierarchy
from hsa_pyg.experiments.models.segments import (
    Groups,
    Segments,
    grouped_attention,
    segments_by_depth,
    segments_by_type,
    segments_by_window,
)

#: Leaves 3, 4 below 1; 6, 7 below 5 below 2; 8 below 0; and a tree 9 of 10 and 11.
PARENT = torch.tensor([-1, 0, 0, 1, 1, 2, 5, 5, 0, -1, 9, 9])


@pytest.fixture
def forest():
    return SignalHierarchy.from_parents(PARENT)


def sets(segments, leaves):
    """The segments as sets of leaves."""
    return {
        tuple(leaves[segments.of_leaf == s].tolist()) for s in range(segments.number)
    }


def test_nodes_at_a_depth(forest):
    one = segments_by_depth(forest, 1)
    assert sets(one, forest.leaves) == {(3, 4), (6, 7), (8,), (10, 11)}
    two = segments_by_depth(forest, 2)
    assert sets(two, forest.leaves) == {(3, 4), (6, 7), (8,), (10, 11)}
    assert sets(segments_by_depth(forest, 9), forest.leaves) == sets(two, forest.leaves)
    assert one.tree[one.of_leaf].tolist() == forest.leaf_tree.tolist()
    with pytest.raises(ValueError, match="depth of at least 1, got 0"):
        segments_by_depth(forest, 0)


def test_nodes_of_a_type(samples):
    batch = Batch.from_data_list(samples)
    h = batch.hierarchy
    segments = segments_by_type(h, "sentence")
    token = h.leaf_slices["token"]
    owner = batch["token", "child_of", "sentence"].edge_index[1]
    of = segments.of_leaf[slice(*token)]
    same = owner[:, None] == owner
    assert torch.equal(of[:, None] == of, same)
    # Pictures have no sentence above them; those of a document are one segment.
    image = segments.of_leaf[slice(*h.leaf_slices["image"])].tolist()
    assert image[0] == image[1] != image[2]
    assert segments.tree[segments.of_leaf].tolist() == h.leaf_tree.tolist()
    by_paragraph = segments_by_type(h, "paragraph")
    assert segments.number > by_paragraph.number
    with pytest.raises(ValueError, match=r"one of .*'sentence'.*, got 'token'"):
        segments_by_type(h, "token")


def test_windows(forest):
    segments = segments_by_window(forest, 2)
    assert sets(segments, forest.leaves) == {(3, 4), (6, 7), (8,), (10, 11)}
    assert segments.tree.tolist() == [0, 0, 0, 1]
    assert segments_by_window(forest, 99).number == 2
    assert segments_by_window(forest, 1).of_leaf.tolist() == list(range(7))
    with pytest.raises(ValueError, match="at least 1 leaf, got 0"):
        segments_by_window(forest, 0)


def test_windows_of_several_types_of_leaves_stay_in_their_trees(samples):
    h = Batch.from_data_list(samples).hierarchy
    segments = segments_by_window(h, 3)
    assert segments.tree[segments.of_leaf].tolist() == h.leaf_tree.tolist()
    sizes = torch.bincount(segments.of_leaf)
    assert sizes.max() == 3
    assert segments.number == sum(
        math.ceil(n / 3) for n in torch.bincount(h.leaf_tree).tolist()
    )


def test_a_root_that_is_a_leaf_is_a_segment():
    lone = SignalHierarchy.from_parents(torch.tensor([-1, -1, 1]))
    assert segments_by_depth(lone, 1).of_leaf.tolist() == [0, 1]


def test_means_of_segments():
    segments = Segments(torch.tensor([0, 1, 1]), torch.tensor([0, 0]), 1)
    x = torch.tensor([[1.0], [2.0], [4.0]])
    assert segments.mean(x).tolist() == [[1.0], [3.0]]
    assert segments.within.leaf_tree.tolist() == [0, 1, 1, 0, 1]
    assert segments.across.num_trees == 1


@pytest.fixture
def rows():
    group = torch.tensor([2, 0, 2, 2, 0, 4, 2, 1, 1, 1, 2])
    q, k, v, position = (
        torch.randn(11, 2, 3, dtype=torch.float64, requires_grad=True) for _ in range(4)
    )
    return q, k, v, Groups(group, 6), position


def literally(q, k, v, groups, position=None):
    scores = torch.einsum("ihd,jhd->hij", q, k) / math.sqrt(q.size(-1))
    if position is not None:
        scores = scores + torch.einsum("ihd,jhd->hij", position, position)
    apart = groups.leaf_tree[:, None] != groups.leaf_tree
    weights = scores.masked_fill(apart, -math.inf).softmax(-1)
    return torch.einsum("hij,jhd->ihd", weights, v)


@pytest.mark.parametrize("places", [False, True])
def test_attention_is_that_of_the_definition(rows, places):
    q, k, v, groups, position = rows
    position = position if places else None
    given = [x for x in (q, k, v, position) if x is not None]
    results = []
    for attend in (grouped_attention, literally):
        out = attend(q, k, v, groups, position=position)
        results.append([out, *torch.autograd.grad(out.square().sum(), given)])
    torch.testing.assert_close(*results)


def test_gradients_are_those_of_differences(rows):
    q, k, v, groups, position = rows
    assert torch.autograd.gradcheck(
        lambda *x: grouped_attention(*x[:3], groups, position=x[3]), (q, k, v, position)
    )


def test_no_rows():
    none = torch.zeros(0, 2, 3)
    groups = Groups(torch.zeros(0, dtype=torch.long), 3)
    assert grouped_attention(none, none, none, groups).shape == (0, 2, 3)


def test_dropout_keeps_the_mean(rows):
    q, k, v, groups, _ = (x.detach() if torch.is_tensor(x) else x for x in rows)
    kept = grouped_attention(q, k, v, groups)
    outs = [grouped_attention(q, k, v, groups, dropout=0.5) for _ in range(500)]
    assert not torch.equal(outs[0], kept)
    torch.testing.assert_close(torch.stack(outs).mean(0), kept, atol=0.3, rtol=0)
