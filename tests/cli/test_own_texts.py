"""Texts of the user's own, in three parts."""

import warnings
from collections import Counter

import pytest

from hsa_pyg.cli import SettingsError
from hsa_pyg.cli.own_texts import LEAST, read_own_texts


@pytest.fixture
def written(tmp_path):
    """A function that writes a table and reads it."""

    def write(rows):
        path = tmp_path / "a.tsv"
        lines = ["label\ttext", *(f"{label}\t{text}" for label, text in rows)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return read_own_texts(path, "text", "label")

    return write


def two_classes(number=20):
    return [(f"c{i % 2}", f"Text {i} is here.") for i in range(number)]


def test_every_class_is_in_every_part(written):
    texts = written([*two_classes(40), *(("c2", f"Rain {i}.") for i in range(LEAST))])
    parts = texts.convert()
    labels = {
        part: Counter(texts.classes[signal.y] for signal in signals)
        for part, signals in parts.items()
    }
    assert labels == {
        "train": {"c0": 16, "c1": 16, "c2": 8},
        "val": {"c0": 2, "c1": 2, "c2": 1},
        "test": {"c0": 2, "c1": 2, "c2": 1},
    }


def test_the_split_is_that_of_the_texts_in_any_order(written):
    forth, back = written(two_classes()), written(two_classes()[::-1])
    assert forth.parts == back.parts
    assert forth.digest != back.digest


def test_a_signal_says_where_its_text_stands(written):
    parts = written(two_classes()).convert()
    sources = [signal.source for signals in parts.values() for signal in signals]
    assert sorted(sources) == sorted(f"line {i}" for i in range(2, 22))


def test_a_text_is_never_in_two_parts(written):
    rows = two_classes()
    others = [str.upper, lambda text: text.replace(" ", "   ") + " "]
    again = [(label, other(text)) for other in others for label, text in rows]
    parts = written([*rows, *again]).convert()
    assert sum(len(signals) for signals in parts.values()) == 60
    ids = {
        part: {tuple(signal["token"].x.tolist()) for signal in signals}
        for part, signals in parts.items()
    }
    assert [len(ids[part]) for part in ("train", "val", "test")] == [16, 2, 2]
    assert len(set.union(*ids.values())) == 20


def test_texts_are_cut_as_asked_and_are_of_one_schema(written):
    texts = written(two_classes())
    signals = [s for part in texts.convert(max_tokens=3).values() for s in part]
    assert {signal["token"].num_nodes for signal in signals} == {3}
    assert {tuple(s.schema.nodes) for s in signals} == {tuple(texts.schema.nodes)}
    assert max(int(s["token"].x.max()) for s in signals) < texts.tokenizer.vocab_size


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: [*rows, ("c0", "One more.")],
        lambda rows: [("c1", rows[0][1]), *rows[1:]],
        lambda rows: [(rows[0][0], "Another."), *rows[1:]],
    ],
)
def test_the_digest_changes_with_texts_and_labels(written, change):
    rows = two_classes(24)
    assert written(rows).digest == written(rows).digest != written(change(rows)).digest


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("a", "x")] * 3, "All 3 texts in .* have the label 'a'"),
        (
            [*two_classes(), ("rare", "x"), ("rare", "y"), ("rare", "y")],
            r"1 of 3 classes .* fewer than 10 different texts: rare \(2\)",
        ),
        ([("", "x"), ("", "y")], "no labels under the name 'label'"),
    ],
)
def test_what_cannot_be_learned_is_said(written, rows, message):
    with pytest.raises(SettingsError, match=message):
        written(rows)


def test_texts_without_a_word_are_counted_and_named(written):
    rows = two_classes()
    rows[3:3] = [("c0", ""), ("c1", "   ")]
    with pytest.raises(SettingsError, match=r"2 of 22 texts .*: line 5, line 6\. Give"):
        written(rows).convert()
    with pytest.raises(SettingsError, match=r"a\.tsv': .*line 22.* NUL"):
        written([*two_classes(), ("c0", "x\0y")]).convert()


def test_texts_that_are_alike_once_cut_are_counted(written):
    rows = [(f"c{i % 2}", f"The same four words, then {i}.") for i in range(20)]
    texts = written(rows)
    with pytest.warns(UserWarning, match=r"^4 validation and test .* the 4 tokens to"):
        texts.convert(max_tokens=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        texts.convert(max_tokens=7)
        texts.convert()


def test_a_text_has_one_label(written):
    rows = [*two_classes(), ("c1", "TEXT 0 is here.")]
    with pytest.raises(
        SettingsError, match=r"1 in all: line 2 \(c0\) and line 22 \(c1"
    ):
        written(rows)
