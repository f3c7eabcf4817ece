"""What the documentation site needs beside its pages; MkDocs calls these hooks."""

import html
import re
from pathlib import Path
from typing import Any

import yaml
from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]

#: Pages of the site that lie at the top of the repository.
TOP_PAGES = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}

_FORMULA = re.compile(
    r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL
)
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?![a-z]+:)([^)#\s]+)(?:#[^)]*)?\)")


def pages_of_experiments(root: Path = ROOT) -> set[str]:
    """Pages that the shipped experiments write, by their path below ``docs``.

    They are not there before ``hsa-pyg report`` has written them.
    """
    files = (root / "examples" / "experiments").glob("*.yaml")
    pages = (yaml.safe_load(file.read_text())["page"] for file in files)
    return {page.removeprefix("docs/") for page in pages}


def on_files(files: Files, config: Any) -> Files:
    """Add the pages from the repository's top, and stand-ins for unwritten ones."""
    for page, source in TOP_PAGES.items():
        text = _within_docs((ROOT / source).read_text())
        files.append(File.generated(config, page, content=text))
    for page in sorted(pages_of_experiments()):
        if files.get_file_from_path(page) is None:
            title = page.removesuffix(".md").replace("_", " ").capitalize()
            text = (
                f"# {title}\n\nThis page is written by `hsa-pyg report`, and has not "
                "been yet: see [experiments](experiments.md).\n"
            )
            files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links to what is no page or file of the site.

    They lead to the page that a file at the top has become. Other files of the
    repository, and folders, are named by their path.
    """
    source = ROOT / "docs" / page.file.src_uri
    up = "../" * page.file.src_uri.count("/")

    def replace(match: re.Match[str]) -> str:
        text, target = match.groups()
        path = (source.parent / target).resolve()
        outside = not path.is_relative_to(ROOT / "docs")
        name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else ""
        inside = _page_of(name)
        if inside is not None:
            return f"[{text}]({up}{inside})"
        if (outside or path.is_dir()) and path.exists() and name:
            return f"{text} (`{name}`)"
        return match[0]

    return _LINK.sub(replace, markdown)


def on_page_content(html_text: str, **_: Any) -> str:
    """Formulas as MathML, which browsers draw themselves: no script, no network."""

    def replace(match: re.Match[str]) -> str:
        display = "block" if match[2] == "[" else "inline"
        return to_mathml(html.unescape(match[3]).strip(), display)

    return _FORMULA.sub(replace, html_text)


def to_mathml(formula: str, display: str = "inline") -> str:
    """A formula of LaTeX as MathML.

    Args:
        formula: The formula, without its dollars.
        display: ``"inline"`` or ``"block"``.
    """
    # The converter knows align* alone, no escapes in text, and no space after log.
    formula = re.sub(r"\\log (?=[A-Za-z\\])(?!\\left|\\,)", r"\\log \\, ", formula)
    formula = formula.replace("{aligned}", "{align*}")
    formula = re.sub(
        r"\\text\{([^}]*)\}",
        lambda match: match[0].replace(r"\_", "_"),
        formula,
    )
    return convert(formula, display=display)


def _page_of(name: str) -> str | None:
    """The page that a file outside of ``docs`` has become."""
    if name == "examples/README.md":
        return "notebooks/index.md"
    if notebook := re.fullmatch(r"examples/(\d\d_\w+)\.ipynb", name):
        return f"notebooks/{notebook[1]}.md"
    return {place: top for top, place in TOP_PAGES.items()}.get(name)


def _within_docs(text: str) -> str:
    """Links of a page at the top, as seen from within ``docs``."""
    return re.sub(r"\]\(docs/", "](", text)
