import copy
import pickle
from collections import Counter

import pytest
import torch
from PIL import Image
from torch_geometric.data import Batch
from torch_geometric.loader import DataLoader

from hsa_pyg.converters import (
    PictureReader,
    Website,
    from_html,
    from_website,
    train_word_tokenizer,
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
    with pytest.raises(IndexError, match="There is no page 3: the site has 3 pages"):
        site[3]
    assert [page["page"].path for page in site[1:]] == [["sub/b.html"], ["void.html"]]
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
