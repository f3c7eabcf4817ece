"""What the tests of all readers of documents look at: trees of blocks."""

import html.parser

from hsa_pyg.converters.assemble import walk

UNSEEN = {"head", "script", "style", "template", "title", "svg", "video", "iframe"}
VOID = {"br", "hr", "img", "input", "meta", "link", "col", "wbr", "area", "base"}
_BREAKS = (
    "address article aside blockquote body br button caption center dd details div dl "
    "dt fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hr html input "
    "legend li main nav ol optgroup option p pre section select summary table tbody td "
    "textarea tfoot th thead tr ul"
)
BREAKS = set(_BREAKS.split())


def outline(block, text):
    """A tree as nested tuples: what each block is, then its children or its text."""
    if block.kind == "sentence":
        return text[block.start : block.stop]
    says = {"block": block.role, "paragraph": block.role, "section": f"h{block.level}"}
    name = says.get(block.kind, block.kind)
    name += " [picture]" if block.picture is not None else ""
    return (name, *(outline(child, text) for child in block.children))


def outline_of(parsed):
    """The children of the root of a document, as :func:`outline` gives them."""
    return outline(parsed.block, parsed.text)[1:]


def check_tree(parsed):
    """Assert what holds for every document whatever."""
    text = parsed.text
    assert (parsed.block.start, parsed.block.stop) == (0, len(text))
    covered = 0
    for block in walk(parsed.block):
        assert 0 <= block.start <= block.stop <= len(text)
        for child in block.children:
            assert child.stop == child.start or block.start <= child.start
            assert child.stop == child.start or child.stop <= block.stop
        if block.kind == "paragraph":
            assert block.children
            assert {child.kind for child in block.children} == {"sentence"}
        if block.kind == "sentence":
            # Every visible character lies in exactly one sentence.
            assert covered <= block.start < block.stop
            assert not text[covered : block.start].strip()
            covered = block.stop
    assert not text[covered:].strip()


def depth(block):
    """Number of blocks on the longest way down."""
    deepest = 0
    level = [block]
    while level:
        deepest += 1
        level = [child for above in level for child in above.children]
    return deepest


def seen_words(parsed):
    """The words of a document but those that stand for pictures."""
    paragraphs = (
        parsed.text[block.start : block.stop]
        for block in walk(parsed.block)
        if block.kind == "paragraph" and block.role != "alt"
    )
    return " ".join(paragraphs).split()


class _Words(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.pieces = []
        self.unseen = []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        style = (attributes.get("style") or "").replace(" ", "")
        hidden = "hidden" in attributes or "display:none" in style
        if tag in VOID:
            if tag == "input" and not self.unseen:
                self.pieces.append(" ")
        elif tag in UNSEEN or hidden or self.unseen:
            self.unseen.append(tag)
        self._break(tag)

    def handle_endtag(self, tag):
        if self.unseen and tag not in VOID:
            self.unseen.pop()
        self._break(tag)

    def handle_data(self, data):
        if not self.unseen:
            self.pieces.append(data)

    def _break(self, tag):
        if tag in BREAKS and not self.unseen:
            self.pieces.append("\n")


def words_of_html(source):
    """The words that a browser shows of a well-formed page, found another way."""
    parser = _Words()
    parser.feed(source)
    parser.close()
    return "".join(parser.pieces).split()
