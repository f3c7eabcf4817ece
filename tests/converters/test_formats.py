from pathlib import Path

import pytest

from hsa_pyg.converters.formats import check_format, decode, detect_format, names_file


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("a.txt", "text"),
        ("README", "text"),
        ("a.b/c.HTML", "html"),
        ("a.Md", "markdown"),
        ("book.epub", "epub"),
        ("a.txt.gz", None),
    ],
)
def test_format_is_told_from_the_suffix(name, format):
    assert detect_format(Path(name)) == format


@pytest.mark.parametrize(
    "name",
    [
        "index.html",
        "my review.txt",
        "reviews/a.pdf",
        "Letter to Ann.DOCX",
        "my scans/page 3.JPEG",
        "from a list.md\n",
    ],
)
def test_a_line_that_ends_like_a_name_is_no_text(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError) as refusal:
        names_file(name)
    assert f"There is no file {name!r}. If this is the text itself" in str(
        refusal.value
    )
    assert names_file(Path(name))
    if "/" not in name:
        (tmp_path / name).touch()
        assert names_file(name)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello.",
        "See a.txt.",
        "a.txt is empty",
        "See\na.txt",
        "Bean, Mr. Bean",
        "n/a",
    ],
)
def test_other_strings_are_texts(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert not names_file(text)


def test_unknown_formats_say_what_is_supported():
    assert check_format("a.md", "markdown") == "markdown"
    with pytest.raises(ValueError, match=r"'a.png' is unknown.*Supported: 'text'"):
        check_format("a.png", None)
    with pytest.raises(ValueError, match=r"given as 'docx'"):
        check_format("a", "docx")


def test_line_endings_stay_and_the_byte_order_mark_goes():
    text = "é\r\nü\r"
    assert decode(text.encode("utf-8-sig"), "a") == text
    assert decode(text.encode("utf-16"), "a", "utf-16") == text
    assert decode(text.encode("latin-1"), "a", "latin-1") == text
    # Only the mark at the start is one; elsewhere it is a character of the text.
    assert decode("\ufeffa\ufeff".encode(), "a") == "a\ufeff"


def test_wrong_encoding_names_document_byte_and_offset():
    with pytest.raises(
        ValueError, match=r"'a.txt' is not utf-8: byte 0xe9 at offset 3"
    ):
        decode("caf\xe9 noir".encode("latin-1"), "a.txt")
    with pytest.raises(
        ValueError, match=r"'a.txt' is not ascii: byte 0xc3 at offset 1"
    ):
        decode("né".encode(), "a.txt", "ascii")


def test_utf_16_and_utf_32_are_told_from_their_byte_order_mark():
    with pytest.raises(ValueError, match="pass encoding='utf-16'"):
        decode("text".encode("utf-16"), "a.txt")
    with pytest.raises(ValueError, match="pass encoding='utf-32'"):
        decode("text".encode("utf-32"), "a.txt")


def test_binary_data_is_an_error_whatever_the_encoding():
    with pytest.raises(
        ValueError, match=r"'a.txt' is not utf-8: byte 0x89 at offset 0"
    ):
        decode(b"\x89PNG\r\n\x1a\n\x00\x00", "a.txt")
    with pytest.raises(ValueError, match=r"'a.txt' is no text.*NUL at character 8"):
        decode(b"\x89PNG\r\n\x1a\n\x00\x00", "a.txt", "latin-1")
    # UTF-16 without a mark is valid UTF-8 and reads as letters between NULs.
    with pytest.raises(ValueError, match="NUL at character 1"):
        decode("text".encode("utf-16-le"), "a.txt")


def test_an_unknown_encoding_is_a_value_error():
    with pytest.raises(ValueError, match="'klingon' is no encoding"):
        decode(b"x", "a.txt", "klingon")
