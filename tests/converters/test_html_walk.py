import pytest

from tests.block_trees import outline_of
from tests.pages import DATA, finder, p, parse, png, tree


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
        ("<p style='display:none;display:block'>yes", [p("yes")]),
        ("<pre>  one\n\n   two <b>x</b>\n</pre>", [p("one", "two x", role="code")]),
        (
            "<pre>a  b</pre>c  d<textarea>e  f</textarea>  g  h",
            [p("a  b", role="code"), p("c d e  f g h")],
        ),
        ("a <button>b</button><button>c</button>", [p("a b c")]),
        ("<select><option>a<option>b</select>", [p("a\nb")]),
        (
            "a<input value=no><input type=hidden value=no><input type=button value=x>b",
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
