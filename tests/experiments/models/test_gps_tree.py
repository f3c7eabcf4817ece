import pytest
import torch
from torch_geometric.data import Batch
from torch_geometric.nn.attention import PerformerAttention

from hsa_pyg.experiments.models import GPSTree
from hsa_pyg.experiments.models.gps_tree import MaskedPerformer
from tests.experiments.models.documents import document


def model_of(schema, **options):
    options = {"heads": 2, "vocab_sizes": {"token": 10}, **options}
    return GPSTree.from_schema(schema, 3, 16, **options)


@pytest.mark.parametrize("attention", ["multihead", "performer"])
def test_it_is_the_layers_of_the_library_on_the_tree(schema, attention):
    signal = document([[1, 2, 3], [4]], images=1)
    model = model_of(schema, attention=attention).eval()
    h = signal.hierarchy
    x = model.encode_nodes(signal, h)
    child = (h.parent >= 0).nonzero().view(-1)
    up = torch.stack([child, h.parent[child]])
    attr = model.directions.weight[[0, 1]].repeat_interleave(len(child), 0)
    for layer in model.layers:
        x = layer(x, torch.cat([up, up.flip(0)], 1), edge_attr=attr)
    torch.testing.assert_close(model.node_body(signal, h), x)


def test_trees_are_padded_with_their_like_alone(schema, monkeypatch):
    padded = []
    original = torch.nn.MultiheadAttention.forward

    def forward(self, x, *args, key_padding_mask, **kwargs):
        padded.append((key_padding_mask.numel(), int(key_padding_mask.sum())))
        return original(self, x, *args, key_padding_mask=key_padding_mask, **kwargs)

    monkeypatch.setattr(torch.nn.MultiheadAttention, "forward", forward)
    signals = [document([[1]])] * 30 + [document([[1, 2, 3] * 30])]
    model_of(schema)(Batch.from_data_list(signals))
    assert sum(slots for slots, _ in padded) == 2 * (30 * 4 + 93)
    assert sum(empty for _, empty in padded) == 0


def test_performer_attention_without_padding_is_the_original():
    x = torch.randn(2, 5, 8)
    plain = PerformerAttention(8, 2, head_channels=4)
    masked = MaskedPerformer(8, 2, head_channels=4)
    masked.load_state_dict(plain.state_dict())
    torch.testing.assert_close(masked(x), plain(x))
    kept = torch.ones(2, 5, dtype=torch.bool)
    torch.testing.assert_close(masked(x, kept), plain(x, kept))


def test_performer_attention_leaves_out_what_is_padded():
    x = torch.randn(1, 5, 8)
    mask = torch.tensor([[True, True, True, False, False]])
    attention = MaskedPerformer(8, 2, head_channels=4, qkv_bias=True)
    torch.testing.assert_close(attention(x, mask)[:, :3], attention(x[:, :3]))
    original = PerformerAttention(8, 2, head_channels=4, qkv_bias=True)
    original.load_state_dict(attention.state_dict())
    # If this fails, the library has mended it, and the class here can go.
    assert not torch.allclose(original(x, mask)[:, :3], original(x[:, :3]), atol=1e-3)


def test_gradients_of_the_masked_attention_are_those_of_differences():
    attention = MaskedPerformer(4, 1, head_channels=4).double()
    # Away from the kinks of the rectifier.
    x = torch.randn(1, 4, 4, dtype=torch.float64).mul(2).requires_grad_()
    mask = torch.tensor([[True, True, True, False]])
    assert torch.autograd.gradcheck(lambda y: attention(y, mask), (x,))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"local": "gcn"}, "'local' must be 'gine' or 'gat', got 'gcn'"),
        ({"attention": "flat"}, "'attention' must be 'multihead' or 'performer'"),
        ({"heads": 3}, "divisible by the number of heads"),
        ({"heads": 16, "attention": "performer"}, "take fewer heads than 16"),
    ],
)
def test_arguments_that_cannot_be(schema, options, message):
    with pytest.raises(ValueError, match=message):
        model_of(schema, **options)


@pytest.mark.parametrize("attention", ["multihead", "performer"])
def test_attention_dropout_is_for_training(schema, samples, attention):
    options = {"attention": attention, "attention_dropout": 0.5, "dropout": 0.0}
    model = model_of(schema, **options)
    assert not torch.equal(model(samples[2]), model(samples[2]))
    model.eval()
    assert torch.equal(model(samples[2]), model(samples[2]))
