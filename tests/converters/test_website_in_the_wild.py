"""A whole site as it is in the wild: what was found, and what it takes."""

import gc
import hashlib
import operator
import os
import pickle
import subprocess
import sys
import tarfile
import weakref
from collections import Counter
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import lxml.html
import pytest
import torch

from hsa_pyg.converters import ROLES, PictureReader, Website, from_website
from hsa_pyg.converters.assemble import walk
from hsa_pyg.converters.html import parse_html
from hsa_pyg.converters.resources import PictureFinder
from hsa_pyg.converters.sentences import split_lines

ARCHIVE = (
    Path(__file__).parents[2].parent / "shared/data/sqlite_site/sqlite_site.tar.xz"
)


@pytest.fixture(scope="module")
def sqlite_folder(tmp_path_factory):
    if not ARCHIVE.exists():
        pytest.skip("the whole site of SQLite is not at ../shared/data/sqlite_site")
    folder = tmp_path_factory.mktemp("sqlite")
    with tarfile.open(ARCHIVE) as files:
        files.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module")
def sqlite_signal(sqlite_folder):
    return from_website(sqlite_folder, progress=False)


# The one page that sends its readers on.
SENT_ON = {"sqlite.html": "cli.html"}
HOST = "http://site/"


def links_by_urls(tree, page, pages):
    """Number of links to other pages, by plain URLs."""
    links = Counter()
    for href in tree.xpath("//a/@href | //area/@href"):
        # Browsers take a backslash for a slash; one link of the site is just that.
        url = urlsplit(urljoin(HOST + page, href.strip().replace("\\", "/")))
        target = unquote(url.path).lstrip("/") or "index.html"
        target = SENT_ON.get(target, target)
        if url.netloc == "site" and target in pages and target != page:
            links[page, target] += 1
    return links


def count_by_urls(folder):
    """Links between pages and pictures shown, by another parser."""
    pages = {path.relative_to(folder).as_posix() for path in folder.rglob("*.html")}
    links, pictures = Counter(), {}
    for page in pages:
        parser = lxml.html.HTMLParser(huge_tree=True)
        tree = lxml.html.fromstring((folder / page).read_bytes(), parser=parser)
        links += links_by_urls(tree, page, pages)
        pictures[page] = set()
        for src in tree.xpath("//img/@src"):
            url = urlsplit(urljoin(HOST + page, src.strip()))
            path = folder / unquote(url.path).lstrip("/")
            if url.netloc == "site" and path.is_file():
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                pictures[page].add(digest)
    return pages, links, pictures


def test_every_page_link_and_picture_is_there(sqlite_folder, sqlite_signal):
    pages, links, pictures = count_by_urls(sqlite_folder)
    signal = sqlite_signal
    signal.validate()
    assert len(pages) > 750
    paths = signal["page"].path
    assert set(paths) == pages
    assert len(paths) == len(pages)

    edges = signal["page", "links_to", "page"]
    ours = {
        (paths[source], paths[target]): count
        for (source, target), count in zip(
            edges.edge_index.T.tolist(), edges["count"].tolist(), strict=True
        )
    }
    assert ours == dict(links)
    assert sum(ours.values()) > 30_000

    # Every picture that a page refers to and that is there has leaves. Beside them
    # there are the drawings that stand in the pages themselves.
    above = signal["patch", "child_of", "image"].edge_index[1]
    assert above.bincount(minlength=signal["image"].num_nodes).min() > 0
    shown = shown_pictures(sqlite_folder, paths)
    assert signal["image"].num_nodes == len(set().union(*shown.values()))
    assert pictures_of_pages(signal) == {
        paths.index(page): len(keys) for page, keys in shown.items() if keys
    }
    for page, files in pictures.items():
        assert files <= shown[page]
        if files < shown[page]:
            assert b"<svg" in (sqlite_folder / page).read_bytes()
    assert len(set().union(*pictures.values())) == 107
    broken = {name for name, _ in signal.dropped if name.startswith("pictures that")}
    assert broken == set()


def shown_pictures(folder, paths):
    """The digests of the pictures that the reader of pages finds in each."""
    find = PictureFinder(PictureReader(), folder, folder)
    shown = {}
    for path in paths:
        file = folder / path
        page = parse_html(
            file.read_bytes(), split_lines, resolve=find.beside(file.parent)
        )
        blocks = [block for block in walk(page.block) if block.picture is not None]
        shown[path] = {block.picture.key for block in blocks}
    return shown


def pictures_of_pages(signal):
    """Number of different pictures that each page shows."""
    parents = {
        kind: dict(signal["block", "child_of", kind].edge_index.T.tolist())
        for kind in ("block", "section", "page")
    }
    sections = {
        kind: dict(signal["section", "child_of", kind].edge_index.T.tolist())
        for kind in ("block", "section", "page")
    }
    shown = set()
    for figure, image in signal["block", "shows", "image"].edge_index.T.tolist():
        kind, node = "block", figure
        while kind != "page":
            above = parents if kind == "block" else sections
            kind, node = next(
                (other, above[other][node]) for other in above if node in above[other]
            )
        shown.add((node, image))
    return Counter(page for page, _ in shown)


def test_the_words_of_a_page_are_those_that_are_seen(sqlite_folder):
    """The leaves, joined by their spans, are the text that another parser sees."""
    site = Website(sqlite_folder, progress=False)
    for number in range(0, len(site), 40):
        page = site[number]
        (text,) = page["page"].text
        spans = page["token"].span.tolist()
        alt = {ROLES.index("alt")}
        roles = page["paragraph"].role[paragraph_of_tokens(page)].tolist()
        words = "".join(
            text[start:stop]
            for (start, stop), role in zip(spans, roles, strict=True)
            if role not in alt
        )
        content = (sqlite_folder / page["page"].path[0]).read_bytes()
        assert words == "".join(seen_text(content).split())


def paragraph_of_tokens(page):
    sentence = page["token", "child_of", "sentence"].edge_index[1]
    return page["sentence", "child_of", "paragraph"].edge_index[1][sentence]


def seen_text(content):
    tree = lxml.html.document_fromstring(content)
    by_style = "//*[contains(@style, 'display:none')]"
    for hidden in tree.xpath(f"//script | //style | //head | //svg | {by_style}"):
        hidden.drop_tree()
    return tree.body.text_content()


PROGRAM = """
import sys
from pathlib import Path

import torch

from hsa_pyg.converters import from_website

torch.save(from_website(sys.argv[1], progress=False), sys.argv[2])
status = Path("/proc/self/status").read_text()
print(status.partition("VmHWM:")[2].split()[0])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems count otherwise")
def test_another_process_makes_the_same_of_it_within_a_gigabyte(
    sqlite_folder, sqlite_signal, tmp_path
):
    environment = {**os.environ, "PYTHONHASHSEED": "7", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, sqlite_folder, tmp_path / "site.pt"],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
        env=environment,
    )
    assert int(done.stdout) < 1_000_000  # kB, those of torch itself among them
    other = torch.load(tmp_path / "site.pt", weights_only=True)
    assert_same(other, sqlite_signal)


def assert_same(one, other):
    for first, second in zip(one.stores, other.stores, strict=True):
        assert list(first.keys()) == list(second.keys())
        for name, value in first.items():
            same = torch.equal if torch.is_tensor(value) else operator.eq
            assert same(value, second[name]), name


def test_no_more_than_a_page_is_in_memory(tmp_path):
    text = "It rained. " * 2_000
    for number in range(6):
        (tmp_path / f"{number}.html").write_text(f"<a href=0.html>0</a><p>{text}")
    site = Website(tmp_path, progress=False)
    assert len(pickle.dumps(site)) < len(text)
    pages = []
    for page in site:
        pages.append(weakref.ref(page))
        assert len(page["page"].text[0]) > len(text) - 10
        # This page, and the one before it, which the loop held until now.
        gc.collect()
        assert sum(page() is not None for page in pages) <= 2
    assert len(pickle.dumps(site)) < len(text)
