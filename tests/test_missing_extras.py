"""What lacks an extra says which, and every late import is accounted for."""

import ast
import re
import sys
from pathlib import Path

import pytest
import torch
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

from hsa_pyg import converters
from hsa_pyg.converters import HashedWords, from_document
from hsa_pyg.datasets.word_dataset import WordDataset

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "hsa_pyg"
#: Modules of what is always installed.
ALWAYS = {"hsa_pyg", "numpy", "torch", "torch_geometric", "tqdm", "psutil"}
#: Modules that bear another name than their distribution.
DISTRIBUTIONS = {
    "Bio": "biopython",
    "PIL": "pillow",
    "ebooklib": "ebooklib",
    "markdown_it": "markdown-it-py",
    "resvg_py": "resvg-py",
    "sklearn": "scikit-learn",
}
#: Imports without a guard of their own, and what was imported before them.
LATER = {
    ("converters/raster.py", "PIL"): "need_pillow",
    ("converters/svg_process.py", "resvg_py"): "svg.py asks for it first",
    ("converters/tokenization.py", "tokenizers"): "_word_rules",
    ("converters/molecule.py", "rdkit"): "_rdkit",
    ("datasets/emoji.py", "PIL"): "need_pillow",
    ("integrations/transformers/masks.py", "transformers"): "attention.py",
}
NOT_HERE = ("experiments/", "cli/experiment.py")


def declared():
    extras = ProjectMetadata(str(ROOT), PluginManager()).core.optional_dependencies
    return {
        extra: {
            re.match(r"[\w.-]+", line).group().replace("_", "-").lower()
            for line in lines
        }
        for extra, lines in extras.items()
    }


def guarded(tree):
    """Imports within a try that catches ImportError, and the text of its handler."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Try):
            continue
        caught = [h for h in node.handlers if "ImportError" in ast.unparse(h.type)]
        if caught:
            for statement in node.body:
                yield statement, ast.unparse(caught[0])


def modules_of(statement):
    if isinstance(statement, ast.Import):
        return [alias.name.partition(".")[0] for alias in statement.names]
    if isinstance(statement, ast.ImportFrom) and not statement.level:
        return [statement.module.partition(".")[0]]
    return []


def imports(tree):
    """Imports that run: those under TYPE_CHECKING are left out."""
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        stack.extend(ast.iter_child_nodes(node))


def third_party():
    """File, module and handler (None without) of each import of an extra's module."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name.startswith(NOT_HERE) or name.startswith("ops/triton/"):
            continue
        tree = ast.parse(path.read_text())
        handlers = {id(statement): text for statement, text in guarded(tree)}
        for node in imports(tree):
            for module in modules_of(node):
                if module not in ALWAYS and module not in sys.stdlib_module_names:
                    yield name, module, handlers.get(id(node)), path.read_text()


def test_every_import_of_an_extra_names_an_extra_that_brings_it():
    extras, found, unguarded = declared(), set(), set()
    for name, module, handler, source in third_party():
        found.add(module)
        if handler is None:
            # The command refuses to start without its own extra.
            if not (name.startswith("cli/") and module in ("rich", "typer")):
                unguarded.add((name, module))
            continue
        named = re.findall(r"hsa-pyg\[(\w+)\]", handler) or (
            # A constant of the module that says it.
            re.findall(r"hsa-pyg\[(\w+)\]", source) if "_MISSING" in handler else []
        )
        distribution = DISTRIBUTIONS.get(module, module)
        assert named, (name, module)
        assert all(distribution in extras[extra] for extra in named), (name, module)
    assert unguarded == set(LATER)
    assert {"Bio", "PIL", "lightning", "ogb", "rdkit", "transformers"} <= found


CALLS = {
    "sentencex": ("text", lambda: from_document("One. Two.", tokenizer=list)),
    "tokenizers": ("text", HashedWords),
    "selectolax": ("html", lambda: converters.from_html("<p>It.", tokenizer=list)),
    "markdown_it": (
        "html",
        lambda: from_document("*It.*", format="markdown", tokenizer=list),
    ),
    "igraph": (
        "graph",
        lambda: converters.from_graph(_graph(), method="louvain"),
    ),
    "Bio": ("trees", lambda: converters.from_newick("(a,b);")),
    "rdkit": ("chem", lambda: converters.from_smiles("CCO")),
    "PIL": ("image", lambda: converters.from_image(ROOT / "docs/images/viewer.png")),
}


def _graph():
    from torch_geometric.data import Data

    edges = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    return Data(x=torch.randn(4, 3), edge_index=edges)


@pytest.mark.parametrize("module", CALLS)
def test_without_a_module_its_extra_is_named(module, monkeypatch):
    extra, call = CALLS[module]
    monkeypatch.setitem(sys.modules, module, None)
    for name in [name for name in sys.modules if name.startswith(f"{module}.")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=rf'pip install "hsa-pyg\[{extra}\]"'):
        call()


def test_a_data_set_without_its_tokenizer_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ImportError, match=r'pip install "hsa-pyg\[text\]"'):
        print(WordDataset().tokenizer)
