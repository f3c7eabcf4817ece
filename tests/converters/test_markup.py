import html.parser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hsa_pyg.converters.markup import (
    MAX_DEPTH,
    bound_nesting,
    close_empty_elements,
    tags,
)


def names(source):
    return [("/" if is_end else "") + name for _, _, name, is_end in tags(source)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a < b <3 </ > <!x <?y>", []),
        ("<P>x</p >", ["p", "/p"]),
        ("<a title='<b>' href=\"</a>\" x=<i>>", ["a"]),
        ("<a x='>'><b y=\">\n\"/>", ["a", "b"]),
        ('<a href="x"">y<b "><i>', ["a", "b", "i"]),
        ("<a ='x'><b = >", ["a", "b"]),
        ("<!-- <b> --><i><!--><b><!---><u>", ["i", "b", "u"]),
        ("<!-- <b>", []),
        ("<script><b></SCRIPT x><i>", ["script", "/script", "i"]),
        ("<title><b>", ["title"]),
        (
            "<svg><title><b></title></svg><title><b>",
            [
                "svg",
                "title",
                "b",
                "/title",
                "/svg",
                "title",
            ],
        ),
        ("<svg/><style><b></style>", ["svg", "style", "/style"]),
        ("<plaintext><b>", ["plaintext"]),
        ("<b", []),
        ("<b x", []),
        ("<b x='", []),
        ("<x-y><o:p>", ["x-y", "o:p"]),
    ],
)
def test_tags_are_what_a_parser_takes_for_tags(source, expected):
    assert names(source) == expected


class _Names(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.names = []

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)

    def handle_endtag(self, tag):
        self.names.append("/" + tag)


@settings(max_examples=200)
@given(
    pieces=st.lists(
        st.sampled_from(
            [
                "<p>",
                "</p>",
                "<a b='c>'>",
                '<i j="<k>">',
                "<!-- <b> -->",
                "x < y",
                "&lt;",
            ]
        )
    )
)
def test_well_formed_tags_are_those_of_another_parser(pieces):
    other = _Names()
    other.feed("".join(pieces))
    other.close()
    assert names("".join(pieces)) == other.names


@settings(max_examples=200)
@given(source=st.text("<>/='\" !-abp[]", max_size=40))
def test_any_text_has_tags_in_order(source):
    position = 0
    for start, stop, _, _ in tags(source):
        assert position <= start < stop <= len(source)
        assert source[start] == "<"
        position = stop


def test_usual_pages_come_back_as_they_are():
    for source in (
        "",
        "<p>x",
        "<ul>" + "<li>x" * 5_000,
        "<table>" + "<tr><td>x<div>y</td>" * 2_000,
        "<p>x <a name=y>" * 2_000,
        "<div><b>x</b></div>" * 2_000,
        "<dl>" + "<dt>x<dd><p>y" * 2_000,
    ):
        assert bound_nesting(source) is source


def test_what_nests_too_deep_keeps_its_text_links_and_breaks():
    inner = "<div>a</div><a href=x>b</a><b>c</b><img src=y>"
    deep = "<div>" * 600 + inner + "</div>" * 600 + "<p><b>d</b>"
    bounded = bound_nesting(deep)
    assert bounded.count("<div>") == bounded.count("</div>") == MAX_DEPTH
    assert "<hr>a<hr><a href=x>b</a>c<img src=y>" in bounded
    assert bounded.endswith("<p><span>d</span>")


def test_what_was_left_out_is_forgotten_where_less_is_open():
    left_open = "<div>" * MAX_DEPTH + "<span>" + "</div>" * MAX_DEPTH
    bounded = bound_nesting(left_open + "<span hidden>a</span>b")
    assert bounded.endswith("</div><span hidden>a</span>b")


def test_tables_are_left_out_as_a_whole_or_not():
    table = "<table><tr><td>a<td>b</table>"
    assert bound_nesting("<div>" * (MAX_DEPTH - 1) + table).endswith(table)
    without = bound_nesting("<div>" * MAX_DEPTH + table)
    assert without.endswith("<hr><hr><hr>a<hr>b<hr>")


def test_formats_that_are_never_closed_are_opened_no_more():
    bounded = bound_nesting("<p><b id=1 class='x'>x" * 1_000)
    assert bounded == "<p><span id=1 class='x'>x" * 1_000


def test_lists_of_very_many_options_lose_their_tags():
    options = "<option value=1>x</option>" * 2_000
    bounded = bound_nesting(f"a<select id=1 hidden>{options}</select>b")
    assert "select" not in bounded
    assert "<span id=1 hidden><option value=1>x" in bounded
    usual = "<select>" + "<option>x" * 900 + "</select>"
    assert bound_nesting(usual * 3) == usual * 3


def test_elements_have_no_more_than_so_many_attributes():
    source = "<p " + " ".join(f"a{number}='>'" for number in range(20_000)) + ">x"
    bounded = bound_nesting(source)
    assert bounded.startswith("<p a0='>' a1='>'")
    assert bounded.endswith("a255='>'>x")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<a/><br/><b>x</b>", "<a></a><br/><b>x</b>"),
        ("<a x='y' />", "<a x='y' ></a>"),
        ("<title/><p/>", "<title></title><p></p>"),
        ("<svg><g/></svg><i/>", "<svg><g/></svg><i></i>"),
        ("<svg/><i/>", "<svg></svg><i></i>"),
        ("<![CDATA[<b>&</b>]]>x", "&lt;b>&amp;&lt;/b>x"),
        ("<script><![CDATA[x]]></script>", "<script><![CDATA[x]]></script>"),
    ],
)
def test_empty_elements_of_xhtml_are_closed(source, expected):
    assert close_empty_elements(source) == expected
