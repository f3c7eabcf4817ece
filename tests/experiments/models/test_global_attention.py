"""The block of local messages and global attention."""

import pytest
import torch
from torch_geometric.data import Batch, Data

from hsa_pyg.converters import from_graph
from hsa_pyg.data import Schema
from hsa_pyg.experiments.models import GlobalAttentionGNN, count_parameters
from hsa_pyg.experiments.models.global_attention import GLOBAL, LOCAL
from hsa_pyg.nn import HierarchicalPosition

PAIRS = [(a, b) for a in LOCAL for b in GLOBAL if (a, b) != ("none", "none")]


def one_group(edge_index, num_nodes, seed):
    """No communities: all vertices are children of the root."""
    return torch.zeros(num_nodes, dtype=torch.long)


def graph(number, seed=0, method="bisection", max_family=4):
    """A path of atoms of three kinds, with bonds of two kinds."""
    generator = torch.Generator().manual_seed(seed)
    path = torch.stack([torch.arange(number - 1), torch.arange(1, number)])
    kinds = torch.randint(2, (number - 1, 1), generator=generator)
    data = Data(
        x=torch.randint(3, (number,), generator=generator),
        edge_index=torch.cat([path, path.flip(0)], dim=1),
        edge_attr=torch.cat([kinds, kinds]),
    )
    return from_graph(data, method, max_family=max_family)


def model(local="gine", attention="hsa", **options):
    options = {"channels": 16, "heads": 2, "edge_sizes": [2], **options}
    return GlobalAttentionGNN.from_schema(
        Schema.of(graph(9)),
        3,
        vocab_sizes={"vertex": 3},
        local=local,
        attention=attention,
        **options,
    ).eval()


@pytest.mark.parametrize(("local", "attention"), PAIRS)
def test_a_graph_does_not_depend_on_its_batch(local, attention):
    graphs = [graph(9, 1), graph(1, 2), graph(14, 3)]
    net = model(local, attention)
    together = net(Batch.from_data_list(graphs))
    alone = torch.cat([net(one) for one in graphs])
    assert together.shape == (3, 3)
    assert torch.allclose(together, alone, atol=1e-5)


@pytest.mark.parametrize(("local", "attention"), PAIRS)
def test_everything_learns(local, attention):
    net = model(local, attention, level="vertex")
    net(Batch.from_data_list([graph(9), graph(6)])).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())


def test_attention_on_one_family_is_softmax_attention():
    flat = graph(12, method=one_group, max_family=64)
    assert flat.hierarchy.num_families == 1
    hsa, multihead = model(attention="hsa"), model(attention="multihead")
    multihead.load_state_dict(hsa.state_dict())
    assert torch.allclose(hsa(flat), multihead(flat), atol=1e-5)


def test_leaves_have_outputs_of_their_own():
    batch = Batch.from_data_list([graph(9), graph(6)])
    out = model(level="vertex")(batch)
    assert out.shape == (15, 3)
    assert out.std(0).min() > 0


def test_attributes_of_edges_are_heard_by_gine_alone():
    one, other = graph(9), graph(9)
    store = other["vertex", "to", "vertex"]
    store.edge_attr = 1 - store.edge_attr
    assert not torch.allclose(model("gine")(one), model("gine")(other))
    net = model("gcn")
    assert torch.equal(net(one), net(other))


def test_hsa_and_multihead_have_the_same_parameters():
    counts = {name: count_parameters(model(attention=name)) for name in GLOBAL}
    assert counts["hsa"] == counts["multihead"]
    assert counts["none"].total < counts["hsa"].total


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"local": "mean"}, "'local' is one of"),
        ({"attention": "linear"}, "'attention' one of"),
        ({"local": "none", "attention": "none"}, "'none' twice"),
        ({"heads": 3}, "divisible"),
        ({"attention": "performer", "heads": 16}, "fewer heads"),
        ({"edge_sizes": None}, "edge_sizes"),
        ({"level": "edge"}, "'level'"),
        ({"position": HierarchicalPosition({}, 4)}, "no positions"),
        ({"edges": ("vertex", "to", "community")}, "one type"),
    ],
)
def test_wrong_settings_are_named(options, message):
    options = {
        "edges": ("vertex", "to", "vertex"),
        "edge_sizes": [2],
        "local": "gine",
        **options,
    }
    encoder = {"vertex": torch.nn.Embedding(3, 16)}
    with pytest.raises(ValueError, match=message):
        GlobalAttentionGNN(encoder, 3, 16, **options)


def test_a_schema_has_one_type_of_edges_to_pass_along():
    tree = Schema(
        {"graph": {}, "vertex": Schema.of(graph(3)).nodes["vertex"]},
        [("vertex", "child_of", "graph")],
    )
    with pytest.raises(ValueError, match="one type of edges"):
        GlobalAttentionGNN.from_schema(tree, 2, 16, vocab_sizes={"vertex": 3})
