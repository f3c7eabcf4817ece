import pickle

import pytest
import torch
from torch_geometric.loader import DataLoader

from hsa_pyg.converters import HashedWords, train_word_tokenizer
from hsa_pyg.datasets import WebsitePages


@pytest.fixture
def site(tmp_path):
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "a.html").write_text("<title>A</title><p>One. <a href=b.html>b</a>")
    (folder / "b.html").write_text("<p>Two three.<a href=a.html>1</a><a href=a.html>")
    (folder / "c.html").write_text("<p>Four.<a href=/none.html>1</a>")
    return folder


def pages_of(tmp_path, site, **settings):
    return WebsitePages(tmp_path / "root", site, log=False, **settings)


def test_pages_and_links_are_kept_on_disk(tmp_path, site):
    pages = pages_of(tmp_path, site)
    assert len(pages) == 3
    assert pages.paths == ["a.html", "b.html", "c.html"]
    assert pages.titles == ["A", "", ""]
    assert pages.links.tolist() == [[0, 1], [1, 0]]
    assert pages.dropped == {"links missing": 1}
    for page in pages:
        page.validate()
        assert page.schema == pages[0].schema
    assert pages[1]["token"].x.numel() == 4
    graph = pages.page_graph()
    assert graph.num_nodes == 3
    assert graph.edge_weight.tolist() == [1, 2]


def test_what_is_left_out_of_links_and_pages_is_counted(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / f"{name}.html").write_text("<a href=no.html>x</a><img src=no.png>")
    for _ in range(2):
        pages = WebsitePages(tmp_path / "root", folder, log=False)
        assert pages.dropped == {"links missing": 2, "pictures missing": 2}


def test_a_second_run_reads_what_the_first_one_kept(tmp_path, site):
    first = pages_of(tmp_path, site)[1]
    for path in site.iterdir():
        path.unlink()
    again = pages_of(tmp_path, site)
    assert torch.equal(again[1]["token"].x, first["token"].x)
    assert again[1]["page"].text == first["page"].text
    # Other settings are other data, which cannot be made without the pages.
    with pytest.raises(ValueError, match="has no page"):
        pages_of(tmp_path, site, max_tokens=2)
    with pytest.raises(ValueError, match="has no page"):
        pages_of(tmp_path, site, force_reload=True)


def test_what_an_interrupted_run_left_is_made_again(tmp_path, site, monkeypatch):
    class Interrupted(WebsitePages):
        def _labelled(self, page):
            if page["page"].path == ["b.html"]:
                raise KeyboardInterrupt
            return page

        def _file_names(self):
            return ["pages.db", "links.pt"]

    with pytest.raises(KeyboardInterrupt):
        Interrupted(tmp_path / "root", site, log=False)
    monkeypatch.setattr(Interrupted, "_labelled", lambda self, page: page)
    pages = Interrupted(tmp_path / "root", site, log=False)
    assert [page["page"].path for page in pages] == [
        ["a.html"],
        ["b.html"],
        ["c.html"],
    ]


def test_settings_and_tokenizers_have_files_of_their_own(tmp_path, site):
    words = train_word_tokenizer(["one two"], min_frequency=1)
    for settings in (
        {},
        {"max_tokens": 1},
        {"images": False},
        {"tokenizer": words},
        {"tokenizer": HashedWords(100)},
        {"tokenizer": "characters"},
        {"start": "a.html"},
        {"max_pages": 1},
        {"keep_text": False},
    ):
        pages_of(tmp_path, site, **settings)
    assert len(list((tmp_path / "root/processed").glob("*.db"))) == 9
    with pytest.raises(TypeError, match="cannot tell from another one"):
        pages_of(tmp_path, site, tokenizer=lambda texts: [])


@pytest.mark.parametrize("start_method", ["fork", "spawn"])
def test_workers_read_pages_after_the_parent_did(tmp_path, site, start_method):
    pages = pages_of(tmp_path, site)
    assert pages[0]["page"].path == ["a.html"]
    loader = DataLoader(
        pages,
        batch_size=2,
        num_workers=2,
        multiprocessing_context=start_method,
    )
    batches = list(loader)
    assert [batch["page"].path for batch in batches] == [
        [["a.html"], ["b.html"]],
        [["c.html"]],
    ]
    assert pickle.loads(pickle.dumps(pages))[2]["page"].path == ["c.html"]


def test_a_transform_sees_every_page(tmp_path, site):
    def number(signal):
        signal.y = torch.tensor([len(signal["token"].x)])
        return signal

    pages = pages_of(tmp_path, site, transform=number)
    assert [int(page.y) for page in pages] == [3, 4, 3]
    assert [int(page.y) for page in pages.__getitems__([0, 2])] == [3, 3]


def test_a_broken_database_is_told(tmp_path, site):
    pages = pages_of(tmp_path, site)
    pages.close()
    with open(pages.processed_paths[0], "wb") as database:
        database.write(b"no database" * 100)
    with pytest.raises(ValueError, match="force_reload"):
        pages_of(tmp_path, site)[0]
