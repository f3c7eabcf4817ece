"""Markdown to a tree of blocks, by way of HTML."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hsa_pyg.converters.blocks import ParsedDocument
from hsa_pyg.converters.formats import check_text
from hsa_pyg.converters.html import parse_html
from hsa_pyg.converters.resources import PictureResolver
from hsa_pyg.converters.sentences import SentenceSplitter

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

# The parser recurses, and leaves out the lines that nest deeper than its own limit.
_MAX_NESTING = 40
_DEEPEST_BLOCK = 32

_FRONT_MATTER = re.compile(
    r"---[ \t]*\n((?=[ \t]*[\w\"'#-][^\n]*:|[ \t]*#).*?\n)?"
    r"(?:---|\.\.\.)[ \t]*(?:\n|\Z)",
    re.DOTALL,
)
_TITLE = re.compile(r"^title[ \t]*:[ \t]*(.*?)[ \t]*$", re.MULTILINE)


def parse_markdown(
    text: str,
    split: SentenceSplitter,
    *,
    name: str = "<markdown>",
    resolve: PictureResolver | None = None,
) -> ParsedDocument:
    """Parse Markdown as :func:`~hsa_pyg.converters.html.parse_html` parses HTML.

    This is CommonMark with tables and ``~~strikethrough~~``; HTML in it counts as such.
    A block of YAML between ``---`` at the very beginning is no text: its ``title``
    becomes the title. Quotes nested deeper than 32 times and lists nested deeper than
    16 times stay as the text that they are.

    Args:
        text: The document.
        split: Splits the text of a paragraph into sentences.
        name: Name of the document, for errors.
        resolve: Gives the pictures; None leaves them out, but not the words for them.

    Raises:
        ValueError: If the text holds a NUL character or a lone surrogate.
        ImportError: If markdown-it-py or selectolax is not installed.

    Example:
        >>> from hsa_pyg.converters.sentences import split_lines
        >>> parsed = parse_markdown("# Rain\\n\\nIt *rained*.", split_lines)
        >>> parsed.text, parsed.block.children[0].kind
        ('Rain\\n\\nIt rained.', 'section')
    """
    text = text.removeprefix("\ufeff")
    check_text(text, name)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    front = _FRONT_MATTER.match(text)
    title = ""
    if front is not None:
        text = text[front.end() :]
        found = _TITLE.search(front[1] or "")
        title = "" if found is None else _unquoted(found[1])
    html = _markdown().render(text)
    parsed = parse_html(html, split, name=name, resolve=resolve, xhtml=False)
    if front is not None:
        parsed.dropped["front matter"] += 1
    return ParsedDocument(parsed.block, parsed.text, parsed.dropped, title)


def _unquoted(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value


def _markdown() -> MarkdownIt:
    try:
        from markdown_it import MarkdownIt
    except ImportError as error:
        raise ImportError(
            'Reading Markdown needs markdown-it-py: pip install "hsa-pyg[html]".'
        ) from error
    settings = {"html": True, "maxNesting": _MAX_NESTING}
    markdown = MarkdownIt("commonmark", settings).enable(["table", "strikethrough"])
    for name in ("blockquote", "list"):
        rules = {rule.name: rule for rule in markdown.block.ruler.__rules__}
        rule = rules[name]
        markdown.block.ruler.at(name, _bounded(rule.fn), {"alt": rule.alt})
    return markdown


def _bounded(rule: Callable[..., bool]) -> Callable[..., bool]:
    """Let a rule for containers fail where they nest too deep, so that text remains."""

    def bounded(state: Any, start: int, end: int, silent: bool) -> bool:
        if state.level >= _DEEPEST_BLOCK:
            return False
        return rule(state, start, end, silent)

    return bounded
