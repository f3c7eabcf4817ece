"""HTML to a tree of blocks: what a browser shows, in reading order."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Literal

from hsa_pyg.converters.charset import decode_html
from hsa_pyg.converters.flow import FlowBuilder
from hsa_pyg.converters.formats import check_text
from hsa_pyg.converters.html_walk import HtmlWalk
from hsa_pyg.converters.markup import close_empty_elements
from hsa_pyg.converters.page_head import ParsedPage, head_of, parse_tree, tidied
from hsa_pyg.converters.resources import PictureResolver
from hsa_pyg.converters.sentences import SentenceSplitter

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser

_DISPLAY = re.compile(r"(?<![\w-])display\s*:\s*([\w-]+)", re.IGNORECASE)


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
    - The options of lists are part of the running text. Values of buttons and fields,
      which are attributes and no text, are counted and left out.

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
    source = tidied(source, xhtml)
    parser = parse_tree(source)
    page = head_of(parser, dropped)
    if not main_content:
        flow = _flow(parser, root, split, page.base, resolve, dropped)
    else:
        from hsa_pyg.converters.main_content import extract_main_content

        # What is counted of the whole page is counted again of what is left of it.
        whole = _flow(parser, root, split, page.base, None, Counter())
        content = close_empty_elements(extract_main_content(source, name))
        flow = _flow(parse_tree(content), root, split, page.base, resolve, dropped)
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


def _hidden(parser: LexborHTMLParser) -> frozenset[int]:
    """Return the ids of the elements that are hidden without a style sheet."""
    hidden = {node.mem_id for node in parser.css("[hidden],dialog:not([open])")}
    for node in parser.css('[style*="display" i]'):
        shown = _DISPLAY.findall(node.attributes["style"] or "")
        if shown and shown[-1].lower() == "none":
            hidden.add(node.mem_id)
    return frozenset(hidden)
