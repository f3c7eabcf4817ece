"""What a page is called and where it leads, without its text."""

from __future__ import annotations

from collections import Counter

from hsa_pyg.converters.charset import decode_html
from hsa_pyg.converters.html import ParsedPage, _head, _parse
from hsa_pyg.converters.markup import bound_nesting, close_empty_elements


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
    if source.lstrip()[:5] == "<?xml":
        source = close_empty_elements(source)
    return _head(_parse(bound_nesting(source)), Counter())
