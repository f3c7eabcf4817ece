import pytest

from hsa_pyg.converters import DocumentConverter, Website, from_website
from hsa_pyg.converters.html import parse_html
from hsa_pyg.converters.sentences import sentence_splitter
from tests.block_trees import check_tree, outline_of

PROSE = sentence_splitter("prose")
SENTENCE = "The rain came over the hills, number {}, and we went on reading, all of us."
BODY = "".join(f"<p>{SENTENCE.format(number)}</p>" for number in range(8))
PAGE = (
    "<html><head><title>T</title></head><body><nav><ul><li><a href=x>Menu</a><li>"
    f"<a href=y>More</a></ul></nav><article>{BODY}<h2>Sub</h2><ul><li>one<li>two</ul>"
    f"{BODY}<table><tr><td>a<td>b<tr><td><td>d</table><img src=a.png alt=Alt>{BODY}"
    "</article><footer>All rights reserved</footer></body></html>"
)


def test_boilerplate_is_left_out_and_counted():
    page = parse_html(PAGE, PROSE, main_content=True)
    check_tree(page)
    assert "Menu" not in page.text
    assert "rights" not in page.text
    assert page.title == "T"
    assert page.links == ["x", "y"]
    section = next(child for child in outline_of(page) if child[0] == "h2")
    assert section[1] == ("heading", "Sub")
    assert section[2] == (
        "list",
        ("item", ("paragraph", "one")),
        ("item", ("paragraph", "two")),
    )
    empty = ("row", ("cell",), ("cell", ("paragraph", "d")))
    assert any(child[0] == "table" and child[2] == empty for child in section)
    assert ("figure", ("alt", "Alt")) in section
    whole = parse_html(PAGE, PROSE)
    lost = len("".join(whole.text.split())) - len("".join(page.text.split()))
    assert page.dropped["characters outside the main content"] == lost > 0


def test_pages_without_main_content_are_refused():
    with pytest.raises(ValueError, match=r"'a\.html': .*Pass main_content=False"):
        parse_html("<p>x", PROSE, main_content=True, name="a.html")


def test_pages_that_would_take_minutes_are_refused():
    with pytest.raises(ValueError, match=r"'a\.html' .*Pass main_content=False"):
        parse_html(
            BODY + "<form>x</form>" * 50_000, PROSE, main_content=True, name="a.html"
        )


def test_converters_pass_it_on():
    signal = DocumentConverter(main_content=True).text(PAGE, format="html")
    signal.validate()
    assert "Menu" not in signal["document"].text[0]


def test_pages_without_main_content_are_empty_and_counted(tmp_path):
    prose = "".join(f"<p>It rained, all day {n}, and we read on." for n in range(20))
    (tmp_path / "a.html").write_text(f"<article>{prose}</article>")
    (tmp_path / "b.html").write_text("<p>x")
    site = from_website(tmp_path, main_content=True, progress=False)
    site.validate()
    assert ("pages without main content", 1) in site.dropped
    assert site["page"].text[1] == ""
    assert Website(tmp_path, main_content=True, progress=False)[1].dropped
