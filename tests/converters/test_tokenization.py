import subprocess
import sys

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from hsa_pyg.converters import (
    Characters,
    EncodedText,
    HashedWords,
    from_document,
    from_nested,
    train_word_tokenizer,
)
from hsa_pyg.converters.tokenization import as_text_encoder

CORPUS = ["The film is good . The film is long .", "A bad film , a bad end !"]


@pytest.fixture(scope="module")
def tokenizer():
    return train_word_tokenizer(CORPUS, min_frequency=2)


def test_rare_words_are_unknown_and_case_does_not_matter(tokenizer):
    encoded = tokenizer.encode("THE film is quaint")
    assert encoded.tokens == ["the", "film", "is", "[UNK]"]
    assert tokenizer.token_to_id("[PAD]") == 0
    assert tokenizer.token_to_id("[UNK]") == 1


def test_vocabulary_is_capped_at_the_most_frequent_words():
    tokenizer = train_word_tokenizer(CORPUS, vocab_size=3, min_frequency=1)
    assert tokenizer.get_vocab() == {"[PAD]": 0, "[UNK]": 1, "film": 2}


def test_training_is_deterministic():
    assert (
        train_word_tokenizer(CORPUS).to_str() == train_word_tokenizer(CORPUS).to_str()
    )


@pytest.mark.parametrize("name", ["trained", "hashed"])
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_every_visible_character_lies_in_a_token(name, tokenizer, text):
    encode = HashedWords() if name == "hashed" else as_text_encoder(tokenizer)
    (encoded,) = encode([text])
    covered = {i for start, stop in encoded.spans for i in range(start, stop)}
    lost = [char for i, char in enumerate(text) if i not in covered]
    assert "".join(lost).strip() == ""
    assert len(encoded.ids) == len(encoded.spans)
    assert list(encoded.spans) == sorted(encoded.spans)


def test_spans_count_characters_and_not_bytes(tokenizer):
    text = "😀 héllo  film,"
    (encoded,) = as_text_encoder(tokenizer)([text])
    words = [text[start:stop] for start, stop in encoded.spans]
    assert words == ["😀", "héllo", "film", ","]


def test_hashed_words_have_the_same_id_in_every_process():
    here = HashedWords()(["The film, the FILM 你好"])[0].ids
    assert here[0] == here[3]
    assert here[1] == here[4]
    assert len(here) == 7
    code = (
        "from hsa_pyg.converters import HashedWords;"
        "print(*HashedWords()(['The film, the FILM 你好'])[0].ids)"
    )
    there = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert there.stdout.split() == [str(token) for token in here]


def test_hashed_words_stay_below_the_vocabulary_size():
    ids = HashedWords(vocab_size=7)(["a b c d e f g h i j"])[0].ids
    assert max(ids) < 7
    assert len(set(ids)) > 2
    with pytest.raises(ValueError, match="vocab_size must be positive, but is 0"):
        HashedWords(0)


def test_truncation_padding_and_special_tokens_are_left_out(tokenizer):
    limited = tokenizers.Tokenizer.from_str(tokenizer.to_str())
    limited.enable_truncation(2)
    limited.enable_padding(length=9)
    limited.post_processor = tokenizers.processors.TemplateProcessing(
        single="[PAD] $A [PAD]", special_tokens=[("[PAD]", 0)]
    )
    text = "the film is bad"
    (encoded,) = as_text_encoder(limited)([text])
    assert encoded.ids == tokenizer.encode(text).ids
    # The caller's own tokenizer keeps its settings.
    assert limited.truncation["max_length"] == 2
    assert limited.padding["length"] == 9


def test_a_tokenizer_of_transformers_is_taken_by_its_backend(tokenizer):
    class FastTokenizer:
        is_fast = True
        backend_tokenizer = tokenizer

        def __call__(self, texts):
            raise AssertionError("would add special tokens")

    (encoded,) = as_text_encoder(FastTokenizer())(["the film"])
    assert encoded.spans == [(0, 3), (4, 8)]


def test_a_real_tokenizer_of_transformers(tokenizer):
    transformers = pytest.importorskip(
        "transformers", reason="transformers is not installed"
    )
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]"
    )
    encoded = as_text_encoder(fast)(["the film", ""])
    assert encoded == as_text_encoder(tokenizer)(["the film", ""])
    assert encoded[0].spans == [(0, 3), (4, 8)]


def test_what_gives_no_offsets_is_an_error():
    class SlowTokenizer:
        is_fast = False

        def __call__(self, texts):
            return texts

    with pytest.raises(TypeError, match="SlowTokenizer is a slow tokenizer"):
        as_text_encoder(SlowTokenizer())
    with pytest.raises(TypeError, match="tokenizer is a str: pass a tokenizers"):
        as_text_encoder("bert-base-uncased")


def test_any_callable_is_a_tokenizer():
    def letters(texts):
        return [
            EncodedText(
                [ord(char) for char in text], [(i, i + 1) for i in range(len(text))]
            )
            for text in texts
        ]

    assert as_text_encoder(letters)(["ab"])[0].ids == [97, 98]


@pytest.mark.parametrize("vocab_size", [1, 0, -5])
def test_a_vocabulary_without_room_for_unknown_words(vocab_size):
    with pytest.raises(ValueError, match=f"at least 2, for .*UNK.* is {vocab_size}"):
        train_word_tokenizer(["a film"], vocab_size=vocab_size)


def test_characters_have_ids_of_their_own_and_spans_of_one():
    encode = as_text_encoder("characters")
    ((ids, spans),) = encode(["aé 😀a"])
    assert ids[:3] == [97, 233, 32]
    assert 256 <= ids[3] < encode.vocab_size
    assert ids[4] == ids[0]
    assert spans == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
    with pytest.raises(ValueError, match="greater than 256"):
        Characters(256)


@pytest.mark.parametrize(
    ("tokenizer", "message"),
    [
        (
            lambda texts: [text.split() for text in texts],
            r"gave \['a', 'b'\] for .*'a b'",
        ),
        (lambda texts: [[1, 2, 3] for _ in texts], r"gave \[1, 2, 3\] for the text"),
        (lambda texts: [[1, 2] for _ in texts], r"gave \[1, 2\] for the text"),
        (
            lambda texts: [([1, 2], [3, 4]) for _ in texts],
            r"gave \(\[1, 2\], \[3, 4\]\)",
        ),
        (lambda texts: [1 for _ in texts], "gave 1 for the text"),
        (lambda texts: 7, r"failed on a list of texts \('int' object is not iterable"),
        (str.split, r"failed on a list of texts \(.*descriptor 'split'"),
        (lambda text: text.split(), r"failed on a list of texts \('list' object"),
    ],
)
@pytest.mark.parametrize(
    "convert", [from_document, lambda t, **k: from_nested([t], **k)]
)
def test_what_is_no_tokenizer_is_told_what_one_gives(convert, tokenizer, message):
    message += r".*: a tokenizer maps a list of texts to EncodedText\(ids, spans\) for"
    with pytest.raises(TypeError, match=message):
        convert("a b", tokenizer=tokenizer)
