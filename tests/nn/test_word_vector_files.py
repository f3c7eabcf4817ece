import gzip
import json
import sys
import zipfile

import numpy as np
import pytest

from hsa_pyg.nn.word_vector_files import find_in_array, find_in_text

# A word with a space, one with a character that str.splitlines takes for an end, one
# that is no UTF-8, and a word that is there twice.
LINES = [
    b"the 0.5 -1 2e-1",
    b"at home 1 2 3",
    b"a\x85\xc2\x85b 4 5 6",
    "a\u0085b 7 8 9".encode(),
    "café 1.5 2.5 3.5".encode(),
    b"the 9 9 9",
]
WANTED = {"the", "at home", "a\u0085b", "café", "absent", "at"}
FOUND = {
    "the": [0.5, -1, 0.2],
    "at home": [1, 2, 3],
    "a\u0085b": [7, 8, 9],
    "café": [1.5, 2.5, 3.5],
}


def as_lists(found):
    return {
        word: [round(x, 6) for x in vector.tolist()] for word, vector in found.items()
    }


def write(path, lines, end=b"\n"):
    content = end.join(lines) + end
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(content))
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("vectors.txt", content)
    else:
        path.write_bytes(content)
    return path


@pytest.mark.parametrize("name", ["v.txt", "v.txt.gz", "v.zip", "v.vec"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b" \n"])
@pytest.mark.parametrize("header", [[], [b"6 3"]])
def test_all_forms_give_the_same(tmp_path, name, end, header):
    path = write(tmp_path / name, header + LINES, end)
    assert as_lists(find_in_text(path, WANTED)) == FOUND


def test_a_part_of_a_file_is_noticed(tmp_path):
    path = write(tmp_path / "v.txt", [b"9 3", *LINES])
    with pytest.raises(ValueError, match="says that it has 9 words, but has 6"):
        find_in_text(path, WANTED)
    packed = write(tmp_path / "v.gz", [b"w%d 1 2 3" % i for i in range(9999)])
    packed.write_bytes(packed.read_bytes()[:-500])
    with pytest.raises(ValueError, match="is broken, or a part"):
        find_in_text(packed, WANTED)


@pytest.mark.parametrize("bad", [b"the 1 x 3", b"the 1 nan 3", b"the 1 2"])
def test_a_broken_line_is_named(tmp_path, bad):
    path = write(tmp_path / "v.txt", [b"of 1 2 3", bad])
    with pytest.raises(ValueError, match="line 2 of"):
        find_in_text(path, {"the"})
    # What nobody wants is not read.
    assert list(find_in_text(path, {"of"})) == ["of"]


def test_members_of_an_archive(tmp_path):
    path = tmp_path / "v.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/50d.txt", b"the 1 2\n")
        archive.writestr("a/100d.txt", b"the 1 2 3\n")
    assert find_in_text(path, {"the"}, "a/50d.txt")["the"].tolist() == [1, 2]
    with pytest.raises(ValueError, match="several files; pass member="):
        find_in_text(path, {"the"})
    with pytest.raises(ValueError, match="no 'b' files; pass member= with"):
        find_in_text(path, {"the"}, "b")
    with pytest.raises(ValueError, match=r"member= is for \.zip"):
        find_in_text(write(tmp_path / "v.txt", LINES), {"the"}, "b")
    path.write_bytes(b"no archive")
    with pytest.raises(ValueError, match="is no zip archive"):
        find_in_text(path, {"the"})


@pytest.fixture
def array(tmp_path):
    np.save(tmp_path / "v.npy", np.arange(12, dtype=np.float32).reshape(4, 3))
    return tmp_path / "v.npy"


WORDS = ["a", "b", "a", "c\u0085"]


def write_index(tmp_path, form):
    path = tmp_path / f"index.{form}"
    if form == "txt":
        path.write_bytes("".join(f"{word}\n" for word in WORDS).encode())
    elif form == "json":
        path.write_text(json.dumps(WORDS))
    else:
        import pyarrow as arrow
        from pyarrow import parquet

        parquet.write_table(arrow.table({"index": WORDS}), path)
    return path


@pytest.mark.parametrize("form", ["txt", "json", "parquet"])
def test_an_array_and_its_index(tmp_path, array, form):
    index = write_index(tmp_path, form)
    found = find_in_array(array, index, {"a", "c\u0085", "d"})
    assert as_lists(found) == {"a": [0, 1, 2], "c\u0085": [9, 10, 11]}


def test_an_index_from_words_to_rows(tmp_path, array):
    (tmp_path / "i.json").write_text(json.dumps({"x": 2}))
    found = find_in_array(array, tmp_path / "i.json", {"x"})
    assert found["x"].tolist() == [6, 7, 8]
    (tmp_path / "i.json").write_text(json.dumps({"x": 4}))
    with pytest.raises(ValueError, match="such as 'x', and the array 4 rows"):
        find_in_array(array, tmp_path / "i.json", {"x"})


@pytest.mark.parametrize("words", [["a"], list("abcde")])
def test_an_index_of_another_array(tmp_path, array, words):
    (tmp_path / "i.json").write_text(json.dumps(words))
    with pytest.raises(ValueError, match="do not belong together"):
        find_in_array(array, tmp_path / "i.json", {"a"})


@pytest.mark.parametrize(
    ("text", "words"),
    [("3", "a JSON list"), ('{"x": "y"}', "integer of its row"), ("{x", "is no JSON")],
)
def test_an_index_that_is_none(tmp_path, array, text, words):
    (tmp_path / "i.json").write_text(text)
    with pytest.raises(ValueError, match=words):
        find_in_array(array, tmp_path / "i.json", {"x"})


def test_a_byte_order_mark_is_no_part_of_a_word(tmp_path, array):
    (tmp_path / "v.txt").write_text("a 1 2\nb  3 4\n", encoding="utf-8-sig")
    found = find_in_text(tmp_path / "v.txt", {"a", "b"})
    assert as_lists(found) == {"a": [1, 2], "b": [3, 4]}
    for name, text in (("i.txt", "a\nb\nc\nd\n"), ("i.json", '["a", "b", "c", "d"]')):
        (tmp_path / name).write_text(text, encoding="utf-8-sig")
        assert as_lists(find_in_array(array, tmp_path / name, {"a"})) == {
            "a": [0, 1, 2]
        }


def test_arrays_that_are_none(tmp_path):
    index = tmp_path / "i.txt"
    index.write_text("a\n")
    np.save(tmp_path / "v.npy", np.arange(3))
    with pytest.raises(ValueError, match="should hold a vector a row"):
        find_in_array(tmp_path / "v.npy", index, {"a"})
    np.save(tmp_path / "v.npy", np.array([[np.nan]]))
    with pytest.raises(ValueError, match=r"row 0 of .* not finite"):
        find_in_array(tmp_path / "v.npy", index, {"a"})
    (tmp_path / "v.npy").write_text("x")
    with pytest.raises(ValueError, match=r"is no \.npy array"):
        find_in_array(tmp_path / "v.npy", index, {"a"})


def test_parquet_names_what_it_needs(tmp_path, array, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        ImportError, match=r"needs PyArrow: pip install .hsa-pyg\[vectors\]"
    ):
        find_in_array(array, tmp_path / "i.parquet", {"a"})
