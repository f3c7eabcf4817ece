import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsa_pyg.datasets import json_stream
from hsa_pyg.datasets.json_stream import iterate_array

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5
)


@given(st.lists(VALUES), st.integers(1, 9), st.sampled_from([None, 1]))
def test_elements_are_those_of_the_array(tmp_path_factory, values, chunk, indent):
    path = tmp_path_factory.mktemp("json") / "array.json"
    path.write_text(" " + json.dumps(values, indent=indent) + "\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_stream, "_CHUNK", chunk)
        assert list(iterate_array(path)) == values


def test_a_byte_order_mark_is_no_part_of_it(tmp_path):
    path = tmp_path / "array.json"
    path.write_bytes(b'\xef\xbb\xbf["a"]')
    assert list(iterate_array(path)) == ["a"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "ends before its JSON array does"),
        ("[", "ends before its JSON array does"),
        ('[{"a": 1}', "element 0 is broken JSON, or the file is only a part"),
        ('[{"a": 1} ', "ends before its JSON array does"),
        ('{"a": 1}', r"is no JSON array: it starts with '{\"a\": 1}'"),
        ('[{"a": 1}, {"b": ', "element 1 is broken JSON, or the file is only a part"),
        ('[{"a": 1} {"b": 2}]', "element 1 is broken JSON.*comma"),
        ("[1, 2", "element 1 is broken JSON.*the file ends"),
        ("[" * 100_000, "element 0 is broken JSON"),
    ],
)
def test_broken_files_are_named(content, message, tmp_path):
    path = tmp_path / "array.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=rf"array.json'.*{message}"):
        list(iterate_array(path))


@pytest.mark.parametrize("content", [b'["\xff"]', b'["a", \xdd]', b"\xff\xfe[\0"])
def test_what_is_not_utf_8_is_named(content, tmp_path):
    path = tmp_path / "array.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"array.json' is not in UTF-8"):
        list(iterate_array(path))


def test_what_never_ends_is_not_read_to_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(json_stream, "_CHUNK", 10)
    monkeypatch.setattr(json_stream, "_LONGEST", 100)
    path = tmp_path / "array.json"
    path.write_text('["' + "x" * 10_000)
    with pytest.raises(ValueError, match="element 0 is broken JSON"):
        list(iterate_array(path))
