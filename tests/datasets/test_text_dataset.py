import pickle

import pytest
import torch
from torch_geometric.loader import DataLoader

from hsa_pyg.converters import train_word_tokenizer
from hsa_pyg.datasets.text_dataset import LabelledText, TextDataset


class Letters(TextDataset):
    """12 texts: half of them of one paragraph, one of them without a word."""

    classes = ("short", "long")

    @property
    def raw_file_names(self):
        return []

    def documents(self):
        if getattr(self, "gone", False):
            return []
        words = "One two. Three four."
        documents = [
            LabelledText(
                f"text{i}",
                words if i % 2 == 0 else f"{words}\n\nFive six {i}.",
                i % 2,
                ("train", "train", "val", "test")[i % 4],
                {"number": torch.tensor([i])},
            )
            for i in range(12)
        ]
        return [*documents, LabelledText("blank", " \n ", 0, "train")]


@pytest.fixture
def letters(tmp_path):
    return Letters(tmp_path, log=False, min_frequency=1)


def test_each_text_is_a_signal(letters):
    assert len(letters) == 12
    assert letters.num_classes == 2
    assert letters.sources == [f"text{i}" for i in range(12)]
    for number, signal in enumerate(letters):
        assert signal.validate()
        assert signal.schema == letters[0].schema
        assert signal.y.tolist() == [number % 2]
        assert signal.number.tolist() == [number]
        assert signal["paragraph"].num_nodes == 1 + number % 2
        text = letters.text(number)
        spans = signal["token"].span.tolist()
        assert [text[a:b] for a, b in spans][:3] == ["One", "two", "."]
        assert "text" not in signal["document"]


def test_what_is_left_out_is_counted(letters, tmp_path, capsys):
    assert letters.report == {"texts without a token": 1}
    filtered = Letters(tmp_path / "b", "val", pre_filter=is_short, log=False)
    assert len(filtered) == 3
    assert filtered.report == {}
    Letters(tmp_path / "c", pre_filter=is_short)
    error = capsys.readouterr().err
    assert "Left out: 6 texts that pre_filter refused, 1 texts without" in error


def is_short(signal):
    return signal.y.item() == 0


def is_nothing(signal):
    return False


def test_splits_share_one_vocabulary_of_the_training_split(letters, tmp_path):
    parts = {
        split: Letters(tmp_path, split, min_frequency=1, log=False)
        for split in ("train", "val", "test")
    }
    assert [len(part) for part in parts.values()] == [6, 3, 3]
    words = letters.tokenizer.get_vocab()
    # 3, 7 and 11 are numbers of test texts, 1, 5 and 9 of training texts.
    assert {"1", "5", "9"} <= set(words)
    assert not {"3", "7", "11"} & set(words)
    for part in parts.values():
        assert part.tokenizer.get_vocab() == words
        assert part.vocab_size == len(words)
        for signal in part:
            assert signal["token"].x.equal(letters[signal.number.item()]["token"].x)


def test_settings_have_processed_files_of_their_own(tmp_path):
    own = train_word_tokenizer(["one two"], min_frequency=1)
    settings = (
        {},
        {"max_tokens": 3},
        {"max_vocab_size": 5},
        {"min_frequency": 1},
        {"keep_text": True},
        {"tokenizer": own},
    )
    sets = [Letters(tmp_path, log=False, **given) for given in settings]
    assert len({tuple(found.processed_paths) for found in sets}) == len(sets)
    assert [found[0]["token"].x.numel() for found in sets] == [6, 3, 6, 6, 6, 6]
    assert sets[2].vocab_size == 5
    kept = sets[4][3]
    assert kept["document"].text == [sets[0].text(3)] == [sets[4].text(3)]
    assert sets[5].vocab_size == own.get_vocab_size()


def test_raw_texts_are_those_of_the_data_set(letters, tmp_path):
    part = Letters(tmp_path, "val", log=False)[1:]
    texts, labels = part.raw_texts()
    assert texts == [part.text(0), part.text(1)]
    assert labels.tolist() == [signal.y.item() for signal in part]
    assert letters[[3, 5]].raw_texts().labels.tolist() == [1, 1]


def test_a_second_start_reads_the_processed_files(letters, tmp_path, monkeypatch):
    monkeypatch.setattr(Letters, "process", None)
    again = Letters(tmp_path, log=False, min_frequency=1)
    assert again.report == letters.report
    for one, other in zip(letters, again, strict=True):
        assert one["token"].x.equal(other["token"].x)
        assert one.source == other.source
    with pytest.raises(TypeError, match="NoneType"):
        Letters(tmp_path, log=False, min_frequency=1, force_reload=True)


def test_a_data_set_of_one_text(tmp_path):
    only = Letters(tmp_path, pre_filter=is_seventh, log=False)
    assert len(only) == 1
    assert only.sources == ["text7"]
    assert only[0].number.tolist() == [7]
    assert "Five six 7" in only.text(0)


def is_seventh(signal):
    return signal.source == "text7"


def test_a_data_set_of_nothing_says_so(tmp_path):
    with pytest.raises(ValueError, match=r"Letters \(val\) has no document.*\(3 texts"):
        Letters(tmp_path, "val", pre_filter=is_nothing, log=False)


def test_texts_that_are_gone_are_named(letters, monkeypatch):
    monkeypatch.setattr(Letters, "gone", True, raising=False)
    with pytest.raises(ValueError, match="have no document 'text2' any more"):
        letters.text(2)


def test_batches_in_any_order_give_the_samples_back(letters):
    order = [7, 0, 11, 4, 3]
    (batch,) = DataLoader(letters[order], batch_size=5)
    assert batch.validate()
    assert batch.y.tolist() == [1, 0, 1, 0, 1]
    for place, number in enumerate(order):
        assert batch[place]["token"].x.equal(letters[number]["token"].x)
        assert batch[place].source == f"text{number}"


def test_signals_are_saved_and_loaded(letters, tmp_path):
    torch.save(letters[3], tmp_path / "signal.pt")
    again = torch.load(tmp_path / "signal.pt", weights_only=True)
    assert again.validate()
    assert again["token"].span.equal(letters[3]["token"].span)
    torch.load(letters.processed_paths[0], weights_only=True)
    whole = pickle.loads(pickle.dumps(letters))
    assert whole[3]["token"].x.equal(letters[3]["token"].x)


def test_bad_arguments_are_named(tmp_path):
    with pytest.raises(ValueError, match="split='dev' is not known: use 'train'"):
        Letters(tmp_path, "dev")
    with pytest.raises(ValueError, match="max_tokens must be positive"):
        Letters(tmp_path, max_tokens=0, log=False)
    with pytest.raises(TypeError, match="tokenizer is a str, which cannot be saved"):
        Letters(tmp_path, tokenizer="words")
