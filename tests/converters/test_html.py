import base64
import copy
import html
import io
import pickle
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hsa_pyg.converters import DocumentConverter, EmptyDocumentError
from hsa_pyg.converters.html import parse_html
from hsa_pyg.converters.images import PictureReader
from hsa_pyg.converters.resources import PictureFinder
from hsa_pyg.converters.sentences import sentence_splitter, split_lines
from tests.block_trees import (
    check_tree,
    depth,
    outline_of,
    seen_words,
    words_of_html,
)

PROSE = sentence_splitter("prose")


def png(color="red", size=(8, 8)):
    from PIL import Image

    written = io.BytesIO()
    Image.new("RGB", size, color).save(written, "PNG")
    return written.getvalue()


DATA = "data:image/png;base64," + base64.b64encode(png()).decode()


def parse(source, resolve=None, **options):
    parsed = parse_html(source, PROSE, resolve=resolve, **options)
    check_tree(parsed)
    return parsed


def tree(source, resolve=None):
    return outline_of(parse(source, resolve))


def p(*sentences, role="paragraph"):
    return (role, *sentences)


def finder(folder=None):
    return PictureFinder(PictureReader(patch=8), folder)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("It rained. We read.", [p("It rained.", "We read.")]),
        ("<p>one<p>two", [p("one"), p("two")]),
        ("a<div>b</div>c", [p("a"), p("b"), p("c")]),
        ("un<b>se</b>en <i> x</i>", [p("unseen x")]),
        (" a \n\t b&nbsp;c &amp; &lt;d&gt; &#128512;", [p("a b\xa0c & <d> 😀")]),
        ("a<br>b", [p("a\nb")]),
        ("a<br> <br>b<br/>", [p("a"), p("b")]),
        ("<p>&nbsp;</p><p></p>x", [p("x")]),
        ("a<!-- no --><script>no</script><style>no</style>b", [p("ab")]),
        ("<title>no</title><template>no</template>a", [p("a")]),
        ("a<noscript>b</noscript>", [p("ab")]),
        ("<p hidden>no</p><b style='color:red; DISPLAY : none'>no</b>a", [p("a")]),
        ("<dialog>no</dialog><dialog open>yes</dialog>", [p("yes")]),
        ("<p style='display:block'>yes", [p("yes")]),
        ("<pre>  one\n\n   two <b>x</b>\n</pre>", [p("one", "two x", role="code")]),
        ("a <button>b</button><button>c</button>", [p("a b c")]),
        ("<select><option>a<option>b</select>", [p("a\nb")]),
        (
            "<input value=a><input type=hidden value=no><input type=submit value=b>",
            [p("a b")],
        ),
        ("<textarea>\n a\n  b</textarea>", [p("a\n  b")]),
        (
            "<table>stray<tr><td>a</table>",
            [p("stray"), ("table", ("row", ("cell", p("a"))))],
        ),
        ("漢<ruby>字<rp>(</rp><rt>kan</rt><rp>)</rp></ruby>", [p("漢字kan")]),
    ],
)
def test_running_text(source, expected):
    assert list(tree(source)) == expected


def test_headings_open_sections_nested_by_level():
    source = "pre<h1>A</h1>a<h4>B</h4>b<h2>C</h2>c<h2>D</h2><h1>E</h1>e"
    assert tree(source) == (
        p("pre"),
        (
            "h1",
            p("A", role="heading"),
            p("a"),
            ("h4", p("B", role="heading"), p("b")),
            ("h2", p("C", role="heading"), p("c")),
            ("h2", p("D", role="heading")),
        ),
        ("h1", p("E", role="heading"), p("e")),
    )


def test_sections_end_with_the_outline_or_the_block_that_they_stand_in():
    source = (
        "<h1>A</h1><article><h2>B</h2>b</article>a<section><h1>C</h1></section>x"
        "<blockquote>q<h3>D</h3>d</blockquote>z"
    )
    assert tree(source) == (
        (
            "h1",
            p("A", role="heading"),
            ("h2", p("B", role="heading"), p("b")),
            p("a"),
            ("h1", p("C", role="heading")),
            p("x"),
            ("quote", p("q"), ("h3", p("D", role="heading"), p("d"))),
            p("z"),
        ),
    )


def test_an_empty_heading_opens_nothing():
    assert tree("<h1>A</h1>a<h1> </h1>b") == (
        ("h1", p("A", role="heading"), p("a"), p("b")),
    )


def test_lists_nest():
    source = "<ul><li>a<ol><li>b</ol>c<li><p>d<p>e</ul><dl><dt>t<dd>d</dl>"
    assert tree(source) == (
        (
            "list",
            ("item", p("a"), ("list", ("item", p("b"))), p("c")),
            ("item", p("d"), p("e")),
        ),
        ("list", ("item", p("t")), ("item", p("d"))),
    )


def test_tables_keep_empty_cells_but_no_empty_rows():
    source = (
        "<table><caption>Cap</caption><thead><tr><th>a<th></thead><tbody><tr><td><td>d"
        "<tr><td><td></tbody></table><table><tr><td></table>"
    )
    parsed = parse(source)
    assert outline_of(parsed) == (
        (
            "table",
            p("Cap", role="caption"),
            ("row", ("cell", p("a")), ("cell",)),
            ("row", ("cell",), ("cell", p("d"))),
        ),
    )
    assert parse("<table><tr><td>a<td>b<tr><td>c").text == "a\tb\nc"


def test_a_page_within_a_table():
    nested = "<table><tr><td><h1>A</h1><table><tr><td>b</table></table>c"
    inner = ("table", ("row", ("cell", p("b"))))
    section = ("h1", p("A", role="heading"), inner)
    assert tree(nested) == (("table", ("row", ("cell", section))), p("c"))


def test_pictures_follow_the_paragraph_and_do_not_cut_its_sentence():
    source = f"It <img src='{DATA}' alt=' A\n dot '> rained. <img alt=Two> Yes."
    assert tree(source, finder()) == (
        p("It rained.", "Yes."),
        ("figure [picture]", p("A dot", role="alt")),
        ("figure", p("Two", role="alt")),
    )


def test_an_element_figure_is_the_block_of_its_first_picture():
    source = (
        f"<figure><img src='{DATA}'><img src='{DATA}' alt=b>"
        "<figcaption>Cap</figcaption></figure>"
    )
    assert tree(source, finder()) == (
        (
            "figure [picture]",
            ("figure [picture]", p("b", role="alt")),
            p("Cap", role="caption"),
        ),
    )


def test_pictures_that_cannot_be_used_are_counted(tmp_path):
    (tmp_path / "bad.png").write_bytes(b"\x89PNG no")
    (tmp_path / "a b.png").write_bytes(png())
    source = (
        "<img src=gone.png><img src=bad.png alt=bad><img src=http://x.org/a.png>"
        "<img src=../out.png><img><img src='a%20b.png?v=1' srcset='x'><input type=image"
        " src='a b.png' alt=go><img srcset='a%20b.png 2x, b.png 1x'>x"
    )
    parsed = parse(source, finder(tmp_path))
    assert outline_of(parsed) == (
        p("x"),
        ("figure", p("bad", role="alt")),
        ("figure [picture]",),
        ("figure [picture]", p("go", role="alt")),
        ("figure [picture]",),
    )
    assert dict(parsed.dropped) == {
        "pictures missing": 1,
        "pictures that cannot be decoded": 1,
        "pictures on other hosts": 1,
        "pictures outside the folder": 1,
        "pictures without an address": 1,
    }
    pictures = [block.picture for block in parsed.block.children[2:]]
    assert len({id(picture) for picture in pictures}) == 1


def test_a_base_moves_where_pictures_are_looked_for(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.png").write_bytes(png())
    source = "<base href='sub/'><img src=a.png>"
    assert tree(source, finder(tmp_path)) == (("figure [picture]",),)
    elsewhere = parse("<base href='//x.org/'><img src=a.png>x", finder(tmp_path))
    assert dict(elsewhere.dropped) == {"pictures on other hosts": 1}


def test_inline_drawings_become_pictures_with_their_words():
    source = (
        "a <svg viewBox='0 0 8 8'><title>T</title><style>no</style><rect width=8 "
        "height=8 fill='red&nbsp;'/><text>x &lt; <tspan>y</tspan></text></svg> b"
    )
    alt = p("T x < y", role="alt")
    assert tree(source, finder()) == (p("a b"), ("figure [picture]", alt))
    assert tree(source) == (p("a b"), ("figure", alt))


def test_pictures_within_drawings_come_from_files(tmp_path):
    (tmp_path / "a.png").write_bytes(png())
    source = "<svg><image xlink:href='a.png'/></svg>"
    assert tree(source, finder(tmp_path)) == (("figure [picture]",),)


def test_what_stands_in_for_media_is_counted():
    source = "<video>no</video><iframe>no</iframe><object>yes<embed src=x></object>"
    parsed = parse(source)
    assert parsed.text == "yes"
    assert dict(parsed.dropped) == {
        "video elements": 1,
        "iframe elements": 1,
        "object elements": 1,
        "embed elements": 1,
    }


def test_hidden_text_is_counted():
    parsed = parse("<p hidden>no</p><p hidden></p>yes")
    assert dict(parsed.dropped) == {"hidden elements with text": 1}


def test_the_head_of_a_page():
    page = parse(
        "<html><head><title> A\n log </title><base href=' sub/ '>"
        "<meta http-equiv=Refresh content='0; URL=next.html'></head><body><svg><title>"
        "no</title></svg><a href=' a.html '>x</a><a name=n>y</a><map><area href=b>"
        "</map><div hidden><a href='c?d=1&amp;e#f'>h</a></div>"
    )
    assert (page.title, page.base, page.refresh) == ("A log", "sub/", "next.html")
    assert page.links == ["a.html", "b", "c?d=1&e#f"]
    assert page.text.startswith("xy")
    for content, target in (("5", ""), ("0;url='a b'", "a b"), ("x", ""), ("1 a", "a")):
        written = f'<meta http-equiv="refresh" content="{content}">'
        assert parse(written).refresh == target


def test_the_root_is_a_page_where_asked_for():
    assert parse("x", root="page").block.kind == "page"


@pytest.mark.parametrize(
    "source", ["", " \n", "<!--x-->", "<p></p>", b"", b"\xef\xbb\xbf"]
)
def test_a_page_without_text_has_no_children(source):
    parsed = parse(source)
    assert (parsed.block.children, parsed.text) == ((), "")
    with pytest.raises(EmptyDocumentError, match="is empty"):
        DocumentConverter().parsed(parsed, "html")


def test_xhtml_closes_empty_elements():
    source = "<?xml version='1.0'?><html><title/><a id='x'/><div/>a<![CDATA[<b>]]>"
    assert tree(source) == (p("a<b>"),)
    assert tree("<script src='x'/>lost</script>kept") == (p("kept"),)
    parsed = parse("<script src='x'/>kept", xhtml=True)
    assert parsed.text == "kept"


def test_a_wrong_declaration_of_the_encoding_is_counted():
    parsed = parse(b"<meta charset=utf-8>caf\xe9")
    assert parsed.text == "caf\ufffd"
    assert dict(parsed.dropped) == {"undecodable bytes": 1}


def test_lone_surrogates_are_refused():
    with pytest.raises(ValueError, match=r"'a\.html' holds a lone surrogate"):
        parse("x\ud800", name="a.html")


TEXT = st.text(
    st.sampled_from("ab. \n\t\xa0&<>\"'é字😀") | st.characters(exclude_categories="C"),
    max_size=12,
)


def element(names, content):
    return st.builds(
        lambda name, inner: f"<{name}>{inner}</{name.split()[0]}>",
        st.sampled_from(names),
        content,
    )


def several(content):
    return st.lists(content, max_size=3).map("".join)


def pages():
    text = TEXT.map(html.escape)
    atoms = text | st.sampled_from(
        ["<br>", "<!-- no -->", "<img alt='x y'>", "<input value='v w'>", "<wbr>"]
    )
    inline = st.recursive(
        atoms,
        lambda inner: element(["b", "i", "span", "code", "font"], several(inner)),
        max_leaves=6,
    )
    leaves = inline | element(["p", "pre", "h1", "h2", "h5", "button"], several(inline))
    leaves |= element(["script", "style"], st.sampled_from(["", "x < y", "'<p>'"]))
    leaves |= element(["span hidden", "b style='display: none'"], text)
    return st.recursive(
        leaves,
        lambda inner: (
            element(
                ["div", "section", "article", "blockquote", "figure"], several(inner)
            )
            | element(["ul", "ol"], several(element(["li"], several(inner))))
            | element(["dl"], several(element(["dt", "dd"], several(inner))))
            | element(
                ["table"],
                several(
                    element(["tr"], several(element(["td", "th"], several(inner))))
                ),
            )
        ),
        max_leaves=20,
    )


@settings(max_examples=200)
@given(source=several(pages()))
def test_all_that_is_seen_of_a_page_lies_in_its_sentences(source):
    parsed = parse(source)
    assert seen_words(parsed) == words_of_html(source)
    assert parse(source.encode("utf-16")).text == parsed.text


EVERYTHING = (
    "<!DOCTYPE html><html><head><title>t</title><meta charset='utf-8'></head><body>"
    '<h1>A</h1><p class="x">b <b>c</b><!-- d --><ul><li>e<li>f</ul><table><caption>g'
    "</caption><tr><td>h<td>i</table><pre>\n j</pre><svg><path d='x'/><text>k</text>"
    f"</svg><figure><img src='{DATA}' alt=l></figure><select><option>m</select>&amp;é"
    "<textarea>n</textarea><script>o</script><a href='p'>q</a><math><mi>r</mi></math>"
).encode()


@settings(max_examples=200)
@given(
    changes=st.lists(
        st.tuples(
            st.integers(0, len(EVERYTHING)),
            st.integers(0, 12),
            st.binary(max_size=3) | st.sampled_from([b"<", b"</", b">", b"<p", b"\0"]),
        ),
        max_size=12,
    )
)
def test_broken_pages_are_read(changes):
    content = EVERYTHING
    for place, length, written in changes:
        content = content[:place] + written + content[place + length :]
    # Not all of them: every drawing takes a process.
    parsed = parse(content, finder() if len(content) % 16 == 0 else None)
    assert len(parsed.text.split()) < len(content)


@settings(max_examples=200)
@given(content=st.binary(max_size=200))
def test_binary_garbage_is_read(content):
    assert len(parse(content).text) <= 4 * len(content)


MEGABYTE = 1_000_000
PATHOLOGICAL = {
    "div": "<div>" * 200_000 + "x",
    "closed div": "<div>" * 90_000 + "x" + "</div>" * 90_000,
    "list": "<ul><li>x" * 100_000,
    "table": "<table>" * 50_000 + "x",
    "cells": "<table><tr><td>x" * 20_000,
    "b": "<b>" * 200_000 + "x",
    "paragraphs": "<p><b>" * 100_000 + "x",
    "formats": "".join(f"<p><b id={number}>" for number in range(50_000)) + "x",
    "less than": "<" * MEGABYTE,
    "comments": "x" + "<!--" * 250_000,
    "attributes": "<p " + " ".join(f"a{n}=1" for n in range(120_000)) + ">x",
    "entities": "&amp" * 250_000,
    "items": "<li>x" * 30_000,
    "headings": "<ul><li><h1>x" * 20_000,
    "hidden ends": "<div title='</div>'>x<!--</div>-->" * 20_000,
    "svg": "x<svg><g>" + "<g>" * 100_000,
}


@pytest.mark.parametrize("source", PATHOLOGICAL.values(), ids=PATHOLOGICAL)
def test_pages_made_to_stop_a_parser_are_read(source):
    parsed = parse_html(source, split_lines)
    check_tree(parsed)
    assert parsed.text.strip()
    # Sentence, paragraph and no more than so many blocks around them.
    assert depth(parsed.block) <= 512 + 2
    if "x" in source:
        assert parsed.text.count("x") == source.count("x")


@pytest.mark.parametrize("levels", [993, 20_000])
def test_deep_pages_go_all_the_way(levels, tmp_path):
    source = "<ul><li>" * levels + "It rained. <div>We read."
    path = tmp_path / "deep.html"
    path.write_text(source)
    convert = DocumentConverter()
    for signal in (convert.text(source, format="html"), convert.file(path)):
        signal.validate()
        assert signal["sentence"].num_nodes == 2
        assert 500 < signal.hierarchy.max_depth <= 515
        assert "token" in repr(copy.deepcopy(signal))
        again = pickle.loads(pickle.dumps(signal))
        assert again["token"].x.tolist() == signal["token"].x.tolist()


def test_deep_trees_of_blocks_are_shown_in_one_line():
    assert len(repr(parse_html("<ul><li>" * 600 + "x", split_lines).block)) < 200


def test_a_real_signal_holds_its_pictures(tmp_path):
    (tmp_path / "a.png").write_bytes(png(size=(16, 8)))
    path = tmp_path / "page.html"
    path.write_text("<h1>A</h1><p>b <img src=a.png alt=c><table><tr><td>d")
    signal = DocumentConverter(images=PictureReader(patch=8)).file(path)
    signal.validate()
    assert signal["image"].size.tolist() == [[8, 16]]
    assert signal["patch"].x.shape == (2, 3 * 8 * 8)
    assert signal["document"].text == ["A\n\nb\n\nc\n\nd"]


SITE = Path(__file__).parents[2].parent / "shared/data/sqlite_site/sqlite_site.tar.xz"


def seen_text(content):
    """The words of a real page without white space, as another parser has them."""
    lxml_html = pytest.importorskip("lxml.html")
    unseen = ".//script|.//style|.//title|.//svg|.//*[contains(@style,'display:none')]"
    body = lxml_html.document_fromstring(content.decode()).body
    for field in body.findall(".//input"):
        field.tail = f"{field.get('value') or ''}{field.tail or ''}"
    for element in body.xpath(unseen):
        element.drop_tree()
    return "".join(body.text_content().split())


@pytest.mark.skipif(not SITE.exists(), reason="the site of SQLite is not at hand")
def test_all_that_is_seen_of_real_pages_lies_in_their_sentences():
    number = 0
    with tarfile.open(SITE) as archive:
        for member in archive:
            if not member.name.endswith(".html") or number == 60:
                continue
            number += 1
            content = archive.extractfile(member).read()
            parsed = parse(content)
            assert "".join(seen_words(parsed)) == seen_text(content), member.name
            assert parsed.title
            assert len(parsed.links) > 5
    assert number == 60
