"""The project as others meet it: metadata, README, installations without extras."""

import re
import subprocess
import sys
import zipfile
from importlib.metadata import distribution, entry_points
from pathlib import Path

import pytest
import torch
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

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
    # Headings that they point to are looked up in test_links.
    assert [
        link for link in links if not (ROOT / link.partition("#")[0]).exists()
    ] == []


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


def run_without(modules, code):
    """Run code in a Python in which the modules are not installed."""
    block = f"import sys; sys.modules.update(dict.fromkeys({sorted(modules)!r}))\n"
    return subprocess.run(
        [sys.executable, "-c", block + code], capture_output=True, text=True
    )


#: Modules that the package never imports by itself, each from an extra.
HEAVY = {
    "Bio",
    "ebooklib",
    "filelock",
    "igraph",
    "lightning",
    "markdown_it",
    "matplotlib",
    "networkx",
    "ogb",
    "omegaconf",
    "pandas",
    "PIL",
    "pyarrow",
    "pymetis",
    "rdkit",
    "resvg_py",
    "rich",
    "scipy",
    "selectolax",
    "sentencex",
    "sklearn",
    "tokenizers",
    "torchmetrics",
    "trafilatura",
    "transformers",
    "typer",
}
ROOMS = (
    "import hsa_pyg, hsa_pyg.nn, hsa_pyg.data, hsa_pyg.loader, hsa_pyg.cli\n"
    "import hsa_pyg.converters, hsa_pyg.datasets, hsa_pyg.integrations\n"
    "import hsa_pyg.analysis\n"
)


def test_the_library_imports_without_any_extra():
    # Some come with torch and PyG, which then lack them as well.
    given = ("networkx", "filelock")
    done = run_without(HEAVY.difference(given), ROOMS)
    assert done.returncode == 0, done.stderr


def test_importing_the_library_imports_nothing_heavy():
    """Beyond what torch and torch_geometric import by themselves."""
    code = (
        "import sys, torch, torch_geometric\n"
        "before = set(sys.modules)\n"
        f"{ROOMS}"
        "roots = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        f"print(sorted(roots & {HEAVY!r}), 'hsa_pyg' in roots)"
    )
    done = run_without((), code)
    assert done.stdout.strip() == "[] True", done.stderr


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


@pytest.fixture(scope="module")
def metadata():
    """What a build of the project says of it."""
    return ProjectMetadata(str(ROOT), PluginManager()).core


def requirements(metadata, extra):
    """Names of what an extra brings, those of the extras that it names included."""
    lines = metadata.optional_dependencies[extra]
    return {plain(re.match(r"[\w.-]+", line).group()) for line in lines}


def plain(name):
    return name.replace("_", "-").lower()


def test_the_extra_all_brings_nothing_under_the_agpl(metadata):
    assert "ebooklib" in requirements(metadata, "epub")
    assert "selectolax" in requirements(metadata, "all")
    assert not {"ebooklib", "ogb"} & requirements(metadata, "all")


def table_of_extras():
    """What README says that each extra brings, in the order of its table."""
    text = read("README.md").partition("| extra | for | brings |")[2]
    rows = re.findall(r"^\| `(\w+)` \| .+? \| (.+) \|$", text, re.MULTILINE)
    listed = {}
    for extra, packages in rows:
        # Remarks follow a name after a colon or a comma, or stand in brackets.
        packages = re.sub(r"\(.*?\)|: .*|, which .*", "", packages)
        listed[extra] = {plain(name.strip()) for name in packages.split(",")}
    return listed


def with_named_extras(listed, extra):
    """What an extra brings, and what the extras bring that its row names."""
    own = {name for name in listed[extra] if name.startswith("`")}
    return (listed[extra] - own).union(
        *(with_named_extras(listed, name.strip("`")) for name in own)
    )


def test_the_readme_says_what_every_extra_brings(metadata):
    listed = table_of_extras()
    assert set(listed) == set(metadata.optional_dependencies)
    for extra in listed:
        named = with_named_extras(listed, extra)
        assert named == requirements(metadata, extra), extra


def test_every_python_that_is_declared_is_tested(metadata):
    declared = re.findall(r"Python :: (3\.\d+)", " ".join(metadata.classifiers))
    workflow = read(".github/workflows/ci.yml")
    (tested,) = re.findall(r"python-version: \[(.*)\]", workflow)
    assert declared == [name.strip(' "') for name in tested.split(",")]
    assert metadata.requires_python == f">={declared[0]}"


def test_the_workflow_does_what_ci_does():
    workflow, run = read(".github/workflows/ci.yml"), read(".ci/run")
    assert "bash .ci/run" in workflow
    (torch_pinned,) = re.findall(r'^torch="(.*)"$', run, re.MULTILINE)
    assert f'TORCH="{torch_pinned}"' in workflow


def test_the_description_on_an_index_has_no_dead_link(metadata):
    targets = re.findall(r"\]\(([^)]*)\)", metadata.readme)
    assert "https://pyg.org" in targets
    assert [link for link in targets if not link.startswith("https://")] == []
    # The files are named instead, and all else is as in README.
    assert "the mathematics (docs/mathematics.md)" in metadata.readme
    assert "read what you have: docs/converters.md." in metadata.readme
    assert metadata.readme.count("```") == read("README.md").count("```")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d"]
    subprocess.run([*command, str(folder)], cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return path


def test_the_wheel_holds_the_package_and_small_data_alone(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    roots = {name.partition("/")[0] for name in names}
    assert roots == {"hsa_pyg", f"hsa_pyg-{hsa_pyg.__version__}.dist-info"}
    suffixes = {Path(name).suffix for name in names if name.startswith("hsa_pyg/")}
    code = {".py", ".typed", ".h", ".cpp", ".js", ".css", ".html"}
    data = {".zip", ".xz", ".png", ".json", ".yaml", ".md", ""}
    assert suffixes <= code | data
    sources = {
        path.relative_to(ROOT).as_posix() for path in (ROOT / "hsa_pyg").rglob("*.py")
    }
    assert sources <= set(names)
    data = [name for name in names if "/datasets/_shipped/" in name]
    assert {name.split("/")[3] for name in data} == {
        "emoji",
        "movie_reviews",
        "shakespeare",
        "sqlite_site",
    }
    assert sum(name.endswith("NOTICE.md") for name in data) == 4
    assert wheel.stat().st_size < 15e6
