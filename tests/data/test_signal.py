import copy
import io
import pickle
import warnings

import pytest
import torch
from torch_geometric.data import Batch, InMemoryDataset
from torch_geometric.transforms import BaseTransform, ToSparseTensor

from hsa_pyg.data import NestedSignal

WORD = ("word", "child_of", "page")


def make_chain(levels: int) -> NestedSignal:
    """A tree of ``levels`` nested nodes of one type, with a leaf at the bottom."""
    signal = NestedSignal()
    signal["div"].num_nodes = levels
    node = torch.arange(levels)
    signal["div", "child_of", "div"].edge_index = torch.stack([node[1:], node[:-1]])
    signal["text"].x = torch.tensor([7])
    edge = torch.tensor([[0], [levels - 1]])
    signal["text", "child_of", "div"].edge_index = edge
    return signal


def test_a_signal_is_made_bare_and_from_mappings():
    assert NestedSignal().node_types == []
    x = torch.rand(2, 3)
    edge = torch.tensor([[0, 1], [0, 0]])
    signal = NestedSignal(
        {"word": {"x": x}, WORD: {"edge_index": edge}},
        page={"num_nodes": 1},
        y=torch.tensor([1]),
    )
    assert signal["word"].x is x
    assert signal[WORD].edge_index is edge
    assert signal.y.item() == 1
    assert signal.hierarchy.num_leaves == 2


def test_from_dict_undoes_to_dict(make_page, same):
    page = make_page(words=2, pictures=1)
    assert same(NestedSignal.from_dict(page.to_dict()), page)


def test_the_hierarchy_numbers_nodes_type_after_type(make_page):
    hierarchy = make_page(words=2, pictures=1).hierarchy
    assert hierarchy.node_slices == {"page": (0, 1), "word": (1, 3), "picture": (3, 4)}
    assert hierarchy.leaf_slices == {"word": (0, 2), "picture": (2, 3)}
    assert hierarchy.parent.tolist() == [-1, 0, 0, 0]


def test_childless_nodes_without_features_are_empty_not_leaves(make_page):
    page = make_page(words=2)
    page["section"].num_nodes = 1
    edge = torch.tensor([[0], [0]])
    page["section", "child_of", "page"].edge_index = edge
    assert page.hierarchy.num_leaves == 2
    assert page.hierarchy.num_empty == 1


def test_relations_of_siblings_are_no_parent_edges(make_page):
    page = make_page(words=2)
    plain = page.hierarchy.parent
    page["word", "follows", "word"].edge_index = torch.tensor([[1], [0]])
    assert torch.equal(page.hierarchy.parent, plain)


def test_the_hierarchy_of_a_batch_ends_with_a_tree_without_leaves(make_page):
    batch = Batch.from_data_list(
        [
            NestedSignal.from_dict(make_page(words=2).to_dict()),
            NestedSignal(
                page={"num_nodes": 1},
                word={"x": torch.empty(0).long()},
                y=torch.tensor([0]),
                word__child_of__page={"edge_index": torch.empty(2, 0).long()},
            ),
        ]
    )
    assert batch.hierarchy.num_trees == 2
    assert batch.hierarchy.leaf_tree.tolist() == [0, 0]


def test_num_graphs_counts_samples(make_page):
    page = make_page(words=1)
    assert page.num_graphs == 1
    assert Batch.from_data_list([page, page]).num_graphs == 2


def test_the_schema_follows_edits_and_a_batch_has_that_of_its_samples(make_page):
    page = make_page(words=1)
    batch = Batch.from_data_list([page, page])
    assert batch.schema == page.schema
    page["picture"].x = torch.rand(1, 2)
    assert "picture" in page.schema.nodes
    assert batch.schema != page.schema


@pytest.mark.parametrize("name", ["schema", "hierarchy", "num_graphs"])
def test_what_is_worked_out_cannot_be_set(make_page, name):
    with pytest.raises(AttributeError, match=f"'{name}' is worked out"):
        setattr(make_page(words=1), name, None)


def test_reading_changes_nothing(make_page, same):
    page = make_page(words=2)
    before = page.to_dict()
    _ = page.hierarchy, page.schema, repr(page), page.validate(), page.keys()
    assert same(NestedSignal.from_dict(before), page)


def test_a_transform_gets_a_copy(make_page):
    class DropWords(BaseTransform):
        def forward(self, data):
            data["word"].x = data["word"].x[:1]
            data[WORD].edge_index = data[WORD].edge_index[:, :1]
            return data

    page = make_page(words=3)
    assert page.hierarchy.num_leaves == 3
    assert DropWords()(page).hierarchy.num_leaves == 1
    assert page.hierarchy.num_leaves == 3


def test_15_a_signal_pickles(make_page, same):
    page = make_page(words=2, pictures=1)
    _ = page.hierarchy
    assert same(pickle.loads(pickle.dumps(page)), page)


def test_15_a_batch_pickles_and_still_comes_apart(make_page, same):
    pages = [make_page(words=2), make_page(words=1)]
    batch = pickle.loads(pickle.dumps(Batch.from_data_list(pages)))
    assert batch.num_graphs == 2
    assert batch.schema == pages[0].schema
    assert same(batch[1], pages[1])


def test_15_clones_share_no_tensor(make_page, same):
    page = make_page(words=2)
    clone = page.clone()
    clone[WORD].edge_index[0] += 1
    assert page[WORD].edge_index[0].tolist() == [0, 1]


def test_30_a_signal_loads_with_weights_only(make_page, same):
    page = make_page(words=2, pictures=1)
    _ = page.hierarchy
    file = io.BytesIO()
    torch.save(page, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)
    assert same(loaded, page)
    assert torch.equal(loaded.hierarchy.parent, page.hierarchy.parent)


def test_30_a_data_set_file_loads_without_a_warning(tmp_path, make_page):
    path = str(tmp_path / "pages.pt")
    InMemoryDataset.save([make_page(words=2), make_page(words=3)], path)
    dataset = InMemoryDataset()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dataset.load(path, data_cls=NestedSignal)
    assert dataset[1].hierarchy.num_leaves == 3


def test_38_a_deep_signal_is_shown_pickled_and_copied_without_recursion(same):
    chain = make_chain(20_000)
    assert chain.hierarchy.max_depth == 20_000
    assert "div: 20000 nodes in div" in repr(chain)
    assert same(pickle.loads(pickle.dumps(chain)), chain)
    assert same(copy.deepcopy(chain), chain)
    assert chain.validate()


def test_38_deep_signals_batch_and_come_apart(same):
    chains = [make_chain(5_000), make_chain(3)]
    batch = Batch.from_data_list(chains)
    assert batch.hierarchy.max_depth == 5_000
    assert same(batch[0], chains[0])
    assert same(batch[1], chains[1])


def test_parent_edges_without_edge_index_are_an_error(make_page):
    """Their children would pass for roots of trees of their own."""
    sparse = ToSparseTensor(layout=torch.sparse_csr)(make_page(3))
    message = r"edge type .*'child_of'.* has no edge_index; set it"
    with pytest.raises(ValueError, match=message):
        _ = sparse.hierarchy
    with pytest.raises(ValueError, match=message):
        sparse.validate()
    page = make_page(3)
    _ = page.hierarchy
    # One that had a hierarchy can still be moved.
    assert "child_of" in str(ToSparseTensor(layout=torch.sparse_csr)(page).to("cpu"))
    batch = Batch.from_data_list([sparse, sparse])
    assert batch.num_graphs == 2
    with pytest.raises(ValueError, match=message):
        _ = batch.hierarchy


def test_a_part_that_a_neighbour_sampler_cut_out_has_no_hierarchy(make_page):
    page = make_page(3)
    _ = page.hierarchy
    page.set_value_dict("num_sampled_nodes", {"word": [1, 2]})
    with pytest.raises(ValueError, match="neighbour sampler, which cuts families"):
        _ = page.hierarchy
