"""Random documents and websites, for as long as there is time.

``HSA_FUZZ_SECONDS`` (5 by default) says how long each test goes on. What fails is
named by its seed: ``HSA_FUZZ_SEED=123`` starts there.
"""

import os
import random
import sys
import time

import pytest
from PIL import Image

from hsa_pyg.converters import DocumentConverter, PictureReader, from_website

SECONDS = float(os.environ.get("HSA_FUZZ_SECONDS", 5))
FIRST = int(os.environ.get("HSA_FUZZ_SEED", 0))
SECRET = "Secretword"


def split(text, mark=None):
    return text.split(mark)


TAGS = split(
    "a p div span table tr td th ul ol li dl dt dd pre code h1 h2 h3 h6 b i svg path "
    "text image img picture source input button select option textarea script style "
    "math mi template object embed iframe base meta title figure figcaption details "
    "summary noscript frameset area map blockquote section article nav br hr wbr ruby "
    "rt form label video canvas font center marquee"
)
ATTRIBUTES = split(
    "href src srcset data xlink:href content style hidden alt type http-equiv width "
    "height rel value class charset label"
)
VALUES = split(
    "0;url=|display:none|image/png|refresh|utf-16|text/html; charset=x|checkbox|image|"
    "-1|100000000||\"'<>|&#0;&#xd800;&amp",
    "|",
)
URLS = split(
    "a.png|sub/b.png|b.html|sub/|in/b.png|..|#x||?q|[|\0|../secret.png|../secret.html|"
    "../../etc/passwd|/etc/passwd|link.png|up/secret.png|evil.html|file:///etc/passwd|"
    "..\\secret.png|C:\\x|%2e%2e/secret.png|..%2fsecret.png|%00|%ff|loop|"
    "sub/../../secret|//h/x|http://h/|http://[|javascript:1|mailto:x|data:x|"
    "data:image/png;base64,AAAA|data:,x|data:image/svg+xml,<svg/>",
    "|",
)
URLS.append("x" * 5000)
WORDS = split(
    "word |\u00a0|\u200b|x<y|&lt;|&nbsp;|&#1;|\n\n|\t|漢字|مرحبا|e\u0301|😀|"
    "a. B c! D? |]]>|<!--|-->|<![CDATA[|\x0b|\x85|\u2028|\ufeff",
    "|",
)
MARKS = split(
    "# @## @- @1. @> @```\n@`@*@**@_@\n@\n\n@    @\t@|a|b|\n|-|-|\n|@---\n@===\n@<div>@"
    "</div>@\\@&amp;@~~@word @[^1]@![x](../secret.png)@[x](b.html)@"
    "<http://h>@[x]: a.png\n",
    "@",
)

opened: list[str] = []
listening = [False]


def _listen(event, arguments):
    if listening[0] and event == "open" and isinstance(arguments[0], str | bytes):
        opened.append(os.fsdecode(arguments[0]))


sys.addaudithook(_listen)


def element(draw, depth):
    tag = draw.choice(TAGS)
    attributes = ""
    for _ in range(draw.choice((0, 0, 1, 1, 2, 4))):
        quote = draw.choice(("'", '"', ""))
        value = draw.choice((draw.choice(URLS), draw.choice(VALUES)))
        attributes += f" {draw.choice(ATTRIBUTES)}={quote}{value}{quote}"
    inside = "".join(
        element(draw, depth - 1)
        if depth and draw.random() < 0.5
        else draw.choice(WORDS)
        for _ in range(draw.choice((0, 1, 2, 3)))
    )
    return f"<{tag}{attributes}>{inside}" + (f"</{tag}>" * (draw.random() < 0.7))


def page(draw):
    return "".join(element(draw, 4) for _ in range(draw.randrange(1, 6)))


def broken_page(draw):
    content = bytearray(page(draw).encode())
    for _ in range(8):
        place = draw.randrange(len(content) + 1)
        content[place:place] = draw.randbytes(3)
    return bytes(content)


def markdown(draw):
    return "".join(draw.choice(MARKS) for _ in range(draw.randrange(60)))


@pytest.fixture
def site(tmp_path):
    """A folder with links out of it, and secrets beside it."""
    site = tmp_path / "site"
    (site / "sub").mkdir(parents=True)
    for name in ("site/a.png", "site/sub/b.png", "secret.png"):
        Image.new("RGB", (20, 9), "red").save(tmp_path / name)
    (tmp_path / "secret.html").write_text(f"<p>{SECRET}")
    for link, target in {
        "link.png": tmp_path / "secret.png",
        "evil.html": tmp_path / "secret.html",
        "up": tmp_path,
        "loop": site / "loop",
        "in": site / "sub",
    }.items():
        (site / link).symlink_to(target)
    return site


def seeds():
    """Seeds for as long as there is time: one at least."""
    end = time.monotonic() + SECONDS
    number = FIRST
    while number == FIRST or time.monotonic() < end:
        yield number
        number += 1


def check(signal, root, seed):
    """A signal is whole, and its leaves are the visible text."""
    signal.validate()
    assert signal.hierarchy.num_leaves > 0, seed
    texts = signal[root].text
    assert SECRET not in " ".join(texts), seed
    if len(texts) == 1:
        (text,) = texts
        spans = signal["token"].span.tolist()
        words = "".join(text[start:stop] for start, stop in spans)
        assert "".join(words.split()) == "".join(text.split()), seed


def converted(convert, seed):
    """What a conversion gives, or None where it says why not."""
    opened.clear()
    listening[0] = True
    try:
        return convert()
    except ValueError as error:
        if not str(error):
            raise
        return None
    finally:
        listening[0] = False
        outside = [path for path in opened if "secret" in path or "passwd" in path]
        assert outside == [], seed


@pytest.mark.parametrize(
    ("name", "draw_content"),
    [("page.html", page), ("broken.html", broken_page), ("notes.md", markdown)],
)
def test_random_documents(site, name, draw_content):
    convert = DocumentConverter(images=PictureReader(patch=8))
    whole = 0
    for seed in seeds():
        content = draw_content(random.Random(seed))
        if isinstance(content, str):
            content = content.encode("utf-8", "surrogatepass")
        (site / name).write_bytes(content)
        signal = converted(lambda: convert.file(site / name), seed)
        if signal is not None:
            check(signal, "document", seed)
            whole += 1
    assert whole > 0


def test_random_websites(site):
    whole = 0
    for seed in seeds():
        draw = random.Random(seed)
        for name in ("p.html", "b.html", "sub/c.html"):
            (site / name).write_text(page(draw))
        start = draw.choice((None, "p.html"))
        signal = converted(
            lambda start=start: from_website(
                site, start, images=PictureReader(patch=8), progress=False
            ),
            seed,
        )
        if signal is not None:
            check(signal, "page", seed)
            whole += 1
    assert whole > 0
