import pytest

from hsa_pyg.cli import SettingsError
from hsa_pyg.cli.sources import SOURCES, full_name, load_facts, load_source


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


def test_texts_of_ones_own_are_a_source(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f"{'ab'[i % 2]},Text {i}." for i in range(20)]
    (tmp_path / "mine.csv").write_text("\n".join(["kind,words", *lines]))
    columns = ("words", "kind")
    source = load_source("mine.csv", tmp_path, columns=columns)
    assert [len(x) for x in (source.train, source.val, source.test)] == [16, 2, 2]
    assert source.classes == ["a", "b"]
    facts = load_facts("mine.csv", tmp_path, columns=columns)
    for name in ("classes", "schema", "vocab_sizes", "digest"):
        assert getattr(facts, name) == getattr(source, name) is not None
    some = load_source("mine.csv", tmp_path, train_size=5, columns=columns)
    assert (len(some.train), some.digest) == (5, source.digest)
    assert full_name("mine.csv") == (tmp_path / "mine.csv").resolve().as_posix()


def test_a_name_goes_before_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fake").mkdir()
    with pytest.warns(UserWarning, match=r"'fake' is taken .*; \./fake is the file"):
        assert full_name("fake") == "fake"
    assert full_name("./fake") == (tmp_path / "fake").resolve().as_posix()
    assert load_source("fake", tmp_path).digest is None
    assert load_facts("fake", tmp_path).classes == ["class 0", "class 1"]
    with pytest.raises(SettingsError, match="'fake' has no columns to name"):
        load_source("fake", tmp_path, columns=("words", "label"))


def test_a_class_that_is_not_drawn_is_named(tmp_path):
    with pytest.raises(SettingsError, match=r"Of the 1 training .* class [01]: raise"):
        load_source("fake", tmp_path, train_size=1)


def test_texts_that_were_moved_are_named(tmp_path):
    gone = tmp_path / "gone.csv"
    with pytest.raises(SettingsError, match=r"gone\.csv' is not there: put it back"):
        load_facts(gone.as_posix(), tmp_path)


def test_every_source_is_known_to_the_error():
    with pytest.raises(ValueError, match=", ".join(SOURCES)):
        load_source("", None)
