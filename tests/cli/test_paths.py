import networkx
import pytest
import torch

from hsa_pyg.cli import SettingsError
from hsa_pyg.cli.paths import (
    PathReader,
    ReadSettings,
    detect_kind,
    load_signals,
)
from hsa_pyg.converters import DocumentConverter
from hsa_pyg.data import unify
from hsa_pyg.datasets import FakeNestedDataset


@pytest.fixture
def reader():
    return PathReader(ReadSettings())


def read(reader, path, kind=None):
    (signal,) = reader.read_path(path, kind)
    assert signal.validate()
    assert signal.source == path.as_posix()
    return signal


def png(path, size=(20, 12)):
    from PIL import Image

    Image.new("RGB", size, "red").save(path, format="PNG")
    return path


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.txt", "Rain.", "text"),
        ("a.md", "# Rain", "markdown"),
        ("a.HTML", "<p>Rain.", "html"),
        ("a.json", '{"a": 1}', "json"),
        ("a.nwk", "(A,B);", "newick"),
        ("README", "Rain.", "text"),
        ("page", "\n<!DOCTYPE html><p>Rain.", "html"),
        ("drawing", '<svg xmlns="http://www.w3.org/2000/svg"/>', "image"),
        ("log.1", "Rain ✓.", "text"),
    ],
)
def test_the_kind_is_told_from_suffix_or_content(tmp_path, name, content, kind):
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert detect_kind(tmp_path / name) == kind


def test_pictures_and_books_are_told_from_their_first_bytes(tmp_path):
    assert detect_kind(png(tmp_path / "picture")) == "image"
    (tmp_path / "book").write_bytes(b"PK\3\4....mimetypeapplication/epub+zip")
    assert detect_kind(tmp_path / "book") == "epub"
    (tmp_path / "long").write_text("é" * 4095)
    assert detect_kind(tmp_path / "long") == "text"


def test_what_nobody_can_tell_asks_for_the_format(tmp_path):
    (tmp_path / "a.bin").write_bytes(bytes(range(256)))
    with pytest.raises(SettingsError, match=r"say which by --format, one of text"):
        detect_kind(tmp_path / "a.bin")
    with pytest.raises(FileNotFoundError, match="no file or folder"):
        detect_kind(tmp_path / "b.txt")


def test_each_kind_has_its_converter(tmp_path, reader):
    (tmp_path / "a.txt").write_text("It rained. We read.")
    assert read(reader, tmp_path / "a.txt").hierarchy.num_leaves == 6
    (tmp_path / "a.json").write_text('{"a": [1, "two"]}')
    nested = read(reader, tmp_path / "a.json")
    assert nested["number"].x.tolist() == [[1.0]]
    assert "patch" in read(reader, png(tmp_path / "a.png")).node_types
    networkx.write_graphml(networkx.path_graph(9), tmp_path / "a.graphml")
    assert read(reader, tmp_path / "a.graphml").hierarchy.leaf_slices.keys() == {
        "vertex"
    }
    tree = networkx.DiGraph([("r", "a"), ("r", "b")])
    networkx.write_gml(tree, tmp_path / "a.gml")
    names = read(reader, tmp_path / "a.gml")
    assert names["leaf"].name == ["a", "b"]
    networkx.write_edgelist(networkx.cycle_graph(5), tmp_path / "a.edgelist")
    assert read(reader, tmp_path / "a.edgelist").hierarchy.num_leaves == 5
    (tmp_path / "notes.log").write_text("Rain.")
    assert read(reader, tmp_path / "notes.log", "text").hierarchy.num_leaves == 2


def test_several_trees_in_a_file_are_several_signals(tmp_path, reader):
    (tmp_path / "a.nwk").write_text("(A,B);\n((A,B),C);\n")
    first, second = reader.read_path(tmp_path / "a.nwk")
    assert (first.hierarchy.num_leaves, second.hierarchy.num_leaves) == (2, 3)


def test_a_picture_goes_together_with_documents_that_have_pictures(tmp_path):
    (tmp_path / "a.html").write_text("<p>Rain.")
    reader = PathReader(ReadSettings(), as_documents=True)
    signals = [
        read(reader, tmp_path / "a.html"),
        read(reader, png(tmp_path / "a.png")),
    ]
    page, picture = unify(signals)
    assert page.schema == picture.schema
    assert picture["image"].size.tolist() == [[12, 20]]
    assert picture["patch"].num_nodes == 2


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", '{"a": ', "is no JSON"),
        ("a.json", "[" * 100_000, "nests deeper"),
        ("a.gml", "graph [", "cannot be read as gml"),
        ("a.graphml", "<graphml", "cannot be read as graphml"),
        ("a.nwk", "((A,B;", "a.nwk': .* never closed"),
        ("a.png", "no picture", "a.png"),
        ("a.txt", "", "is empty"),
    ],
)
def test_broken_files_are_named(tmp_path, reader, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        reader.read_path(tmp_path / name)


def test_an_unknown_format_is_refused(tmp_path, reader):
    (tmp_path / "a.txt").write_text("Rain.")
    with pytest.raises(SettingsError, match="--format docx is not known: use one of t"):
        reader.read_path(tmp_path / "a.txt", "docx")


def test_saved_signals_are_loaded(tmp_path):
    data = list(FakeNestedDataset(num_samples=3))
    torch.save(data, tmp_path / "all.pt")
    torch.save(data[0], tmp_path / "one.pt")
    assert len(load_signals(tmp_path / "all.pt")) == 3
    assert len(load_signals(tmp_path / "one.pt")) == 1


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "holds no signal"),
        ([1], "holds a int"),
        (torch.zeros(2), "holds a Tensor"),
    ],
)
def test_other_saved_things_are_refused(tmp_path, value, message):
    torch.save(value, tmp_path / "a.pt")
    with pytest.raises(SettingsError, match=message):
        load_signals(tmp_path / "a.pt")


@pytest.mark.parametrize("content", [b"", b"garbage", b"PK\3\4 garbage"])
def test_a_broken_file_of_signals_is_one_sentence(tmp_path, content):
    (tmp_path / "a.pt").write_bytes(content)
    with pytest.raises(SettingsError, match=r"cannot be loaded as signals \(.+\):"):
        load_signals(tmp_path / "a.pt")


@pytest.mark.parametrize(
    ("node_type", "key", "value"),
    [
        (("token", "child_of", "sentence"), "edge_index", torch.tensor([[0], [99]])),
        (("token", "child_of", "sentence"), "edge_index", torch.zeros(2, 3)),
        ("sentence", "span", torch.zeros(2, 2)),
        ("paragraph", "role", torch.tensor([[0, 1]])),
        ("paragraph", "role", "x"),
        ("sentence", "num_nodes", "x"),
        ("token", "x", "hello"),
        (None, "dropped", [1, 2]),
        (None, "dropped", [("a", "b")]),
        (None, "dropped", "foo"),
    ],
)
def test_a_broken_signal_is_one_sentence(tmp_path, node_type, key, value):
    signal = DocumentConverter().text("It rained. We read.")
    store = signal._global_store if node_type is None else signal[node_type]
    store[key] = value
    torch.save([signal], tmp_path / "a.pt")
    with pytest.raises(SettingsError, match=r"signal 0 of '.*a\.pt' is broken: .+\."):
        load_signals(tmp_path / "a.pt")


def test_texts_are_those_of_the_documents(tmp_path, reader):
    (tmp_path / "a.html").write_text("<title>T</title><p>It <b>rained</b>.")
    assert list(reader.text_of(tmp_path / "a.html", "html")) == ["It rained."]
    (tmp_path / "a.json").write_text('{"a": ["b", {"c": "d"}], "e": 1}')
    assert sorted(reader.text_of(tmp_path / "a.json", "json")) == ["b", "d"]
    assert list(reader.text_of(tmp_path, "website")) == ["It rained."]
    assert list(reader.text_of(tmp_path / "a.png", "image")) == []
