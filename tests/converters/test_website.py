import copy
import hashlib
import pickle
import tarfile
from collections import Counter
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import lxml.html
import pytest
import torch
from PIL import Image
from torch_geometric.data import Batch
from torch_geometric.loader import DataLoader

from hsa_pyg.converters import (
    ROLES,
    PictureReader,
    Website,
    from_html,
    from_website,
    train_word_tokenizer,
)
from hsa_pyg.converters.assemble import walk
from hsa_pyg.converters.html import parse_html
from hsa_pyg.converters.resources import PictureFinder
from hsa_pyg.converters.sentences import split_lines

ARCHIVE = (
    Path(__file__).parents[2].parent / "shared/data/sqlite_site/sqlite_site.tar.xz"
)


@pytest.fixture
def folder(tmp_path):
    site = tmp_path / "site"
    (site / "sub").mkdir(parents=True)
    Image.new("RGB", (32, 16), "red").save(site / "logo.png")
    Image.new("RGB", (16, 16), "blue").save(site / "sub/own.png")
    (site / "a.html").write_text(
        "<title>First</title><img src=logo.png alt=Logo>"
        "<h1>Rain</h1><p>It rained. See <a href='sub/b.html'>b</a>."
    )
    (site / "sub/b.html").write_text(
        "<title>Second</title><img src=../logo.png><p>Sun."
        "<img src=own.png><img src=own.png><a href=../a.html>a</a>"
        "<a href=../a.html#x>again</a><img src=../../secret.png alt=Secret>"
    )
    (site / "void.html").write_text("<title>Nothing</title><script>x</script>")
    Image.new("RGB", (16, 16), "green").save(tmp_path / "secret.png")
    return site


def test_a_website_is_a_tree_of_pages_with_links(folder):
    signal = from_website(folder, progress=False)
    signal.validate()
    assert signal["page"].path == ["a.html", "sub/b.html", "void.html"]
    assert signal["page"].title == ["First", "Second", "Nothing"]
    assert signal["page"].text[0] == "Logo\n\nRain\n\nIt rained. See b."
    pages = signal["page", "child_of", "website"].edge_index
    assert pages.tolist() == [[0, 1, 2], [0, 0, 0]]
    links = signal["page", "links_to", "page"]
    assert links.edge_index.tolist() == [[0, 1], [1, 0]]
    assert links["count"].tolist() == [1, 2]
    assert signal.source == folder.as_posix()
    assert signal.dropped == [("pictures outside the folder", 1)]


def test_pictures_are_stored_once(folder):
    signal = from_website(folder, progress=False)
    assert signal["image"]["size"].tolist() == [[16, 32], [16, 16]]
    assert signal["image"].scaled.tolist() == [[16, 32], [16, 16]]
    assert signal["image"].patch_shape.tolist() == [[3, 16, 16]] * 2
    assert signal["patch"].x.shape == (3, 3 * 16 * 16)
    red, _, blue = (signal["patch"].x[number].view(3, -1) for number in range(3))
    assert red[:, 0].tolist() == [1, 0, 0]
    assert blue[:, 0].tolist() == [0, 0, 1]
    shows = signal["block", "shows", "image"].edge_index
    assert Counter(shows[1].tolist()) == {0: 2, 1: 2}
    assert signal["image", "child_of", "website"].edge_index.tolist() == [[0], [0]]
    assert signal["image", "child_of", "block"].edge_index[0].tolist() == [1]


def test_pages_are_made_one_at_a_time(folder):
    site = Website(folder, progress=False)
    assert len(site) == 3
    assert repr(site) == f"Website({folder.as_posix()!r}, pages=3, links=2)"
    assert site.links.tolist() == [[0, 1], [1, 0]]
    assert site.link_counts.tolist() == [1, 2]
    pages = list(site)
    for page in pages:
        page.validate()
        assert page.schema == pages[0].schema
        types = {kind: page.schema.nodes[kind] for kind in site.schema().nodes}
        assert types == site.schema().nodes
    # Each page has its own copy of what it shows.
    assert [page["image"].num_nodes for page in pages] == [1, 2, 0]
    assert [page.hierarchy.num_leaves for page in pages[2:]] == [0]
    assert pages[1].dropped == [("pictures outside the folder", 1)]
    assert torch.equal(site[-2]["token"].x, pages[1]["token"].x)
    with pytest.raises(IndexError):
        site[3]
    batch = Batch.from_data_list(pages)
    batch.validate()
    assert batch[1]["page"].path == ["sub/b.html"]


def test_pages_are_the_same_alone_and_in_the_site(folder):
    whole = from_website(folder, progress=False)
    pages = list(Website(folder, progress=False))
    for kind in ("token", "sentence", "paragraph", "block", "section"):
        spans = torch.cat([page[kind].span for page in pages])
        assert torch.equal(whole[kind].span, spans)
    ids = torch.cat([page["token"].x for page in pages])
    assert torch.equal(whole["token"].x, ids)


@pytest.mark.parametrize("start_method", ["fork", "spawn"])
def test_workers_read_pages(folder, start_method):
    loader = DataLoader(
        Website(folder, progress=False),
        batch_size=3,
        num_workers=1,
        multiprocessing_context=start_method,
    )
    (batch,) = loader
    batch.validate()
    assert batch["page"].title == [["First"], ["Second"], ["Nothing"]]


def test_the_same_files_give_the_same_tensors(folder):
    first = from_website(folder, progress=False)
    second = from_website(folder, progress=False)
    for one, other in zip(first.stores, second.stores, strict=True):
        assert list(one.keys()) == list(other.keys())
        for name, value in one.items():
            same = torch.equal if torch.is_tensor(value) else (lambda a, b: a == b)
            assert same(value, other[name])


def test_settings_reach_the_pages(folder):
    tokenizer = train_word_tokenizer(["it rained"], min_frequency=1)
    signal = from_website(
        folder,
        start="sub/b.html",
        max_pages=1,
        tokenizer=tokenizer,
        max_tokens=2,
        images=PictureReader(patch=8, channels=1, tree="quadtree"),
        keep_text=False,
        progress=False,
        y=torch.tensor([3]),
    )
    signal.validate()
    assert signal["page"].path == ["sub/b.html"]
    assert "text" not in signal["page"]
    assert signal["token"].x.tolist() == [1, 1]
    assert signal["patch"].x.shape[1] == 64
    assert "quadrant" in signal.node_types
    assert signal.y.tolist() == [3]
    dropped = dict(signal.dropped)
    assert dropped["links to pages left out"] == 2
    assert dropped["pages beyond max_pages"] == 1
    assert dropped["tokens beyond max_tokens"] > 0
    bare = from_website(folder, images=False, progress=False)
    assert "image" not in bare.node_types


def test_pictures_behind_the_last_kept_token_are_left_out(folder):
    cut = {"max_tokens": 2, "progress": False}
    (folder / "a.html").write_text("<p>It rained all day.<p><img src=logo.png>")
    page = Website(folder, start="a.html", **cut)[0]
    whole = from_website(folder, start="a.html", **cut)
    for signal in (page, whole):
        signal.validate()
        assert signal["token"].num_nodes == 2
        assert signal["image"].num_nodes == 0
        assert dict(signal.dropped)["tokens beyond max_tokens"] == 3


def test_boilerplate_is_left_out_if_asked(tmp_path):
    pytest.importorskip("trafilatura", reason="trafilatura is not installed")
    story = "<p>The storm came in the night and took the roof of the mill. " * 9
    (tmp_path / "a.html").write_text(
        f"<nav><a href=b.html>Home</a></nav><article><h1>A storm</h1>{story}</article>"
    )
    (kept,) = Website(tmp_path, progress=False)
    (main,) = Website(tmp_path, main_content=True, progress=False)
    assert "Home" in kept["page"].text[0]
    assert "Home" not in main["page"].text[0]
    assert "roof of the mill" in main["page"].text[0]


def test_a_site_is_saved_copied_and_pickled(folder, tmp_path):
    signal = from_website(folder, progress=False)
    torch.save(signal, tmp_path / "site.pt")
    loaded = torch.load(tmp_path / "site.pt", weights_only=True)
    for other in (loaded, copy.deepcopy(signal), pickle.loads(pickle.dumps(signal))):
        other.validate()
        assert torch.equal(other["token"].x, signal["token"].x)
        assert other["page"].title == signal["page"].title


def test_a_site_without_a_leaf_is_an_error(tmp_path):
    (tmp_path / "a.html").write_text("<p> ")
    with pytest.raises(ValueError, match="are empty: none has a word or a picture"):
        from_website(tmp_path, progress=False)


def test_one_page_may_show_pictures_of_its_folder_alone(folder):
    page = from_html(folder / "sub/b.html")
    assert page["image"].num_nodes == 1
    assert page.dropped == [("pictures outside the folder", 2)]
    page = from_html(folder / "sub/b.html", root=folder)
    assert page["image"].num_nodes == 2
    assert page.dropped == [("pictures outside the folder", 1)]


@pytest.fixture(scope="module")
def sqlite_folder(tmp_path_factory):
    if not ARCHIVE.exists():
        pytest.skip("the whole site of SQLite is not at ../shared/data/sqlite_site")
    folder = tmp_path_factory.mktemp("sqlite")
    with tarfile.open(ARCHIVE) as files:
        files.extractall(folder, filter="data")
    return folder


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


def test_the_whole_site_of_sqlite(sqlite_folder):
    pages, links, pictures = count_by_urls(sqlite_folder)
    signal = from_website(sqlite_folder, progress=False)
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
    for number, page in enumerate(Website(sqlite_folder, progress=False)):
        if number % 40:
            continue
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
