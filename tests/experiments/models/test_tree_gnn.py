import copy

import pytest
import torch
from torch_geometric.nn import HGTConv

from hsa_pyg.data import Schema
from hsa_pyg.experiments.models import TreeGNN
from hsa_pyg.experiments.models.tree_gnn import TypedConv
from tests.experiments.models.documents import document


def test_messages_are_those_of_the_library():
    signal = document([[1, 2, 3], [4]], images=1)
    kinds = list(signal.edge_types)
    conv = TypedConv(signal.node_types, kinds, 8, 2)
    edges = {}
    for child, _, parent in kinds:
        edge = signal[child, "child_of", parent].edge_index
        edges[child, "child_of", parent] = edge
        edges[parent, "parent_of", child] = edge.flip(0)
    plain = HGTConv(8, 8, (signal.node_types, list(edges)), heads=2)
    plain.load_state_dict(conv.conv.state_dict())
    h = signal.hierarchy
    x = torch.randn(h.num_nodes, 8)
    split = {kind: x[a:b] for kind, (a, b) in h.node_slices.items()}
    out = plain(split, edges)
    torch.testing.assert_close(
        conv(x, h, edges), torch.cat([out[kind] for kind in h.node_slices])
    )


def test_each_layer_reaches_an_edge_further(schema):
    one, other = document([[1, 2], [3]]), document([[1, 2], [7]])
    for layers, hears in ((2, False), (4, True)):
        model = TreeGNN.from_schema(
            schema, 3, 16, vocab_sizes={"token": 10}, heads=2, num_layers=layers
        ).eval()
        outs = [model.embed(signal)[0][0] for signal in (one, other)]
        assert torch.equal(*outs) is not hears


def test_edges_that_the_schema_lacks_are_refused(schema, samples):
    model = TreeGNN.from_schema(schema, 3, 16, vocab_sizes={"token": 10})
    odd = copy.copy(samples[1])
    del odd["token", "child_of", "sentence"]
    odd["token", "child_of", "document"].edge_index = torch.tensor([[0], [0]])
    with pytest.raises(ValueError, match=r"edges of the types \[\('token', 'child_of'"):
        model(odd)


def test_relations_of_siblings_are_not_looked_at(schema, samples):
    model = TreeGNN.from_schema(schema, 3, 16, vocab_sizes={"token": 10}).eval()
    before = model(samples[0])
    linked = copy.copy(samples[0])
    linked["token", "before", "token"].edge_index = torch.tensor([[0], [1]])
    assert Schema.of(linked).sibling_edges
    torch.testing.assert_close(model(linked), before)
