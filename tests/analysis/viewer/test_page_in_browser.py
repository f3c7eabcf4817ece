"""The page as a reader uses it, in headless Chromium."""

import os
import re
import shutil

import pytest
import torch

from hsa_pyg import NestedSignal
from hsa_pyg.analysis import collect_block_weights, write_viewer
from hsa_pyg.converters import (
    ROLES,
    PictureReader,
    from_brackets,
    from_document,
    from_image,
    from_nested,
)
from hsa_pyg.nn import HierarchicalPosition, HSATransformer

TEXT = """<h1>Rain</h1>
<p>It rained 🙂 all day. We read &lt;/script&gt; in the valley.</p>
<h2>Sun</h2><p>Then the sun came. \u202eabc\u202c</p><ul><li>Stones.</li></ul>
<figure><img src="hill.png" alt="A hill"></figure>"""


def launch(playwright):
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        reason = "there is no chromium on the PATH to open the page in"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])


@pytest.fixture(scope="module")
def browser():
    if not os.environ.get("CI"):
        pytest.importorskip("playwright")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = launch(playwright)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    from PIL import Image

    folder = tmp_path_factory.mktemp("document")
    hill = Image.new("RGB", (32, 16), (255, 0, 0))
    hill.paste((0, 0, 255), (16, 0, 32, 16))
    hill.save(folder / "hill.png")
    (folder / "page.html").write_text(TEXT, encoding="utf-8")
    return from_document(folder / "page.html", images=PictureReader(patch=8))


@pytest.fixture(scope="module")
def model(document):
    torch.manual_seed(0)
    domains = dict.fromkeys(document.schema.internal_types, "sequence")
    model = HSATransformer.from_schema(
        document.schema,
        2,
        channels=16,
        heads=2,
        vocab_sizes={"token": 32_768},
        position=HierarchicalPosition({**domains, "image": "grid"}, 8),
    )
    with torch.no_grad():  # Weights that are far from uniform.
        for block in model.blocks:
            for parameter in block.conv.lin_qkv.parameters():
                parameter.mul_(3)
    return model


@pytest.fixture
def open_page(browser, tmp_path):
    """Open the page of a signal; it may not fail, and may load nothing."""
    pages, troubles = [], []

    def open_page(signal, **options):
        roles = {"block": ROLES, "paragraph": ROLES}
        write_viewer(tmp_path / "page.html", signal, roles=roles, **options)
        address = (tmp_path / "page.html").as_uri()
        page = browser.new_page(viewport={"width": 1300, "height": 800})
        page.on("console", lambda message: troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on(
            "request",
            lambda request: request.url == address or troubles.append(request.url),
        )
        page.goto(address)
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert troubles == []


def word(page, text):
    return page.locator(f'#reading .n:text-is("{text}")')


def shade(locator):
    return locator.evaluate("element => getComputedStyle(element).backgroundColor")


CLEAR = "rgba(0, 0, 0, 0)"


def test_the_text_reads_as_in_the_document(open_page, document):
    page = open_page(document)
    reading = page.locator("#reading").inner_text()
    for line in ("It rained 🙂 all day. We read </script> in the valley.", "Stones."):
        assert line in reading
    assert page.locator(".heading1").inner_text() == "Rain"
    assert page.locator(".heading2").inner_text() == "Sun"
    assert page.locator(".item").inner_text() == "Stones."
    assert "No model was given" in page.locator("#panel").inner_text()
    assert page.locator("#controls").is_hidden()


def test_the_picture_is_drawn_from_its_patches(open_page, document):
    page = open_page(document)
    colours = page.evaluate(
        """() => {
            const canvas = document.querySelector("canvas");
            const row = canvas.getContext("2d").getImageData(0, 8, 32, 1).data;
            const at = (x) => [...row.slice(4 * x, 4 * x + 4)];
            return [canvas.width, canvas.height, at(3), at(28)];
        }"""
    )
    assert colours == [32, 16, [255, 0, 0, 255], [0, 0, 255, 255]]
    assert page.locator(".cell").count() == 8


def test_a_click_shades_the_siblings_at_every_level(open_page, document, model):
    page = open_page(document, model=model, classes=["neg", "pos"])
    assert shade(word(page, "all")) == CLEAR
    word(page, "rained").click()
    assert "chosen" in word(page, "rained").get_attribute("class")
    others = [
        word(page, "all"),  # in its sentence
        page.locator(".prose > .n", has_text="valley"),  # in its paragraph
        page.locator(".heading1"),  # in its section
    ]
    assert all(shade(other) != CLEAR for other in others)
    assert shade(word(page, "rained")) == CLEAR
    before = [shade(other) for other in others]

    word(page, "valley").click()
    assert shade(page.locator(".prose > .n", has_text="valley")) == CLEAR
    assert [shade(other) for other in others] != before


def test_the_numbers_are_those_of_the_model(open_page, document, model):
    page = open_page(document, model=model)
    word(page, "rained").click()
    last = collect_block_weights(model, document)[-1]
    hierarchy = document.hierarchy
    start = hierarchy.node_slices["token"][0]
    text = document["document"].text[0]
    spans = document["token"].span.tolist()
    words = [text[a:b] for a, b in spans]
    node = start + words.index("rained")
    mine = last.pair_index[1] == node
    weights = last.pair_weight[mine].mean(dim=1)
    best = int(weights.argmax())
    name = words[int(last.pair_index[0][mine][best]) - start]
    card = page.locator(".level").first
    assert card.locator("h3").inner_text().startswith("In the same sentence")
    shown = card.locator(".bar").first.inner_text().split("\n")
    assert shown[0] == name
    assert float(shown[-1].split()[0]) == pytest.approx(
        100 * float(weights[best]), rel=0.02
    )
    total = float(card.locator("h3 .num").inner_text().split()[0])
    assert total == pytest.approx(100 * float(weights.sum()), rel=0.02)
    # Row of the shares: what is left stays on the word itself.
    own = page.locator("#panel .ends").first.inner_text()
    leaf = (hierarchy.leaves == node).nonzero().item()
    weight = 100 * float(last.self_weight[leaf].mean())
    assert float(own.split("on itself")[1].split("%")[0]) == pytest.approx(
        weight, rel=0.03, abs=0.02
    )


def test_sentences_and_patches_are_chosen_too(open_page, document, model):
    page = open_page(document, model=model)
    page.locator(".cell").first.click()
    assert "row 0, column 0" in page.locator("#panel .subject").last.inner_text()
    assert shade(page.locator(".cell").nth(5)) != CLEAR
    assert shade(page.locator(".heading1")) != CLEAR
    page.locator("#panel .crumbs button", has_text="image").click()
    assert shade(page.locator(".cell").nth(5)) == CLEAR
    page.locator("#tree .label", has_text=re.compile("^We read")).click()
    assert "We read" in page.locator("#panel .subject").last.inner_text()
    assert shade(page.locator(".prose > .n", has_text="rained")) != CLEAR
    page.keyboard.press("Escape")
    assert page.locator("[aria-current]").inner_text() == "paragraph"


def test_layer_head_and_scale_change_the_shading(open_page, document, model):
    page = open_page(document, model=model)
    word(page, "rained").click()

    def shades():
        return page.locator("#reading .lit").evaluate_all(
            "all => all.map((one) => getComputedStyle(one).backgroundColor)"
        )

    seen = [shades()]
    for select, value in (
        ("layer", "0"),
        ("head", "1"),
        ("measure", "leaf"),
        ("scale", "level"),
    ):
        page.locator(f"#{select}").select_option(value)
        assert shades() != seen[-1]
        seen.append(shades())


def test_hovering_tells_the_number(open_page, document, model):
    page = open_page(document, model=model)
    word(page, "rained").click()
    page.locator(".heading1").hover()
    tip = page.locator("#tip")
    assert tip.is_visible()
    assert tip.inner_text().startswith("Rain: ")
    assert "%" in tip.inner_text()


def test_the_tree_folds_by_mouse_and_keyboard(open_page, document):
    page = open_page(document)
    root = page.locator("#tree .row").first
    rows = page.locator("#tree .row")
    many = rows.count()
    assert root.get_attribute("aria-expanded") == "true"
    root.locator(".twist").click()
    assert rows.count() == 1
    assert root.get_attribute("aria-expanded") == "false"
    page.keyboard.press("ArrowRight")
    assert 1 < rows.count() <= many
    page.keyboard.press("ArrowDown")
    focused = page.locator(":focus")
    assert focused.get_attribute("aria-level") == "2"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert focused.get_attribute("aria-level") == "3"
    page.keyboard.press("Enter")
    assert focused.get_attribute("aria-selected") == "true"
    assert page.locator("#reading .chosen").count() == 1
    page.keyboard.press("ArrowLeft")
    assert focused.get_attribute("aria-level") == "2"
    page.keyboard.press("ArrowLeft")
    assert focused.get_attribute("aria-expanded") == "false"
    page.keyboard.press("End")
    page.keyboard.press("Home")
    assert focused.get_attribute("aria-level") == "1"


def family(size):
    signal = NestedSignal()
    signal["root"].num_nodes = 1
    signal["leaf"].x = torch.arange(size)
    edge = torch.stack([torch.arange(size), torch.zeros(size, dtype=torch.long)])
    signal["leaf", "child_of", "root"].edge_index = edge
    return signal


def test_large_families_are_shown_in_parts(open_page):
    page = open_page(family(1000))
    page.locator("#tree .twist").first.click()
    assert page.locator("#tree .row").count() == 202
    more = page.locator("#tree .more")
    assert more.inner_text() == "… 800 more"
    more.click()
    assert page.locator("#tree .more").count() == 2
    # A leaf that has no row yet gets one when it is chosen in the content.
    page.locator(".chip").nth(900).click()
    chosen = page.locator('#tree [aria-selected="true"]')
    assert chosen.inner_text().split()[-1] == "#900"
    assert chosen.is_visible()


def test_deep_trees_open(open_page):
    signal = NestedSignal()
    depth = 1500
    signal["node"].num_nodes = depth
    signal["leaf"].x = torch.zeros(depth, 1)
    nodes = torch.arange(depth)
    signal["node", "child_of", "node"].edge_index = torch.stack([nodes[1:], nodes[:-1]])
    signal["leaf", "child_of", "node"].edge_index = torch.stack([nodes, nodes])
    page = open_page(signal)
    page.locator(f'.chip[data-i="{depth}"]').click()  # the deepest leaf
    assert page.locator("#tree .row").count() >= depth
    assert page.locator("#panel .crumbs li").count() == depth + 1


def test_it_is_dark_where_the_reader_wants_it(open_page, document):
    page = open_page(document)
    light = shade(page.locator("body"))
    page.emulate_media(color_scheme="dark")
    dark = shade(page.locator("body"))
    assert light == "rgb(252, 251, 248)"
    assert dark == "rgb(23, 25, 29)"


def test_texts_of_leaves_and_of_records_are_shown(open_page):
    tree = from_brackets("(3 (2 Rain) (4 (2 is) (2 rain)))")
    page = open_page(tree)
    assert page.locator(".chip").all_inner_texts() == ["Rain", "is", "rain"]
    assert page.locator(".box").count() == 2
    nested = from_nested({"who": "Ada wrote.", "when": [1843, True]})
    page = open_page(nested)
    assert page.locator(".prose").inner_text() == "Ada wrote."
    assert page.locator(".prose").get_attribute("data-key") == "who"
    assert page.locator(".chip").all_inner_texts() == ["1843", "true"]


@pytest.mark.parametrize("tree", ["grid", "quadtree"])
def test_a_picture_by_itself_shows_the_attention_of_its_patches(open_page, tree):
    signal = from_image(torch.rand(3, 24, 32), patch=4, tree=tree)
    torch.manual_seed(0)
    model = HSATransformer.from_schema(signal.schema, 2, channels=8, heads=2)
    page = open_page(signal, model=model)
    cells = page.locator(".cell")
    assert cells.count() == 6 * 8
    cells.nth(9).click()  # row 1, column 1
    assert "row 1, column 1" in page.locator("#panel .subject").last.inner_text()
    # Also where no element stands for a quadrant: its patches do.
    others = [shade(cells.nth(place)) for place in (0, 20, 47)]
    assert CLEAR not in others
    assert shade(cells.nth(9)) == CLEAR
