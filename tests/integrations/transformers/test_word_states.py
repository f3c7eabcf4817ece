import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertTokenizerFast, PreTrainedTokenizerFast

from hsa_pyg.integrations.transformers import word_states

SENTENCES = [["play", "playing", "unplayed"], ["ing"], ["un", "play", "ed", "play"]]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "play", "##ing", "un", "##play", "##ed"]


@pytest.fixture
def tokenizer():
    ids = {piece: i for i, piece in enumerate(PIECES)}
    words = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.normalizer = normalizers.StripAccents()
    words.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]"
    )


def pieces_of(word):
    """The ids of a word by hand: the table above leaves no choice."""
    known = {
        "play": [4],
        "playing": [4, 5],
        "unplayed": [6, 7, 8],
        "un": [6],
        "ing": [1],
        "ed": [1],
    }
    return known[word]


@pytest.mark.parametrize("stem", ["Bert", "Roberta", "DistilBert"])
@pytest.mark.parametrize("batch_tokens", [1, 12, 8192])
def test_each_word_is_the_mean_of_its_pieces_in_its_sentence(
    tiny, tokenizer, stem, batch_tokens
):
    model = tiny(stem)
    found = word_states(
        SENTENCES, model, tokenizer, batch_tokens=batch_tokens, log=False
    )
    assert [tuple(one.shape) for one in found] == [(3, 32), (1, 32), (4, 32)]
    for words, rows in zip(SENTENCES, found, strict=True):
        ids = [pieces_of(word) for word in words]
        flat = [2, *(i for one in ids for i in one), 3]
        with torch.no_grad():
            states = model(input_ids=torch.tensor([flat])).last_hidden_state[0]
        start = 1
        for row, one in zip(rows, ids, strict=True):
            mean = states[start : start + len(one)].mean(0)
            torch.testing.assert_close(row, mean, atol=1e-5, rtol=1e-5)
            start += len(one)


def test_a_word_differs_from_sentence_to_sentence(tiny, tokenizer):
    found = word_states(SENTENCES, tiny("Bert"), tokenizer, log=False)
    assert (found[0][0] - found[2][1]).abs().max() > 1e-2


def test_words_without_tokens_are_zeros_and_move_no_other(tiny, tokenizer):
    sentences = [["play", "\u0301", "playing"], ["\u0301"], []]
    first, second, third = word_states(sentences, tiny("Bert"), tokenizer, log=False)
    without = word_states([["play", "playing"]], tiny("Bert"), tokenizer, log=False)
    assert torch.equal(first[1], torch.zeros(32))
    assert torch.equal(second, torch.zeros(1, 32))
    assert third.shape == (0, 32)
    torch.testing.assert_close(first[[0, 2]], without[0])


def test_nothing_in_gives_nothing(tiny, tokenizer):
    assert word_states([], tiny("Bert"), tokenizer, log=False) == []


def test_a_long_sentence_is_refused_by_its_place(tiny, tokenizer):
    model = tiny("Bert", max_position_embeddings=8)
    assert len(word_states([["play"] * 6], model, tokenizer, log=False)[0]) == 6
    with pytest.raises(ValueError, match=r"sentence 1 has 9 tokens.*reads 8: split it"):
        word_states([["play"], ["play"] * 7], model, tokenizer, log=False)


def test_a_model_in_training_is_left_so(tiny, tokenizer):
    model = tiny("Bert").train()
    first = word_states(SENTENCES, model, tokenizer, log=False)
    second = word_states(SENTENCES, model, tokenizer, log=False)
    assert model.training
    assert torch.equal(first[0], second[0])


def test_tokenizers_that_cannot_tell_words_are_refused(tiny, tmp_path):
    with pytest.raises(TypeError, match="fast tokenizer"):
        word_states(SENTENCES, tiny("Bert"), object())
    empty = BertTokenizerFast(vocab={"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3})
    with pytest.raises(ValueError, match="knows no words"):
        word_states(SENTENCES, tiny("Bert"), empty)
