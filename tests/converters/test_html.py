import copy
import html
import pickle
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hsa_pyg.converters import DocumentConverter, EmptyDocumentError
from hsa_pyg.converters.html import parse_html
from hsa_pyg.converters.images import PictureReader
from hsa_pyg.converters.sentences import split_lines
from tests.block_trees import (
    check_tree,
    depth,
    seen_words,
    words_of_html,
)
from tests.pages import DATA, finder, p, parse, png, tree


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
    drawn = "<svg><base xlink:href=s/><a xlink:href=c>1</a><a href=d xlink:href=e>2"
    page = parse(f"{drawn}</a><a href>3</a></svg><base href><base href=t/>")
    assert (page.links, page.base) == (["c", "d", ""], "")
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
    "<textarea>n</textarea><script>o</script><a href='p'>q</a><math>"
    "<a xlink:href=r>s</math>"
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
    "options": "<select>" + "<option>x" * 50_000 + "</select>x<select><option>x",
    "closed options": "x<select>" + "<option>x</option>" * 50_000,
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


def test_lists_of_very_many_options_are_read_as_lists_of_few():
    def text(number, start):
        options = "".join(f"<option>{n}</option>" for n in range(number))
        return parse(f"a{start}{options}</select>b").text

    short, long = (text(number, "<select>") for number in (900, 1_100))
    assert short == "a" + "".join(f"\n{n}" for n in range(900)) + " b"
    assert long == "a" + "".join(f"\n{n}" for n in range(1_100)) + " b"
    assert text(1_100, "<span hidden><select>") == "a"
    assert text(1_100, "<select hidden>") == "a b"


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
