import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsa_pyg.converters.sentences import sentence_splitter, split_lines


def pieces(split, text):
    return [text[start:stop] for start, stop in split(text)]


def test_prose_is_split_at_sentences_and_not_at_abbreviations_or_line_ends():
    text = (
        "Dr. Smith paid $3.50\r\nto J. R. Jones. "
        '"Really?" he asked. See fig. 3. 😀 Yes!'
    )
    assert pieces(sentence_splitter("prose"), text) == [
        "Dr. Smith paid $3.50\r\nto J. R. Jones.",
        '"Really?" he asked.',
        "See fig. 3.",
        "😀 Yes!",
    ]


def test_prose_follows_the_language():
    text = "Das kostet ca. 3 Euro. Gut."
    german = pieces(sentence_splitter("prose", "de"), text)
    assert german == ["Das kostet ca. 3 Euro.", "Gut."]


@pytest.mark.parametrize(
    "sentence", ["It rained. ", "雨。", "“Rain,” he said. ", "“", "\"'([", "rain", "雨"]
)
def test_a_paragraph_as_long_as_a_book_is_split_in_linear_time(sentence):
    # Whole, each of them takes minutes: the test then times out.
    text = sentence * (200_000 // len(sentence))
    split = sentence_splitter("prose")
    few = pieces(split, sentence * 50)
    many = pieces(split, text)
    assert "".join(many).replace(" ", "") == text.replace(" ", "")
    assert many[0] == few[0] or len(few) == 1
    assert set(many) <= set(few) or len(many) == 1


def test_long_paragraphs_have_the_sentences_of_short_ones():
    sentences = [
        f'Mr. Rain no. {number} paid $3.{number:02d}, e.g. to "J. R.", twice!'
        for number in range(1_000)
    ]
    assert pieces(sentence_splitter("prose"), " ".join(sentences)) == sentences


def test_a_sentence_longer_than_what_is_looked_at_at_once_stays_one():
    sentences = ["Before it.", "rain and " * 3_000 + "sun.", "After it."]
    assert pieces(sentence_splitter("prose"), " ".join(sentences)) == sentences


def test_lines_leave_out_blank_lines_and_the_space_around():
    assert pieces(split_lines, "a b \r\n\r\n\tc\n\x0c\nd") == ["a b", "c", "d"]


@pytest.mark.parametrize("sentences", ["prose", "lines"])
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=80))
def test_no_visible_character_is_outside_of_a_sentence(sentences, text):
    check_cover(text, sentence_splitter(sentences)(text))


@given(
    text=st.text(st.sampled_from('a. “”\n雨。!"(\u0301\r😀'), max_size=200).map(
        lambda text: text * 99
    )
)
def test_no_visible_character_of_a_long_paragraph_is_outside(text):
    check_cover(text, sentence_splitter("prose")(text))


def check_cover(text, spans):
    covered = {offset for start, stop in spans for offset in range(start, stop)}
    outside = [text[offset] for offset in range(len(text)) if offset not in covered]
    assert "".join(outside).strip() == ""
    assert spans == sorted(spans)
    assert all(text[start:stop].strip() for start, stop in spans)


def test_a_callable_is_used_as_it_is_and_may_give_empty_sentences():
    split = sentence_splitter(lambda paragraph: [(0, 3), (3, 3), (4, len(paragraph))])
    assert split("one two") == [(0, 3), (3, 3), (4, 7)]


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([(0, 3)], "left out the characters 3 to 7"),
        ([], "left out the characters 0 to 7"),
        ([(0, 4), (3, 7)], r"the span \(3, 7\) after offset 4"),
        ([(0, 9)], r"the span \(0, 9\)"),
        ([(4, 7), (0, 3)], "left out the characters 0 to 4"),
    ],
)
def test_a_callable_that_loses_or_doubles_text_is_an_error(spans, message):
    split = sentence_splitter(lambda paragraph: spans)
    with pytest.raises(ValueError, match=message):
        split("one two")


def test_an_unknown_name_is_an_error_that_lists_the_known_ones():
    with pytest.raises(ValueError, match="'words' is not known: use 'prose', 'lines'"):
        sentence_splitter("words")
