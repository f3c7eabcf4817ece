import base64
import io
import os
import pickle
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hsa_pyg.converters import resources
from hsa_pyg.converters.images import PictureReader
from hsa_pyg.converters.resources import (
    OutsideError,
    PictureFinder,
    ResourceError,
    locate,
)


def png(color="red", size=(8, 8)):
    from PIL import Image

    written = io.BytesIO()
    Image.new("RGB", size, color).save(written, "PNG")
    return written.getvalue()


@pytest.fixture
def site(tmp_path):
    """A site in a folder, with a secret beside it."""
    root = tmp_path / "root"
    for name in ("index.html", "a b.png", "page.php?id=3", "p%20q.png", "sub/c.png"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (root / "sub/index.htm").write_text("sub")
    (root / "empty").mkdir()
    (tmp_path / "secret.png").write_text("secret")
    (tmp_path / "rooted").mkdir()
    os.symlink(tmp_path / "secret.png", root / "link.png")
    os.symlink(tmp_path, root / "up")
    os.symlink(root / "sub", root / "alias")
    os.symlink("loop", root / "loop")
    return root


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("c.png", "sub/c.png"),
        ("./c.png", "sub/c.png"),
        (" c.\npng ", "sub/c.png"),
        ("c.png?v=1#top", "sub/c.png"),
        ("../a%20b.png", "a b.png"),
        ("../a b.png", "a b.png"),
        ("..\\a b.png", "a b.png"),
        ("/a b.png", "a b.png"),
        ("/sub/../a b.png", "a b.png"),
        ("../page.php?id=3", "page.php?id=3"),
        ("../page.php%3Fid=3", "page.php?id=3"),
        ("../p%20q.png", "p%20q.png"),
        ("%63.png", "sub/c.png"),
        ("..", "index.html"),
        ("/", "index.html"),
        (".", "sub/index.htm"),
        ("/alias/c.png", "sub/c.png"),
    ],
)
def test_references_are_found(site, url, name):
    assert locate(url, site / "sub", site) == (site / name).resolve()


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("none.png", "missing"),
        ("/empty", "missing"),
        ("/loop", "missing"),
        ("n" * 5000, "missing"),
        ("/".join("n" * 5000), "missing"),
        ("\ud800", "missing"),
        ("%ff%fe", "missing"),
        ("a\0b", "with broken addresses"),
        ("%00", "with broken addresses"),
        ("", "within the same page"),
        ("#top", "within the same page"),
        ("?q=1", "within the same page"),
        ("http://example.org/a.png", "on other hosts"),
        ("HTTPS:a.png", "on other hosts"),
        ("//example.org/a.png", "on other hosts"),
        ("\\\\host\\a.png", "on other hosts"),
        ("file://host/a.png", "on other hosts"),
        ("mailto:a@example.org", "with addresses of other kinds"),
        ("javascript:void(0)", "with addresses of other kinds"),
        ("data:,x", "with addresses of other kinds"),
    ],
)
def test_references_that_lead_nowhere_say_why(site, url, reason):
    with pytest.raises(ResourceError) as caught:
        locate(url, site / "sub", site)
    assert caught.value.reason == reason
    assert not isinstance(caught.value, OutsideError)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "url",
    [
        "../../secret.png",
        "/../secret.png",
        "%2e%2e/%2e%2e/secret.png",
        "..\\..\\secret.png",
        "..%5c..%5csecret.png",
        "../../../../../../../../etc/passwd",
        "file:///etc/passwd",
        "C:\\secret.png",
        "/link.png",
        "/up/secret.png",
        "../../rooted/x.png",
    ],
)
def test_nothing_outside_is_found(site, url):
    with pytest.raises(OutsideError, match="outside the folder"):
        locate(url, site / "sub", site)


def test_addresses_of_files_may_lead_inside(site):
    inside = (site / "sub/c.png").resolve()
    assert locate(inside.as_uri(), site, site) == inside
    assert locate(f"file://localhost{inside}", site, site) == inside


@settings(max_examples=200)
@given(
    url=st.lists(
        st.sampled_from(
            ["..", "%2e%2e", "/", "\\", "up", "link.png", "a b.png", "?", "#"]
        )
        | st.text(max_size=2),
        max_size=8,
    ).map("".join)
)
def test_whatever_is_found_lies_inside(url, tmp_path_factory):
    root = tmp_path_factory.getbasetemp() / "inside" / "root"
    if not root.exists():
        root.mkdir(parents=True)
        (root.parent / "a b.png").write_text("secret")
        (root / "a b.png").write_text("open")
        os.symlink(root.parent, root / "up")
        os.symlink(root.parent / "a b.png", root / "link.png")
    try:
        found = locate(url, root, root)
    except ResourceError:
        return
    assert found == (root / "a b.png").resolve()


def test_no_file_outside_the_folder_is_opened(site):
    (site / "page.html").write_text(
        "<img src='/link.png'><img src='../secret.png'><img src='up/secret.png'>"
        f"<img src='{(site.parent / 'secret.png').as_uri()}'><svg><image "
        "href='../secret.png'/></svg><p>text"
    )
    program = textwrap.dedent(
        """
        import sys
        opened = []
        sys.addaudithook(
            lambda event, args: event == "open" and opened.append(str(args[0]))
        )
        from hsa_pyg.converters import DocumentConverter
        signal = DocumentConverter().file(sys.argv[1])
        print([name for name in opened if name.endswith(".png")])
        print(dict(signal.dropped))
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(site / "page.html")],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout.splitlines() == ["[]", "{'pictures outside the folder': 5}"]


class CountingReader(PictureReader):
    def __init__(self):
        super().__init__(patch=8)
        self.reads = 0

    def read(self, content, name):
        self.reads += 1
        return super().read(content, name)


def test_pictures_are_decoded_once_and_again_when_they_change(tmp_path, monkeypatch):
    path = tmp_path / "a.png"
    path.write_bytes(png())
    (tmp_path / "same.png").write_bytes(png())
    (tmp_path / "sub").mkdir()
    reads = []
    plain = Path.read_bytes
    monkeypatch.setattr(
        Path, "read_bytes", lambda self: (reads.append(self.name), plain(self))[1]
    )
    reader = CountingReader()
    find = PictureFinder(reader, tmp_path)
    dropped = Counter()
    first = find("a.png", dropped)
    assert find("a.png?again", dropped) is first
    assert find("same.png", dropped) is first
    below = find.beside(tmp_path / "sub", tmp_path)
    assert below("../a.png", dropped) is first
    assert (reader.reads, reads) == (1, ["a.png", "same.png"])
    copied = pickle.loads(pickle.dumps(find))
    assert copied("a.png", dropped).key == first.key
    assert copied.reader.reads == 2
    path.write_bytes(png("blue", (16, 16)))
    assert find("a.png", dropped).key != first.key
    assert not dropped


def test_the_cache_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(resources, "_LARGEST_CACHE", 2 * 3 * 64 * 4)
    reader = CountingReader()
    find = PictureFinder(reader, tmp_path)
    for color in ("red", "green", "blue"):
        (tmp_path / f"{color}.png").write_bytes(png(color))
        assert find(f"{color}.png", Counter()) is not None
    assert find("blue.png", Counter()) is not None
    assert reader.reads == 3
    assert find("red.png", Counter()) is not None
    assert reader.reads == 4


def test_too_large_and_unreadable_files_are_counted(tmp_path, monkeypatch):
    (tmp_path / "a.png").write_bytes(png())
    dropped = Counter()
    monkeypatch.setattr(resources, "_LARGEST_FILE", 10)
    assert PictureFinder(PictureReader(), tmp_path)("a.png", dropped) is None
    monkeypatch.undo()

    def refuse(self):
        raise PermissionError(13, "no")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert PictureFinder(PictureReader(), tmp_path)("a.png", dropped) is None
    assert dropped == {
        "pictures that are too large": 1,
        "pictures that cannot be read": 1,
    }


DRAWING = "<svg xmlns='http://www.w3.org/2000/svg' width='8' height='8'/>"


@pytest.mark.parametrize(
    "src",
    [
        "data:image/png;base64," + base64.b64encode(png()).decode(),
        " DATA:image/png;charset=x ; base64 ,"
        + base64.b64encode(png()).decode("ascii"),
        "data:;base64," + base64.b64encode(png()).decode().rstrip("="),
        f"data:image/svg+xml,{DRAWING}",
        "data:image/svg+xml," + DRAWING.replace("<", "%3C").replace(" ", "%20"),
    ],
)
def test_pictures_within_the_document_need_no_folder(src):
    dropped = Counter()
    picture = PictureFinder(PictureReader(patch=8), None)(src, dropped)
    assert (picture.patches.height, picture.patches.width) == (8, 8)
    assert not dropped


@pytest.mark.parametrize(
    ("src", "reason"),
    [
        ("data:image/png;base64,@", "that cannot be decoded"),
        ("data:image/png;base64,A", "with broken addresses"),
        ("data:image/png", "with broken addresses"),
        ("data:,", "that cannot be decoded"),
        ("a.png", "in files, of a document that is none"),
        ("http://example.org/a.png", "on other hosts"),
        (" ", "without an address"),
        ("#x", "within the same page"),
    ],
)
def test_what_a_document_without_a_folder_cannot_show_is_counted(src, reason):
    dropped = Counter()
    assert PictureFinder(PictureReader(), None)(src, dropped) is None
    assert dropped == {f"pictures {reason}": 1}
