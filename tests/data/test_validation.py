import warnings

import pytest
import torch
from torch_geometric.data import Batch

from hsa_pyg.data import NestedSignal, unify

WORD, PICTURE = ("word", "child_of", "page"), ("picture", "child_of", "page")


@pytest.fixture
def site() -> NestedSignal:
    """A site of two pages with three words."""
    signal = NestedSignal()
    signal["site"].num_nodes = 1
    signal["page"].num_nodes = 2
    signal["word"].x = torch.rand(3, 4)
    signal["page", "child_of", "site"].edge_index = torch.tensor([[0, 1], [0, 0]])
    signal[WORD].edge_index = torch.tensor([[0, 1, 2], [0, 1, 1]])
    return signal


def test_a_right_signal_and_a_right_batch_pass_without_a_warning(site):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert site.validate() is True
        batch = Batch.from_data_list([site, site], follow_batch=["x"])
        assert batch.validate() is True


def _two_parents(signal):
    signal[WORD].edge_index = torch.tensor([[0, 1, 2, 1], [0, 1, 1, 0]])


def _parent_out_of_range(signal):
    signal[WORD].edge_index[1, 2] = 2


def _negative_child(signal):
    signal[WORD].edge_index[0, 0] = -1


def _cycle(signal):
    signal["page"].num_nodes = 4
    signal["page", "child_of", "page"].edge_index = torch.tensor([[2, 3], [3, 2]])


def _leaf_with_children(signal):
    signal["page"].x = torch.rand(2, 4)


def _lists_alone(signal):
    del signal["word"].pos, signal["word"].key
    signal["word"].x = [[1.0], [2.0], [3.0]]


def _two_roots(signal):
    signal["page"].num_nodes = 3


def _loose_leaf(signal):
    signal[WORD].edge_index = signal[WORD].edge_index[:, :2]


def _no_node(signal):
    for kind in list(signal.edge_types):
        signal[kind].edge_index = torch.empty(2, 0).long()
    signal["site"].num_nodes = signal["page"].num_nodes = 0
    signal["word"].x = torch.rand(0, 4)


def _unknown_size(signal):
    del signal["page"].num_nodes


def _dangling_type(signal):
    edge = torch.tensor([[0], [0]])
    signal["word", "child_of", "section"].edge_index = edge


def _pos_rows(signal):
    signal["word"].pos = torch.rand(2, 1)


def _pos_width(signal):
    signal["word"].pos = torch.rand(3, 3)


def _pos_integers(signal):
    signal["word"].pos = torch.arange(3).view(-1, 1)


def _pos_not_finite(signal):
    signal["word"].pos = torch.tensor([[0.0], [float("nan")], [2.0]])


def _pos_flat(signal):
    signal["word"].pos = torch.arange(3.0)


def _pos_flat_integers(signal):
    signal["word"].pos = torch.arange(3)


def _features_forgotten(signal):
    signal["picture"].num_nodes = 2
    edge = torch.tensor([[0, 1], [0, 1]])
    signal["picture", "child_of", "page"].edge_index = edge


def _one_feature_forgotten(signal):
    signal["picture"].num_nodes = 1
    edge = torch.tensor([[0], [1]])
    signal["picture", "child_of", "page"].edge_index = edge


def _leaves_of_unknown_size(signal):
    del signal["word"].x


def _negative_key(signal):
    signal["word"].key = torch.tensor([0, 1, -1])


def _half_a_node(signal):
    signal["page"].num_nodes = 2.5


def _less_than_no_node(signal):
    signal["page"].num_nodes = -1


def _scalar_features(signal):
    signal["word"].x = torch.tensor(1.0)


def _key_dtype(signal):
    signal["word"].key = torch.rand(3)


def _list_features(signal):
    signal["word"].num_nodes = 3
    signal["word"].x = [1, 2, 3]


def _edge_shape(signal):
    signal[WORD].edge_index = torch.tensor([0, 1, 2])


def _edge_dtype(signal):
    signal[WORD].edge_index = signal[WORD].edge_index.int()


def _no_edges(signal):
    del signal[WORD].edge_index


def _sibling_out_of_range(signal):
    signal["page", "links_to", "page"].edge_index = torch.tensor([[0], [5]])


def _two_devices(signal):
    signal["word"].x = signal["word"].x.to("meta")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_two_parents, "node 1 of type 'word' has more than one parent"),
        (_parent_out_of_range, "edge 2 .*'word'.* names node 2 of type 'page', which"),
        (_negative_child, "edge 0 .* names node -1 of type 'word', which has 3 nodes"),
        (_cycle, "node 2 of type 'page' is its own ancestor"),
        (
            _leaf_with_children,
            "node 0 of type 'page' is a leaf but has a child, node 0",
        ),
        (
            _two_roots,
            "2 roots, among them node 0 of type 'site' and node 2 of type 'pa",
        ),
        (_loose_leaf, "2 roots, among them .* and node 2 of type 'word'"),
        (_no_node, "the signal has no node"),
        (_unknown_size, "type 'page' has neither 'x' nor 'num_nodes'"),
        (_dangling_type, "type 'section' has neither 'x' nor 'num_nodes'"),
        (_pos_rows, "'pos' of type 'word' has 2 rows for 3 nodes"),
        (_pos_width, r"'pos' of type 'word' must hold floats.*float32 \[3, 3\]"),
        (_pos_integers, r"'pos' of type 'word' must hold floats.*int64 \[3, 1\]"),
        (_pos_width, r"got float32 \[3, 3\]$"),
        (_pos_integers, r"int64 \[3, 1\]; use signal\['word'\]\.pos\.float\(\)$"),
        (_pos_flat, r"float32 \[3\]; use signal\['word'\]\.pos\[:, None\]$"),
        (_pos_flat_integers, r"; use signal\['word'\]\.pos\.float\(\)\[:, None\]$"),
        (
            _features_forgotten,
            "the 2 nodes of type 'picture' have neither x nor children: set "
            r"signal\['picture'\]\.x .*edge type of their children, without edges",
        ),
        (_one_feature_forgotten, "the node of type 'picture' has neither x nor child"),
        (
            _leaves_of_unknown_size,
            r"set signal\['word'\]\.x, or signal\['word'\]\.num_nodes = 0 if it",
        ),
        (
            _pos_not_finite,
            r"'pos' of node 1 of type 'word' must be finite, got \[nan\]",
        ),
        (_negative_key, "'key' of node 2 of type 'word' must not be negative, got -1"),
        (_half_a_node, "num_nodes of type 'page' must be an integer.*, got 2.5"),
        (_less_than_no_node, "num_nodes of type 'page' must be .* negative, got -1"),
        (_scalar_features, "'x' of type 'word' must have a row per node, got a scalar"),
        (_key_dtype, r"'key' of type 'word' must hold int64.*float32 \[3\]"),
        (_list_features, "'x' of type 'word' must be a tensor with 3 rows, got list"),
        (_lists_alone, "'x' of type 'word' must be a tensor with a row .*, got list;"),
        (_edge_shape, r"edge_index of .*'word'.* must hold int64.*int64 \[3\]"),
        (_edge_dtype, r"edge_index of .*'word'.* must hold int64.*int32 \[2, 3\]"),
        (_no_edges, "edge type .*'word'.* has no edge_index"),
        (_sibling_out_of_range, "edge 0 .*'links_to'.* names node 5 of type 'page'"),
        (_two_devices, "several devices: 'x' of type 'word' on meta and .* on cpu"),
    ],
)
def test_a_wrong_signal_is_an_error_that_names_type_and_index(site, spoil, message):
    spoil(site)
    with pytest.raises(ValueError, match=message):
        site.validate()
    with pytest.warns(UserWarning, match=message):
        assert site.validate(raise_on_error=False) is False


def test_empty_inner_nodes_are_right_where_an_edge_type_could_fill_them(site):
    _features_forgotten(site)
    site["pixel"].x = torch.rand(0, 3)
    site["pixel", "child_of", "picture"].edge_index = torch.empty(2, 0).long()
    assert site.validate()
    # Edges of another relation are no children.
    other = torch.empty(2, 0).long()
    del site["pixel", "child_of", "picture"]
    site["pixel", "next_to", "picture"].edge_index = other
    with pytest.raises(ValueError, match="type 'picture' have neither x nor children"):
        site.validate()


def test_forgotten_features_are_found_in_a_batch(site):
    assert Batch.from_data_list([site, site], exclude_keys=["x"]).validate()
    _features_forgotten(site)
    batch = Batch.from_data_list([site, site])
    with pytest.raises(ValueError, match="the 4 nodes of type 'picture' have neither"):
        batch.validate()


def test_the_hierarchy_of_leaves_of_unknown_size_asks_for_features(site):
    _leaves_of_unknown_size(site)
    with pytest.raises(ValueError, match=r"unknown; set signal\['word'\]\.x, or"):
        _ = site.hierarchy


def test_a_batch_names_the_sample_with_several_roots(site):
    wrong = NestedSignal.from_dict(site.to_dict())
    wrong["page"].num_nodes = 3
    batch = Batch.from_data_list([site, wrong])
    message = "sample 1 has 2 roots, .* node 1 of type 'site' and node 4 of type 'page'"
    with pytest.raises(ValueError, match=message):
        batch.validate()


def test_17_a_child_in_another_sample_than_its_parent_is_an_error(make_page):
    # What PyG makes of [picture, none, picture] without schemas: the second picture is
    # labelled sample 1, and its parent edge leads to the page of sample 1.
    signals = unify([make_page(pictures=1), make_page(words=2), make_page(pictures=1)])
    batch = Batch.from_data_list(signals)
    batch["picture"].batch = torch.tensor([0, 1])
    message = (
        "node 1 of type 'picture' is in sample 1, but the 'child_of' edge leads to "
        "node 2 of type 'page' in sample 2"
    )
    with pytest.raises(ValueError, match=message):
        batch.validate()
    with pytest.raises(
        ValueError, match="node 1 of type 'picture' belongs to sample 1"
    ):
        _ = batch.hierarchy


def test_17_a_sibling_in_another_sample_is_an_error(site):
    batch = Batch.from_data_list([site, site])
    batch["page", "links_to", "page"].edge_index = torch.tensor([[0], [2]])
    with pytest.raises(ValueError, match="the 'links_to' edge leads to node 2"):
        batch.validate()


def test_18_the_hierarchy_of_a_type_of_unknown_size_is_an_error(site):
    _unknown_size(site)
    with pytest.raises(ValueError, match="type 'page' has neither 'x' nor 'num_nodes'"):
        _ = site.hierarchy


@pytest.mark.parametrize(
    "name", ["residue_index", "mesh_face", "batch_pos", "ptr", "node_batch"]
)
def test_19_an_attribute_name_that_pyg_mangles_is_warned_of(site, name):
    site["word"][name] = torch.arange(3)
    with pytest.warns(UserWarning, match=f"'{name}' of type 'word': PyG .*rename it"):
        assert site.validate()


def test_19_the_edge_indices_of_pyg_itself_are_not_warned_of(site):
    site[WORD].edge_label_index = torch.tensor([[0], [0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert site.validate()


@pytest.mark.parametrize(
    ("name", "hidden"), [("word", "the type"), ("x_dict", "'x' of all types")]
)
def test_a_name_of_the_whole_sample_that_hides_others_is_an_error(site, name, hidden):
    site._global_store[name] = "v1"
    with pytest.raises(
        ValueError, match=f"'{name}' of the whole sample hides {hidden}"
    ):
        site.validate()


def test_a_name_of_the_whole_sample_may_end_as_the_gathered_ones(site):
    site.reading_dict = "v1"
    assert site.validate()


def test_a_type_name_with_a_dot_is_warned_of(site):
    site["a.b"].num_nodes = 0
    with pytest.warns(UserWarning, match=r"'a\.b' contains a dot"):
        site.validate()


def test_the_hierarchy_of_half_a_node_is_an_error(site):
    site["page"].num_nodes = 2.5
    with pytest.raises(TypeError, match="nodes of type 'page' must be an integer"):
        _ = site.hierarchy
