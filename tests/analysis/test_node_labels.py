import pytest
import torch

from hsa_pyg import NestedSignal
from hsa_pyg.analysis import NodeLabels
from hsa_pyg.converters import ROLES, from_document, from_nested


def test_texts_roles_and_long_ones():
    signal = from_document(
        "<h1>Rain</h1><p>" + "It rained. " * 30 + "</p>", format="html"
    )
    labels = NodeLabels(signal, {"block": ROLES, "paragraph": ROLES})
    by_type = {}
    for node in range(signal.hierarchy.num_nodes):
        by_type.setdefault(labels.type_name(node), []).append(labels(node))
    assert by_type["heading"] == ["Rain"]
    assert by_type["paragraph"] == ["It rained. " * 5 + "It r…"]
    assert by_type["token"][:3] == ["Rain", "It", "rained"]
    assert NodeLabels(signal)(0, length=8) == "Rain It…"


def test_names_come_first_and_values_last():
    signal = NestedSignal()
    signal["clade"].num_nodes, signal["clade"].name = 2, ["Aves", ""]
    signal["length"].x = torch.tensor([[0.5], [12.0]])
    signal["kind"].x = torch.tensor([7])
    signal["shape"].x = torch.rand(1, 3)
    edges = {"clade": [[1], [0]], "length": [[0, 1], [1, 1]]}
    edges |= {"kind": [[0], [0]], "shape": [[0], [0]]}
    for child, edge in edges.items():
        signal[child, "child_of", "clade"].edge_index = torch.tensor(edge)
    labels = NodeLabels(signal)
    assert [labels(node) for node in range(6)] == ["Aves", "", "0.5", "12", "#7", ""]
    assert labels.place(3) == ("length", 1)
    with pytest.raises(IndexError, match="no node 6"):
        labels.place(6)


def test_constants_of_nested_values_have_their_names():
    signal = from_nested({"name": None, "sizes": [1, True, False]})
    labels = NodeLabels(signal)
    named = [labels(node) for node in range(signal.hierarchy.num_nodes)]
    assert sorted(named) == ["", "1", "false", "name = null", "sizes", "true"]


def test_a_line_holds_no_control_characters():
    signal = NestedSignal()
    signal["node"].x = torch.zeros(1, 1)
    signal["node"].name = ["a\nb\x1b[31m\u202ec\x00 d"]
    assert NodeLabels(signal)(0) == "a b [31m c d"
