"""What a page is called and where it leads, without its text."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hsa_pyg.converters.blocks import Block, ParsedDocument
from hsa_pyg.converters.charset import decode_html
from hsa_pyg.converters.markup import bound_nesting, close_empty_elements

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

_REFRESH = re.compile(
    r"\s*[\d.]+\s*[;,]?\s*(?:url\s*=\s*)?(?:'([^']*)|\"([^\"]*)|(.*))",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(eq=False)
class ParsedPage(ParsedDocument):
    """What :func:`~hsa_pyg.converters.html.parse_html` makes of a page.

    Args:
        links: The ``href`` of every link (``a`` and ``area``) in document order, as it
            is written; also of links that are not shown.
        base: The address that relative ones start from (``<base href>``).
        refresh: The address that the page leads to by itself (``<meta http-equiv>``).
    """

    links: list[str] = field(default_factory=list)
    base: str = ""
    refresh: str = ""


def read_head(
    content: bytes, name: str = "<html>", encoding: str | None = None
) -> ParsedPage:
    """Read where a page leads and what it is called, but not its text.

    Args:
        content: The page.
        name: Name of the page, for errors.
        encoding: Encoding of the bytes, if it is not what the page itself declares.

    Returns:
        The page with its title, links, base and refresh, and without text.

    Raises:
        ValueError: If the encoding is unknown.

    Example:
        >>> read_head(b"<title>Log</title><p>See <a href='rain.html'>rain</a>.").links
        ['rain.html']
    """
    source = decode_html(content, name, encoding, Counter())
    return head_of(parse_tree(tidied(source)), Counter())


def tidied(source: str, xhtml: bool | None = None) -> str:
    """Make the source of a page fit for a parser of HTML.

    Args:
        source: The page.
        xhtml: Whether it is XHTML; None takes it for XHTML if it starts with an XML
            declaration.
    """
    if source.lstrip()[:5] == "<?xml" if xhtml is None else xhtml:
        source = close_empty_elements(source)
    return bound_nesting(source)


def head_of(parser: LexborHTMLParser, dropped: Counter[str]) -> ParsedPage:
    """Read what a parsed page says of itself beside its text.

    Args:
        parser: The page.
        dropped: What was left out of it so far.
    """
    title = parser.css_first("head title")
    # Selectors match attributes of drawings by their local name: xlink:href is href.
    bases = [base.attributes for base in parser.css("base[href]")]
    base = next((base["href"] or "" for base in bases if "href" in base), "")
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
        links=[_href(link).strip() for link in links],
        base=base.strip(),
        refresh="" if found is None else (found[found.lastindex or 0]).strip(),
    )


def _href(link: LexborNode) -> str:
    # Drawings of before 2018 say xlink:href, which browsers still follow.
    attributes = link.attributes
    return attributes.get("href") or attributes.get("xlink:href") or ""


def parse_tree(source: str) -> LexborHTMLParser:
    """Parse a page as browsers do.

    Args:
        source: The page, its nesting bounded.

    Raises:
        ImportError: If selectolax is not installed.
    """
    try:
        from selectolax.lexbor import LexborHTMLParser
    except ImportError as error:
        raise ImportError(
            'Reading HTML needs selectolax: pip install "hsa-pyg[html]".'
        ) from error
    return LexborHTMLParser(source)
