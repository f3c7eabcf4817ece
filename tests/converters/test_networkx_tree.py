import io
import warnings

import networkx
import pytest
import torch
from torch_geometric.loader import DataLoader

from hsa_pyg.converters import from_networkx
from hsa_pyg.data import union_schema


def tree(**x):
    graph = networkx.DiGraph([("r", "a"), ("r", "b"), ("a", "c"), ("a", "d")])
    features = {"b": 0.5, "c": 1.5, "d": 2.0, **x}
    networkx.set_node_attributes(graph, features, "x")
    return graph


def test_leaves_have_features_names_and_places():
    signal = from_networkx(tree(), y=1)
    assert signal.validate()
    assert signal["node"].name == ["r", "a"]
    assert signal["leaf"].name == ["c", "d", "b"]
    assert signal["leaf"].x.tolist() == [[1.5], [2.0], [0.5]]
    assert signal["leaf"].pos.tolist() == [[0], [1], [1]]
    assert signal["leaf", "child_of", "node"].edge_index.tolist() == [
        [0, 1, 2],
        [1, 1, 0],
    ]
    assert signal.y.tolist() == [1]


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ([1, 2, 3], torch.tensor([1, 2, 3])),
        ([1, 2.0, 3], torch.tensor([[1.0], [2.0], [3.0]])),
        ([[1, 0], [0, 1], [1, 1]], torch.tensor([[1.0, 0], [0, 1], [1, 1]])),
        ([torch.ones(2)] * 3, torch.ones(3, 2)),
    ],
)
def test_features_are_ids_or_vectors(x, expected):
    signal = from_networkx(tree(**dict(zip("cdb", x, strict=True))))
    assert signal["leaf"].x.equal(expected)


def test_features_may_come_from_elsewhere():
    graph = networkx.balanced_tree(2, 2, create_using=networkx.DiGraph)
    with pytest.raises(ValueError, match="None of the 4 childless nodes has features"):
        from_networkx(graph)
    signal = from_networkx(graph, features=lambda node, attributes: [node, 1.0])
    assert signal["leaf"].x[:, 0].tolist() == [3, 4, 5, 6]
    networkx.set_node_attributes(graph, 7, "token")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        signal = from_networkx(graph, features="token")
    assert signal["leaf"].x.tolist() == [7] * 4
    assert signal["node"].token.tolist() == [7] * 3


def test_features_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match="Leaf 'd' of type 'leaf' has no features"):
        from_networkx(tree(d=None))
    with pytest.raises(ValueError, match="of type 'leaf' are not numbers or vectors"):
        from_networkx(tree(d=[1, 2]))
    graph = tree()
    networkx.set_node_attributes(graph, "thing", "type")
    with pytest.raises(ValueError, match="leaves with features, such as 'd', and node"):
        from_networkx(graph)


def test_types_are_given_by_attribute_or_function():
    graph = tree()
    kinds = {"r": "page", "a": "list", "b": "word", "c": "word", "d": "word"}
    networkx.set_node_attributes(graph, kinds, "type")
    signal = from_networkx(graph)
    assert signal.node_types == ["page", "list", "word"]
    other = from_networkx(tree(), type_of=lambda node, _: kinds[node])
    assert other.node_types == signal.node_types
    graph.nodes["b"]["type"] = 3
    with pytest.raises(ValueError, match="type of node 'b' is 3; a type is a string"):
        from_networkx(graph)


def test_a_childless_node_of_an_internal_type_is_empty():
    graph = tree(b=None)
    graph.nodes["b"]["type"] = "node"
    signal = from_networkx(graph)
    assert signal.hierarchy.num_empty == 1
    assert signal["node"].num_nodes == 3


def test_attributes_of_all_nodes_stay_and_the_others_are_named_once():
    graph = tree()
    for number, node in enumerate(graph):
        graph.nodes[node].update({0: number, "title": f"t{number}", "flag": True})
    graph.nodes["c"]["rare"] = 1
    graph.nodes["r"]["x"] = 9.0
    graph.nodes["a"]["x"] = 8.0
    networkx.set_node_attributes(graph, 1, "mesh_face")
    with pytest.warns(UserWarning, match="were left out") as caught:
        signal = from_networkx(graph)
    assert len(caught) == 1
    text = str(caught[0].message)
    assert "'rare' (1 of 3 have it) of type 'leaf'" in text
    assert "'mesh_face' (PyG mangles names like this; rename it) of type 'node'" in text
    assert signal["leaf"].attribute_0.tolist() == [3, 4, 2]
    assert signal["leaf"].title == ["t3", "t4", "t2"]
    assert signal["node"].flag.dtype == torch.bool
    assert signal["node"].attribute_x.tolist() == [9, 8]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert signal.validate()


def test_keys_are_read_as_keys_and_edges_keep_their_attributes():
    graph = tree()
    networkx.set_node_attributes(graph, 2, "key")
    networkx.set_edge_attributes(graph, 0.5, "weight")
    graph.edges["r", "a"]["rare"] = 1
    graph.edges["a", "c"]["rare"] = 1
    with pytest.warns(UserWarning, match=r"'rare' \(1 of 3 have it\) of edges from"):
        signal = from_networkx(graph)
    assert signal["leaf"].key.tolist() == [2, 2, 2]
    assert signal["leaf", "child_of", "node"].weight.tolist() == [0.5] * 3
    assert signal.validate()
    networkx.set_node_attributes(graph, "k", "key")
    with pytest.warns(UserWarning, match="'rare'"):
        assert from_networkx(graph)["leaf"].attribute_key == ["k"] * 3


def test_children_are_ordered_by_pos_or_order_or_as_inserted():
    places = {"a": 2.5, "b": 0.5, "c": 9, "d": 3}
    graph = tree()
    networkx.set_node_attributes(graph, places, "pos")
    signal = from_networkx(graph)
    assert signal["leaf"].name == ["b", "d", "c"]
    assert signal["leaf"].pos.tolist() == [[0.5], [3], [9]]
    assert signal["node"].pos.tolist() == [[0], [2.5]]
    ordered = from_networkx(tree(), order=lambda node, _: places[node])
    assert ordered["leaf"].name == ["b", "d", "c"]
    assert ordered["leaf"].pos.tolist() == [[0], [0], [1]]
    graph = tree()
    networkx.set_node_attributes(graph, {**places, "r": 0}, "order")
    assert from_networkx(graph)["leaf"].name == ["b", "d", "c"]
    with pytest.raises(ValueError, match="Node 'a' has no 'rank' to order it by"):
        from_networkx(tree(), order="rank")
    with pytest.raises(ValueError, match="children of node 'r' cannot be ordered"):
        from_networkx(tree(), order=lambda node, _: 1 if node == "a" else "1")


def test_a_layout_is_a_grid_and_half_a_pos_is_named():
    graph = tree()
    networkx.set_node_attributes(
        graph, {n: (i, 2.0) for i, n in enumerate("abcd")}, "pos"
    )
    signal = from_networkx(graph)
    assert signal["leaf"].pos.tolist() == [[2, 2], [3, 2], [1, 2]]
    assert signal["node"].pos.shape == (2, 2)
    assert signal.validate()
    del graph.nodes["b"]["pos"]
    with pytest.warns(UserWarning, match=r"'pos' \(2 of 3 have it\) of type 'leaf'"):
        assert from_networkx(graph)["leaf"].pos.tolist() == [[0], [1], [1]]


def test_nodes_may_be_anything_hashable():
    thing = frozenset([1])
    graph = networkx.DiGraph([((0, "a"), 1), ((0, "a"), thing), ((0, "a"), "s")])
    signal = from_networkx(graph, features=lambda node, _: 1)
    assert signal["node"].name == [(0, "a")]
    assert signal["leaf"].name == [1, "frozenset({1})", "s"]
    file = io.BytesIO()
    torch.save(signal, file)
    file.seek(0)
    assert torch.load(file, weights_only=True)["node"].name == [(0, "a")]


def test_directions():
    expected = from_networkx(tree())
    up = from_networkx(tree().reverse(), direction="child_to_parent")
    flat = from_networkx(tree().to_undirected(), root="r")
    for signal in (up, flat):
        assert signal.hierarchy.parent.equal(expected.hierarchy.parent)
        assert signal["leaf"].name == expected["leaf"].name
    with pytest.raises(ValueError, match="has two parents"):
        from_networkx(tree().reverse())


def test_a_single_node_and_ten_thousand_levels():
    single = networkx.DiGraph()
    single.add_node("only", x=1.0)
    assert from_networkx(single).hierarchy.num_leaves == 1
    caterpillar = networkx.DiGraph()
    for level in range(10_000):
        caterpillar.add_edge(level, level + 1)
        caterpillar.add_edge(level, ("leg", level))
    signal = from_networkx(caterpillar, features=lambda node, _: 1)
    assert signal.hierarchy.max_depth == 10_000
    assert signal.validate()


def test_trees_of_unlike_types_form_a_data_set():
    first = tree()
    second = tree()
    second.nodes["r"]["type"] = "page"
    signals = [from_networkx(first), from_networkx(second)]
    schema = union_schema(signals)
    whole = [from_networkx(graph, schema=schema) for graph in (first, second)]
    batch = next(iter(DataLoader(whole, batch_size=2)))
    assert batch.hierarchy.num_leaves == 6
    assert batch["page"].num_nodes == 1


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ([1.0, 2.0], [1.0], r"'a' are \[1.0, 2.0\], those of 'b' are \[1.0\]\."),
        (1.0, "large", "'a' are 1.0, those of 'b' are 'large'"),
        ("small", "large", r"'a' are 'small'\. Bring .* or, of words, their ids"),
        ([1.0], [[1.0], [1.0, 2.0]], r"'a' are \[1.0\], those of 'b' are \[\[1"),
    ],
)
def test_features_that_make_no_rows_are_told_with_their_nodes(first, second, told):
    graph = networkx.DiGraph([("root", "a"), ("root", "b")])
    graph.nodes["a"]["x"], graph.nodes["b"]["x"] = first, second
    with pytest.raises(ValueError, match=told):
        from_networkx(graph)
