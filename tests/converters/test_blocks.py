import pytest

from hsa_pyg.converters.blocks import paragraph_spans, parse_plain_text
from hsa_pyg.converters.sentences import split_lines


@pytest.mark.parametrize(
    ("text", "paragraphs"),
    [
        ("one\ntwo", ["one\ntwo"]),
        ("one\n\ntwo", ["one\n", "two"]),
        ("\n\n one\r\n\t\r\n\r\ntwo\r\n", [" one\r\n", "two\r\n"]),
        ("one\r\rtwo", ["one\r", "two"]),
        ("one\n\u3000\u00a0\ntwo", ["one\n", "two"]),
        ("", []),
        (" \n \n", []),
    ],
)
def test_paragraphs_are_runs_of_lines_that_are_not_blank(text, paragraphs):
    spans = list(paragraph_spans(text))
    assert [text[start:stop] for start, stop in spans] == paragraphs


def test_blocks_know_their_characters_without_the_white_space_around():
    text = "\n  a b \n c\n\n d\n"
    document = parse_plain_text(text, split_lines)

    def words(block):
        return text[block.start : block.stop]

    assert words(document) == text
    assert [words(paragraph) for paragraph in document.children] == ["a b \n c", "d"]
    first, second = document.children
    assert [words(sentence) for sentence in first.children] == ["a b", "c"]
    assert [words(sentence) for sentence in second.children] == ["d"]


def test_text_without_a_visible_character_has_no_paragraph():
    assert parse_plain_text(" \r\n\u2003\n", split_lines).children == ()
