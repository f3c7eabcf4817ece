import pytest
import torch
from torch_geometric.loader import DataLoader

from hsa_pyg.datasets.fake import FakeNestedDataset


def test_equal_seeds_give_equal_data_and_leave_the_global_generator_alone():
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    first, second = (FakeNestedDataset(5, seed=3) for _ in range(2))
    assert torch.equal(torch.rand(1), expected)
    for mine, other in zip(first, second, strict=True):
        assert torch.equal(mine["word"].x, other["word"].x)
        assert torch.equal(mine.hierarchy.parent, other.hierarchy.parent)
    other = FakeNestedDataset(5, seed=4)
    assert any(
        a.hierarchy.num_nodes != b.hierarchy.num_nodes
        for a, b in zip(first, other, strict=True)
    )


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_trees_are_valid_and_as_deep_and_wide_as_asked_for(depth):
    dataset = FakeNestedDataset(20, depth=depth, branching=3, shallow=0.1)
    for signal in dataset:
        assert signal.validate()
        assert signal.hierarchy.num_roots == 1
        assert signal.hierarchy.num_leaves > 0
    assert max(signal.hierarchy.max_depth for signal in dataset) == depth
    assert max(signal.hierarchy.max_branching for signal in dataset) == 3


def test_leaves_lie_at_unequal_depths_unless_shallow_is_zero():
    def leaf_depths(dataset):
        return {
            depth
            for signal in dataset
            for depth in signal.hierarchy.depth[signal.hierarchy.leaves].tolist()
        }

    assert leaf_depths(FakeNestedDataset(20, depth=3, shallow=0.3)) == {1, 2, 3}
    assert leaf_depths(FakeNestedDataset(20, depth=3, shallow=0.0)) == {3}


def test_leaf_types_have_the_features_asked_for():
    dataset = FakeNestedDataset(
        10, vocab_sizes={"word": 20}, in_channels={"image": 5, "sound": 2}
    )
    assert dataset.schema.leaf_types == ["word", "image", "sound"]
    tokens = torch.cat([signal["word"].x for signal in dataset])
    assert tokens.dtype == torch.long
    assert 0 <= int(tokens.min()) <= int(tokens.max()) < 20
    assert dataset[0]["image"].x.shape[1:] == (5,)
    assert dataset[0]["sound"].x.shape[1:] == (2,)


def test_pos_is_the_place_among_the_siblings():
    for signal in FakeNestedDataset(5, depth=3):
        kinds = [kind for kind in signal.node_types if kind != "root"]
        pos = torch.cat([signal[kind].pos for kind in kinds]).view(-1)
        parent = signal.hierarchy.parent[1:]
        for family in parent.unique():
            places = pos[parent == family].sort().values
            assert torch.equal(places, torch.arange(places.numel()).float())


def test_missing_types_are_absent_from_some_samples_but_never_all_from_one():
    dataset = FakeNestedDataset(40, missing=0.5, seed=2)
    words = torch.tensor([signal["word"].num_nodes for signal in dataset])
    pictures = torch.tensor([signal["picture"].num_nodes for signal in dataset])
    assert 0 < int((words == 0).sum()) < 40
    assert 0 < int((pictures == 0).sum()) < 40
    assert bool((words + pictures > 0).all())
    extreme = FakeNestedDataset(10, missing=1.0)
    assert all(signal.hierarchy.num_leaves > 0 for signal in extreme)


def test_empty_nodes_are_there_when_asked_for():
    assert all(signal.hierarchy.num_empty == 0 for signal in FakeNestedDataset(10))
    dataset = FakeNestedDataset(20, empty=0.4)
    assert sum(signal.hierarchy.num_empty for signal in dataset) > 0
    assert all(signal.hierarchy.num_leaves > 0 for signal in dataset)


def test_02_the_stock_loader_batches_samples_that_lack_types():
    dataset = FakeNestedDataset(30, missing=0.5, empty=0.2, seed=5)
    assert {signal.schema == dataset.schema for signal in dataset} == {True}
    (batch,) = DataLoader(dataset, batch_size=30)
    assert batch.validate()
    leaves = sum(signal.hierarchy.num_leaves for signal in dataset)
    assert batch.hierarchy.num_leaves == leaves


@pytest.mark.parametrize("kind", ["word", "picture"])
def test_each_leaf_type_tells_the_label(kind):
    dataset = FakeNestedDataset(200, num_classes=3, seed=1)
    x, y = [], []
    for signal in dataset:
        leaves = signal[kind].x
        if leaves.size(0) > 3:
            one_hot = (
                torch.nn.functional.one_hot(leaves % 3, 3) if kind == "word" else leaves
            )
            x.append(one_hot.float().mean(0))
            y.append(signal.y)
    x, y = torch.stack(x), torch.cat(y)
    half = len(x) // 2
    centre = torch.stack([x[:half][y[:half] == c].mean(0) for c in range(3)])
    guess = torch.cdist(x[half:], centre).argmin(1)
    assert float((guess == y[half:]).float().mean()) > 0.8


def test_a_transform_is_applied_on_access():
    def mark(signal):
        signal.seen = True
        return signal

    assert FakeNestedDataset(2, transform=mark)[0].seen


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"depth": 0}, "depth must be at least 1, got 0"),
        ({"num_samples": 0}, "num_samples must be at least 1"),
        ({"vocab_sizes": {"word": 1}}, r"vocab_sizes\['word'\] must be at least 2"),
        ({"missing": 1.5}, "missing is a chance between 0 and 1, got 1.5"),
    ],
)
def test_impossible_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        FakeNestedDataset(**arguments)
