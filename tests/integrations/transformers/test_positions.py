"""Longer texts than a model was trained for."""

import pytest
import torch
import transformers

from hsa_pyg.integrations.transformers import extend_positions, replace_attention


@pytest.mark.parametrize(
    "stem", ["Bert", "Roberta", "DistilBert", "Electra", "CLIPText"]
)
def test_longer_texts_fit(stem, tiny, tmp_path):
    model = tiny(stem, max_position_embeddings=22)
    first = 2 if stem == "Roberta" else 0
    assert extend_positions(model, 50) is model
    assert model.config.max_position_embeddings == first + 50
    untied = {"tie_queries": False} if stem == "CLIPText" else {}
    replace_attention(model, hierarchy="window:4", **untied)
    ids = torch.randint(5, 97, (2, 50))
    found = model(ids).last_hidden_state
    assert found.isfinite().all()
    with pytest.raises((IndexError, RuntimeError, ValueError)):
        model(torch.randint(5, 97, (2, 51)))
    model.save_pretrained(tmp_path)
    loaded = transformers.AutoModel.from_pretrained(tmp_path)
    assert loaded.eval()(ids).last_hidden_state.shape == found.shape


def test_ends_stay_and_the_rest_lies_between(tiny):
    model = tiny("Bert", max_position_embeddings=3)
    old = model.embeddings.position_embeddings.weight.detach().clone()
    extend_positions(model, 5)
    new = model.embeddings.position_embeddings.weight
    expected = torch.stack(
        [old[0], (old[0] + old[1]) / 2, old[1], (old[1] + old[2]) / 2, old[2]]
    )
    torch.testing.assert_close(new, expected)
    assert new.requires_grad


def test_the_place_of_padding_is_not_a_position(tiny):
    model = tiny("Roberta", max_position_embeddings=12)
    table = model.embeddings.position_embeddings
    old = table.weight.detach().clone()
    extend_positions(model, 19)
    new = model.embeddings.position_embeddings
    assert new.padding_idx == table.padding_idx == 1
    assert new.weight[:2].equal(old[:2])
    torch.testing.assert_close(new.weight[2::2], old[2:])


def test_half_precision_and_frozen_tables_stay_so(tiny):
    model = tiny("Bert", max_position_embeddings=8).to(torch.bfloat16)
    model.requires_grad_(False)
    extend_positions(model, 16)
    weight = model.embeddings.position_embeddings.weight
    assert weight.dtype == torch.bfloat16
    assert not weight.requires_grad


def test_what_cannot_be_extended(tiny):
    with pytest.raises(ValueError, match="22 tokens already"):
        extend_positions(tiny("Bert", max_position_embeddings=22), 22)
    with pytest.raises(NotImplementedError, match="interpolate_pos_encoding"):
        extend_positions(tiny("ViT"), 100)
    config = transformers.T5Config(d_model=8, num_heads=2, num_layers=1, d_ff=8)
    with pytest.raises(NotImplementedError, match="0 tables"):
        extend_positions(transformers.T5EncoderModel(config), 100)
    for length in ("600", 30.0, None, True):
        with pytest.raises(TypeError, match="length must be an integer"):
            extend_positions(tiny("Bert", max_position_embeddings=22), length)
