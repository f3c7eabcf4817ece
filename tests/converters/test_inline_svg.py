import base64
from xml.etree import ElementTree

import pytest
from selectolax.lexbor import LexborHTMLParser

from hsa_pyg.converters import html_walk
from hsa_pyg.converters.html import parse_html
from hsa_pyg.converters.images import PictureReader
from hsa_pyg.converters.inline_svg import InlineDrawing
from hsa_pyg.converters.resources import PictureFinder
from hsa_pyg.converters.sentences import split_lines


def drawing(source):
    return InlineDrawing(LexborHTMLParser(source).css_first("svg"))


def markup(source):
    head, _, body = drawing(source).address.partition(",")
    assert head == "data:image/svg+xml;base64"
    return ElementTree.fromstring(base64.b64decode(body))


def test_the_markup_is_xml():
    root = markup(
        "<svg viewbox='0 0 1 1' title='a&nbsp;\"<>&amp;' @click=x x:y=1 xml:lang=en>"
        "<path d='M0 0'><lineargradient/><p>outside</svg>"
    )
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.attrib["viewBox"] == "0 0 1 1"
    assert root.attrib["title"] == 'a\xa0"<>&'
    assert "@click" not in root.attrib
    path = "{http://www.w3.org/2000/svg}path"
    gradient = "{http://www.w3.org/2000/svg}linearGradient"
    assert [child.tag for child in root.iter()][1:] == [path, gradient]


def test_scripts_and_foreign_objects_are_not_drawn_but_read():
    source = (
        "<svg><script>no</script><style>g{}</style><foreignObject><div>a<p>b</div>"
        "</foreignObject><desc>c</desc><rect/></svg>"
    )
    names = [child.tag.rpartition("}")[2] for child in markup(source).iter()]
    assert names == ["svg", "style", "desc", "rect"]
    assert drawing(source).words == "a b c"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("<svg><text>a<tspan>b</tspan>c</text><text>d</text></svg>", "a bc d"),
        ("<svg aria-label=' x '><path/></svg>", "x"),
        ("<svg aria-label=x><title>y</title></svg>", "y"),
        ("<svg></svg>", ""),
    ],
)
def test_words_are_read(source, words):
    assert drawing(source).words == words


def test_nothing_is_drawn_of_symbols_alone():
    assert drawing("<svg><defs><symbol id=a></symbol></defs></svg>").address == ""


def test_a_page_has_no_more_than_so_many_drawings(monkeypatch):
    monkeypatch.setattr(html_walk, "_MOST_DRAWINGS", 2)
    find = PictureFinder(PictureReader(patch=8), None)
    svg = "<svg width={} height=8><rect width=4 height=4 /><title>x</title></svg>"
    inline = [svg.format(number) for number in range(3)]
    xml = "<svg xmlns='http://www.w3.org/2000/svg' width='{}' height='8'/>"
    data = [f'<img src="data:,{xml.format(number)}" alt=x>' for number in range(3)]
    for drawings in (inline, data):
        # One that is shown again is drawn once.
        source = drawings[1] + "".join(drawings[1:]) + drawings[0] + drawings[2]
        page = parse_html(source, split_lines, resolve=find)
        figures = [block.picture is not None for block in page.block.children]
        assert figures == [True, True, True, False, True]
        assert dict(page.dropped) == {"drawings beyond 2 in a page": 1}
