import tarfile

import pytest
import torch

from hsa_pyg.datasets import SqliteSite
from hsa_pyg.datasets.sqlite_site import _unpacked, page_class


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return SqliteSite(tmp_path_factory.mktemp("sqlite"), log=False)


def test_the_shipped_pages(site):
    assert len(site) == 81
    labels = torch.cat([page.y for page in site])
    assert labels.bincount(minlength=site.num_classes).min() >= 12
    for page in site:
        page.validate()
        folder = page["page"].path[0].rpartition("/")[0] or "manual"
        assert site.classes[int(page.y)] == folder
        assert page["image"].num_nodes > 0
    assert site.links.size(1) > 600
    assert "vfs.html" in site.paths


def test_pages_of_another_site_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"'blog/a.html' is of no known part"):
        page_class("blog/a.html")
    page = tmp_path / "a.html"
    page.write_text("<p>One.")
    with tarfile.open(tmp_path / "other.tar", "w") as files:
        files.add(page, "blog/a.html")
    with pytest.raises(ValueError, match="of no known part"):
        SqliteSite(tmp_path / "root", raw_archive=tmp_path / "other.tar", log=False)


def test_broken_and_missing_archives_are_told(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no archive"):
        SqliteSite(tmp_path, raw_archive=tmp_path / "none.tar")
    broken = tmp_path / "broken.tar"
    for content in (b"", b"no archive", b"\xfd7zXZ\x00half"):
        broken.write_bytes(content)
        with pytest.raises(ValueError, match=r"broken.tar' is no tar archive"):
            SqliteSite(tmp_path, raw_archive=broken)


def test_an_archive_writes_nothing_outside_of_its_folder(tmp_path):
    page = tmp_path / "a.html"
    page.write_text("<p>One.")
    with tarfile.open(tmp_path / "evil.tar", "w") as files:
        files.add(page, "../../../escaped.html")
    with pytest.raises(ValueError, match=r"evil.tar' is no tar archive"):
        SqliteSite(tmp_path / "root", raw_archive=tmp_path / "evil.tar", log=False)
    assert not list(tmp_path.rglob("escaped.html"))


def test_another_process_may_have_unpacked_it_meanwhile(tmp_path, monkeypatch):
    page = tmp_path / "a.html"
    page.write_text("<p>One.")
    with tarfile.open(tmp_path / "site.tar", "w") as files:
        files.add(page, "a.html")
    first = _unpacked(tmp_path / "site.tar", tmp_path / "raw")
    monkeypatch.setattr("pathlib.Path.is_dir", late(first))
    assert _unpacked(tmp_path / "site.tar", tmp_path / "raw") == first
    assert [path.name for path in (tmp_path / "raw").iterdir()] == [first.name]


def late(folder):
    """Says once that a folder is not there."""
    answers = iter([False])
    return lambda path: next(answers, True) if path == folder else path.exists()
