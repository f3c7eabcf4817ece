import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsa_pyg.converters.svg_markup import MAX_DEPTH, Drawing, stated_size

SVG = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'


def drawing(inside, head=""):
    return Drawing(f"{head}<svg {SVG}>{inside}</svg>".encode())


def data(inside, kind="image/svg+xml"):
    content = inside if isinstance(inside, bytes) else inside.encode()
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


@pytest.mark.parametrize(
    "address",
    [
        "/etc/passwd",
        "secret.png",
        "../secret.png",
        "file:///etc/passwd",
        "FILE:/etc/passwd",
        "http://example.org/a.png",
        "//example.org/a.png",
        "\\\\server\\a.png",
        " /etc/passwd",
        "",
        "&#47;etc&#47;passwd",
        "data:text/plain,&lt;svg/>",
        "data:,&lt;svg/>",
        "data:image/svg+xml,broken",
        "data:image/svg+xml;base64,!",
    ],
)
@pytest.mark.parametrize("key", ["href", "xlink:href", "q:href"])
@pytest.mark.parametrize("tag", ["image", "feImage"])
def test_links_out_of_a_drawing_are_taken_off_and_counted(address, key, tag):
    found = drawing(
        f'<g xmlns:q="http://www.w3.org/1999/xlink"><{tag} {key}="{address}"/></g>'
    )
    assert f"<{tag}></{tag}>" in found.markup
    assert found.left_out == 1


def test_other_links_are_taken_off_too():
    found = drawing('<a href="http://a.b/"><use href="b.svg#c"/></a>')
    assert "<a><use></use></a>" in found.markup
    assert found.left_out == 0


def test_links_within_a_drawing_and_embedded_pictures_stay():
    png = data(b"\x89PNG", "image/png")
    inside = f'<image href="{png}"></image><use xlink:href="#a"></use>'
    found = drawing(inside)
    assert found.markup == f"<svg {SVG}>{inside}</svg>"
    assert found.left_out == 0


def test_an_embedded_drawing_is_rewritten_and_embeds_none_itself():
    inner = f'<svg {SVG}><text>a</text><image href="/etc/passwd"/></svg>'
    found = drawing(f'<image href="{data(inner)}"/>')
    embedded = found.markup.partition("base64,")[2].partition('"')[0]
    assert "passwd" not in base64.b64decode(embedded).decode()
    assert found.left_out == 1
    assert found.has_text
    nested = f"<svg {SVG}><image href='{data(inner)}'/></svg>"
    assert drawing(f'<image href="{data(nested)}"/>').left_out == 1
    deep = f"<svg {SVG}>{'<g>' * 999}{'</g>' * 999}</svg>"
    assert drawing(f'<image href="{data(deep)}"/>').left_out == 1
    written = f"<svg {SVG} width='3'/>".replace("<", "%3C").replace('"', "%22")
    assert "base64," in drawing(f'<image href="data:image/svg+xml,{written}"/>').markup


def test_entities_are_expanded_and_outside_ones_are_not_read():
    head = '<!DOCTYPE svg [<!ENTITY a "red"><!ENTITY b SYSTEM "/etc/passwd">]>'
    found = drawing('<rect fill="&a;"/><text>&a;&b;</text>', head)
    assert '<rect fill="red"></rect><text>red</text>' in found.markup
    assert "ENTITY" not in found.markup
    head = '<!DOCTYPE svg [<!ENTITY a "/etc/passwd">]>'
    assert drawing('<image href="&a;"/>', head).left_out == 1
    head = '<!DOCTYPE svg [<!ATTLIST image href CDATA "/etc/passwd">]>'
    assert drawing("<image/>", head).left_out == 1
    head = '<!DOCTYPE svg [<!ENTITY lt "&#38;#60;"><!ENTITY a "&#233;&#38;#60;">]>'
    assert "<text>é&lt;</text>" in drawing("<text>&a;</text>", head).markup
    head = '<!DOCTYPE svg [<!ENTITY % a SYSTEM "/etc/passwd"> %a;]>'
    assert "root:" not in drawing("<text/>", head).markup


def test_text_and_attributes_survive_the_rewriting():
    style = "<style>a > b {} /* &lt;&amp; */</style>"
    text = "<text y='1&#10;2&lt;&quot;&apos;'> é\u2028 </text>"
    once = drawing(style + text)
    assert Drawing(once.markup.encode()).markup == once.markup
    assert "1&#10;2&lt;" in once.markup
    assert drawing("<style><![CDATA[a > b & c]]></style>").markup.endswith(
        "<style>a &gt; b &amp; c</style></svg>"
    )


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["Cc"])))
def test_any_text_is_kept(text):
    from xml.sax.saxutils import escape, quoteattr

    found = drawing(f"<text id={quoteattr(text)}>{escape(text)}</text>")
    assert found.markup == drawing("").markup.replace(
        "></svg>", f"><text id={quoteattr(text)}>{escape(text)}</text></svg>"
    )


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"<svg", "no well-formed XML"),
        (b"<svg/><svg/>", "no well-formed XML"),
        (b"<!DOCTYPE html><html></html>", "no SVG: its root is <html>"),
        (b"<svg>" + b"<g>" * 200_000, f"deeper than {MAX_DEPTH}"),
        (
            b'<!DOCTYPE svg [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><svg>&b;</svg>',
            "entity 'b' refers to another one",
        ),
        (
            b'<!DOCTYPE svg [<!ENTITY a "%b">]><svg>%b</svg>'
            % (b"a" * 10_000, b"&a;" * 10_000),
            "blow it up",
        ),
    ],
)
def test_what_is_no_drawing_or_made_to_hurt(content, reason):
    with pytest.raises(ValueError, match=reason):
        Drawing(content)


@pytest.mark.parametrize(
    ("attributes", "size"),
    [
        ({"width": "10.5", "height": "20px"}, (20, 10.5)),
        ({"width": "1in", "height": "72pt"}, (96, 96)),
        ({"width": "25.4mm", "height": "2.54cm"}, (96, 96)),
        ({"width": "1pc", "height": "+1e2"}, (100, 16)),
        ({"viewBox": "1 2 30,40"}, (40, 30)),
        ({"width": "60", "viewBox": "0 0 30 40"}, (80, 60)),
        ({"height": "60", "viewBox": "0 0 30 40"}, (60, 45)),
        ({"width": "100%", "height": "100%", "viewBox": "0 0 30 40"}, (40, 30)),
        ({"width": "50%", "height": "50%", "viewBox": "0 0 30 40"}, None),
        ({"width": "1e400", "height": "1"}, (1, float("inf"))),
        ({"width": "2em", "height": "1"}, None),
        ({"width": "wide", "height": "1"}, None),
        ({"width": "10"}, None),
        ({"viewBox": "0 0 0 4"}, None),
        ({"viewBox": "0 0 4"}, None),
        ({}, None),
    ],
)
def test_the_stated_size(attributes, size):
    found = stated_size(attributes)
    assert found == (None if size is None else pytest.approx(size))
