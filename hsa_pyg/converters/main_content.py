"""The main content of a web page, without what stands around it on every page."""

from __future__ import annotations

import re

MAX_ELEMENTS = 20_000
"""Pages of more elements are refused: the time grows with the square of some kinds."""

_START_TAG = re.compile("<[a-zA-Z]")


class MainContentError(ValueError):
    """The main content of a page cannot be found; the message names it and says why."""


def extract_main_content(source: str, name: str) -> str:
    """Return a page of what trafilatura takes for the main content of a page.

    It keeps headings, paragraphs, lists, tables, quotes and pictures from files. It
    turns code into quotes, lists of terms into plain lists and captions of tables into
    rows. It leaves out captions of figures, drawings, pictures written into the page
    (``data:``), fields, and whatever else it takes for boilerplate: at times text that
    a reader would miss.

    Args:
        source: The page in HTML.
        name: Name of the page, for errors.

    Returns:
        A page in XHTML.

    Raises:
        MainContentError: If nothing is taken for the main content, or the page has more
            than :data:`MAX_ELEMENTS` elements (a ValueError).
        ImportError: If trafilatura is not installed.
    """
    try:
        import trafilatura
    except ImportError as error:
        raise ImportError(
            "Finding the main content of web pages needs trafilatura: "
            'pip install "hsa-pyg[html]" (or pass main_content=False).'
        ) from error
    elements = sum(1 for _ in _START_TAG.finditer(source))
    if elements > MAX_ELEMENTS:
        raise MainContentError(
            f"The main content of document {name!r} is not looked for: it has "
            f"{elements:,} elements, more than the {MAX_ELEMENTS:,} of hsa_pyg."
            "converters.main_content.MAX_ELEMENTS. Pass main_content=False to take "
            "all of its text."
        )
    content = trafilatura.extract(
        source,
        output_format="html",
        include_comments=False,
        include_formatting=True,
        include_images=True,
        include_links=False,
        include_tables=True,
    )
    if not content:
        raise MainContentError(
            f"No main content was found in document {name!r}: it is short, or a list "
            "of links. Pass main_content=False to take all of its text."
        )
    return content
