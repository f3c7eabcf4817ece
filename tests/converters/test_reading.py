import pytest

from hsa_pyg.converters.images import PictureReader
from hsa_pyg.converters.reading import Reader
from hsa_pyg.converters.sentences import split_lines

READER = Reader(split_lines)


def test_texts_are_read_in_each_format_that_is_written_as_text():
    assert READER.parse_text("# A", "text", "x").text == "# A"
    assert READER.parse_text("# A", "markdown", "x").text == "A"
    assert READER.parse_text("<b># A", "html", "x").text == "# A"
    with pytest.raises(
        ValueError, match="'x' is of the format 'epub', which is a file"
    ):
        READER.parse_text("x", "epub", "x")


@pytest.mark.parametrize(
    ("name", "format", "content", "text"),
    [
        ("a.txt", "text", "caf\xe9", "caf\xe9"),
        ("a.md", "markdown", "*caf\xe9*", "caf\xe9"),
        ("a.html", "html", "<p>caf\xe9", "caf\xe9"),
        ("a.html", "html", "<title/>no</title>caf\xe9", "caf\xe9"),
        ("a.xhtml", "html", "<title/><p>caf\xe9</p>", "caf\xe9"),
    ],
)
def test_files_are_read_in_their_encoding(tmp_path, name, format, content, text):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    assert READER.parse_file(path, format, name).text == text
    path.write_text(content, encoding="latin-1")
    reader = Reader(split_lines, encoding="latin-1")
    assert reader.parse_file(path, format, name).text == text


def test_all_documents_share_what_was_read(tmp_path):
    from PIL import Image

    for name in ("a", "b"):
        (tmp_path / f"{name}.html").write_text("<img src=x.png>")
    Image.new("RGB", (8, 8)).save(tmp_path / "x.png")
    reader = Reader(split_lines, pictures=PictureReader(patch=8))
    first, second = (
        reader.parse_file(tmp_path / f"{name}.html", "html", name) for name in "ab"
    )
    assert first.block.children[0].picture is second.block.children[0].picture


def test_pictures_are_looked_for_beside_the_file_and_below_the_root(tmp_path):
    (tmp_path / "sub").mkdir()
    path = tmp_path / "sub" / "a.html"
    path.write_text("<img src='../none.png'>x")
    reader = Reader(split_lines, pictures=PictureReader())
    outside = reader.parse_file(path, "html", "a")
    assert dict(outside.dropped) == {"pictures outside the folder": 1}
    missing = reader.parse_file(path, "html", "a", root=tmp_path)
    assert dict(missing.dropped) == {"pictures missing": 1}
    assert not READER.parse_file(path, "html", "a").dropped
    written = path.with_suffix(".md")
    written.write_text("![x](../none.png)")
    parsed = reader.parse_file(written, "markdown", "a")
    assert dict(parsed.dropped) == {"pictures outside the folder": 1}
