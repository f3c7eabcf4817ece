"""What cannot be replaced is refused, by name."""

import pytest
import torch
import transformers

from hsa_pyg.integrations.transformers import replace_attention, replaced_layers
from hsa_pyg.integrations.transformers.layers import attention_layers

SMALL = {
    "hidden_size": 32,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "vocab_size": 99,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


def model(stem, kind="Model", **options):
    config = getattr(transformers, f"{stem}Config")(**options)
    return getattr(transformers, f"{stem}{kind}")(config).eval()


@pytest.mark.parametrize(
    ("stem", "options", "words"),
    [
        ("GPT2", {"n_embd": 32, "n_head": 4, "n_layer": 2, **SMALL}, "GPT2Attention"),
        ("Llama", SMALL, "LlamaAttention at 'layers.0.self_attn'.* causal decoder"),
        ("Bert", {"is_decoder": True, **SMALL}, "BertSelfAttention.* causal decoder"),
        ("T5", {"d_model": 32, "num_heads": 4, "num_layers": 2}, "T5Model has 2 tow"),
        ("MPNet", SMALL, "MPNetSelfAttention.* relative position"),
        ("Deberta", {"relative_attention": True, **SMALL}, "Disentangled.* relative"),
        ("DebertaV2", {"relative_attention": True, **SMALL}, "Disentangled.* relative"),
        (
            "Beit",
            {"use_relative_position_bias": True, "image_size": 32, **SMALL},
            "BeitAttention.* relative",
        ),
        ("ModernBert", SMALL, "ModernBertAttention.* windows of its own"),
        (
            "Swin",
            {"image_size": 32, "depths": [1], "num_heads": [2], "embed_dim": 16},
            "Swin.* windows of its own",
        ),
        ("CLIPText", SMALL, "CLIPAttention.* causal: .*tie_queries=False"),
        ("ResNet", {"embedding_size": 8, "hidden_sizes": [8], "depths": [1]}, "no att"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_models_that_are_refused(stem, options, words):
    refused = model(stem, **options)
    with pytest.raises(NotImplementedError, match=words):
        replace_attention(refused)
    assert replaced_layers(refused) == []
    assert not refused._forward_pre_hooks


def test_the_encoder_of_t5_has_relative_positions():
    encoder = model("T5", "EncoderModel", d_model=32, num_heads=4, num_layers=2)
    with pytest.raises(NotImplementedError, match=r"T5Attention.*relative"):
        replace_attention(encoder)


def test_two_towers_are_replaced_one_by_one():
    both = transformers.CLIPModel(
        transformers.CLIPConfig(
            text_config=SMALL,
            vision_config={**SMALL, "image_size": 32, "patch_size": 8},
        )
    ).eval()
    with pytest.raises(NotImplementedError, match="CLIPModel has 2 towers"):
        replace_attention(both)
    images = torch.randn(2, 3, 32, 32)
    before = both.get_image_features(images).pooler_output
    replace_attention(both.vision_model, hierarchy="flat")
    after = both.get_image_features(images).pooler_output
    torch.testing.assert_close(after, before, atol=1e-5, rtol=0)
    assert both.text_model.config._attn_implementation == "sdpa"


def bart():
    names = ("encoder_layers", "decoder_layers")
    heads = ("encoder_attention_heads", "decoder_attention_heads")
    options = dict.fromkeys(names, 2) | dict.fromkeys(heads, 4)
    return model("Bart", d_model=32, vocab_size=99, **options)


def test_cross_attention_and_decoders_are_refused_by_name():
    with pytest.raises(NotImplementedError, match=r"decoder\.layers.* causal decoder"):
        replace_attention(bart())
    crossed = model("Bert", is_decoder=True, add_cross_attention=True, **SMALL)
    found = [x for x in attention_layers(crossed) if "crossattention" in x.name]
    with pytest.raises(NotImplementedError, match=r"BertCrossAttention.* of the same"):
        replace_attention(crossed, [found[0].number])


def test_an_encoder_beside_a_decoder():
    whole = bart()
    ids = torch.randint(5, 99, (2, 9))
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    before = whole(ids, mask, decoder_input_ids=ids)[0]
    replace_attention(whole.get_encoder(), hierarchy="flat")
    after = whole(ids, mask, decoder_input_ids=ids)[0]
    torch.testing.assert_close(after, before, atol=1e-5, rtol=0)
    assert replaced_layers(whole) == [0, 1]


@pytest.mark.parametrize("running", ["flash_attention_2", "flex_attention"])
def test_fused_implementations_are_refused(running):
    refused = model("Bert", **SMALL)
    refused.config._attn_implementation_internal = running
    with pytest.raises(NotImplementedError, match=f"{running}.*set_attn_impl"):
        replace_attention(refused)


def test_grouped_queries_are_refused():
    refused = model("Bert", **SMALL)
    refused.encoder.layer[1].attention.self.num_key_value_groups = 2
    with pytest.raises(NotImplementedError, match=r"layer 1 .*grouped queries"):
        replace_attention(refused)


def test_layers_that_share_weights_are_named_together():
    shared = model("Albert", embedding_size=16, **SMALL)
    with pytest.raises(ValueError, match="stands for all 2 layers"):
        replace_attention(shared, [0])
    assert replaced_layers(replace_attention(shared)) == [0]


def test_parts_of_a_model_that_take_no_input_are_refused():
    with pytest.raises(NotImplementedError, match="pass that model itself"):
        replace_attention(model("Bert", **SMALL).encoder)


def test_a_model_inside_a_module_of_ones_own():
    class Classifier(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = model("Bert", **SMALL)
            self.head = torch.nn.Linear(32, 2)

        def forward(self, ids):
            return self.head(self.bert(ids).last_hidden_state[:, 0])

    classifier = Classifier()
    ids = torch.randint(5, 99, (2, 9))
    before = classifier(ids)
    replace_attention(classifier, hierarchy="flat")
    torch.testing.assert_close(classifier(ids), before, atol=1e-5, rtol=0)
