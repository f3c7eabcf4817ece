"""Replacing attention: what stays, what changes, what comes back."""

import copy
import pickle

import numpy
import pytest
import torch
import transformers

from hsa_pyg.integrations.transformers import (
    nested_forest,
    replace_attention,
    replaced_layers,
    restore_attention,
)

TEXT = ("Bert", "Roberta", "XLMRoberta", "Electra", "DistilBert", "Albert")
IMAGE = ("ViT", "DeiT", "CLIPVision", "Dinov2")


def states(model, batch):
    """Last hidden states of tokens that are no padding."""
    with torch.no_grad():
        found = model(**batch).last_hidden_state
    mask = batch.get("attention_mask")
    return found if mask is None else found[mask.bool()]


def images():
    return {"pixel_values": torch.randn(2, 3, 32, 32)}


@pytest.mark.parametrize("tie_queries", [True, False])
@pytest.mark.parametrize("hierarchy", ["flat", "window:512"])
@pytest.mark.parametrize("stem", TEXT)
def test_one_family_is_the_original(stem, hierarchy, tie_queries, tiny, texts):
    model = tiny(stem)
    before = states(model, texts)
    replace_attention(model, hierarchy=hierarchy, tie_queries=tie_queries)
    torch.testing.assert_close(states(model, texts), before, atol=1e-5, rtol=0)


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("layers", ["all", "alternate", [0]])
def test_one_family_is_the_original_beside_other_layers(
    layers, implementation, tiny, texts
):
    model = tiny("Bert", attn_implementation=implementation)
    before = states(model, texts)
    replace_attention(model, layers, "flat")
    torch.testing.assert_close(states(model, texts), before, atol=1e-5, rtol=0)


@pytest.mark.parametrize("stem", IMAGE)
def test_one_family_of_patches_is_the_original(stem, tiny):
    model, batch = tiny(stem), images()
    before = states(model, batch)
    replace_attention(model, hierarchy="flat")
    torch.testing.assert_close(states(model, batch), before, atol=1e-5, rtol=0)


@pytest.mark.parametrize("stem", IMAGE)
def test_quadrants_change_an_image_model_and_images_do_not_mix(stem, tiny):
    model, batch = tiny(stem), images()
    before = states(model, batch)
    replace_attention(model, hierarchy="quadtree")
    both = states(model, batch)
    assert (both - before).abs().max() > 1e-3
    for number in range(2):
        alone = states(model, {"pixel_values": batch["pixel_values"][number, None]})
        torch.testing.assert_close(both[number], alone[0], atol=1e-5, rtol=0)


def test_images_of_another_size(tiny):
    model = tiny("ViT")
    wide = torch.randn(2, 3, 48, 80)
    before = model(wide, interpolate_pos_encoding=True).last_hidden_state
    replace_attention(model, hierarchy="flat")
    after = model(wide, interpolate_pos_encoding=True).last_hidden_state
    torch.testing.assert_close(after, before, atol=1e-5, rtol=0)
    restore_attention(model)
    replace_attention(model, hierarchy="quadtree")
    assert model(wide, interpolate_pos_encoding=True)[0].shape == before.shape


@pytest.mark.parametrize("layers", ["all", [2]])
@pytest.mark.parametrize("hierarchy", ["window:2", "windows:2,4", "flat"])
def test_a_causal_tower_stays_causal(hierarchy, layers, tiny, texts):
    model = tiny("CLIPText")
    ids = texts["input_ids"]
    before = states(model, texts)
    replace_attention(model, layers, hierarchy, tie_queries=False)
    first = model(ids).last_hidden_state
    changed = ids.clone()
    changed[:, 9] = 4
    second = model(changed).last_hidden_state
    assert first[:, :9].equal(second[:, :9])
    assert not first[:, 9:].equal(second[:, 9:])
    if hierarchy == "flat":
        # Left padding is not what CLIP's positions mean, but its mask has to arrive.
        torch.testing.assert_close(states(model, texts), before, atol=1e-5, rtol=0)


@pytest.mark.parametrize("layers", ["all", [1, 3]])
@pytest.mark.parametrize("tie_queries", [True, False])
@pytest.mark.parametrize("hierarchy", ["window:3", "ward:3"])
@pytest.mark.parametrize("stem", ["Bert", "Roberta"])
def test_a_padded_batch_is_its_texts_alone(
    stem, hierarchy, tie_queries, layers, tiny, texts
):
    model = tiny(stem)
    # A text alone has other positions than behind padding, so there is none.
    texts["attention_mask"][2] = 1
    texts["attention_mask"][2, 15:] = 0
    replace_attention(model, layers, hierarchy, tie_queries=tie_queries)
    together = model(**texts).last_hidden_state
    for number, mask in enumerate(texts["attention_mask"]):
        length = int(mask.sum())
        alone = model(texts["input_ids"][number, None, :length]).last_hidden_state
        torch.testing.assert_close(
            together[number, :length], alone[0], atol=1e-5, rtol=0
        )


def test_left_padding_is_not_seen(tiny, texts):
    model = replace_attention(tiny("Bert"), hierarchy="window:3")
    before = states(model, texts)
    texts["input_ids"] = texts["input_ids"].where(texts["attention_mask"] > 0, 3)
    assert states(model, texts).equal(before)


def test_attention_at_padded_places_is_zero(tiny, texts):
    model = replace_attention(tiny("Bert"), hierarchy="window:3")
    seen = []
    attention = model.encoder.layer[0].attention.self
    attention.register_forward_hook(lambda module, args, found: seen.append(found[0]))
    model(**texts)
    padded = texts["attention_mask"] == 0
    assert (seen[0][padded] == 0).all()
    assert (seen[0][~padded] != 0).all()


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_layers_not_replaced_do_not_change_by_a_bit(implementation, tiny, texts):
    model = tiny("Bert", attn_implementation=implementation)
    before = model(**texts, output_hidden_states=True).hidden_states
    replace_attention(model, [2], "window:3")
    after = model(**texts, output_hidden_states=True).hidden_states
    for number in range(3):  # the embeddings and what layers 0 and 1 give
        assert after[number].equal(before[number])
    assert not after[3].equal(before[3])


@pytest.mark.parametrize("layers", ["all", "alternate"])
def test_restored_is_as_before_bit_by_bit(layers, tiny, texts):
    model = tiny("Bert")
    before, config = states(model, texts), model.config.to_json_string()
    kept = dict(vars(model))
    for hierarchy in ("window:3", "flat"):
        replace_attention(model, layers, hierarchy)
        states(model, texts)
        assert restore_attention(model) is model
    assert states(model, texts).equal(before)
    assert model.config.to_json_string() == config
    assert model.config._attn_implementation == "sdpa"
    assert all(
        x.config is model.config for x in model.modules() if hasattr(x, "config")
    )
    assert not model._forward_pre_hooks
    assert set(vars(model)) == set(kept)


def test_a_model_that_is_not_replaced_is_restored_to_itself(tiny):
    assert replaced_layers(restore_attention(tiny("Bert"))) == []


def test_replacing_twice_names_the_way_back(tiny):
    model = replace_attention(tiny("Bert"), [1])
    with pytest.raises(ValueError, match=r"\[1\]; call restore_attention"):
        replace_attention(model, [2])
    assert replaced_layers(model) == [1]


def test_a_head_on_top_is_replaced_through_its_base(texts):
    config = transformers.BertConfig(
        hidden_size=32, num_attention_heads=4, num_hidden_layers=2, vocab_size=99
    )
    model = transformers.BertForSequenceClassification(config).eval()
    # The head reads the first place, so padding must not stand there.
    texts["attention_mask"][2] = 1
    before = model(**texts, token_type_ids=texts["input_ids"] % 2).logits
    replace_attention(model, hierarchy="flat")
    after = model(**texts, token_type_ids=texts["input_ids"] % 2).logits
    torch.testing.assert_close(after, before, atol=1e-5, rtol=0)
    assert replaced_layers(model.bert) == [0, 1]


def test_a_copy_is_replaced_and_restored_on_its_own(tiny, texts):
    model = tiny("Bert")
    before = states(model, texts)
    replace_attention(model, [1, 2], "window:3")
    replaced = states(model, texts)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert states(other, texts).equal(replaced)
        restore_attention(other)
        assert states(other, texts).equal(before)
        assert states(model, texts).equal(replaced)


@pytest.mark.parametrize("layers", ["all", [1]])
def test_a_saved_model_is_the_original_architecture(layers, tiny, texts, tmp_path):
    model = tiny("Bert")
    before = states(model, texts)
    replace_attention(model, layers, "window:3")
    model.save_pretrained(tmp_path)
    assert "hsa" not in (tmp_path / "config.json").read_text()
    loaded = transformers.AutoModel.from_pretrained(tmp_path).eval()
    assert replaced_layers(loaded) == []
    assert states(loaded, texts).equal(before)
    assert model.state_dict().keys() == loaded.state_dict().keys()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype, tiny, texts):
    model = replace_attention(tiny("Bert"), hierarchy="window:3")
    expected = states(model, texts)
    found = states(model.to(dtype), texts)
    assert found.dtype == dtype
    assert (found.float() - expected).abs().mean() < 0.02


def test_autocast(tiny, texts):
    model = replace_attention(tiny("Bert"), hierarchy="window:3")
    expected = states(model, texts)
    with torch.autocast("cpu", torch.bfloat16):
        found = states(model, texts)
    assert (found.float() - expected).abs().mean() < 0.02


def test_inference_mode_and_training_in_turn(tiny, texts):
    model = replace_attention(tiny("Bert"), hierarchy="window:3")
    with torch.inference_mode():
        model(**texts)
    model(**texts).last_hidden_state.sum().backward()
    assert model.encoder.layer[0].attention.self.query.weight.grad is not None


def test_gradients_are_those_of_the_original_for_one_family(tiny, texts):
    grads = []
    for hierarchy in (None, "flat"):
        model = tiny("Bert")
        if hierarchy is not None:
            replace_attention(model, hierarchy=hierarchy)
        model(**texts).last_hidden_state[texts["attention_mask"].bool()].pow(
            3
        ).sum().backward()
        grads.append([x.grad for x in model.parameters() if x.grad is not None])
    assert len(grads[0]) == len(grads[1]) > 50
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, atol=1e-3, rtol=1e-4)


def test_an_id_of_padding_is_no_special_token(tiny, texts):
    """Configurations name padding for what they lack: then the ends are special."""
    seen = []

    def build(tokens):
        seen.append(tokens.special)
        return nested_forest(tokens, [])

    model = tiny("Bert", bos_token_id=0, pad_token_id=0)
    states(replace_attention(model, hierarchy=build), texts)
    places = [row.nonzero()[:, 0].tolist() for row in seen[0]]
    assert places == [[0, 20], [0, 7], [5, 20]]


def test_checkpointed_layers_see_the_trees_of_their_own_pass(tiny, texts):
    model = replace_attention(tiny("Bert"), hierarchy="window:3", special_ids=[7, 9])
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    model.train()
    other = {"input_ids": texts["input_ids"].flip(1)}
    grads = []
    for checkpointed in (False, True):
        if checkpointed:
            model.gradient_checkpointing_enable()
        model.zero_grad()
        first = model(**texts).last_hidden_state[texts["attention_mask"].bool()]
        second = model(**other).last_hidden_state
        (first.pow(3).sum() + second.pow(2).sum()).backward()
        grads.append(model.encoder.layer[0].attention.self.key.weight.grad.clone())
    assert grads[0].equal(grads[1])


def test_dropout_in_training_and_not_in_evaluation(tiny, texts):
    model = tiny("Bert", attention_probs_dropout_prob=0.5, hidden_dropout_prob=0.0)
    replace_attention(model, hierarchy="window:3")
    assert states(model, texts).equal(states(model, texts))
    model.train()
    assert not states(model, texts).equal(states(model, texts))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"layers": [4]}, "layer 4 does not exist"),
        ({"layers": [-1]}, "layer -1 does not exist"),
        ({"layers": []}, "names none"),
        ({"layers": lambda number: False}, "names none"),
        ({"layers": "odd"}, "not known"),
        ({"hierarchy": "tree"}, "not known"),
        ({"hierarchy": "sentences"}, "tokenizer"),
        ({"specials": "outside"}, "not known"),
        ({"backend": "cuda"}, "backend"),
    ],
)
def test_settings_that_do_not_fit(options, words, tiny):
    model = tiny("Bert")
    with pytest.raises(ValueError, match=words):
        replace_attention(model, **options)
    assert replaced_layers(model) == []


def test_settings_of_a_wrong_kind(tiny):
    with pytest.raises(TypeError, match="must be a model"):
        replace_attention("bert")
    with pytest.raises(TypeError, match="layers must be"):
        replace_attention(tiny("Bert"), [0.5])
    with pytest.raises(NotImplementedError, match="no tie_queries=False"):
        replace_attention(tiny("Bert"), tie_queries=False, backend="cpp")


def test_layers_by_name_number_and_function(tiny):
    for layers, numbers in (
        ("all", [0, 1, 2, 3]),
        ("alternate", [1, 3]),
        ((3, 1, 1), [1, 3]),
        (range(2), [0, 1]),
        (numpy.array([1, 2]), [1, 2]),
        (torch.tensor([1, 2]), [1, 2]),
        (lambda number: number > 2, [3]),
    ):
        model = replace_attention(tiny("Bert"), layers)
        assert replaced_layers(model) == numbers


@pytest.mark.parametrize("layers", ["all", [1]])
def test_models_of_one_configuration_are_replaced_apart(layers, tiny, texts):
    model = tiny("Bert")
    other = type(model)(model.config).eval()
    other.load_state_dict(model.state_dict())
    before, config = states(model, texts), model.config
    replace_attention(model, layers, "window:3")
    assert states(other, texts).equal(before)
    assert config._attn_implementation == other.config._attn_implementation == "sdpa"
    replace_attention(other, "all", "flat")
    replaced = states(model, texts)
    assert not replaced.equal(before)
    restore_attention(other)
    assert states(model, texts).equal(replaced)
    assert restore_attention(model).config is other.config is config


def test_what_is_set_in_between_stays(tiny, texts):
    model = replace_attention(tiny("Bert"), hierarchy="flat")
    model.config.of_mine = 3
    model.set_attn_implementation("eager")
    assert replaced_layers(model) == [0, 1, 2, 3]
    assert states(model, texts).isfinite().all()
    restore_attention(model)
    assert model.config.of_mine == 3
    assert model.config._attn_implementation == "eager"


def test_a_part_of_a_model_is_not_restored_in_silence(tiny):
    model = replace_attention(tiny("Bert"))
    with pytest.raises(ValueError, match="a part of the model whose attention"):
        restore_attention(model.encoder)
    assert replaced_layers(model) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"special_ids": [1.5]}, "special_ids must be"),
        ({"special_ids": 5}, "special_ids must be"),
        ({"tokenizer": "bert"}, "tokenizer must be"),
        ({"self_attention": "no"}, "self_attention must be True or False"),
        ({"tie_queries": None}, "tie_queries must be True or False"),
        ({"layers": torch.tensor([True, False])}, "layers must be"),
    ],
)
def test_options_of_a_wrong_kind(options, words, tiny):
    with pytest.raises(TypeError, match=words):
        replace_attention(tiny("Bert"), **options)
