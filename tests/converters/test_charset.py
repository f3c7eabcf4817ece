import codecs
from collections import Counter

import pytest

from hsa_pyg.converters.charset import decode_html


def decode(content, encoding=None):
    dropped = Counter()
    return decode_html(content, "a.html", encoding, dropped), dict(dropped)


@pytest.mark.parametrize(
    ("content", "encoding", "text"),
    [
        ("é😀".encode(), None, "é😀"),
        ("é".encode("latin-1"), None, "é"),
        (b"\x80\x93", None, "€“"),
        (codecs.BOM_UTF8 + "é".encode(), "latin-1", "é"),
        (codecs.BOM_UTF16_LE + "é".encode("utf-16-le"), None, "é"),
        (codecs.BOM_UTF16_BE + "é".encode("utf-16-be"), "utf-8", "é"),
        ("é".encode("latin-1"), "latin-1", "é"),
        ("é".encode("utf-16"), "utf-16", "é"),
        (b"", None, ""),
    ],
)
def test_marks_come_first_then_the_argument_then_a_guess(content, encoding, text):
    assert decode(content, encoding) == (text, {})


@pytest.mark.parametrize(
    ("declaration", "written", "text"),
    [
        ("<meta charset=utf-8>", "é".encode(), "é"),
        ("<META CHARSET='ISO-8859-1'>", b"\x80", "€"),
        ("<meta http-equiv=x content='text/html; charset=koi8-r'>", b"\xc1", "а"),
        ("<meta charset=shift_jis>", "表①".encode("cp932"), "表①"),
        ("<meta charset=gb2312>", "镕".encode("gb18030"), "镕"),
        ("<meta charset=euc-kr>", "똠".encode("cp949"), "똠"),
        ("<meta charset=utf-16>", "é".encode(), "é"),
        ("<?xml version='1.0' encoding='iso-8859-15'?>", b"\xa4", "€"),
        ("<!-- <meta charset=koi8-r> --><meta charset=cp1251>", b"\xe0", "а"),
        ("<meta charset=nonsense>", "é".encode(), "é"),
        ("<meta charset=utf-7>", b"+AOk-", "+AOk-"),
        ("<meta charset=rot13>", b"x", "x"),
        ("<meta charset=unicode_escape>", b"\\ud800", "\\ud800"),
        (" " * 1024 + "<meta charset=koi8-r>", "é".encode(), "é"),
    ],
)
def test_pages_declare_their_encoding(declaration, written, text):
    decoded, dropped = decode(declaration.encode() + written)
    assert (decoded, dropped) == (declaration + text, {})


def test_wrong_bytes_are_counted_but_not_the_replacement_characters_of_a_page():
    content = b"<meta charset=utf-8>" + "\ufffd".encode() + b"\xe9 \xff"
    decoded, dropped = decode(content)
    assert decoded.endswith(">\ufffd\ufffd \ufffd")
    assert dropped == {"undecodable bytes": 2}


@pytest.mark.parametrize("encoding", ["nonsense", "rot13"])
def test_unknown_encodings_are_refused(encoding):
    with pytest.raises(ValueError, match=rf"'a\.html' .*'{encoding}' is no encoding"):
        decode(b"x", encoding)
