"""Batching, un-batching and storing by PyG's own code."""

import random

import pytest
import torch
from torch_geometric.data import Batch, HeteroData, InMemoryDataset
from torch_geometric.loader import DataLoader

from hsa_pyg.data import NestedSignal, unify

PICTURE = ("picture", "child_of", "page")


@pytest.fixture
def unlike(make_page):
    return [
        make_page(words=3),
        make_page(words=1, pictures=2),
        make_page(pictures=1),
        make_page(words=2),
    ]


@pytest.mark.parametrize("seed", range(5))
def test_01_the_stock_loader_keeps_all_nodes_of_complete_signals(unlike, same, seed):
    signals = unify(unlike)
    random.Random(seed).shuffle(signals)
    (batch,) = DataLoader(signals, batch_size=4)
    assert batch["picture"].num_nodes == 3
    assert batch["word"].num_nodes == 6
    assert set(batch.keys()) == {"num_nodes", "x", "y", "edge_index", "batch", "ptr"}
    assert set(batch.node_types) == {"page", "word", "picture"}
    for index, signal in enumerate(signals):
        assert same(batch[index], signal)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_01_the_stock_loader_refuses_a_plain_list_of_unlike_signals(unlike, order):
    first, later = order
    message = (
        rf"sample {later} has type 'picture', which sample {first} lacks.*"
        r"hsa_pyg\.data\.unify.*hsa_pyg\.loader\.DataLoader"
    )
    with pytest.raises(ValueError, match=message):
        list(DataLoader([unlike[index] for index in order], batch_size=2))


def test_02_an_in_memory_data_set_stores_samples_that_lack_types(
    tmp_path, unlike, same
):
    signals = unify([unlike[0], unlike[2], unlike[1]])
    path = str(tmp_path / "pages.pt")
    InMemoryDataset.save(signals, path)
    dataset = InMemoryDataset()
    dataset.load(path)
    assert len(dataset) == 3
    for index, signal in enumerate(signals):
        assert same(dataset[index], signal)
    assert [sample.y.item() for sample in dataset[[2, 0]]] == [1, 3]


def test_02_an_in_memory_data_set_refuses_unlike_samples(tmp_path, unlike):
    with pytest.raises(ValueError, match="sample 1 has type 'picture'"):
        InMemoryDataset.save(unlike[:2], str(tmp_path / "pages.pt"))


def test_03_a_type_that_holds_only_num_nodes_batches_and_unbatches(same):
    signals = []
    for sections in (2, 0, 5):
        signal = NestedSignal()
        signal["page"].num_nodes = 1
        signal["section"].num_nodes = sections
        signals.append(signal)
    batch = Batch.from_data_list(signals)
    assert batch["section"].num_nodes == 7
    assert batch["section"].batch.tolist() == [0, 0, 2, 2, 2, 2, 2]
    assert batch["section"].ptr.tolist() == [0, 2, 2, 7]
    for index, signal in enumerate(signals):
        assert same(batch[index], signal)
    assert dict(signals[0]["section"].items()) == {"num_nodes": 2}


def test_03_a_type_that_holds_only_num_nodes_saves_and_loads(tmp_path, make_page, same):
    signals = [make_page(words=1), make_page(words=4)]
    path = str(tmp_path / "pages.pt")
    InMemoryDataset.save(signals, path)
    dataset = InMemoryDataset()
    dataset.load(path)
    for index, signal in enumerate(signals):
        assert same(dataset[index], signal)
    (batch,) = DataLoader(dataset, batch_size=2)
    assert batch["page"].num_nodes == 2


def test_04_empty_types_and_edge_types_keep_their_shapes_in_a_batch(make_page):
    empty = unify([make_page(words=2), make_page(pictures=1)])[:1]
    batch = Batch.from_data_list(empty * 3)
    assert batch["picture"].x.shape == (0, 4)
    assert batch[PICTURE].edge_index.shape == (2, 0)
    assert batch["picture"].ptr.tolist() == [0, 0, 0, 0]
    assert batch.hierarchy.leaf_slices["picture"] == (6, 6)
    assert batch.hierarchy.leaf_tree.tolist() == [0, 0, 1, 1, 2, 2]


def test_17_present_absent_present_keeps_labels_and_parents_right(make_page):
    signals = unify([make_page(pictures=1), make_page(words=2), make_page(pictures=1)])
    batch = Batch.from_data_list(signals)
    assert batch["picture"].batch.tolist() == [0, 2]
    assert batch[PICTURE].edge_index.tolist() == [[0, 1], [0, 2]]
    assert batch.validate()


def test_18_an_attribute_in_some_samples_only_is_loud_in_the_stock_loader(make_page):
    placed, plain = make_page(words=2), make_page(words=2)
    placed["word"].pos = torch.rand(2, 1)
    for pair in ([placed, plain], [plain, placed]):
        with pytest.raises(ValueError, match="attribute 'pos' of type 'word' is in"):
            Batch.from_data_list(pair)


def test_18_a_dtype_that_differs_is_loud_in_the_stock_loader(make_page):
    odd = make_page(pictures=2)
    odd["picture"].x = odd["picture"].x.double()
    message = "'x' of type 'picture' is .*float32 in sample 0 but .*float64 in sample 1"
    with pytest.raises(ValueError, match=message):
        Batch.from_data_list([make_page(pictures=1), odd])


def test_18_a_type_of_unknown_size_is_loud_in_the_stock_loader(make_page):
    good, odd = make_page(words=1), make_page(words=1)
    del odd["page"].num_nodes
    with pytest.raises(ValueError, match="sample 1: type 'page' has neither 'x' nor"):
        Batch.from_data_list([good, odd])


def test_a_count_stored_in_some_samples_only_is_loud(make_page):
    counted = make_page(words=2)
    counted["word"].num_nodes = 2
    message = "'word' stores 'num_nodes' in sample 1 but not in sample 0"
    with pytest.raises(ValueError, match=message):
        Batch.from_data_list([make_page(words=1), counted])


def test_31_a_sample_is_taken_out_of_a_batch_without_constructor_arguments(
    make_page, same
):
    class Page(NestedSignal):
        pass

    signals = [Page.from_dict(make_page(words=n).to_dict()) for n in (1, 2)]
    batch = Batch.from_data_list(signals)
    assert type(batch[1]) is Page
    assert same(batch[1], signals[1])


def test_31_a_sample_holds_no_tensor_but_its_own_attributes(make_page):
    page = make_page(words=2)
    tensors = [
        value
        for store in page.stores
        for _, value in store.items()
        if isinstance(value, torch.Tensor)
    ]
    assert len(tensors) == 3  # words, edges, label


def test_a_batch_without_excluded_attributes_still_comes_apart(make_page):
    signals = [make_page(words=2), make_page(words=1)]
    batch = Batch.from_data_list(signals, exclude_keys=["x", "y"])
    assert batch[1]["page"].num_nodes == 1
    assert "x" not in batch[0]["word"]
    # The leaves are known from the samples.
    assert batch.hierarchy.num_leaves == 3


def test_followed_attributes_get_their_batch_vector(make_page):
    signals = [make_page(words=2), make_page(words=1)]
    batch = Batch.from_data_list(signals, follow_batch=["x"])
    assert batch["word"].x_batch.tolist() == [0, 0, 1]


def test_batches_are_not_batched_again(make_page):
    batch = Batch.from_data_list([make_page(words=1)] * 2)
    with pytest.raises(ValueError, match="cannot be batched once more"):
        Batch.from_data_list([batch, batch])


def test_dictionaries_and_tuples_show_no_more_than_plain_hetero_data(make_page):
    page = make_page(words=2)
    plain = HeteroData.from_dict(page.to_dict())
    assert page.to_dict().keys() == plain.to_dict().keys()
    assert sorted(page.keys()) == sorted(plain.keys())
    assert page.to_namedtuple()._fields == plain.to_namedtuple()._fields


def test_a_batch_keeps_one_schema_for_all_its_samples(make_page):
    batch = Batch.from_data_list([make_page(words=n) for n in (1, 2, 3)])
    schemas = batch.to_dict()["_global_store"]["_schema"]
    assert len(schemas) == 3
    assert all(schema is schemas[0] for schema in schemas)
