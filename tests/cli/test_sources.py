import pytest

from hsa_pyg.cli.sources import SOURCES, load_source


def test_a_part_of_the_training_signals_is_the_same_every_time(tmp_path):
    whole = load_source("fake", tmp_path)
    some, again = (load_source("fake", tmp_path, train_size=30) for _ in range(2))
    assert (len(whole.train), len(some.train)) == (120, 30)
    assert (len(some.val), len(some.test)) == (len(whole.val), len(whole.test))
    labels = [signal.y.item() for signal in some.train]
    assert labels == [signal.y.item() for signal in again.train]
    assert labels != [signal.y.item() for signal in whole.train[:30]]


def test_the_shipped_reviews_are_a_source_and_are_cut_as_asked(tmp_path):
    source = load_source("movie-reviews", tmp_path, max_tokens=40)
    parts = source.train, source.val, source.test
    assert [len(part) for part in parts] == [1600, 200, 200]
    assert max(len(signal["token"].x) for signal in source.val) == 40
    assert source.vocab_sizes["token"] > max(s["token"].x.max() for s in source.test)
    assert source.num_classes == 2


def test_every_source_is_known_to_the_error():
    with pytest.raises(ValueError, match=", ".join(SOURCES)):
        load_source("", None)
