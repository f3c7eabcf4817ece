"""HTML to a tree of blocks: what a browser shows, in reading order."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from hsa_pyg.converters.blocks import Block, ParsedDocument
from hsa_pyg.converters.charset import decode_html
from hsa_pyg.converters.flow import FlowBuilder
from hsa_pyg.converters.formats import check_text
from hsa_pyg.converters.html_walk import HtmlWalk
from hsa_pyg.converters.markup import bound_nesting, close_empty_elements
from hsa_pyg.converters.resources import PictureResolver
from hsa_pyg.converters.sentences import SentenceSplitter

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser

_REFRESH = re.compile(
    r"\s*[\d.]+\s*[;,]?\s*(?:url\s*=\s*)?(?:'([^']*)|\"([^\"]*)|(.*))",
    re.IGNORECASE | re.DOTALL,
)
_DISPLAY = re.compile(r"(?<![\w-])display\s*:\s*([\w-]+)", re.IGNORECASE)


@dataclass(eq=False)
class ParsedPage(ParsedDocument):
    """What :func:`parse_html` makes of a page.

    Args:
        links: The ``href`` of every link (``a`` and ``area``) in document order, as it
            is written; also of links that are not shown.
        base: The address that relative ones start from (``<base href>``).
        refresh: The address that the page leads to by itself (``<meta http-equiv>``).
    """

    links: list[str] = field(default_factory=list)
    base: str = ""
    refresh: str = ""


def parse_html(
    content: bytes | str,
    split: SentenceSplitter,
    *,
    root: Literal["document", "page"] = "document",
    name: str = "<html>",
    encoding: str | None = None,
    resolve: PictureResolver | None = None,
    main_content: bool = False,
    xhtml: bool | None = None,
) -> ParsedPage:
    """Parse a page into sections, blocks, paragraphs, sentences and pictures.

    The text is what a browser shows that runs no scripts: without scripts, styles,
    comments, templates and the head; without elements that are hidden (by the
    attribute ``hidden``, by ``style="display:none"``, and dialogs that are not open;
    rules of style sheets are not read), which are counted if there is text in them;
    with ``noscript`` and closed ``details``. White space is collapsed but in ``pre``
    and ``textarea``. A ``br`` is a line break, two are the end of a paragraph. Words
    that elements in the text cut (``un<b>seen</b>``) stay one word.

    - A heading opens a section, which ends before the next heading of its level or a
      higher one, and with the list item, cell, quote, figure or ``section``,
      ``article``, ``aside`` or ``nav`` that it stands in. The heading is its first
      paragraph.
    - ``ul``, ``ol`` and ``dl`` become blocks list > item, tables table > row > cell,
      with the caption as a paragraph of the table; ``blockquote`` becomes a quote and
      ``figure`` a figure. All other elements have no node of their own.
    - ``pre`` becomes a paragraph of the role code with one sentence a line.
    - A picture becomes a block of the role figure behind the paragraph that it stands
      in, with its ``alt`` text, or the words in an ``svg``, as a paragraph of the role
      alt. Without a usable picture and words there is no block.
    - Text that is the value of a button or a field, and the options of lists, are part
      of the running text.

    A tree nests at most 512 blocks deep: what nests deeper loses its tags and no text.

    Args:
        content: The page. Bytes are decoded as
            :func:`~hsa_pyg.converters.charset.decode_html` describes.
        split: Splits the text of a paragraph into sentences.
        root: Node type of the root.
        name: Name of the page, for errors.
        encoding: Encoding of the bytes, if it is not what the page itself declares.
        resolve: Gives the pictures; None leaves them out, but not the words for them.
        main_content: Leave out navigation, advertisements and other boilerplate. See
            :func:`~hsa_pyg.converters.main_content.extract_main_content` for what else
            goes with them; how many characters that are is counted.
        xhtml: Whether the page is XHTML, where ``<a/>`` is closed at once; None takes
            it for XHTML if it starts with an XML declaration.

    Raises:
        ValueError: If the encoding is unknown, the text holds lone surrogates, or no
            main content can be found.
        ImportError: If selectolax is not installed, or trafilatura for the main
            content.

    Example:
        >>> from hsa_pyg.converters.sentences import split_lines
        >>> page = parse_html(
        ...     "<title>Log</title><h1>Rain</h1><p>It <b>r</b>ained.", split_lines
        ... )
        >>> page.title, page.text
        ('Log', 'Rain\\n\\nIt rained.')
        >>> (section,) = page.block.children
        >>> [paragraph.role for paragraph in section.children]
        ['heading', 'paragraph']
    """
    dropped: Counter[str] = Counter()
    if isinstance(content, bytes):
        source = decode_html(content, name, encoding, dropped)
    else:
        source = content.removeprefix("\ufeff")
    check_text(source, name, "html")
    if source.lstrip()[:5] == "<?xml" if xhtml is None else xhtml:
        source = close_empty_elements(source)
    source = bound_nesting(source)
    parser = _parse(source)
    page = _head(parser, dropped)
    flow = _flow(
        parser, root, split, page.base, None if main_content else resolve, dropped
    )
    if main_content:
        from hsa_pyg.converters.main_content import extract_main_content

        whole = flow
        content = close_empty_elements(extract_main_content(source, name))
        flow = _flow(_parse(content), root, split, page.base, resolve, dropped)
        missing = len("".join(whole.text.split())) - len("".join(flow.text.split()))
        if missing > 0:
            dropped["characters outside the main content"] += missing
    page.block = flow.finish()
    page.text = flow.text
    return page


def _flow(
    parser: LexborHTMLParser,
    root: str,
    split: SentenceSplitter,
    base: str,
    resolve: PictureResolver | None,
    dropped: Counter[str],
) -> FlowBuilder:
    flow = FlowBuilder(root, split)
    if parser.root is not None:
        HtmlWalk(flow, base, resolve, dropped, _hidden(parser)).walk(parser.root)
    flow.paragraph_break()
    return flow


def _head(parser: LexborHTMLParser, dropped: Counter[str]) -> ParsedPage:
    """Read what a page says of itself beside its text."""
    title = parser.css_first("head title")
    base = parser.css_first("base[href]")
    refresh = parser.css_first('meta[http-equiv="refresh" i][content]')
    links = parser.css("a[href],area[href]")
    found = None
    if refresh is not None:
        found = _REFRESH.match(refresh.attributes["content"] or "")
    return ParsedPage(
        Block("document", 0, 0),
        "",
        dropped,
        "" if title is None else " ".join(title.text().split()),
        links=[(link.attributes["href"] or "").strip() for link in links],
        base="" if base is None else (base.attributes["href"] or "").strip(),
        refresh="" if found is None else (found[found.lastindex or 0]).strip(),
    )


def _hidden(parser: LexborHTMLParser) -> frozenset[int]:
    """Return the ids of the elements that are hidden without a style sheet."""
    hidden = {node.mem_id for node in parser.css("[hidden],dialog:not([open])")}
    for node in parser.css('[style*="display" i]'):
        shown = _DISPLAY.findall(node.attributes["style"] or "")
        if shown and shown[-1].lower() == "none":
            hidden.add(node.mem_id)
    return frozenset(hidden)


def _parse(source: str) -> LexborHTMLParser:
    try:
        from selectolax.lexbor import LexborHTMLParser
    except ImportError as error:
        raise ImportError(
            'Reading HTML needs selectolax: pip install "hsa-pyg[html]".'
        ) from error
    return LexborHTMLParser(source)
