"""The rooms of the house: who may import whom, and how files are named."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "hsa_pyg"
MODULES = sorted(PACKAGE.rglob("*.py"))

# A room may import itself and what stands here; the top level and these, all.
MAY_IMPORT_ALL = {"cli", "experiments"}
MAY_IMPORT = {
    "hierarchy": set(),
    "ops": {"hierarchy"},
    "nn": {"ops", "hierarchy"},
    "data": {"hierarchy"},
    "loader": {"data", "hierarchy"},
    "converters": {"data", "hierarchy"},
    "datasets": {"data", "converters", "hierarchy"},
    # Sentences and patches as the converters cut them, matrices to look at.
    "integrations": {"nn", "ops", "converters", "analysis", "hierarchy"},
    "analysis": {"nn", "ops", "data", "hierarchy"},
}
ROOMS = {*MAY_IMPORT, *MAY_IMPORT_ALL}
# Files of a room that lie beside it.
ROOM_OF_FILE = {
    "__main__": "cli",
    "compilation": "hierarchy",
    "forest": "hierarchy",
    "slots": "hierarchy",
}
SAYS_NOTHING = {"utils", "util", "helpers", "helper", "common", "misc", "tools"}


def room(path):
    """The room of a module's file: None for the top level's ``__init__``."""
    first = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return None if first == "__init__" else ROOM_OF_FILE.get(first, first)


def imported_modules(path, source=None):
    """All modules that a file imports, also inside functions, by absolute name."""
    for node in ast.walk(ast.parse(source or path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = [node.module] if node.module else []
            if node.level:
                base = [*path.relative_to(ROOT).parts[: -node.level], *base]
            name = ".".join(base)
            yield name
            yield from (f"{name}.{alias.name}" for alias in node.names)


def imported_rooms(path, source=None):
    """Rooms of this package that a file imports from."""
    for name in imported_modules(path, source):
        parts = name.split(".")
        if parts[0] == "hsa_pyg" and len(parts) > 1:
            imported = ROOM_OF_FILE.get(parts[1], parts[1])
            if imported in ROOMS:
                yield imported


def names(paths):
    return [path.relative_to(ROOT).as_posix() for path in paths]


@pytest.mark.parametrize("path", MODULES, ids=names(MODULES))
def test_no_room_reaches_where_it_may_not(path):
    here = room(path)
    if here not in MAY_IMPORT:
        assert here is None or here in MAY_IMPORT_ALL
        return
    assert set(imported_rooms(path)) <= MAY_IMPORT[here] | {here}


def test_the_hierarchy_is_plain_torch():
    for path in MODULES:
        if room(path) == "hierarchy":
            libraries = {name.split(".")[0] for name in imported_modules(path)}
            assert "torch_geometric" not in libraries, path


def test_imports_are_found_wherever_they_stand():
    source = (
        "import hsa_pyg.nn\n"
        "def late():\n"
        "    from hsa_pyg import loader\n"
        "    from ..data import Schema\n"
    )
    reached = set(imported_rooms(PACKAGE / "ops" / "any.py", source))
    assert reached == {"nn", "loader", "data"}


@pytest.mark.parametrize("path", MODULES, ids=names(MODULES))
def test_a_file_is_named_after_something_and_read_in_one_sitting(path):
    assert path.stem not in SAYS_NOTHING
    assert len(path.read_text().splitlines()) <= 400


def test_tests_mirror_the_package():
    """A test file stands where the module that it tests does."""
    modules = {path.relative_to(PACKAGE).with_suffix("") for path in MODULES}
    modules |= {path.parent for path in modules if path.name == "__init__"}
    strays = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        relative = path.relative_to(ROOT / "tests")
        folder = relative.parent
        if folder == Path("."):
            continue
        if not any(module.parent == folder or module == folder for module in modules):
            strays.append(relative.as_posix())
    assert strays == []


def test_every_public_definition_says_what_it_is():
    silent = []
    for path in MODULES:
        tree = ast.parse(path.read_text())
        silent += [
            f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
            for node in tree.body
            if isinstance(node, ast.ClassDef | ast.FunctionDef)
            and not node.name.startswith("_")
            and "overload" not in map(ast.unparse, node.decorator_list)
            and not ast.get_docstring(node)
        ]
    assert silent == []
