"""The documentation site: it builds without a warning, and what is on it."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from docs.rst_docstrings import SECTIONS, to_markdown
from docs.site_hooks import on_page_content, on_page_markdown, to_mathml

ROOT = Path(__file__).parents[1]

#: The page of each module's public names.
REFERENCE = {
    "hsa_pyg.nn": "nn",
    "hsa_pyg.data": "data",
    "hsa_pyg.converters": "converters",
    "hsa_pyg.datasets": "datasets",
    "hsa_pyg.integrations.transformers": "integrations",
    "hsa_pyg.analysis": "analysis",
    "hsa_pyg.experiments.models": "experiments",
}
#: The operator is documented with the hierarchy.
ELSEWHERE = {"banded", "blocklocal", "hierarchical_attention"}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built with warnings as errors."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    assert "WARNING" not in done.stderr
    return folder


def article(page):
    """The text of a page without its navigation."""
    text = page.read_text()
    return text[text.index("<article") : text.index("</article")]


def test_every_page_is_there(site):
    pages = {path.relative_to(ROOT / "docs") for path in ROOT.glob("docs/**/*.md")}
    assert len(pages) > 30
    for page in pages | {Path("contributing.md"), Path("changelog.md")}:
        assert (site / page.with_suffix(".html")).stat().st_size > 1_000


def test_every_notebook_is_there_with_its_pictures(site):
    notebooks = sorted((ROOT / "examples").glob("*.ipynb"))
    assert notebooks
    for notebook in notebooks:
        page = site / "notebooks" / f"{notebook.stem}.html"
        pictures = re.findall(r'<img[^>]* src="([^"]+)"', article(page))
        assert pictures
        for picture in pictures:
            assert (page.parent / picture).read_bytes().startswith(b"\x89PNG")
    assert "01_hsa_conv_in_pyg.html" in article(site / "notebooks" / "index.html")


def test_pages_of_experiments_are_there_before_they_are_written(site):
    for page in ("results", "semantic_focus"):
        assert "<h1" in article(site / f"{page}.html")


@pytest.mark.parametrize("module", REFERENCE)
def test_every_public_name_is_in_the_reference(site, module):
    text = article(site / "api" / f"{REFERENCE[module]}.html")
    public = set(importlib.import_module(module).__all__) - ELSEWHERE
    constants = {name for name in public if name.isupper()}
    # Some functions have the name of their module.
    missing = [
        name
        for name in sorted(public - constants)
        if f'id="{module}.{name}"' not in text
        and f'id="{module}.{name}.{name}"' not in text
    ]
    assert missing == []


def test_the_operator_is_in_the_reference(site):
    text = article(site / "api" / "hierarchy.html")
    for name in ("SignalHierarchy", *ELSEWHERE):
        assert f'id="hsa_pyg.{name}"' in text


def test_nothing_is_left_of_formulas_and_roles(site):
    formulas = 0
    for page in site.rglob("*.html"):
        if page.name == "404.html":
            continue
        text = article(page)
        formulas += text.count("<math")
        code = r"<(pre|code)\b.*?</\1>"
        shown = re.sub(code, "", text, flags=re.DOTALL)
        assert "arithmatex" not in shown, page
        assert re.findall(r":(?:class|func|meth|attr|obj|mod|math):", shown) == []
        assert re.findall(r"\.\. (?:math|code-block)::", shown) == []
    assert formulas > 150


def test_pages_ask_for_nothing_from_the_network(site):
    for page in site.rglob("*.html"):
        text = page.read_text()
        assert re.findall(r'<(?:script|img|iframe)[^>]*src="(?:https?:)?//', text) == []
        assert re.findall(r'<link[^>]*stylesheet[^>]*href="(?:https?:)?//', text) == []


def test_docstrings_become_markdown():
    text = to_markdown(
        'About :class:`~torch.nn.Linear`, :obj:`None` and :math:`a\n_b`, from `"A\n'
        'Title" <https://arxiv.org/abs/1>`_ (docs/mathematics.md, section 7; '
        "docs/mathematics.md, property 6; docs/mathematics.md).\n\n"
        ".. math::\n    a &= b \\\\\n    c &= d\n\n"
        ".. math:: e = f\n\n"
        ".. code-block:: python\n\n    >>> 1\n    1\n\nExample:\n    >>> 2\n    2\n"
    )
    assert 'identifier="torch.nn.Linear" optional><code>Linear</code>' in text
    assert "$a _b$" in text
    assert '["A Title"](https://arxiv.org/abs/1)' in text
    assert f'identifier="{SECTIONS["7"]}" optional>the mathematics, section 7<' in text
    assert f'identifier="{SECTIONS["3"]}" optional>the mathematics, property 6<' in text
    assert "; the mathematics)." in text
    aligned = "$$\n\\begin{aligned}\na &= b \\\\\nc &= d\n\\end{aligned}\n$$"
    assert aligned in text
    assert "$$\ne = f\n$$" in text
    assert "```pycon\n>>> 1\n1\n```" in text
    assert "Examples:\n    >>> 2" in text


def test_sections_of_the_mathematics_have_their_anchors(site):
    text = article(site / "mathematics.html")
    assert len(SECTIONS) == 10
    for anchor in SECTIONS.values():
        assert f'id="{anchor}"' in text


def test_formulas_become_mathml():
    text = on_page_content(
        r'<p><span class="arithmatex">\(a_b &lt; c\)</span></p>'
        r'<div class="arithmatex">\[d\]</div>'
    )
    assert text.count("<math") == 2
    assert 'display="block"' in text
    assert "&lt;" in text or "&#x0003C;" in text
    rows = to_mathml(r"\begin{aligned} a &= b \\ c &= d \end{aligned}", "block")
    assert rows.count("<mtr>") == 2
    assert "a_b" in to_mathml(r"\text{a\_b}")
    assert to_mathml(r"\log n") == to_mathml(r"\log \, n")
    assert "mspace" not in to_mathml(r"\log \left( n \right)")


def test_links_out_of_the_site_are_named_or_led_back():
    def rewritten(text, page):
        file = SimpleNamespace(src_uri=page)
        return on_page_markdown(text, page=SimpleNamespace(file=file))

    code = "[code](../hsa_pyg/loader.py)"
    assert rewritten(code, "demo.md") == "code (`hsa_pyg/loader.py`)"
    inside = "[a](../demo.md#memory) ![b](../images/b.png)"
    assert rewritten(inside, "benchmarks/core.md") == inside
    assert rewritten("[all](results)", "demo.md") == "all (`docs/results`)"
    gone = "[gone](../gone.py) [far](../../gone.py)"
    assert rewritten(gone, "demo.md") == gone  # which the build then finds
    notebook = "[n](../examples/01_a.ipynb) [o](../examples/README.md)"
    there = "[n](notebooks/01_a.md) [o](notebooks/index.md)"
    assert rewritten(notebook, "demo.md") == there
    guide = "[c](../../CONTRIBUTING.md)"
    assert rewritten(guide, "benchmarks/core.md") == "[c](../contributing.md)"
