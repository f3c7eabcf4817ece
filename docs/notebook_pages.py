"""The notebooks in ``examples/`` as pages of the site; MkDocs calls the hook.

They are shown as they were executed: nothing is run for the site.
"""

import base64
import json
import os.path
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"

_LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]+)(#[^)]*)?\)")
#: A heading, without what would end an alternative text.
_HEADING = re.compile(r"^#+ +([^\n\[\]]+)$", re.MULTILINE)


def on_files(files: Files, config: Any) -> Files:
    """Add a page for every notebook, its pictures, and the page about them."""
    text = within_site((EXAMPLES / "README.md").read_text())
    files.append(File.generated(config, "notebooks/index.md", content=text))
    for path in sorted(EXAMPLES.glob("[0-9][0-9]_*.ipynb")):
        text, pictures = notebook_page(path)
        page = f"notebooks/{path.stem}.md"
        files.append(File.generated(config, page, content=text))
        for name, content in pictures.items():
            file = File.generated(config, f"notebooks/{name}", content=content)
            files.append(file)
    return files


def notebook_page(path: Path) -> tuple[str, dict[str, bytes]]:
    """A notebook as a page.

    Args:
        path: The executed ``.ipynb``.

    Returns:
        Its Markdown, with links as they lead from ``notebooks/``, and its pictures by
        their names there.
    """
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    section = path.stem
    for cell in json.loads(path.read_text())["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(within_site(source))
            section = (_HEADING.findall(source) or [section])[-1]
            continue
        parts.append(_fenced(source, "python"))
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                name = f"{path.stem}-{len(pictures) + 1}.png"
                pictures[name] = base64.b64decode("".join(data["image/png"]))
                parts.append(f"![Picture of the section: {section}]({name})")
            else:
                text = "".join(output.get("text") or data["text/plain"])
                parts.append(_fenced(text.rstrip("\n"), "text"))
    return "\n\n".join(parts) + "\n", pictures


def within_site(text: str) -> str:
    """Links of a file in ``examples/``, as seen from ``notebooks/`` in the site.

    Args:
        text: Markdown.
    """

    def replace(match: re.Match[str]) -> str:
        target, anchor = match[1], match[2] or ""
        path = Path(os.path.normpath(EXAMPLES / target))
        if path == EXAMPLES / "README.md":
            target = "index.md"
        elif path.parent == EXAMPLES and path.suffix == ".ipynb":
            target = f"{path.stem}.md"
        else:
            target = os.path.relpath(path, ROOT / "docs" / "notebooks")
        return f"]({Path(target).as_posix()}{anchor})"

    return _LINK.sub(replace, text)


def _fenced(text: str, language: str) -> str:
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", text))])
    return f"{fence}{language}\n{text}\n{fence}"
