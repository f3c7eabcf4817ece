from collections import Counter

import pytest

from hsa_pyg.datasets.word_dataset import WordDataset, check_split, describe


class Words(WordDataset):
    log = True

    def __init__(self, folder, tokenizer=None, **sizes):
        self.processed_paths = [f"{folder}/{name}" for name in ("x.pt", "t", "r")]
        self._use_tokenizer(
            tokenizer, **{"max_vocab_size": 9, "min_frequency": 1, **sizes}
        )


def test_the_tokenizer_and_the_report_are_kept(tmp_path, capsys):
    words = Words(tmp_path)
    tokenizer = words._fit_tokenizer(["one two two"])
    words._keep(tokenizer, Counter({"left": 2, "nothing": 0, "also": 1}))
    assert capsys.readouterr().err == "Left out: 1 also, 2 left.\n"
    again = Words(tmp_path)
    assert again.tokenizer.get_vocab() == {"[PAD]": 0, "[UNK]": 1, "two": 2, "one": 3}
    assert again.vocab_size == 4
    assert again.report == {"also": 1, "left": 2}


def test_a_newly_kept_tokenizer_replaces_the_one_at_hand(tmp_path):
    words = Words(tmp_path)
    words._keep(words._fit_tokenizer(["one"]), Counter())
    assert words.vocab_size == 3
    words._keep(words._fit_tokenizer(["one two"]), Counter())
    assert words.vocab_size == 4


def test_keys_tell_tokenizers_apart(tmp_path):
    first = Words(tmp_path)._fit_tokenizer(["one"])
    second = Words(tmp_path)._fit_tokenizer(["two"])
    keys = [
        Words(tmp_path)._tokenizer_key,
        Words(tmp_path, max_vocab_size=8)._tokenizer_key,
        Words(tmp_path, min_frequency=2)._tokenizer_key,
        Words(tmp_path, first)._tokenizer_key,
        Words(tmp_path, second)._tokenizer_key,
    ]
    assert len(set(keys)) == 5
    assert Words(tmp_path, first)._tokenizer_key == keys[3]
    assert Words(tmp_path, first)._fit_tokenizer(["other"]) is first


def test_splits_are_checked_and_reports_read():
    check_split(None, "all")
    check_split("val", "all")
    with pytest.raises(ValueError, match=r"'dev' is not known: .* or None for all it"):
        check_split("dev", "all items")
    assert describe(Counter({"b": 2, "a": 1})) == "1 a, 2 b"
