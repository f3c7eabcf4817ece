"""Links of the documentation lead somewhere; addresses are at least well formed."""

import json
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from markdown.extensions.toc import slugify

from docs.site_hooks import pages_of_experiments

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("datasets/**/*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("examples/*.md"),
        *ROOT.glob("examples/*.ipynb"),
    ]
)
#: Pages that `hsa-pyg report` writes and that may not be there yet.
UNWRITTEN = {ROOT / "docs" / page for page in pages_of_experiments()}


def names(paths):
    return [path.relative_to(ROOT).as_posix() for path in paths]


def read(path):
    """The text of a page; of a notebook, its cells of Markdown."""
    if path.suffix != ".ipynb":
        return path.read_text()
    cells = json.loads(path.read_text())["cells"]
    texts = (
        "".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"
    )
    return "\n\n".join(texts)


def without_code(path):
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", read(path), flags=re.DOTALL | re.MULTILINE)


def prose(path):
    """A page without its code."""
    text = without_code(path)
    return re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", text, flags=re.DOTALL)


def links(path):
    """Targets of a page's links and pictures."""
    return re.findall(r"\]\(([^()]*(?:\([^()]*\)[^()]*)*)\)", prose(path))


def anchors(path):
    """Anchors of a page's headings that GitHub and the site name alike."""
    found = set()
    for heading in re.findall(r"^#+ +(.+?)\s*$", without_code(path), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        on_github = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        if on_github == slugify(plain, "-"):
            found.add(on_github)
    return found


def is_address(target):
    return re.match(r"[a-z]+:", target) is not None


def problems(path):
    """What is wrong with the links of a page."""
    for target in links(path):
        if is_address(target):
            parts = urlsplit(target)
            well_formed = re.fullmatch(r"[\w-]+(\.[\w-]+)+(:\d+)?", parts.netloc)
            if parts.scheme not in ("http", "https") or not well_formed:
                yield f"{target}: no address"
            elif re.search(r"\s", target):
                yield f"{target}: white space"
            continue
        place, _, anchor = target.partition("#")
        file = (path.parent / place).resolve() if place else path
        if not file.exists():
            if file not in UNWRITTEN:
                yield f"{target}: no such file"
        elif anchor and anchor not in anchors(file):
            yield f"{target}: no such heading"


@pytest.mark.parametrize("path", PAGES, ids=names(PAGES))
def test_links_lead_somewhere(path):
    assert list(problems(path)) == []


def test_the_pages_and_their_links_are_found():
    assert {ROOT / "README.md", ROOT / "docs" / "performance.md"} <= set(PAGES)
    found = links(ROOT / "docs" / "performance.md")
    assert "mathematics.md#4-the-four-passes" in found
    assert "images/benchmark_growth_small.png" in found


def test_links_of_notebooks_are_found(tmp_path):
    page = tmp_path / "page.ipynb"
    cells = [
        {"cell_type": "markdown", "source": ["# Here\n", "[a](gone.md) [b](#here)"]},
        {"cell_type": "code", "source": "'[c](code.md)'"},
    ]
    page.write_text(json.dumps({"cells": cells}))
    assert list(problems(page)) == ["gone.md: no such file"]


def test_dead_links_are_found(tmp_path):
    (tmp_path / "there.md").write_text(
        "# One thing, `code`\n\n```\n# No heading\n```\n"
    )
    page = tmp_path / "page.md"
    page.write_text(
        "# Here\n[a](there.md) [b](there.md#one-thing-code) [c](#here) `[d](e)`\n"
        "[f](https://arxiv.org/abs/1) [g\nh](gone.md) [i](there.md#code) [j](#k)\n"
        "![l](m.png) [n](https:/o) [p](mailto:q) [r](https://arxiv.org/a b)\n"
    )
    assert list(problems(page)) == [
        "gone.md: no such file",
        "there.md#code: no such heading",
        "#k: no such heading",
        "m.png: no such file",
        "https:/o: no address",
        "mailto:q: no address",
        "https://arxiv.org/a b: white space",
    ]


def test_the_pages_of_experiments_are_known():
    assert pages_of_experiments() == {"results.md", "semantic_focus.md"}
