import pytest
import torch

from hsa_pyg.data import Feature, NestedSignal, Schema, complete

SCHEMA = Schema(
    nodes={"page": {}, "word": {"x": Feature((3,)), "pos": Feature((1,))}},
    edges=[("word", "child_of", "page")],
)


def test_completing_fills_in_what_is_absent():
    signal = NestedSignal({"page": {"num_nodes": 1}}, schema=SCHEMA)
    assert signal["page"].num_nodes == 1
    assert signal["word"].x.shape == (0, 3)
    assert signal["word"].pos.shape == (0, 1)
    assert signal["word", "child_of", "page"].edge_index.shape == (2, 0)


def test_completing_returns_a_copy_in_the_order_of_the_schema():
    signal = NestedSignal(word={"x": torch.rand(1, 3), "pos": torch.rand(1, 1)})
    done = complete(signal, SCHEMA)
    assert done.node_types == ["page", "word"]
    assert signal.node_types == ["word"]
    assert done["word"].x is signal["word"].x


def test_a_type_outside_the_schema_is_refused():
    signal = NestedSignal(video={"x": torch.rand(1, 3)})
    with pytest.raises(ValueError, match="sample 7 has type 'video', which its schema"):
        complete(signal, SCHEMA, "sample 7")


def test_an_attribute_outside_the_schema_is_refused():
    signal = NestedSignal(page={"num_nodes": 1, "key": torch.tensor([0])})
    with pytest.raises(ValueError, match="type 'page' has an attribute 'key'"):
        complete(signal, SCHEMA)


def test_features_that_contradict_the_schema_are_refused():
    word = {"x": torch.rand(1, 4), "pos": torch.rand(1, 1)}
    with pytest.raises(ValueError, match=r"\[n, 4\] of float32, but the schema wants"):
        NestedSignal(word=word, schema=SCHEMA)


def test_nodes_without_an_attribute_of_the_schema_are_refused():
    with pytest.raises(
        ValueError, match="the 2 nodes of type 'word' have no attribute"
    ):
        NestedSignal(word={"x": torch.rand(2, 3)}, schema=SCHEMA)


def test_labels_need_not_be_in_the_schema_but_must_not_contradict_it():
    assert NestedSignal(y=torch.tensor([1]), schema=SCHEMA).y == 1
    labelled = Schema(SCHEMA.nodes, SCHEMA.edges, graph={"y": Feature((), torch.long)})
    with pytest.raises(ValueError, match="'y' of the whole sample"):
        NestedSignal(y=torch.tensor([1.0]), schema=labelled)


def test_a_count_of_leaves_is_dropped_if_redundant_and_refused_if_wrong():
    leaves = {"x": torch.rand(2, 3), "pos": torch.rand(2, 1)}
    signal = NestedSignal(word={**leaves, "num_nodes": 2}, schema=SCHEMA)
    assert signal.schema == SCHEMA
    assert signal["word"].num_nodes == 2
    with pytest.raises(ValueError, match="num_nodes 5, but 2 rows of 'x'"):
        NestedSignal(word={**leaves, "num_nodes": 5}, schema=SCHEMA)
