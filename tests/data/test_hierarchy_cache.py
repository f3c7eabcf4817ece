"""When the compiled hierarchy is kept, and when it is compiled anew."""

import copy
import io
import pickle
from multiprocessing.reduction import ForkingPickler

import pytest
import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.data import Batch

from hsa_pyg.data import NestedSignal

WORD = ("word", "child_of", "page")


@pytest.fixture
def page(make_page) -> NestedSignal:
    return make_page(words=3)


def test_a_hierarchy_is_compiled_once(page, count_compilations):
    assert page.hierarchy is page.hierarchy
    assert len(count_compilations) == 1


def test_a_batch_compiles_one_hierarchy_for_all_its_samples(
    make_page, count_compilations
):
    batch = Batch.from_data_list([make_page(words=n) for n in (1, 2, 3)])
    assert batch.hierarchy.num_trees == 3
    assert batch.hierarchy.num_leaves == 6
    assert len(count_compilations) == 1


@pytest.mark.parametrize(
    "edit",
    [
        lambda page: page[WORD].edge_index[1].fill_(1),
        lambda page: setattr(page[WORD], "edge_index", torch.tensor([[0, 1], [0, 1]])),
        lambda page: setattr(page["word"], "x", torch.arange(4)),
        lambda page: setattr(page["page"], "num_nodes", 3),
        lambda page: setattr(page["picture"], "x", torch.rand(1, 2)),
        lambda page: page.__delitem__(WORD),
    ],
    ids=["in place", "new edges", "leaf added", "node added", "type", "edges deleted"],
)
def test_an_edit_of_the_tree_compiles_it_anew(page, edit):
    page["page"].num_nodes = 2
    before = page.hierarchy
    edit(page)
    after = page.hierarchy
    fresh = NestedSignal.from_dict(page.to_dict()).hierarchy
    assert after is not before
    assert torch.equal(after.parent, fresh.parent)
    assert after.num_leaves == fresh.num_leaves


def test_an_edit_of_anything_else_keeps_the_hierarchy(page, count_compilations):
    before = page.hierarchy
    page["word"].x = page["word"].x.flip(0)
    page.y = torch.tensor([5])
    assert page.hierarchy is before
    assert len(count_compilations) == 1


def test_a_shallow_copy_starts_with_the_hierarchy_and_goes_its_own_way(page):
    before = page.hierarchy
    other = copy.copy(page)
    assert other.hierarchy is before
    other["page"].num_nodes = 2
    assert other.hierarchy.num_nodes == 5
    assert page.hierarchy is before


def test_the_hierarchy_follows_to_another_device(page, count_compilations):
    assert page.hierarchy.device.type == "cpu"
    page.to("meta")
    assert page.hierarchy.device.type == "meta"
    assert len(count_compilations) == 1


def test_a_move_to_where_it_is_keeps_the_hierarchy(page):
    before = page.hierarchy
    assert page.cpu().hierarchy is before


def test_moving_some_attributes_leaves_the_hierarchy_with_the_edges(page):
    before = page.hierarchy
    page.to("meta", "x")
    assert page.hierarchy is before


def test_15_the_hierarchy_is_pinned_with_its_batch(
    page, count_compilations, monkeypatch
):
    pinned: list[Tensor] = []

    def pin(tensor: Tensor) -> Tensor:
        pinned.append(tensor.clone())
        return pinned[-1]

    monkeypatch.setattr(Tensor, "pin_memory", pin)
    batch = Batch.from_data_list([page, page])
    leaves = batch.hierarchy.leaves
    batch.pin_memory()
    assert batch.hierarchy.leaves is not leaves
    assert any(batch.hierarchy.leaves is tensor for tensor in pinned)
    assert len(count_compilations) == 1


def test_a_tree_without_edges_lies_where_its_features_lie():
    signal = NestedSignal(word={"x": torch.rand(1, 2, device="meta")})
    assert signal._tree_device().type == "meta"


def test_30_a_file_leaves_the_hierarchy_out(page):
    batch = Batch.from_data_list([page, page])
    for signal in (page, batch):
        before, after = io.BytesIO(), io.BytesIO()
        torch.save(signal, before)
        assert signal.hierarchy.num_leaves > 0
        torch.save(signal, after)
        assert len(after.getvalue()) == len(before.getvalue())


def test_pickles_and_deep_copies_compile_their_own(page, count_compilations):
    batch = Batch.from_data_list([page, page])
    leaves = batch.hierarchy.leaves
    for other in (pickle.loads(pickle.dumps(batch)), copy.deepcopy(batch)):
        assert torch.equal(other.hierarchy.leaves, leaves)
    assert len(count_compilations) == 3


def test_15_the_hierarchy_goes_along_between_processes(page, count_compilations):
    batch = Batch.from_data_list([page, page])
    page_leaves, batch_leaves = page.hierarchy.leaves, batch.hierarchy.leaves
    for signal, leaves in ((page, page_leaves), (batch, batch_leaves)):
        other = pickle.loads(ForkingPickler.dumps(signal))
        assert torch.equal(other.hierarchy.leaves, leaves)
    assert len(count_compilations) == 2


def test_an_outdated_hierarchy_stays_behind_between_processes(page):
    page["page"].num_nodes = 2
    assert page.hierarchy.parent.tolist() == [-1, -1, 0, 0, 0]
    page[WORD].edge_index[1, 0] = 1
    other = pickle.loads(ForkingPickler.dumps(page))
    assert other.hierarchy.parent.tolist() == [-1, -1, 1, 0, 0]


def test_tensors_made_in_inference_mode_are_compared_by_content(
    make_page, count_compilations
):
    with torch.inference_mode():
        page = make_page(words=3)
        page["page"].num_nodes = 2
        assert page.hierarchy is page.hierarchy
        assert len(count_compilations) == 1
        page[WORD].edge_index[1, 0] = 1
        assert page.hierarchy.parent.tolist() == [-1, -1, 1, 0, 0]


def test_a_recorded_stream_forgets_the_hierarchy(page, monkeypatch):
    before = page.hierarchy
    monkeypatch.setattr(Tensor, "record_stream", lambda tensor, stream: None)
    page.record_stream(object())
    assert page.hierarchy is not before


def test_edges_may_be_pygs_edge_index(page):
    plain = page.hierarchy.parent
    page[WORD].edge_index = EdgeIndex(page[WORD].edge_index, sparse_size=(3, 1))
    assert torch.equal(page.hierarchy.parent, plain)
    assert page.hierarchy is page.hierarchy
    page["page"].num_nodes = 2
    page[WORD].edge_index[1, 0] = 1
    assert page.hierarchy.parent.tolist() == [-1, -1, 1, 0, 0]
