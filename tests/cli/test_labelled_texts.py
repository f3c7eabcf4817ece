"""Texts and labels from the forms that ``hsa-pyg zero-shot`` reads."""

import csv
import json

import pytest

from hsa_pyg.cli import SettingsError
from hsa_pyg.cli.labelled_texts import read_labelled_texts


@pytest.fixture
def written(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
        return path

    return write


def rows(path, **columns):
    found = read_labelled_texts(path, **columns)
    return found.texts, found.labels


def test_lines_of_label_and_text(written):
    path = written("a.tsv", '5\tCC("x")>>C\r\n10\tC\u2028C\r\n')
    assert rows(path) == (['CC("x")>>C', "C\u2028C"], ["5", "10"])


def test_headers_in_any_order_and_case(written):
    path = written("a.tsv", "Label\tid\tText\npos\t1\tgood film\nneg\t2\tbad\n")
    assert rows(path) == (["good film", "bad"], ["pos", "neg"])
    path = written("a.csv", '\ufefftext,label\n"a, ""b""\nc",1\nd,0\n')
    assert rows(path) == (['a, "b"\nc', "d"], ["1", "0"])


def test_columns_of_other_names(written):
    path = written("a.csv", "review,stars\nfine,3\n")
    assert rows(path, text_column="review", label_column="stars") == (["fine"], ["3"])
    assert rows(path, text_column="REVIEW ") == (["fine"], None)
    with pytest.raises(SettingsError, match=r"no column 'text' .* --text-column"):
        rows(path)


def test_quotes_of_a_table_of_tabs_are_kept_and_told_of(written):
    path = written("a.tsv", '1\t"said"\n2\tby "him"\n')
    with pytest.warns(UserWarning, match=r"1 of 2 texts in .*a\.tsv' stand in quotes"):
        assert rows(path) == (['"said"', 'by "him"'], ["1", "2"])
    assert rows(written("b.csv", 'text,label\n"said",1\n'))[0] == ["said"]


def test_labels_that_no_file_could_hold_are_refused(written):
    path = written("a.jsonl", '{"text": "a", "label": "\\ud800x"}\n')
    with pytest.raises(SettingsError, match=r"line 1' of .* the label '\\ud800x', wh"):
        rows(path)


def test_json_that_nests_too_deep_is_refused(written):
    deep = written("a.jsonl", "[" * 100_000 + "]" * 100_000 + "\n")
    with pytest.raises(SettingsError, match=r"line 1 of .* nests deeper"):
        rows(deep)


def test_lines_of_json(written):
    items = [{"text": "a", "label": 1}, {"text": "b", "label": "x"}]
    path = written("a.jsonl", "\n".join(map(json.dumps, items)) + "\n\n")
    assert rows(path) == (["a", "b"], ["1", "x"])


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("a.tsv", "label\ttext\n\n1\ta\n2\tb\n", [3, 4]),
        ("a.tsv", "\n1\ta\n2\tb\n", [2, 3]),
        ("a.csv", 'label,text\n1,"a\n\nb"\n2,c\n', [2, 5]),
        ("a.jsonl", '\n{"text": "a"}\n\n{"text": "b"}\n', [2, 4]),
    ],
)
def test_every_text_has_its_line(written, name, text, lines):
    found = read_labelled_texts(written(name, text))
    assert found.sources == [f"line {number}" for number in lines]
    assert found.at([1]).sources == [f"line {lines[1]}"]


def test_folders_of_classes(written, tmp_path):
    for name, text in {
        "d/pos/1.txt": "good\n",
        "d/neg/2.txt": "bad",
        "d/neg/notes.md": "no text",
        "d/unsup/3.txt": "who knows",
        "d/.cache/4.txt": "hidden",
    }.items():
        written(name, text)
    with pytest.warns(UserWarning, match=r"unsup, neg/notes\.md \(2 in all\)"):
        assert rows(tmp_path / "d") == (["bad", "good\n"], ["neg", "pos"])
    with pytest.warns(UserWarning, match=r"Not read in .*/d'"):
        found = read_labelled_texts(tmp_path / "d")
    assert found.sources == ["neg/2.txt", "pos/1.txt"]


def test_an_order_by_seed(written):
    path = written("a.tsv", "".join(f"{i}\ttext {i}\n" for i in range(20)))
    whole = read_labelled_texts(path)
    one, same, other = (whole.shuffled(seed) for seed in (0, 0, 1))
    assert one == same != other
    assert sorted(one.texts) == sorted(whole.texts)
    assert all(
        text == f"text {label}"
        for text, label in zip(one.texts, one.labels, strict=True)
    )


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "x", "must be a .tsv or .csv"),
        ("a.tsv", "", "has no column 'text'"),
        ("a.csv", "text,label\n", "holds no texts"),
        ("a.tsv", "1\ta\n2\tb\tc\n", "a line of 3 columns"),
        ("a.csv", "text,label\na,1\nb\n", "a row of 1 columns"),
        ("a.tsv", "sentence\tlabel\nfine\t1\n", "no column 'text'"),
        ("a.tsv", "text\tlabel\ttext\na\t1\tb\n", "2 columns 'text'"),
        ("a.tsv", "label\ttext\n1\ta\n\tb\n", "a label for 1 of 2 texts"),
        ("a.csv", 'label,text\n1,"a\n0,b\n', "no table: unexpected end of data"),
        ("a.jsonl", "{", "line 1 of .* is no JSON"),
        ("a.jsonl", '{"body": "a"}', "no object with a text 'text'"),
        ("a.jsonl", '{"text": "a", "label": [1]}', "labels are names or whole"),
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text": "b"}', "for 1 of 2 texts"),
    ],
)
def test_what_cannot_be_read_is_said(written, name, text, message):
    with pytest.raises(SettingsError, match=message):
        rows(written(name, text))


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.jsonl"])
def test_columns_that_are_asked_for_and_not_there(written, name):
    mark = {".tsv": "\t", ".csv": ","}.get(name[1:])
    text = f"label{mark}text\n1{mark}a\n" if mark else '{"label": 1, "text": "a"}\n'
    path = written(name, text)
    with pytest.raises(SettingsError, match="--text-column"):
        rows(path, text_column="body")
    with pytest.raises(SettingsError, match="no labels under the name 'stars'"):
        rows(path, label_column="stars")


def test_a_class_without_texts_is_not_left_out(written, tmp_path):
    written("d/pos/1.txt", "good")
    written("d/neg/more/2.txt", "bad")
    with pytest.raises(SettingsError, match=r"d/neg' has no \.txt files"):
        rows(tmp_path / "d")


def test_a_text_of_half_a_million_characters(written):
    csv.field_size_limit(131_072)  # Python's own, whatever ran before
    path = written("a.tsv", "1\t" + "good " * 100_000 + "\n")
    assert len(rows(path)[0][0]) == 500_000


def test_what_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file or folder"):
        rows(tmp_path / "nothing.tsv")
    (tmp_path / "a.csv").write_bytes(b"text\n\xff\xfe\n")
    with pytest.raises(SettingsError, match="is not in UTF-8"):
        rows(tmp_path / "a.csv")


def test_what_is_not_read_in_a_folder_is_named(tmp_path):
    for name in ("neg/1.txt", "pos/1.txt", "pos/more/2.txt", "pos/3.md", "notes.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"words of {name}")
    (tmp_path / "unsup").mkdir()
    (tmp_path / "pos" / ".draft.txt").write_text("hidden")
    (tmp_path / "pos" / "gone.txt").symlink_to(tmp_path / "nowhere")
    left = r"notes\.txt, unsup, pos/3\.md, pos/gone\.txt, pos/more \(5 in all\)"
    with pytest.warns(UserWarning, match=left):
        found = read_labelled_texts(tmp_path)
    assert found.sources == ["neg/1.txt", "pos/1.txt"]


def test_labels_of_json_lines_are_names_or_whole_numbers(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a", "label": " x "}\n{"text": "b", "label": 1}\n')
    assert read_labelled_texts(path).labels == ["x", "1"]
    path.write_text('{"text": "a", "label": true}\n')
    with pytest.raises(SettingsError, match="has the label true; labels are names"):
        read_labelled_texts(path)
