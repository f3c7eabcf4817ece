import copy
import itertools

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.testing import CompileCounterWithBackend
from torch_geometric.data import Batch
from torch_geometric.nn import summary

from hsa_pyg.data import NestedSignal, Schema
from hsa_pyg.nn import (
    FlatConv,
    HierarchicalPosition,
    HSAConv,
    HSATransformer,
    LeafEncoder,
    blocklocal,
)

ATTENTIONS = ("hsa", "flat", "none")


def document(sentences: list[list[int]], images: int = 0, y: int = 0) -> NestedSignal:
    """A document of sentences of tokens, and of images beside them."""
    signal = NestedSignal()
    words = [token for sentence in sentences for token in sentence]
    lengths = torch.tensor([len(s) for s in sentences], dtype=torch.long)
    owner = torch.arange(len(sentences)).repeat_interleave(lengths)
    first = lengths.cumsum(0) - lengths
    signal["document"].num_nodes = 1
    signal["sentence"].num_nodes = len(sentences)
    signal["sentence"].pos = torch.arange(len(sentences)).float()[:, None]
    signal["token"].x = torch.tensor(words, dtype=torch.long)
    signal["token"].pos = (torch.arange(len(words)) - first[owner]).float()[:, None]
    signal["image"].x = torch.randn(images, 3)
    signal["image"].pos = torch.arange(images).float()[:, None] + len(sentences)
    for child, parent, row in (
        ("sentence", "document", torch.zeros(len(sentences), dtype=torch.long)),
        ("image", "document", torch.zeros(images, dtype=torch.long)),
        ("token", "sentence", owner),
    ):
        signal[child, "child_of", parent].edge_index = torch.stack(
            [torch.arange(row.numel()), row]
        )
    signal.y = torch.tensor([y])
    return signal


@pytest.fixture
def batch() -> Batch:
    """Three documents; the last one has no leaf at all."""
    return Batch.from_data_list(
        [document([[1, 2, 3], [], [4, 5]], images=2), document([[6]]), document([[]])]
    )


def transformer(**options) -> HSATransformer:
    encoder = LeafEncoder(16, vocab_sizes={"token": 10}, in_channels={"image": 3})
    position = HierarchicalPosition({"document": "sequence", "sentence": "sequence"}, 8)
    return HSATransformer(
        encoder, out_channels=3, **{"heads": 2, "position": position, **options}
    )


def test_the_hidden_layer_has_the_width_that_is_asked_for(batch):
    for block in ("pre_norm", "paper"):
        model = transformer(block=block, hidden_channels=7, expansion=3)
        assert [block.mlp[0].out_channels for block in model.blocks] == [7, 7]
        assert [block.mlp[2].in_channels for block in model.blocks] == [7, 7]
        assert model(batch).shape == (3, 3)
        wide = transformer(block=block, expansion=3)
        assert wide.blocks[0].mlp[0].out_channels == 48
    with pytest.raises(ValueError, match="'hidden_channels' must be at least 1, got 0"):
        transformer(hidden_channels=0)


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("block", ["pre_norm", "paper"])
@pytest.mark.parametrize("readout", ["mean", "attention"])
def test_gradients_reach_every_parameter(batch, attention, block, readout):
    model = transformer(attention=attention, block=block, readout=readout)
    out = model(batch)
    assert out.shape == (3, 3)
    # A document without leaves has the answer of a zero readout.
    torch.testing.assert_close(out[2], model.head.bias)
    (out * torch.randn_like(out)).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        # A gate's bias moves all leaves of a tree alike.
        if name != "readout.aggr.gate_nn.bias":
            assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_batch_without_any_leaf_in_a_cast_model(dtype):
    for readout in ("mean", "attention"):
        model = transformer(readout=readout).to(dtype).eval()
        out = model(Batch.from_data_list([document([[]]), document([])]))
        torch.testing.assert_close(out, model.head.bias.expand(2, -1))


def test_a_compiled_model_does_not_trace_how_a_hierarchy_is_built():
    """Batches of PyG's own loader, whose hierarchies the model is the first to read."""
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("eager")
    model = transformer().eval()
    compiled = torch.compile(model, backend=counter)
    for seed in range(5):
        torch.manual_seed(seed)
        sizes = torch.randint(1, 6, (4,)).tolist()
        batch = Batch.from_data_list(
            [document([[1] * n, [2] * seed], images=1) for n in sizes]
        )
        torch.testing.assert_close(compiled(batch), model(batch))
    # The tree alone would take dozens.
    assert counter.frame_count <= 8
    torch._dynamo.reset()


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_alone_equals_batched_in_any_order(attention):
    samples = [document([[1, 2], [3]], 1), document([[4, 5, 6, 7]]), document([[8]], 2)]
    model = transformer(attention=attention).eval()
    together = model(Batch.from_data_list(samples))
    for i, sample in enumerate(samples):
        torch.testing.assert_close(model(sample)[0], together[i])
    backwards = model(Batch.from_data_list(samples[::-1]))
    torch.testing.assert_close(backwards.flip(0), together)


def test_twins_differ_in_the_attention_alone(batch):
    hsa, flat = transformer(attention="hsa"), transformer(attention="flat")
    assert {k: v.shape for k, v in hsa.state_dict().items()} == {
        k: v.shape for k, v in flat.state_dict().items()
    }
    flat.load_state_dict(hsa.state_dict())
    hsa.eval(), flat.eval()
    assert not torch.allclose(hsa(batch)[0], flat(batch)[0], atol=1e-4)
    # One sentence is one family, and flat attention all there is.
    one = document([[1, 2, 3, 4]])
    del one["image"], one["image", "child_of", "document"]
    for model in (hsa, flat):
        model.position = None
        for block in model.blocks:
            block.conv.lin_position = None
    torch.testing.assert_close(hsa(one), flat(one))
    assert [type(b.conv) for b in hsa.blocks] == [HSAConv] * 2
    assert [type(b.conv) for b in flat.blocks] == [FlatConv] * 2


def test_same_seed_same_twin(batch):
    models = []
    for attention in ("hsa", "flat"):
        torch.manual_seed(7)
        models.append(transformer(attention=attention))
    for a, b in zip(*(m.parameters() for m in models), strict=True):
        assert torch.equal(a, b)


def test_pre_norm_block_step_by_step(batch):
    model = transformer(num_layers=1, position=None, dropout=0.0)
    h = batch.hierarchy
    x = model.encoder(batch.x_dict, h)
    block = model.blocks[0]
    x = x + block.conv(F.layer_norm(x, (16,)), h)
    x = x + block.mlp(F.layer_norm(x, (16,)))
    out, _ = model.embed(batch)
    torch.testing.assert_close(out, F.layer_norm(x, (16,)))


def test_paper_block_step_by_step(batch):
    model = transformer(num_layers=1, position=None, dropout=0.0, block="paper")
    h = batch.hierarchy
    x = model.encoder(batch.x_dict, h)
    block = model.blocks[0]
    assert len(block.conv.norms) == 3
    assert block.conv.query_residual
    x = F.layer_norm(block.conv(x, h), (16,))
    out, _ = model.embed(batch)
    torch.testing.assert_close(out, x + block.mlp(x))


def test_without_attention_a_leaf_sees_no_other():
    model = transformer(attention="none").eval()
    out, h = model.embed(document([[1, 2], [3]]))
    other, _ = model.embed(document([[1, 5], [7]]))
    assert torch.equal(out[h.leaf_slices["token"][0]], other[h.leaf_slices["token"][0]])
    assert not any("conv" in name for name, _ in model.named_parameters())


@pytest.mark.parametrize("attention", ["hsa", "flat"])
def test_positions_tell_orders_apart(attention):
    ordered, swapped = document([[1, 2, 3], [4]]), document([[2, 1, 3], [4]])
    model = transformer(attention=attention).eval()
    assert not torch.allclose(model(ordered), model(swapped), atol=1e-6)
    blind = transformer(attention=attention, position=None).eval()
    torch.testing.assert_close(blind(ordered), blind(swapped))


def test_hierarchy_matters_to_hsa_alone():
    apart, joined = document([[1, 2], [3, 4]]), document([[1, 2, 3, 4]])
    hsa = transformer(position=None).eval()
    flat = transformer(position=None, attention="flat").eval()
    assert not torch.allclose(hsa(apart), hsa(joined), atol=1e-6)
    torch.testing.assert_close(flat(apart), flat(joined))


def fit(samples: list[NestedSignal], steps: int = 80, **options) -> float:
    """The loss after training on all samples at once; log 2 or log 3 is chance."""
    torch.manual_seed(0)
    data = Batch.from_data_list(samples)
    model = transformer(dropout=0.0, **options)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(data), data.y)
        loss.backward()
        optimizer.step()
    return loss.item()


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_learns_which_token_occurs(attention):
    samples = []
    for i in range(8):
        tokens = torch.randint(2, 10, (3, 4)).tolist()
        tokens[i % 3][i % 4] = i % 2
        samples.append(document(tokens, y=i % 2))
    assert fit(samples, attention=attention) < 0.05


def test_learns_which_sentence_is_first():
    orders = itertools.permutations([1, 2, 3])
    samples = [document([[i, 9] for i in order], y=order[0] - 1) for order in orders]
    assert fit(samples, attention="hsa") < 0.05
    assert fit(samples, attention="flat") < 0.05
    # Neither without positions, nor without attention.
    assert fit(samples, attention="hsa", position=None) > 1.09
    assert fit(samples, attention="flat", position=None) > 1.09
    assert fit(samples, attention="none") > 1.09


def test_learns_who_shares_a_sentence_from_the_tree_alone():
    together = [[1, 2, 3, 4], [3, 4, 2, 1], [2, 1, 4, 3]]
    apart = [[1, 3, 2, 4], [2, 3, 4, 1], [2, 4, 1, 3]]
    samples = [
        document([tokens[:2], tokens[2:]], y=y)
        for y, documents in enumerate((together, apart))
        for tokens in documents
    ]
    assert fit(samples, attention="hsa", position=None) < 0.05
    assert fit(samples, attention="flat", position=None) > 0.69


def test_untied_and_causal_queries(batch):
    """The first sentence of a document does not know how it goes on."""
    options = {"tie_queries": False, "causal": True, "position": None, "dropout": 0.0}
    model = transformer(**options)
    assert [(b.conv.tie_queries, b.conv.causal) for b in model.blocks] == [
        (False, True)
    ] * 2
    long, short = document([[1, 2, 3], [4, 5]]), document([[1, 2, 3], [6]])
    torch.testing.assert_close(model.embed(long)[0][:3], model.embed(short)[0][:3])
    free = transformer(**{**options, "causal": False})
    free.load_state_dict(model.state_dict())
    seen = [free.embed(x)[0][:3] for x in (long, short)]
    assert not torch.allclose(*seen)
    model(batch).sum().backward()
    assert model.blocks[0].conv.lin_out.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("kept", [2, 3])
def test_the_largest_scores_inside_every_layer(kept):
    """A family of four sees what its layers see with ``top_k``."""
    signal = document([[1, 2, 3, 4]])
    options = {"position": None, "dropout": 0.0}
    model = transformer(**options, top_k=kept, top_k_includes_self=True)
    every = transformer(**options)
    every.load_state_dict(model.state_dict())
    expected = every.embed(signal)[0]
    for block in every.blocks:
        block.conv.top_k, block.conv.top_k_includes_self = kept, True
    assert not torch.allclose(model.embed(signal)[0], expected)
    torch.testing.assert_close(model.embed(signal)[0], every.embed(signal)[0])


def test_a_pattern_inside_every_layer():
    """In blocks of two, a word does not know what the next block holds."""
    model = transformer(position=None, dropout=0.0, pattern=blocklocal(2))
    one, other = document([[1, 2, 3, 4]]), document([[1, 2, 5, 6]])
    torch.testing.assert_close(model.embed(one)[0][:2], model.embed(other)[0][:2])
    assert not torch.allclose(model.embed(one)[0][2:], model.embed(other)[0][2:])


def test_from_schema(batch):
    schema = Schema.of(document([[1]], 1))
    model = HSATransformer.from_schema(
        schema, 2, channels=8, vocab_sizes={"token": 10}, heads=2, num_layers=1
    )
    assert model(batch).shape == (3, 2)
    assert model.encoder.leaf_types == ["token", "image"]


def test_modules_per_leaf_type(batch):
    encoders = {"token": torch.nn.Embedding(10, 8), "image": torch.nn.Linear(3, 8)}
    model = HSATransformer(encoders, 2, channels=8, heads=2)
    assert model.encoder.encoders["token"] is encoders["token"]
    assert model(batch).shape == (3, 2)
    with pytest.raises(ValueError, match="'channels' is needed"):
        HSATransformer(encoders, 2)


def test_state_dict_copy_and_reset(batch):
    model = transformer(readout="attention").eval()
    other = transformer(readout="attention").eval()
    other.load_state_dict(model.state_dict())
    assert torch.equal(model(batch), other(batch))
    assert torch.equal(model(batch), copy.deepcopy(model)(batch))
    before = model(batch)
    model.reset_parameters()
    assert not torch.allclose(model(batch), before)


def test_autocast_and_double(batch):
    model = transformer().eval()
    exact = model(batch)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(batch)
    assert (out.float() - exact).norm() < 3e-2 * exact.norm()
    images = batch.clone()
    images["image"].x = images["image"].x.double()
    torch.testing.assert_close(model.double()(images).float(), exact)


def test_summary_shows_a_layer_as_one_line(batch):
    table = summary(transformer(), batch, max_depth=4)
    assert "(conv)HSAConv" in table
    assert "lin_qkv" not in table


def test_wrong_arguments(batch):
    with pytest.raises(ValueError, match=r"'attention' must be one of .*'linear'"):
        transformer(attention="linear")
    with pytest.raises(ValueError, match="'num_layers' must not be negative"):
        transformer(num_layers=-1)
    with pytest.raises(ValueError, match="'block' must be 'pre_norm' or 'paper'"):
        transformer(block="post_norm")
    with pytest.raises(ValueError, match="divisible by the number of heads"):
        transformer(heads=5)
    with pytest.raises(NotImplementedError, match="flat attention has no causal"):
        transformer(attention="flat", causal=True, tie_queries=False)
    with pytest.raises(NotImplementedError, match="flat attention has no top_k"):
        transformer(attention="flat", top_k=2)
    with pytest.raises(ValueError, match="top_k must be at least 1"):
        transformer(top_k=0)
    with pytest.raises(ValueError, match="no readout is called 'avg': take 'mean'"):
        transformer(readout="avg")
    with pytest.raises(TypeError, match=r"got a list; hsa_pyg\.loader\.DataLoader"):
        transformer()([document([[1, 2]])])
    sampled = document([[1, 2]])
    sampled["token"].num_sampled_nodes = [1, 1]
    with pytest.raises(ValueError, match="comes from a neighbour sampler"):
        transformer()(sampled)


def test_a_signal_of_several_trees_is_refused():
    signal = NestedSignal()
    signal["text"].num_nodes = 1
    signal["word"].x = torch.tensor([1, 2, 0])
    signal["word", "in", "text"].edge_index = torch.tensor([[0, 1, 2], [0, 0, 0]])
    model = HSATransformer.from_schema(signal.schema, 2, 8, vocab_sizes={"word": 3})
    with pytest.raises(ValueError, match="4 roots for 1 signals, but each"):
        model(signal)


@pytest.mark.parametrize(
    ("schema", "vocab_sizes", "message"),
    [([1], None, r"union_schema\(signals\)"), (None, 50, "schema must be a Schema")],
)
def test_what_is_no_schema_is_told_what_to_pass(schema, vocab_sizes, message):
    with pytest.raises(TypeError, match=message):
        HSATransformer.from_schema(schema, 2, 8, vocab_sizes=vocab_sizes)


def test_vocabulary_sizes_are_by_leaf_type():
    signal = NestedSignal()
    signal["word"].x = torch.tensor([1, 2, 0])
    with pytest.raises(TypeError, match="vocab_sizes must be a dictionary"):
        HSATransformer.from_schema(signal.schema, 2, 8, vocab_sizes=50)
