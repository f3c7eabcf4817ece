import copy

import pytest
import torch
from torch_geometric.data import Batch

from hsa_pyg.data import NestedSignal, Schema
from hsa_pyg.experiments.models import make_model
from hsa_pyg.experiments.models.node_model import tree_of_nodes
from tests.experiments.models.documents import SAMPLES

NAMES = ("hgt", "gps")


def model_of(name, schema, **options):
    sizes = {"token": 10}
    return make_model(name, schema, 3, 16, vocab_sizes=sizes, heads=2, **options)


def test_nodes_know_their_sample(samples, batch):
    tree = tree_of_nodes(batch, batch.hierarchy)
    assert torch.equal(tree[batch.hierarchy.leaves], batch.hierarchy.leaf_tree)
    parent = batch.hierarchy.parent
    below = parent >= 0
    assert torch.equal(tree[below], tree[parent[below]])
    assert tree_of_nodes(samples[0], samples[0].hierarchy).unique().tolist() == [0]


def rooted(kind):
    """A tree whose root is of a type of its own."""
    signal = NestedSignal()
    for name in ("letter", "page"):
        signal[name].num_nodes = int(name == kind)
    signal["token"].x = torch.tensor([1, 2])
    empty = torch.empty(2, 0, dtype=torch.long)
    for name in ("letter", "page"):
        edge = torch.tensor([[0, 1], [0, 0]]) if name == kind else empty
        signal["token", "child_of", name].edge_index = edge
    return signal


@pytest.mark.parametrize("name", NAMES)
def test_roots_of_several_types_are_read_in_the_order_of_the_samples(name):
    signals = [rooted("page"), rooted("letter"), rooted("page")]
    model = model_of(name, Schema.of(signals[0]), readout="root").eval()
    out = model(Batch.from_data_list(signals))
    for i, signal in enumerate(signals):
        torch.testing.assert_close(model(signal)[0], out[i])
    assert not torch.allclose(out[0], out[1], atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_types_that_the_schema_lacks_are_refused(name, samples):
    signal = samples[1]
    small = Schema(
        {k: v for k, v in Schema.of(signal).nodes.items() if k != "image"},
        [k for k in Schema.of(signal).parent_edges if k[0] != "image"],
    )
    with pytest.raises(ValueError, match=r"nodes of the types \['image'\]"):
        model_of(name, small)(signal)
    with pytest.raises(ValueError, match="no edge type"):
        model_of(name, Schema({"token": small.nodes["token"]}))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("readout", ["mean", "root"])
def test_types_that_a_batch_lacks_are_no_matter(name, readout):
    model = model_of(name, Schema.of(SAMPLES[0]), readout=readout).eval()
    signal = SAMPLES[3]
    bare = copy.copy(signal)
    del bare["image"], bare["image", "child_of", "document"]
    torch.testing.assert_close(model(bare), model(signal))


@pytest.mark.parametrize("name", NAMES)
def test_a_tree_of_one_leaf(name, schema):
    signal = NestedSignal(schema=schema)
    signal["token"].x = torch.tensor([3])
    signal["token"].pos = torch.zeros(1, 1)
    for readout in ("mean", "root"):
        model = model_of(name, schema, readout=readout)
        assert model(signal).isfinite().all()
        model(signal).sum().backward()
