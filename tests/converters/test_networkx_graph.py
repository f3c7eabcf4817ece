import warnings

import networkx as nx
import pytest
import torch
from torch_geometric.utils import from_networkx as pyg_from_networkx

from hsa_pyg import NestedSignal
from hsa_pyg.converters import from_graph

EDGE = ("vertex", "to", "vertex")


def sound(signal):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert signal.validate()
    return signal


def test_nodes_of_any_kind_keep_their_order():
    graph = nx.Graph()
    nodes = ["b", 3, (1, "x"), 1, "None", frozenset({2}), 1.5, "1"]
    graph.add_nodes_from(nodes)
    graph.add_edge("1", 3)
    signal = sound(from_graph(graph))
    assert signal["vertex"].name == [
        "b",
        "3",
        "(1, 'x')",
        "1",
        "None",
        "frozenset({2})",
        "1.5",
        "1",
    ]
    assert signal[EDGE].edge_index.tolist() == [[1, 7], [7, 1]]


def test_only_attributes_of_all_nodes_are_kept_and_one_warning_names_the_others():
    graph = nx.path_graph(3)
    for node in graph:
        graph.nodes[node].update(
            {0: node, "size": [1.0, node], "colour": "red", "flag": node > 1}
        )
    graph.nodes[1]["age"] = 4
    graph.nodes[2]["size_of"] = [1, 2]
    graph.edges[0, 1]["length"] = 2
    graph.graph.update({"name": "path", "code": 7, "notes": {"a": 1}})
    with pytest.warns(UserWarning, match="left out of the signal") as caught:
        signal = from_graph(graph)
    (warning,) = caught
    assert warning.filename == __file__
    message = str(warning.message)
    assert "vertex attribute 'colour' (is not numeric" in message
    assert "map it to integers to keep it" in message
    assert "vertex attribute 'age' (2 of 3 vertices lack it)" in message
    assert "edge attribute 'length' (2 of 4 edges lack it)" in message
    assert "graph attribute 'notes'" in message
    assert "flag" not in message
    vertex = signal["vertex"]
    assert vertex["0"].tolist() == [0, 1, 2]
    assert vertex["size"].tolist() == [[1, 0], [1, 1], [1, 2]]
    assert vertex["size"].dtype == torch.float
    assert vertex.flag.tolist() == [False, False, True]
    assert signal.name == "path"
    assert signal.code.tolist() == [7]


def test_complete_numeric_graphs_warn_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        signal = sound(from_graph(nx.Graph([(0, 1)])))
    assert isinstance(signal, NestedSignal)


def test_ragged_and_foreign_values_are_left_out():
    graph = nx.path_graph(2)
    for node, values in enumerate(
        [([1, 2], 1j, torch.ones(2), 2**70), ([1], 2j, torch.ones(3), 1)]
    ):
        graph.nodes[node].update(zip("abcd", values, strict=True))
    with pytest.warns(UserWarning, match="'a'.*'b'.*'c'.*'d'"):
        signal = from_graph(graph)
    assert list(signal["vertex"].keys("x", "name", "a", "b", "c", "d")) == ["x", "name"]


def test_sparse_tensors_of_nodes_are_left_out():
    graph = nx.path_graph(2)
    nx.set_node_attributes(graph, torch.eye(2).to_sparse(), "a")
    with pytest.warns(UserWarning, match="'a'"):
        signal = sound(from_graph(graph))
    assert "a" not in signal["vertex"]


def test_a_weight_beside_an_edge_weight_is_kept():
    graph = nx.Graph()
    graph.add_edge(0, 1, weight=5, edge_weight=7)
    signal = from_graph(graph)
    assert signal[EDGE].edge_weight.tolist() == [7, 7]
    assert signal[EDGE].weight.tolist() == [5, 5]


def test_keys_that_become_the_same_text_are_refused():
    graph = nx.path_graph(2)
    for node in graph:
        graph.nodes[node].update({1: 0, "1": 0})
    with pytest.raises(ValueError, match="several attributes are called '1'"):
        from_graph(graph)


@pytest.mark.parametrize(
    ("kind", "edges"),
    [
        (nx.Graph, [[0, 1, 1, 1, 2], [1, 0, 1, 2, 1]]),
        (nx.DiGraph, [[0, 1, 2], [1, 1, 1]]),
        (nx.MultiGraph, [[0, 0, 1, 1, 1, 1, 2], [1, 1, 0, 0, 1, 2, 1]]),
        (nx.MultiDiGraph, [[0, 0, 1, 2], [1, 1, 1, 1]]),
    ],
)
def test_directions_and_parallel_edges_of_networkx(kind, edges):
    graph = kind()
    graph.add_nodes_from(range(3))
    graph.add_edge(0, 1, weight=2.0)
    graph.add_edge(0, 1, weight=3.0)
    graph.add_edge(2, 1, weight=5.0)
    graph.add_edge(1, 1, weight=7.0)
    signal = sound(from_graph(graph))
    found = signal[EDGE].edge_index
    assert sorted(found.t().tolist()) == sorted(torch.tensor(edges).t().tolist())
    weight = {5.0: {1, 2}, 7.0: {1}}
    for (a, b), value in zip(
        found.t().tolist(), signal[EDGE].edge_weight.tolist(), strict=True
    ):
        assert {a, b} == weight.get(value, {0, 1})


def test_networkx_and_pyg_agree():
    graph = nx.les_miserables_graph()
    signal = from_graph(graph)
    data = pyg_from_networkx(graph)
    data.edge_weight = data.weight.float()
    del data.weight
    other = from_graph(data)
    for edge in signal.edge_types[:4]:
        assert torch.equal(signal[edge].edge_index, other[edge].edge_index)
    assert signal["vertex"].name[:2] == ["Napoleon", "Myriel"]
