"""Docstrings in PyG's manner, which is reStructuredText, as Markdown for the site."""

import re
import textwrap
from html import escape
from pathlib import Path
from typing import Any

import griffe

_MATHEMATICS = (Path(__file__).parent / "mathematics.md").read_text()
#: Anchors of the sections of the mathematics, by their number.
SECTIONS = {
    heading.split(".")[0]: re.sub(
        r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()
    )
    for heading in re.findall(r"^## (\d+\..*)$", _MATHEMATICS, re.MULTILINE)
}

_BLOCK = re.compile(
    r"^(?P<indent>[ ]*)\.\. (?P<kind>math|code-block)::[ ]*(?P<first>.*)\n"
    r"(?P<body>(?:[ ]*\n|(?P=indent)[ ]+.*(?:\n|\Z))*)",
    re.MULTILINE,
)
_ROLE = re.compile(r":(?P<role>class|func|meth|attr|obj|mod|data):`(?P<name>[^`]+)`")
_LINK = re.compile(r"`(?P<text>[^`<]+?)\s+<(?P<url>https?://[^>]+)>`__?")
_SECTION = re.compile(
    r"docs/mathematics\.md(?:, (?P<kind>section|property) (?P<number>\d+))?"
)


def to_markdown(text: str, scope: griffe.Object | None = None) -> str:
    """A docstring's text with its directives, roles and links in Markdown.

    Args:
        text: The docstring.
        scope: The object that it belongs to: short names in roles are looked up there.
    """
    text = _BLOCK.sub(_block, text)
    text = re.sub(r"^Example:$", "Examples:", text, flags=re.MULTILINE)
    text = re.sub(r":math:`([^`]+)`", lambda match: f"${_one_line(match[1])}$", text)
    text = _LINK.sub(
        lambda match: f"[{_one_line(match['text'])}]({match['url']})", text
    )
    text = _ROLE.sub(lambda match: _reference(match["name"], scope), text)
    return _SECTION.sub(_section, text)


class RstDocstrings(griffe.Extension):
    """Rewrites every docstring of the package before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called by griffe for every module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = to_markdown(obj.docstring.value, obj)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _block(match: re.Match[str]) -> str:
    body = textwrap.dedent(match["body"]).strip("\n")
    if match["kind"] == "math":
        body = f"{match['first']}\n{body}".strip("\n")
        if "&" in body or r"\\" in body:
            body = f"\\begin{{aligned}}\n{body}\n\\end{{aligned}}"
        lines = ["$$", *body.splitlines(), "$$"]
    else:
        language = "pycon" if ">>>" in body else match["first"]
        lines = [f"```{language}", *body.splitlines(), "```"]
    return "\n" + textwrap.indent("\n".join(lines), match["indent"]) + "\n\n"


def _reference(name: str, scope: griffe.Object | None) -> str:
    """A name in code, as a link where the site has a page of it."""
    short = name.startswith("~")
    path = _one_line(name.lstrip("~"))
    shown = path.rpartition(".")[2] if short else path
    if scope is not None and not path.startswith("hsa_pyg."):
        try:
            path = scope.resolve(path)
        except griffe.NameResolutionError:
            return f"`{shown}`"
    # Optional: names of torch and of private parts have no page here.
    return (
        f'<autoref identifier="{escape(path)}" optional>'
        f"<code>{escape(shown)}</code></autoref>"
    )


def _section(match: re.Match[str]) -> str:
    kind, number = match["kind"], match["number"]
    shown = "the mathematics" + (f", {kind} {number}" if number else "")
    # The properties stand in section 3.
    anchor = SECTIONS.get("3" if kind == "property" else number)
    if anchor is None:
        return shown
    return f'<autoref identifier="{anchor}" optional>{shown}</autoref>'
