import pytest
import torch
from torch_geometric.loader import DataLoader

from hsa_pyg.datasets import ListOps
from tests.nested_lists import flatten, list_value, nested_list, parsed_lists


@pytest.mark.parametrize("brackets", [True, False])
def test_trees_are_worked_out_along_their_edges(brackets):
    dataset = ListOps(
        num_samples=40, length=(50, 90), hierarchy="tree", brackets=brackets
    )
    flat = ListOps(num_samples=40, length=(50, 90))
    for index, signal in enumerate(dataset):
        assert signal.validate()
        (tree,) = nested_list(signal, dataset.token_names)
        assert list_value(tree) == signal.y.item()
        assert list_value(parsed_lists(flat.text(index))) == signal.y.item()
        assert tree[0] in ("[MIN", "[MAX", "[MED", "[SM")
        text = flat.text(index) if brackets else flat.text(index).replace(" ]", "")
        assert " ".join(flatten(tree)) == dataset.text(index) == text
    # A closing bracket is the last leaf of its operator's node.
    assert (tree[-1] == "]") is brackets


def test_the_papers_data_have_500_to_600_tokens():
    dataset = ListOps("val", num_samples=60, log=False)
    sizes = torch.tensor([signal["token"].num_nodes for signal in dataset])
    assert int(sizes.min()) > 500
    assert int(sizes.max()) < 600
    assert (dataset.vocab_size, dataset.num_classes) == (16, 10)


def test_long_range_arenas_own_lengths_are_possible():
    dataset = ListOps(num_samples=20, length=(500, 2000), log=False)
    sizes = [signal["token"].num_nodes for signal in dataset]
    assert min(sizes) > 500
    assert 600 < max(sizes) < 2000


def test_equal_arguments_give_equal_data_and_others_do_not():
    def texts(**arguments):
        dataset = ListOps(length=(40, 60), **{"num_samples": 15, **arguments})
        return [dataset.text(index) for index in range(15)]

    first = texts()
    assert texts() == first
    assert texts(num_samples=900) == first
    for changed in ({"seed": 1}, {"split": "val"}, {"split": "test"}):
        assert not set(first) & set(texts(**changed))


def test_the_data_are_the_same_on_every_machine():
    dataset = ListOps(num_samples=1, length=(10, 20))
    assert dataset.text(0) == "[MED 1 7 [MED 0 8 [SM 8 0 6 2 8 2 4 ] ] 0 5 ]"


def test_padding_to_the_longest_makes_all_equally_long():
    dataset = ListOps(num_samples=10, length=(20, 40), pad_to=39, pad_multiple=9)
    batch = next(iter(DataLoader(dataset, batch_size=10)))
    assert batch["token"].x.numel() == 10 * 45
    assert int(batch["token"].x.max()) == 15
    assert batch.validate()


def test_depth_one_has_digits_alone_which_are_trees_too():
    dataset = ListOps(num_samples=5, length=(0, 9), max_depth=1, hierarchy="tree")
    for signal in dataset:
        assert signal.y.tolist() == signal["token"].x.tolist()
        assert signal.schema == dataset.schema


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"length": (500, 501)}, r"length=\(500, 501\) has no length between"),
        ({"max_depth": 0}, "max_depth must be at least 1, got 0"),
        ({"max_args": 1}, "max_args must be at least 2, got 1"),
        ({"pad_to": 590}, "pad_to=590 is too short.* up to 599 tokens"),
        ({"num_samples": 0}, "num_samples must be at least 1, got 0"),
    ],
)
def test_impossible_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        ListOps(**arguments)
