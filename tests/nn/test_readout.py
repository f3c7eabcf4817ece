import pytest
import torch
from torch_geometric.nn import MLP
from torch_geometric.nn.aggr import (
    AttentionalAggregation,
    DeepSetsAggregation,
    GRUAggregation,
    MaxAggregation,
    MeanAggregation,
    MedianAggregation,
    SetTransformerAggregation,
    SortAggregation,
)

from hsa_pyg import SignalHierarchy
from hsa_pyg.nn import LeafReadout, leaf_means


@pytest.fixture
def forest() -> SignalHierarchy:
    """Trees of 3, 0, 2 and 0 leaves: the last one has none."""
    parent = torch.tensor([-1, 0, 0, 1, 1, -1, 5, -1, 7, 7, -1])
    leaf_mask = torch.zeros(11, dtype=torch.bool)
    leaf_mask[[2, 3, 4, 8, 9]] = True
    return SignalHierarchy.from_parents(parent, leaf_mask)


def test_mean_over_the_leaves_of_each_tree(forest):
    x = torch.randn(5, 3)
    out = LeafReadout("mean")(x, forest)
    zero = torch.zeros(3)
    expected = torch.stack([x[:3].mean(0), zero, x[3:].mean(0), zero])
    torch.testing.assert_close(out, expected)


def test_attention_over_the_leaves_of_each_tree(forest):
    readout = LeafReadout("attention", channels=3)
    x = torch.randn(5, 3, requires_grad=True)
    out = readout(x, forest)
    gate = readout.aggr.gate_nn(x)
    torch.testing.assert_close(out[0], (gate[:3].softmax(0) * x[:3]).sum(0))
    torch.testing.assert_close(out[2], (gate[3:].softmax(0) * x[3:]).sum(0))
    assert torch.equal(out[[1, 3]], torch.zeros(2, 3))
    (out * torch.randn_like(out)).sum().backward()
    assert x.grad.isfinite().all()
    assert readout.aggr.gate_nn.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("aggr", ["max", MaxAggregation()])
def test_any_aggregation_of_pyg(forest, aggr):
    x = torch.randn(5, 3)
    out = LeafReadout(aggr)(x, forest)
    torch.testing.assert_close(out[0], x[:3].max(0).values)
    assert out.shape == (4, 3)


def test_samples_of_a_batch_without_any_node():
    """Rows come from the number of samples, not from the largest index."""
    edges = {("word", "child_of", "page"): torch.tensor([[0, 1], [0, 0]])}
    batch = {"page": torch.tensor([1]), "word": torch.tensor([1, 1])}
    h = SignalHierarchy.from_edge_index(
        edges, {"page": 1, "word": 2}, batch_dict=batch, num_trees=4
    )
    out = LeafReadout("mean")(torch.ones(2, 3), h)
    assert out.tolist() == [[0.0] * 3, [1.0] * 3, [0.0] * 3, [0.0] * 3]


def test_no_leaf_at_all():
    h = SignalHierarchy.from_parents(torch.tensor([-1, 0]), torch.zeros(2).bool())
    for aggr in ("mean", "attention"):
        out = LeafReadout(aggr, channels=3)(torch.randn(0, 3), h)
        assert torch.equal(out, torch.zeros(1, 3))


def test_bfloat16_sums_do_not_stall():
    h = SignalHierarchy.from_parents(torch.tensor([-1] + [0] * 5000))
    out = LeafReadout("mean")(torch.ones(5000, 1, dtype=torch.bfloat16), h)
    assert out.dtype == torch.bfloat16
    assert out.item() == 1.0
    assert leaf_means(torch.ones(5000, 1, dtype=torch.bfloat16), h)[0].item() == 1.0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_learned_readout_in_half_precision(dtype):
    h = SignalHierarchy.from_parents(torch.tensor([-1] + [0] * 3000))
    x = torch.ones(3000, 4, dtype=dtype)
    readout = LeafReadout("attention", channels=4).to(dtype)
    out = readout(x, h)
    assert out.dtype == dtype
    assert torch.equal(out, torch.ones(1, 4, dtype=dtype))
    readout(torch.randn(3000, 4, dtype=dtype), h).sum().backward()
    grad = readout.aggr.gate_nn.weight.grad
    assert grad.dtype == dtype
    assert grad.abs().max() > 0


def test_what_a_readout_learns_by_looking_is_kept_in_half_precision():
    h = SignalHierarchy.from_parents(torch.tensor([-1] + [0] * 64))
    readouts = []
    for dtype in (torch.float32, torch.bfloat16):
        torch.manual_seed(0)
        norm = MLP([4, 4, 4], norm="batch_norm")
        readout = LeafReadout(DeepSetsAggregation(norm)).to(dtype)
        readouts.append(readout)
        for _ in range(20):
            readout(torch.randn(64, 4).to(dtype) + 3, h)
    mean, rounded = (
        one.aggr.local_mlp.norms[0].module.running_mean for one in readouts
    )
    assert mean.abs().max() > 0.5
    torch.testing.assert_close(rounded.float(), mean, rtol=0.1, atol=0.1)


def test_a_lazy_readout_in_half_precision():
    h = SignalHierarchy.from_parents(torch.tensor([-1, 0, 0]))
    x = torch.randn(2, 4, dtype=torch.bfloat16)
    for dtype in (torch.float32, torch.bfloat16):
        gate = torch.nn.LazyLinear(1, dtype=dtype)
        readout = LeafReadout(AttentionalAggregation(gate))
        for _ in range(2):
            assert readout(x, h).dtype == torch.bfloat16


class Sorted(MeanAggregation):
    def forward(self, x, index=None, ptr=None, dim_size=None, dim=-2):
        self.assert_sorted_index(index)
        return super().forward(x, index, ptr, dim_size, dim)


@pytest.mark.parametrize(
    "aggr",
    [
        Sorted(),
        GRUAggregation(3, 3),
        SortAggregation(2),
        SetTransformerAggregation(3, heads=1, dropout=0.0),
        MedianAggregation(),
    ],
)
def test_aggregations_that_want_leaves_tree_by_tree(aggr):
    """Leaves run type by type, here also with trees numbered out of order."""
    parent = torch.tensor([-1, -1, 1, 0, 0, 1, 1, 0])
    forest = SignalHierarchy.from_parents(parent)
    assert forest.leaf_tree.tolist() != sorted(forest.leaf_tree.tolist())
    readout = LeafReadout(aggr)
    x = torch.randn(6, 3)
    together = readout(x, forest)
    single = SignalHierarchy.from_parents(torch.tensor([-1, 0, 0, 0]))
    for tree in range(2):
        alone = readout(x[forest.leaf_tree == tree], single)
        torch.testing.assert_close(together[tree], alone[0])


def test_means_of_integers_are_no_integers():
    h = SignalHierarchy.from_parents(torch.tensor([-1, 0, 0]))
    assert leaf_means(torch.tensor([[0], [1]]), h).tolist() == [[0.5], [0.0], [1.0]]


def test_leaf_means_of_every_node(forest):
    x = torch.randn(5, 2, 3, dtype=torch.double, requires_grad=True)
    means = leaf_means(x, forest)
    torch.testing.assert_close(means[forest.leaves], x)
    torch.testing.assert_close(means[0], x[:3].mean(0))
    torch.testing.assert_close(means[1], x[1:3].mean(0))
    torch.testing.assert_close(means[7], x[3:].mean(0))
    assert torch.equal(means[[5, 6, 10]], torch.zeros(3, 2, 3).double())
    assert torch.autograd.gradcheck(lambda x: leaf_means(x, forest), x)


def test_wrong_inputs(forest):
    with pytest.raises(ValueError, match="'attention' needs 'channels'"):
        LeafReadout("attention")
    with pytest.raises(ValueError, match=r"shape \[5, channels\].*got \(4, 3\)"):
        LeafReadout("mean")(torch.randn(4, 3), forest)
    typed = SignalHierarchy.from_edge_index({}, {"word": 2, "image": 1})
    x = {"word": torch.randn(2, 3), "image": torch.randn(1, 4)}
    for readout in (LeafReadout("mean"), leaf_means):
        with pytest.raises(ValueError, match=r"unlike widths.*map them to one width"):
            readout(x, typed)
        with pytest.raises(ValueError, match=r"has 1 leaves of type 'image'"):
            readout({"word": x["word"]}, typed)
    with pytest.raises(TypeError, match="must be a SignalHierarchy"):
        LeafReadout("mean")(torch.randn(5, 3), torch.zeros(5).long())


def test_the_dictionary_that_a_layer_gives():
    """Its types come in any order, and a type without rows may be absent."""
    edges = {
        ("word", "child_of", "page"): torch.tensor([[0, 1, 2], [0, 0, 1]]),
        ("image", "child_of", "page"): torch.tensor([[0], [1]]),
    }
    sizes = {"page": 2, "word": 3, "image": 1, "table": 0}
    h = SignalHierarchy.from_edge_index(edges, sizes, ["word", "image", "table"])
    x = {"image": torch.randn(1, 4), "word": torch.randn(3, 4)}
    rows = torch.cat([x["word"], x["image"]])
    assert torch.equal(LeafReadout("mean")(x, h), LeafReadout("mean")(rows, h))
    expected = torch.stack([x["word"][:2].mean(0), rows[2:].mean(0)])
    torch.testing.assert_close(LeafReadout("mean")(x, h), expected)
    torch.testing.assert_close(leaf_means(x, h)[:2], expected)
