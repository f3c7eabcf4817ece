import pickle

import pytest
import torch

from hsa_pyg.data import Feature, NestedSignal, Schema

PAGE = Schema(
    nodes={
        "site": {},
        "page": {"pos": Feature((1,))},
        "word": {"x": Feature((), torch.long)},
    },
    edges=[
        ("word", "child_of", "page"),
        ("page", "child_of", "site"),
        ("page", "links_to", "page"),
    ],
)


def test_types_with_features_are_leaf_types():
    assert PAGE.leaf_types == ["word"]
    assert PAGE.internal_types == ["site", "page"]


def test_parent_edges_and_sibling_edges_are_told_apart():
    assert PAGE.parent_edges == [
        ("word", "child_of", "page"),
        ("page", "child_of", "site"),
    ]
    assert PAGE.sibling_edges == [("page", "links_to", "page")]


def test_the_schema_of_a_signal_lists_widths_dtypes_and_attributes(make_page):
    page = make_page(words=2, pictures=1)
    page["word", "follows", "word"].edge_index = torch.tensor([[1], [0]])
    page["word", "follows", "word"].edge_attr = torch.rand(1, 3)
    schema = Schema.of(page)
    assert schema.nodes == {
        "page": {},
        "word": {"x": Feature((), torch.long)},
        "picture": {"x": Feature((4,), torch.float32)},
    }
    assert schema.edges["word", "follows", "word"]["edge_attr"] == Feature((3,))
    assert schema.graph == {"y": Feature((), torch.long)}
    assert schema.counted == ["page"]


def test_schemas_are_equal_whatever_the_order_of_their_types():
    reordered = Schema(
        nodes=dict(reversed(PAGE.nodes.items())), edges=list(reversed(PAGE.edges))
    )
    assert reordered == PAGE
    assert Schema(nodes=PAGE.nodes) != PAGE
    wider = {**PAGE.nodes, "page": {"pos": Feature((2,))}}
    assert Schema(nodes=wider, edges=PAGE.edges) != PAGE


def test_a_schema_survives_pickling():
    assert pickle.loads(pickle.dumps(PAGE)) == PAGE


def test_a_signal_made_from_a_schema_shows_that_schema():
    assert Schema.of(NestedSignal(schema=PAGE)) == PAGE


def test_merging_keeps_the_types_and_attributes_of_both():
    other = Schema(
        nodes={
            "page": {"key": Feature((), torch.long)},
            "picture": {"x": Feature((4,))},
        },
        edges=[("picture", "child_of", "page")],
        graph={"y": Feature((), torch.long)},
    )
    both = PAGE.merge(other)
    assert both == other.merge(PAGE)
    assert both.nodes["page"].keys() == {"pos", "key"}
    assert set(both.edges) == set(PAGE.edges) | set(other.edges)
    assert both.graph == other.graph


@pytest.mark.parametrize(
    ("feature", "message"),
    [
        (
            Feature((8,)),
            r"attribute 'x' of type 'word'.*\[n, 8\].*\[n\] of int64.*shape",
        ),
        (Feature((), torch.int32), r"int32.*int64.*\.to\(torch\.int64\)"),
    ],
)
def test_merging_refuses_two_shapes_or_dtypes_of_one_attribute(feature, message):
    with pytest.raises(ValueError, match=message):
        PAGE.merge(Schema(nodes={"word": {"x": feature}}))


def test_an_edge_type_of_an_unknown_node_type_is_refused():
    with pytest.raises(ValueError, match="'image', which is not among"):
        Schema(nodes={"page": {}}, edges=[("image", "child_of", "page")])


def test_an_edge_type_must_be_a_triple():
    with pytest.raises(ValueError, match="triple"):
        Schema(nodes={"page": {}}, edges=[("page", "page")])


def test_repr_lists_types_with_their_attributes():
    text = repr(PAGE)
    assert "word: x [n] of int64," in text
    assert "page links_to page," in text
    assert repr(Schema(nodes={})) == "Schema()"
