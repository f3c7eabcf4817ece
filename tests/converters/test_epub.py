import io
import zipfile

import pytest

from hsa_pyg.converters import DocumentConverter, from_document
from hsa_pyg.converters import epub as epub_module
from hsa_pyg.converters.epub import parse_epub
from hsa_pyg.converters.images import PictureReader
from hsa_pyg.converters.sentences import sentence_splitter
from tests.block_trees import check_tree, outline_of

PROSE = sentence_splitter("prose")
XHTML = '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml">'
CONTAINER = (
    '<?xml version="1.0"?><container version="1.0" '
    'xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile '
    'full-path="OEBPS/book.opf" media-type="application/oebps-package+xml"/>'
    "</rootfiles></container>"
)
TYPES = {"xhtml": "application/xhtml+xml", "png": "image/png", "ttf": "font/ttf"}


def png():
    from PIL import Image

    written = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(written, "PNG")
    return written.getvalue()


def manifest_item(place, name):
    media_type = TYPES[name.rpartition(".")[2]]
    nav = ' properties="nav"' if name == "nav.xhtml" else ""
    return f'<item id="i{place}" href="{name}" media-type="{media_type}"{nav}/>'


def package(files, spine):
    items = "".join(manifest_item(*item) for item in enumerate(files))
    order = {name: place for place, name in enumerate(files)}
    refs = "".join(f'<itemref idref="i{order.get(name, name)}"/>' for name in spine)
    return (
        '<package xmlns="http://www.idpf.org/2007/opf" version="3.0" '
        'unique-identifier="id"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">'
        '<dc:identifier id="id">1</dc:identifier><dc:title>A  Book</dc:title>'
        f"</metadata><manifest>{items}</manifest><spine>{refs}</spine></package>"
    )


FILES = {
    "nav.xhtml": XHTML
    + '<body><nav xmlns:epub="http://www.idpf.org/2007/ops" epub:type="toc"><ol>'
    '<li><a href="text/one.xhtml">One</a></li>'
    '<li><a href="text/two.xhtml#x">Two &amp; a half</a><ol>'
    '<li><a href="text/two.xhtml#y">no</a></li></ol></li>'
    '<li><a href="text/three.xhtml">III</a></li></ol></nav></body></html>',
    "text/two.xhtml": XHTML + "<title/><body><a id='x'/>Second. Text.</body></html>",
    "text/one.xhtml": XHTML
    + "<body><h1>One</h1><p>It rained.</p><p><img src='../img/a%20b.png' alt='A'/>"
    "<img src='../../../secret.png'/><img src='http://x.org/a.png'/></p></body></html>",
    "text/three.xhtml": XHTML + "<body><p>iii</p><h2>B</h2><p>b</p></body></html>",
    "text/empty.xhtml": XHTML + "<body> </body></html>",
    "img/a b.png": png(),
}
SPINE = ("text/one.xhtml", "text/two.xhtml", "text/empty.xhtml", "text/three.xhtml")


def write(path, files=FILES, spine=SPINE, extra=(), opf=None):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/epub+zip")
        archive.writestr("META-INF/container.xml", CONTAINER)
        archive.writestr("OEBPS/book.opf", opf or package(files, spine))
        for name, content in files.items():
            archive.writestr(f"OEBPS/{name}", content)
        for name, content in extra:
            archive.writestr(name, content)
    return path


def parse(path, **options):
    parsed = parse_epub(path, PROSE, name="book.epub", **options)
    check_tree(parsed)
    return parsed


def p(*sentences, role="paragraph"):
    return (role, *sentences)


def test_chapters_are_sections_in_reading_order(tmp_path):
    parsed = parse(write(tmp_path / "b.epub"), pictures=PictureReader(patch=8))
    assert parsed.title == "A Book"
    assert outline_of(parsed) == (
        (
            "h1",
            p("One", role="heading"),
            p("It rained."),
            ("figure [picture]", p("A", role="alt")),
        ),
        ("h1", p("Two & a half", role="heading"), p("Second.", "Text.")),
        ("h1", p("iii"), ("h2", p("B", role="heading"), p("b"))),
    )
    assert dict(parsed.dropped) == {
        "chapters without text and pictures": 1,
        "pictures missing": 1,
        "pictures on other hosts": 1,
    }


def test_books_become_signals(tmp_path):
    path = write(tmp_path / "b.epub")
    signal = from_document(path)
    signal.validate()
    assert signal["image"].num_nodes == 1
    assert signal["section"].level.tolist() == [1, 1, 1, 2]
    assert signal.source == path.as_posix()
    plain = DocumentConverter(images=False).file(path)
    assert plain["token"].x.equal(signal["token"].x)


def test_what_readers_forgive_is_forgiven(tmp_path):
    files = {
        **FILES,
        "font.ttf": b"x",
        "nav.xhtml": XHTML + "<body>no list</body></html>",
    }
    opf = package(files, (*SPINE, "gone", "text/one.xhtml"))
    del files["font.ttf"], files["img/a b.png"]
    parsed = parse(write(tmp_path / "b.epub", files, opf=opf))
    assert parsed.text.startswith("One\n\nIt rained.\n\nA\n\nSecond.")
    assert parsed.dropped["chapters missing"] == 1
    assert parsed.dropped["chapters repeated"] == 1


@pytest.mark.parametrize("name", ["../evil.xhtml", "/etc/evil", "a\\..\\..\\b", "C:/x"])
def test_names_outside_of_the_book_are_refused(tmp_path, name):
    path = write(tmp_path / "b.epub", extra=[(name, "x")])
    with pytest.raises(ValueError, match=r"'book\.epub' is refused.*lies outside"):
        parse(path)


def encryption(algorithm):
    return (
        "META-INF/encryption.xml",
        '<encryption xmlns:enc="http://www.w3.org/2001/04/xmlenc#"><enc:EncryptedData>'
        f'<enc:EncryptionMethod Algorithm="{algorithm}"/></enc:EncryptedData>'
        "</encryption>",
    )


def test_protected_books_are_refused_but_not_protected_fonts(tmp_path):
    drm = encryption("http://www.w3.org/2001/04/xmlenc#aes128-cbc")
    with pytest.raises(ValueError, match=r"'book\.epub' is encrypted \(DRM\)"):
        parse(write(tmp_path / "b.epub", extra=[drm]))
    fonts = encryption("http://www.idpf.org/2008/embedding")
    assert parse(write(tmp_path / "c.epub", extra=[fonts])).text.startswith("One")


def test_bombs_are_refused_before_they_are_unpacked(tmp_path, monkeypatch):
    bomb = ("OEBPS/bomb.bin", b"\0" * 1_000_000)
    path = write(tmp_path / "b.epub", extra=[bomb])
    assert path.stat().st_size < 10_000
    monkeypatch.setattr(epub_module, "MAX_BYTES", 500_000)
    with pytest.raises(ValueError, match=r"unpacks to 10\d{5} bytes"):
        parse(path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "its archive is broken"),
        (b"no zip at all", "its archive is broken"),
        (b"PK\x05\x06" + b"\0" * 18, "is no readable EPUB"),
    ],
)
def test_broken_archives_are_refused(tmp_path, content, reason):
    (tmp_path / "b.epub").write_bytes(content)
    with pytest.raises(ValueError, match=rf"'book\.epub' .*{reason}"):
        parse(tmp_path / "b.epub")


def test_broken_packages_are_refused(tmp_path):
    whole = package(FILES, SPINE)
    spine = whole[whole.index("<spine>") : whole.index("</package>")]
    for opf in (
        "no xml",
        whole.replace(spine, ""),
        whole.replace(spine, "<spine/>"),
        package(FILES, ["gone"]),
        whole[:300],
    ):
        path = write(tmp_path / "b.epub", opf=opf)
        with pytest.raises(ValueError, match=r"'book\.epub' is no readable EPUB"):
            parse(path)


def test_every_truncation_and_damage_is_a_value_error(tmp_path):
    content = write(tmp_path / "b.epub").read_bytes()
    path = tmp_path / "c.epub"
    outcomes = []
    for place in range(0, len(content), 37):
        for damaged in (
            content[:place],
            content[:place] + b"\xff" + content[place + 1 :],
        ):
            path.write_bytes(damaged)
            try:
                outcomes.append(parse(path).title)
            except ValueError as error:
                outcomes.append(str(error)[:20])
    assert set(outcomes) == {"A Book", "Document 'book.epub'"}


def test_a_missing_file_is_no_broken_one(tmp_path):
    with pytest.raises(FileNotFoundError):
        parse(tmp_path / "none.epub")
    with pytest.raises(ValueError, match=r"'book\.epub' is no EPUB"):
        parse(tmp_path)
