"""The project as others meet it: metadata, README, installations without extras."""

import re
import subprocess
import sys
from importlib.metadata import distribution, entry_points
from pathlib import Path

import pytest
import torch

import hsa_pyg

ROOT = Path(__file__).parent.parent


def read(name):
    return (ROOT / name).read_text()


def code_blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", read("README.md"), re.DOTALL)


def test_one_version_everywhere():
    assert distribution("hsa-pyg").version == hsa_pyg.__version__
    cited = re.search(r"^version: (.+)$", read("CITATION.cff"), re.MULTILINE)
    assert cited.group(1) == hsa_pyg.__version__


def test_the_changelog_knows_every_released_version():
    released = re.findall(r"^## \[(\d.*?)\]", read("CHANGELOG.md"), re.MULTILINE)
    assert "## [Unreleased]" in read("CHANGELOG.md")
    assert released in ([], [hsa_pyg.__version__, *released[1:]])


def test_the_readme_shows_exactly_the_two_commands():
    (block,) = code_blocks("bash")
    commands = [line.split("#")[0].strip() for line in block.strip().splitlines()]
    assert commands == ["make demo", "make test"]
    targets = re.findall(r"^([a-z]+):", read("Makefile"), re.MULTILINE)
    assert {"demo", "test"} <= set(targets)


def test_the_readme_example_runs_and_has_the_shape_it_states():
    code, _ = code_blocks("python")
    names = {}
    exec(code, names)
    assert list(names["x"].shape) == [5, 64]
    assert "# [5, 64]" in code
    names["x"].sum().backward()


def test_the_readme_goes_from_raw_data_to_training():
    _, code = code_blocks("python")
    names = {}
    exec(code, names)
    assert names["batch"].num_graphs == 2
    assert torch.isfinite(names["loss"])
    # Both leaf types take part.
    encoders = names["model"].encoder.encoders
    for name in ("token", "patch"):
        assert any(p.grad.abs().sum() > 0 for p in encoders[name].parameters())


def test_the_files_that_the_readme_links_to_exist():
    links = re.findall(r"\]\(((?!https?:)[^)]+)\)", read("README.md"))
    assert "docs/images/tree_attention.png" in links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_readme_lists_names_that_exist():
    from hsa_pyg import converters, datasets, nn

    for module in (hsa_pyg, nn, datasets, converters):
        for name in module.__all__:
            assert hasattr(module, name), f"{module.__name__}.{name}"
    for name in ("SignalHierarchy", "hierarchical_attention", "HSAConv"):
        assert name in hsa_pyg.__all__


def test_types_are_shipped():
    assert (Path(hsa_pyg.__file__).parent / "py.typed").exists()


def test_the_command_is_installed():
    (command,) = entry_points(group="console_scripts", name="hsa-pyg")
    assert command.value == "hsa_pyg.cli:main"


EXTRAS = {
    "lightning": "train",
    "torchmetrics": "train",
    "matplotlib": "train",
    "tokenizers": "text",
    "sentencex": "text",
    "typer": "cli",
    "rich": "cli",
}


def run_without(modules, code):
    """Run code in a Python in which the modules are not installed."""
    block = f"import sys; sys.modules.update(dict.fromkeys({sorted(modules)!r}))\n"
    return subprocess.run(
        [sys.executable, "-c", block + code], capture_output=True, text=True
    )


def test_every_extra_is_declared():
    declared = set(distribution("hsa-pyg").metadata.get_all("Provides-Extra"))
    assert {*EXTRAS.values(), "all", "test", "dev"} <= declared


def test_the_library_imports_without_any_extra():
    code = (
        "import hsa_pyg, hsa_pyg.nn, hsa_pyg.data, hsa_pyg.loader, hsa_pyg.cli\n"
        "import hsa_pyg.converters, hsa_pyg.datasets, hsa_pyg.integrations\n"
    )
    done = run_without(EXTRAS, code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("module", ["typer", "rich"])
def test_the_command_without_its_extra_says_what_to_install(module):
    done = run_without([module], "from hsa_pyg.cli import main; main()")
    assert done.returncode == 1
    assert 'pip install "hsa-pyg[cli]"' in done.stderr
    assert "Traceback" not in done.stderr


def test_training_without_its_extra_says_what_to_install(tmp_path):
    code = (
        f"sys.argv = ['hsa-pyg', 'train', 'fake', '--out', {str(tmp_path)!r}]\n"
        "from hsa_pyg.cli import main; main()"
    )
    done = run_without(["lightning", "lightning.pytorch"], code)
    assert done.returncode == 1
    assert 'pip install "hsa-pyg[train]"' in done.stderr
    assert "Traceback" not in done.stderr


def requirements(extra):
    """Names of what an extra brings, those of the extras that it names included."""
    names = set()
    for line in distribution("hsa-pyg").requires:
        requirement, _, marker = line.partition(";")
        if f'extra == "{extra}"' not in marker.replace("'", '"'):
            continue
        own = re.match(r"hsa-pyg\[(.*)\]", requirement)
        if own:
            names |= set().union(*map(requirements, own.group(1).split(",")))
        else:
            names.add(re.match(r"[\w.-]+", requirement).group().lower())
    return names


def test_the_extra_all_brings_nothing_under_the_agpl():
    assert "ebooklib" in requirements("epub")
    assert "selectolax" in requirements("all")
    assert not {"ebooklib", "ogb"} & requirements("all")


def test_every_extra_stands_in_the_readme():
    extras = set(distribution("hsa-pyg").metadata.get_all("Provides-Extra"))
    listed = set(re.findall(r"^\| `(\w+)` \| ", read("README.md"), re.MULTILINE))
    assert extras - {"test", "dev"} <= listed
