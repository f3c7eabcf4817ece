import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hsa_pyg.converters import DocumentConverter, from_document
from hsa_pyg.converters.markdown import parse_markdown
from hsa_pyg.converters.sentences import sentence_splitter, split_lines
from tests.block_trees import check_tree, depth, outline_of, seen_words

PROSE = sentence_splitter("prose")


def parse(text, split=PROSE):
    parsed = parse_markdown(text, split)
    check_tree(parsed)
    return parsed


def p(*sentences, role="paragraph"):
    return (role, *sentences)


def test_each_construct():
    text = (
        "# A\n\nIt *rained*, un**se**en. We ~~read~~.\nMore\\\nlines.\n\n"
        "Setext\n---\n\n"
        "- a\n  1. b\n- c\n\n> q\n> ## D\n\n"
        "| x | y |\n|---|:-:|\n| `z` | |\n\n```python\nif x:\n    y\n```\n\n"
        '    indented\n\n![Alt](a.png) <b>raw</b> &amp; [link](x "no")\n\n***\n\nend'
    )
    assert outline_of(parse(text)) == (
        (
            "h1",
            p("A", role="heading"),
            p("It rained, unseen.", "We read.", "More\nlines."),
            (
                "h2",
                p("Setext", role="heading"),
                (
                    "list",
                    ("item", p("a"), ("list", ("item", p("b")))),
                    ("item", p("c")),
                ),
                ("quote", p("q"), ("h2", p("D", role="heading"))),
                (
                    "table",
                    ("row", ("cell", p("x")), ("cell", p("y"))),
                    ("row", ("cell", p("z")), ("cell",)),
                ),
                p("if x:", "y", role="code"),
                p("indented", role="code"),
                p("raw & link"),
                ("figure", p("Alt", role="alt")),
                p("end"),
            ),
        ),
    )


@pytest.mark.parametrize(
    ("text", "title", "visible"),
    [
        ("---\ntitle: 'A: b'\nx: 1\n---\ntext", "A: b", "text"),
        ("---\r\n# note\r\ntitle: A\r\n...\r\ntext", "A", "text"),
        ("---\nx: 1\n---\ntext", "", "text"),
        ("---\n---\ntext", "", "text"),
        ("---\n\none\n\n---\n\ntwo", "", "one\n\ntwo"),
        ("---\none\n---\ntwo", "", "one\n\ntwo"),
        ("text\n\n---\nx: 1\n---\n", "", "text\n\nx: 1"),
    ],
)
def test_front_matter_is_no_text(text, title, visible):
    parsed = parse(text)
    assert (parsed.title, parsed.text) == (title, visible)
    assert parsed.dropped["front matter"] == (visible == "text")


@settings(max_examples=200)
@given(text=st.text("ab. \n\t*_`~[]()<>!#-+>|\\&;:1\"'é😀", max_size=60))
def test_any_text_is_read(text):
    assert len(parse(text).text) <= 4 * len(text)


@settings(max_examples=100)
@given(words=st.lists(st.text("abcé ", min_size=1), max_size=8))
def test_no_word_is_lost(words):
    text = "\n\n".join(word.strip() for word in words)
    assert seen_words(parse(text)) == " ".join(words).split()


PATHOLOGICAL = {
    "quotes": "> " * 10_000 + "x",
    "more and more quotes": "\n".join(">" * n + " x" for n in range(1, 400)),
    "lists": "\n".join("  " * n + "- x" for n in range(400)),
    "list on a line": "- " * 5_000 + "x",
    "brackets": "x" + "[" * 20_000,
    "pictures": "x" + "![" * 10_000,
    "links": "[" * 3_000 + "x" + "](y)" * 3_000,
    "stars": "x" + "*" * 50_000,
    "words with stars": "*x " * 20_000,
    "backticks": "x" + "`" * 50_000,
    "more and more backticks": "x" + "".join("`" * n + " " for n in range(400)),
    "tags": "x" + "<a " * 50_000,
    "table": "|x" * 2_000 + "\n" + "|-" * 2_000 + "\n",
    "lazy": "> " * 100 + "x\n" + "x\n" * 2_000,
}


@pytest.mark.parametrize("text", PATHOLOGICAL.values(), ids=PATHOLOGICAL)
def test_texts_made_to_stop_a_parser_are_read(text):
    parsed = parse(text, split_lines)
    assert parsed.text.count("x") == text.count("x")
    assert depth(parsed.block) < 60


def test_nested_too_deep_stays_as_text():
    parsed = parse("> " * 100 + "x")
    assert parsed.text == "> " * 68 + "x"


def test_binary_data_and_surrogates_are_refused():
    for text, reason in (("a\0", "holds a NUL"), ("\ud800", "lone surrogate")):
        with pytest.raises(ValueError, match=f"'notes' .*{reason}"):
            parse_markdown(text, PROSE, name="notes")


def test_files_become_signals(tmp_path):
    path = tmp_path / "notes.md"
    path.write_text("\ufeff# Rain\n\nIt rained.\n\n- a\n- b\n", encoding="utf-8")
    signal = from_document(path)
    signal.validate()
    assert signal["document"].text == ["Rain\n\nIt rained.\n\na\nb"]
    text = DocumentConverter().text(path.read_text("utf-8"), format="markdown")
    assert text["token"].x.equal(signal["token"].x)
