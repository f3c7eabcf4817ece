"""Models and tokenizers as the command line loads them, and their batches."""

import pytest
import tokenizers
import torch
import transformers

from hsa_pyg.cli import SettingsError
from hsa_pyg.cli.labelled_texts import LabelledTexts
from hsa_pyg.cli.text_model import class_numbers, load_text_model

NAMES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "film", "was", "good", "bad"]


@pytest.fixture
def folder(tmp_path):
    vocabulary = {name: number for number, name in enumerate(NAMES)}
    backend = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]")
    )
    backend.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="[PAD]", unk_token="[UNK]"
    )
    config = transformers.BertConfig(
        vocab_size=len(NAMES),
        hidden_size=16,
        num_attention_heads=2,
        num_hidden_layers=1,
        intermediate_size=32,
    )
    transformers.BertModel(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    return tmp_path


def test_a_folder_without_a_tokenizer(folder):
    for file in folder.glob("tokenizer*"):
        file.unlink()
    with pytest.raises(SettingsError, match="knows no words, only special tokens"):
        load_text_model(str(folder), head=False)


def test_a_tokenizer_of_another_model(folder):
    model = transformers.BertModel.from_pretrained(folder)
    model.resize_token_embeddings(6)
    model.save_pretrained(folder)
    encoder = load_text_model(str(folder), head=False)
    encoder.batches(["the"], None)
    with pytest.raises(SettingsError, match="vectors for 6: they do not belong"):
        encoder.batches(["the film", "bad"], None)


def test_batches_are_padded_behind_texts(folder):
    """Padding before a text would shift its positions."""
    encoder = load_text_model(str(folder), head=False)
    encoder.tokenizer.padding_side = "left"
    (batch,), order, _ = encoder.batches(["the film was good", "bad"], None)
    assert order == [1, 0]
    expected = torch.tensor([[1, 0, 0, 0], [1, 1, 1, 1]])
    assert torch.equal(batch["attention_mask"], expected)


def test_a_thousand_labels_are_not_all_listed():
    data = LabelledTexts(["x"] * 1000, [f"class {i:03d}" for i in range(1000)])
    with pytest.raises(SettingsError, match=r"class 011, \.\.\.; the model") as error:
        class_numbers(data, {"neg": 0}, {})
    assert len(str(error.value)) < 500
