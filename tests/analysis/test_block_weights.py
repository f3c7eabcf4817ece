import pytest
import torch
from torch_geometric.loader import DataLoader

from hsa_pyg import HSAConv
from hsa_pyg.analysis import attention_matrix, block_weights, collect_block_weights
from hsa_pyg.analysis.block_weights import run_model
from hsa_pyg.datasets import FakeNestedDataset
from hsa_pyg.nn import HierarchicalPosition, HSATransformer


@pytest.fixture
def data():
    return FakeNestedDataset(num_samples=4, seed=2)


def transformer(data, **options):
    torch.manual_seed(0)
    return HSATransformer.from_schema(
        data.schema, 3, channels=8, heads=2, vocab_sizes=data.vocab_sizes, **options
    )


def masses(weights, hierarchy):
    """Weights that each leaf gives in all: to siblings at every level and itself."""
    given = torch.zeros(hierarchy.num_nodes, weights.pair_weight.size(1))
    given.index_add_(0, weights.pair_index[1], weights.pair_weight)
    for depth in range(1, hierarchy.max_depth + 1):
        nodes = (hierarchy.depth == depth).nonzero().view(-1)
        given[nodes] += given[hierarchy.parent[nodes]]
    return given[hierarchy.leaves] + weights.self_weight


def test_the_weights_of_every_leaf_sum_to_one_in_every_layer_and_head(data):
    position = HierarchicalPosition(
        dict.fromkeys(data.schema.internal_types, "sequence"), 8
    )
    model = transformer(data, position=position, num_layers=3)
    (batch,) = DataLoader(list(data), batch_size=4)
    layers = collect_block_weights(model, batch)
    assert len(layers) == 3
    for weights in layers:
        total = masses(weights, batch.hierarchy)
        torch.testing.assert_close(total, torch.ones_like(total))
    assert not torch.allclose(layers[0].pair_weight, layers[1].pair_weight)


def test_they_are_the_blocks_of_the_attention_matrix(data):
    signal = data[1]
    model = transformer(data, num_layers=1)
    conv = model.blocks[0].conv
    (weights,) = collect_block_weights(model, signal)
    h = signal.hierarchy
    x = model.eval().blocks[0].norm_attention(model.encoder(signal.x_dict, h))
    q, k, _ = conv.lin_qkv(x, h).view(-1, 3, 2, 4).unbind(1)
    theta = attention_matrix(q, k, h).detach()
    row = {int(node): i for i, node in enumerate(h.leaves)}
    checked = 0
    for (attended, attending), weight in zip(
        weights.pair_index.T.tolist(), weights.pair_weight, strict=True
    ):
        if attended in row and attending in row:
            entry = theta[:, row[attending], row[attended]]
            torch.testing.assert_close(entry, weight)
            checked += 1
    assert checked > 0


def test_nothing_is_left_behind(data):
    model = transformer(data)
    model.blocks[1].eval()
    modes = [module.training for module in model.modules()]
    signal = data[0]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    generator = torch.get_rng_state()
    collect_block_weights(model, signal)
    assert [module.training for module in model.modules()] == modes
    assert all(not m._forward_hooks for m in model.modules())
    assert all(torch.equal(before[name], v) for name, v in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), generator)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_hooks_go_also_when_the_model_fails(data):
    model = transformer(data)
    model.head = torch.nn.Linear(3, 3)
    with pytest.raises(RuntimeError):
        collect_block_weights(model, data[0])
    assert all(not m._forward_hooks for m in model.modules())
    assert model.training


def test_a_layer_on_dictionaries_of_edges_is_read_too():
    class OneLayer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = HSAConv({"picture": 8, "word": 1}, 4, heads=2)

        def forward(self, signal):
            x = {"picture": signal["picture"].x, "word": signal["word"].x[:, None] / 64}
            return self.conv(x, signal.edge_index_dict)["picture"]

    data = FakeNestedDataset(num_samples=1, seed=1)
    (weights,) = collect_block_weights(OneLayer(), data[0])
    assert weights.self_weight.size() == (data[0].hierarchy.num_leaves, 2)


def test_a_model_runs_without_dropout(data):
    model = transformer(data, dropout=0.5)
    assert torch.equal(run_model(model, data[0]), run_model(model, data[0]))
    assert model.training


@pytest.mark.parametrize(
    ("attention", "message"),
    [("flat", "has flat attention"), ("none", "has no layer of hierarchical")],
)
def test_a_model_without_blocks_is_refused(data, attention, message):
    with pytest.raises(ValueError, match=message):
        collect_block_weights(transformer(data, attention=attention), data[0])


def test_too_many_weights_are_refused_before_they_are_computed(data, monkeypatch):
    monkeypatch.setattr(block_weights, "MAX_WEIGHTS", 3)
    with pytest.raises(ValueError, match="largest family has"):
        collect_block_weights(transformer(data), data[0])
