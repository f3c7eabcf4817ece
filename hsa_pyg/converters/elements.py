"""The elements of HTML, by how browsers show them."""

from __future__ import annotations


def element_names(names: str) -> frozenset[str]:
    """Return the words of ``names`` as a set.

    Example:
        >>> sorted(element_names("td th"))
        ['td', 'th']
    """
    return frozenset(names.split())


VOID = element_names(
    "area base basefont bgsound br col embed frame hr image img input keygen link meta "
    "param source track wbr"
)
"""Elements that have no end tag."""

BLOCKS = element_names(
    "address article aside blockquote body caption center dd details dialog dir div dl "
    "dt fieldset figcaption figure footer form frameset h1 h2 h3 h4 h5 h6 header "
    "hgroup hr html legend li listing main menu nav ol optgroup option p plaintext pre "
    "search section summary table tbody td tfoot th thead tr ul xmp"
)
"""Elements that stand on lines of their own."""

UNSEEN = element_names(
    "annotation annotation-xml area base basefont datalist head link meta noembed "
    "noframes param rp script source style template title track"
)
"""Elements that browsers never show."""

REPLACED = element_names("audio canvas embed frame iframe meter progress video")
"""Elements in whose place browsers show something else than their text."""

PRESERVED = element_names("listing plaintext pre textarea xmp")
"""Elements whose white space is shown as it is."""

APART = element_names("button input select textarea")
"""Elements in running text whose words never run into those beside them."""

OUTLINES = element_names("article aside nav section")
"""Elements at whose end the sections end that headings in them opened."""

ROLES = {
    "ul": "list",
    "ol": "list",
    "dl": "list",
    "menu": "list",
    "dir": "list",
    "li": "item",
    "dt": "item",
    "dd": "item",
    "table": "table",
    "tr": "row",
    "td": "cell",
    "th": "cell",
    "blockquote": "quote",
    "figure": "figure",
}
"""Elements that become blocks, and the role of these."""

TEXTS = {
    **{f"h{level}": "heading" for level in range(1, 7)},
    "caption": "caption",
    "figcaption": "caption",
    "pre": "code",
    "listing": "code",
    "xmp": "code",
    "plaintext": "code",
}
"""Elements whose text becomes paragraphs of a role of their own."""
