"""Pages that tests of the HTML reader parse, and the pictures in them."""

import base64
import io

from hsa_pyg.converters.html import parse_html
from hsa_pyg.converters.images import PictureReader
from hsa_pyg.converters.resources import PictureFinder
from hsa_pyg.converters.sentences import sentence_splitter
from tests.block_trees import check_tree, outline_of

PROSE = sentence_splitter("prose")


def png(color="red", size=(8, 8)):
    """The bytes of a picture of one colour."""
    from PIL import Image

    written = io.BytesIO()
    Image.new("RGB", size, color).save(written, "PNG")
    return written.getvalue()


DATA = "data:image/png;base64," + base64.b64encode(png()).decode()


def parse(source, resolve=None, **options):
    """Parse a page, and check what holds for every document."""
    parsed = parse_html(source, PROSE, resolve=resolve, **options)
    check_tree(parsed)
    return parsed


def tree(source, resolve=None):
    """The tree of a page as nested tuples."""
    return outline_of(parse(source, resolve))


def p(*sentences, role="paragraph"):
    """A paragraph in such a tree."""
    return (role, *sentences)


def finder(folder=None):
    """Finds pictures in a folder, or only those in the page itself."""
    return PictureFinder(PictureReader(patch=8), folder)
