import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from hsa_pyg.analysis import attention_flops, counted_flops
from hsa_pyg.integrations.transformers import (
    Tokens,
    make_builder,
    model_attention_flops,
    replace_attention,
    replaced_layers,
)

LENGTHS = 21, 8, 16
SPECIAL = {"bos_token_id": 97, "eos_token_id": 98}


def images(batch=2):
    generator = torch.Generator().manual_seed(2)
    return {"pixel_values": torch.randn(batch, 3, 32, 32, generator=generator)}


def counted_by_torch(model, batch):
    """FLOPs of the products that attention alone makes: batched, and ours."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(**batch)
    counts = counter.get_flop_counts()["Global"]
    return sum(
        flops
        for name, flops in counts.items()
        if str(name) == "aten.bmm" or "hsa_pyg" in str(name)
    )


def test_a_model_as_it_is(tiny, texts):
    bert = tiny("Bert", attn_implementation="eager")
    flops = model_attention_flops(bert, texts)
    tokens = sum(length**2 for length in LENGTHS)
    assert [layer.number for layer in flops.layers] == [0, 1, 2, 3]
    for layer in flops.layers:
        assert not layer.replaced
        assert layer.paper.softmax == layer.paper.actual == tokens * (4 * 32 + 4)
        assert layer.counted.softmax == layer.counted.actual == tokens * 4 * 32
        # Softmax attention pads every text to the longest.
        assert layer.padded.softmax == layer.padded.actual == 3 * 21**2 * 4 * 32
    assert flops.paper.share == 1
    assert flops.padded.actual == counted_by_torch(bert, texts)


@pytest.mark.parametrize("backend", ["torch", "reference"])
@pytest.mark.parametrize("tie_queries", [True, False])
def test_some_layers_replaced(tiny, texts, backend, tie_queries):
    bert = tiny("Bert", attn_implementation="eager")
    replace_attention(
        bert,
        [1, 3],
        "window:4",
        tie_queries=tie_queries,
        special_ids=[],
        backend=backend,
    )
    flops = model_attention_flops(bert, texts)
    kept = texts["attention_mask"].bool()
    tree = make_builder("window:4")(Tokens(kept, kept & False))
    paper = attention_flops(tree, 32, 4, tie_queries=tie_queries)
    counted = counted_flops(tree, 32, 4, tie_queries=tie_queries)
    assert [layer.replaced for layer in flops.layers] == [False, True, False, True]
    for layer in (flops.layers[1], flops.layers[3]):
        assert layer.paper.softmax == paper.softmax
        assert layer.paper.actual == paper.hsa
        assert layer.counted.softmax == counted.softmax
        assert layer.counted.actual == counted.hsa
        padded = counted.hsa_padded if backend == "torch" else counted.hsa
        assert layer.padded.actual == padded
    assert flops.paper.softmax == 4 * paper.softmax
    assert flops.paper.actual == 2 * (paper.softmax + paper.hsa)
    if backend == "torch":
        assert flops.padded.actual == counted_by_torch(bert, texts)


def test_trees_of_each_layer_of_its_own(tiny, texts):
    bert = replace_attention(tiny("Bert"), "all", "clusters:0.3", backend="torch")
    flops = model_attention_flops(bert, texts)
    assert flops.padded.actual == counted_by_torch(bert, texts)
    assert len({layer.counted.actual for layer in flops.layers}) > 1
    # The builder is the user's own again, and the model is as it was.
    form = bert.encoder.layer[0].attention.self.config.hsa_pyg_layer.form
    assert type(form.builder).__name__ == "Clusters"
    assert not bert.encoder.layer[0].attention.self._forward_hooks


def test_images(tiny):
    vit = tiny("ViT", attn_implementation="eager")
    flops = model_attention_flops(vit, images())
    assert flops.layers[0].paper.softmax == 2 * 17**2 * (4 * 32 + 4)
    replace_attention(vit, [2], "quadtree", backend="torch")
    flops = model_attention_flops(vit, images())
    # The class token and four quadrants, each of four patches.
    assert flops.layers[2].counted.actual == 2 * 4 * 32 * (5**2 + 4 * 4**2)
    assert flops.padded.actual == counted_by_torch(vit, images())


@pytest.mark.parametrize(
    "stem",
    ["Roberta", "Electra", "DistilBert", "Albert", "DeiT", "CLIPVision", "Dinov2"],
)
def test_other_architectures(tiny, texts, stem):
    model = tiny(stem, attn_implementation="eager")
    batch = images() if "pixel_values" in model.main_input_name else texts
    assert model_attention_flops(model, batch).padded.actual == counted_by_torch(
        model, batch
    )
    replace_attention(model, "all", "window:4", backend="torch")
    flops = model_attention_flops(model, batch)
    assert flops.padded.actual == counted_by_torch(model, batch)
    assert flops.paper.share < 1


def test_a_causal_tower(tiny, texts):
    clip = tiny("CLIPText", attn_implementation="eager")
    ids = {"input_ids": texts["input_ids"]}
    flops = model_attention_flops(clip, ids)
    assert flops.layers[0].paper.softmax == 3 * 21**2 * (4 * 32 + 4)
    replace_attention(clip, "all", "window:4", tie_queries=False)
    assert model_attention_flops(clip, ids).paper.share < 0.8


def test_a_module_that_stands_for_all_layers(tiny, texts):
    flops = model_attention_flops(tiny("Albert"), texts)
    assert len(flops.layers) == 1
    assert flops.layers[0].padded.actual == 4 * 3 * 21**2 * 4 * 32


def test_the_table(tiny, texts):
    bert = replace_attention(tiny("Bert"), [1], "window:4")
    flops = model_attention_flops(bert, texts)
    lines = str(flops).splitlines()
    assert len(lines) == 2 + 4 + 1
    assert {line.count("|") for line in lines} == {10}
    assert lines[2].startswith("| 0 | softmax | 0.100 | 0.100 | 100.0% |")
    assert lines[3].startswith("| 1 | HSA | 0.100 |")
    assert lines[-1].startswith("| all |")


def test_the_mode_of_the_model_is_kept(tiny, texts):
    bert = replace_attention(tiny("Bert").train(), [1])
    state = torch.get_rng_state()
    model_attention_flops(bert, texts)
    assert bert.training
    assert replaced_layers(bert) == [1]
    assert torch.equal(torch.get_rng_state(), state)


def test_what_cannot_be_counted_is_refused(tiny, texts):
    with pytest.raises(TypeError, match="batch must be a mapping"):
        model_attention_flops(tiny("Bert"), texts["input_ids"])
    with pytest.raises(TypeError, match="must be a model"):
        model_attention_flops("bert", texts)
    decoder = tiny("Bert", is_decoder=True, add_cross_attention=True)
    inputs = {**texts, "encoder_hidden_states": torch.randn(3, 5, 32)}
    with pytest.raises(NotImplementedError, match="is cross-attention"):
        model_attention_flops(decoder, inputs)
    assert not decoder.encoder.layer[0].attention.self._forward_hooks
