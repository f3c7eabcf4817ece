import pytest
import torch
from torch_geometric.data import HeteroData

from hsa_pyg.data import NestedSignal, unify

WORD, PICTURE = ("word", "child_of", "page"), ("picture", "child_of", "page")


def test_unify_gives_every_signal_every_store_with_its_width_and_dtype(make_page):
    text, both = unify([make_page(words=2), make_page(words=1, pictures=3)])
    assert text["picture"].x.shape == (0, 4)
    assert text["picture"].x.dtype == torch.float32
    assert text[PICTURE].edge_index.shape == (2, 0)
    assert text[PICTURE].edge_index.dtype == torch.long
    assert both["picture"].x.shape == (3, 4)


def test_unify_adds_internal_types_with_no_node(make_page):
    site = NestedSignal()
    site["site"].num_nodes = 1
    site["page"].num_nodes = 2
    site["page"].pos = torch.rand(2, 1)
    site["page", "child_of", "site"].edge_index = torch.tensor([[0, 1], [0, 0]])
    site.y = torch.tensor([0])
    page = NestedSignal()
    page["site"].num_nodes = 0
    page["word"].x = torch.tensor([4])
    page.y = torch.tensor([1])
    first, second = unify([site, page])
    assert first.schema == second.schema
    assert second["page"].num_nodes == 0
    assert second["page"].pos.shape == (0, 1)


def test_unify_leaves_its_input_as_it_was_and_shares_its_tensors(make_page):
    signals = [make_page(words=2), make_page(pictures=1)]
    unified = unify(signals)
    assert signals[0].node_types == ["page", "word"]
    assert signals[0].edge_types == [WORD]
    assert unified[0]["word"].x is signals[0]["word"].x


def test_unified_signals_have_the_same_types_in_the_same_order(make_page):
    first, second = unify([make_page(pictures=1, words=0), make_page(2, 2)])
    assert first.node_types == second.node_types
    assert first.edge_types == second.edge_types
    assert first.schema == second.schema


def test_an_explicit_count_of_leaves_in_one_sample_is_given_to_all(make_page):
    counted = make_page(words=2)
    counted["word"].num_nodes = 2
    unified = unify([make_page(words=3), counted, make_page(pictures=1)])
    assert [signal["word"]["num_nodes"] for signal in unified] == [3, 2, 0]


def test_18_a_width_that_differs_names_sample_type_attribute_and_remedy(make_page):
    odd = make_page(pictures=2)
    odd["picture"].x = torch.rand(2, 7)
    message = (
        r"sample 2: attribute 'x' of type 'picture' is \[n, 7\] of float32, but it is "
        r"\[n, 4\] of float32 in sample 1; bring both to one shape"
    )
    with pytest.raises(ValueError, match=message):
        unify([make_page(1), make_page(1, 1), odd])


def test_18_a_dtype_that_differs_is_not_promoted(make_page):
    odd = make_page(pictures=2)
    odd["picture"].x = odd["picture"].x.double()
    with pytest.raises(
        ValueError, match=r"sample 1: .*float64.*\.to\(torch\.float32\)"
    ):
        unify([make_page(pictures=1), odd])


def test_18_edges_of_an_empty_list_are_explained(make_page):
    odd = make_page(words=1)
    edge_type = next(iter(odd.edge_types))
    odd[edge_type].edge_index = torch.tensor([[], []])
    message = (
        r"is \[2, n\] of float32, but it is \[2, n\] of int64 in sample 0; .*"
        r"\.to\(torch\.int64\); torch\.tensor of an empty list .* dtype=torch\.long"
    )
    with pytest.raises(ValueError, match=message):
        unify([make_page(words=1), odd])


def test_18_an_attribute_that_only_some_samples_have_is_an_error(make_page):
    placed = make_page(words=2)
    placed["word"].pos = torch.rand(2, 1)
    message = r"sample 1: the 3 nodes of type 'word' have no attribute 'pos'"
    with pytest.raises(ValueError, match=message):
        unify([placed, make_page(words=3)])
    # A sample without words has none to place.
    assert unify([placed, make_page(pictures=1)])[1]["word"].pos.shape == (0, 1)


def test_18_a_type_of_unknown_size_is_an_error(make_page):
    odd = make_page(words=1)
    odd["word", "child_of", "section"].edge_index = torch.tensor([[0], [0]])
    with pytest.raises(ValueError, match=r"sample 1: type 'section' has neither 'x'"):
        unify([make_page(words=1), odd])


def test_a_label_that_only_some_samples_have_is_an_error(make_page):
    unlabelled = make_page(words=1)
    del unlabelled.y
    with pytest.raises(ValueError, match=r"sample 1 has no attribute 'y'.*sample 0"):
        unify([make_page(words=1), unlabelled])


def test_lists_of_texts_are_empty_where_a_type_is_absent(make_page):
    named = make_page(words=2)
    named["word"].text = ["a", "b"]
    assert unify([named, make_page(pictures=1)])[1]["word"].text == []


def test_a_python_object_per_type_has_no_empty_form(make_page):
    named = make_page(words=2)
    named["word"].language = "en"
    with pytest.raises(ValueError, match=r"'language'.*no empty form"):
        unify([named, make_page(pictures=1)])


def test_a_plain_hetero_data_is_refused_with_the_way_to_convert_it(make_page):
    with pytest.raises(TypeError, match=r"sample 1 is a HeteroData.*from_dict"):
        unify([make_page(words=1), HeteroData()])


def test_signals_may_come_from_a_generator(make_page):
    pages = [make_page(words=2), make_page(pictures=1)]
    unified = unify(page for page in pages)
    assert [page["picture"].num_nodes for page in unified] == [0, 1]


def test_one_signal_is_no_list_of_signals(make_page):
    with pytest.raises(TypeError, match="got a NestedSignal; put it into a list"):
        unify(make_page(words=2))
