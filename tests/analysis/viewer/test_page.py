import json
import re
from html.parser import HTMLParser

import pytest
import torch

from hsa_pyg import NestedSignal
from hsa_pyg.analysis import render_viewer, write_viewer
from hsa_pyg.converters import Website
from hsa_pyg.datasets import FakeNestedDataset
from hsa_pyg.nn import HSATransformer

NASTY = (
    "</script><script>alert(1)</script> <!-- \"'& \x00 \u2028 \u202e] ]]> \ud800 "
    "{{data}}"
)


class Page(HTMLParser):
    """Elements of a page, with the text of its scripts."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.scripts, self.title = [], {}, [], ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.setdefault(tag, []).append(dict(attrs))

    def handle_data(self, text):
        if self.tags[-1:] == ["script"]:
            self.scripts.append(text)
        if self.tags[-1:] == ["title"]:
            self.title += text


def named(text):
    signal = NestedSignal()
    signal["root"].num_nodes, signal["root"].name = 1, [text]
    signal["leaf"].x, signal["leaf"].name = torch.zeros(2, 1), [text, "b"]
    signal["leaf", "child_of", "root"].edge_index = torch.tensor([[0, 1], [0, 0]])
    signal.source = text
    return signal


def test_no_text_can_break_out_of_the_page():
    rendered = render_viewer(named(NASTY))
    page = Page(rendered)
    plain = Page(render_viewer(named("a")))
    assert page.tags == plain.tags
    assert "alert(1)" not in rendered.split("<body>")[0].replace("&lt;", "<<")[:300]
    data = json.loads(page.scripts[0])
    assert data["labels"] == {"0": NASTY, "1": NASTY, "2": "b"}
    assert all(ord(c) < 128 for c in page.scripts[0])
    assert not set("<>&") & set(page.scripts[0])
    assert "\x00" not in rendered
    assert "\u202e" not in rendered
    assert rendered.encode("utf-8")


def test_the_page_may_run_and_load_nothing_but_itself():
    page = Page(render_viewer(named("a")))
    policy = next(
        meta["content"]
        for meta in page.attributes["meta"]
        if meta.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert not {"link", "img", "iframe", "object", "base"} & set(page.tags)
    for elements in page.attributes.values():
        for attributes in elements:
            assert not {"src", "href", "style"} & set(attributes)
            assert not any(name.startswith("on") for name in attributes)
    assert not re.search(r"https?://", render_viewer(named("a")))


def test_a_page_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    write_viewer(path, named("a"), title="Title")
    before = path.read_text()
    assert Page(before).title.strip() == "Title"

    def broken(*_):
        raise OSError("no space")

    monkeypatch.setattr("os.replace", broken)
    with pytest.raises(OSError, match="no space"):
        write_viewer(path, named("b"))
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]


def model_of(data, outputs):
    return HSATransformer.from_schema(
        data.schema, outputs, channels=8, heads=2, vocab_sizes=data.vocab_sizes
    )


def test_the_output_of_the_model_is_shown():
    data = FakeNestedDataset(num_samples=1)
    for outputs, classes, names in (
        (2, ["neg", "pos"], ["neg", "pos"]),
        (3, None, ["class 0", "class 1", "class 2"]),
        (1, None, ["output"]),
    ):
        page = render_viewer(data[0], model=model_of(data, outputs), classes=classes)
        output = json.loads(Page(page).scripts[0])["output"]
        assert output["names"] == names
        assert output["probabilities"] == (outputs > 1)
        if outputs > 1:
            assert sum(output["values"]) == pytest.approx(1)
    with pytest.raises(ValueError, match="2 outputs, but there are 3 names"):
        render_viewer(data[0], model=model_of(data, 2), classes="abc")
    broken = model_of(data, 2)
    with torch.no_grad():
        broken.head.bias.fill_(float("nan"))
    with pytest.raises(ValueError, match="not finite"):
        render_viewer(data[0], model=broken)


def test_equal_signals_give_equal_pages():
    data = FakeNestedDataset(num_samples=1, seed=4)
    assert render_viewer(data[0]) == render_viewer(
        FakeNestedDataset(num_samples=1, seed=4)[0]
    )


def test_a_page_of_a_website_is_called_by_its_title(tmp_path):
    (tmp_path / "a.html").write_text("<title>Rain & sun</title><p>One.")
    (tmp_path / "b.html").write_text("<p>Two.")
    titled, untitled = Website(tmp_path, progress=False)
    assert "<title>Rain &amp; sun</title>" in render_viewer(titled)
    assert "<title>b.html</title>" in render_viewer(untitled)
