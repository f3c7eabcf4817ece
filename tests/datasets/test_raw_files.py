import random
import tarfile
import zipfile
from io import BytesIO

import pytest

from hsa_pyg.datasets import raw_files
from hsa_pyg.datasets.raw_files import (
    check_same,
    copy_whole,
    fetch,
    part_of,
    reading_tar,
    reading_zip,
)


def test_a_copy_is_whole_or_not_there(tmp_path, monkeypatch):
    source = tmp_path / "source"
    source.write_bytes(b"content")
    copy_whole(source, tmp_path / "deep/target")
    assert (tmp_path / "deep/target").read_bytes() == b"content"

    def interrupted(source, target):
        target.write_bytes(b"con")
        raise KeyboardInterrupt

    monkeypatch.setattr(raw_files.shutil, "copyfile", interrupted)
    with pytest.raises(KeyboardInterrupt):
        copy_whole(source, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_another_file_is_refused(tmp_path):
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "b").write_bytes(b"2")
    check_same(tmp_path / "a", tmp_path / "a", "raw")
    with pytest.raises(ValueError, match=r"b' is another file than raw='.*a': use an"):
        check_same(tmp_path / "a", tmp_path / "b", "raw")


@pytest.fixture
def download(monkeypatch):
    """Downloads that give what the test puts into them; an exception is raised."""
    given = {}

    def answer(url, folder, log, filename):
        if isinstance(given["content"], Exception):
            raise given["content"]
        with open(f"{folder}/{filename}", "wb") as file:
            file.write(given["content"])

    monkeypatch.setattr(raw_files, "download_url", answer)
    return given


def accept(path):
    return None


def refuse(path):
    raise ValueError("no archive")


URL = "https://example.org/data/file.tar"


def test_a_download_is_kept_under_its_name(download, tmp_path):
    download["content"] = b"all"
    assert fetch(URL, tmp_path, "", accept, False) == tmp_path / "file.tar"
    assert [path.name for path in tmp_path.iterdir()] == ["file.tar"]


def test_a_download_that_is_refused_does_not_stay(download, tmp_path):
    download["content"] = b"<html>"
    with pytest.raises(ValueError, match="no archive"):
        fetch(URL, tmp_path, "", refuse, False)
    assert list(tmp_path.iterdir()) == []


def test_without_network_the_file_is_named(download, tmp_path):
    download["content"] = OSError("unreachable")
    with pytest.raises(
        FileNotFoundError, match=r"file.tar' is not.*unreachable.*Ask\."
    ):
        fetch(URL, tmp_path, "Ask.", accept, False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz", "w:bz2"])
def test_archives_are_read_and_parts_of_them_named(mode, tmp_path):
    path = tmp_path / ("a.tar" + mode[1:].replace(":", "."))
    with tarfile.open(path, mode) as archive:
        for number in range(50):
            member = tarfile.TarInfo(f"{number}.txt")
            member.size = 1000
            archive.addfile(member, BytesIO(random.randbytes(1000)))
    with reading_tar(path) as archive:
        assert sum(member.size for member in archive) == 50_000
    content = path.read_bytes()
    for kept in (0, 100, 300, len(content) // 2):
        path.write_bytes(content[:kept])
        with pytest.raises(ValueError, match="is no tar archive, or a part of one"):
            read_all(path)
    with pytest.raises(FileNotFoundError):
        read_all(tmp_path / "none.tar")


def read_all(path):
    with reading_tar(path) as archive:
        for member in archive:
            archive.extractfile(member).read()


def test_parts_of_zip_archives_are_named(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.txt", random.randbytes(1000).hex())
    with reading_zip(path) as archive:
        assert len(archive.read("a.txt")) == 2000
    content = bytearray(path.read_bytes())
    content[100:200] = bytes(100)
    for broken in (b"", content[:500], content):
        path.write_bytes(broken)
        with (
            pytest.raises(ValueError, match=r"a.zip' is no zip archive, or a part"),
            reading_zip(path) as archive,
        ):
            archive.read("a.txt")


def test_each_process_writes_its_own_part(tmp_path, monkeypatch):
    first = part_of(tmp_path / "a.tar")
    monkeypatch.setattr(raw_files.os, "getpid", lambda: -1)
    assert part_of(tmp_path / "a.tar") != first
    assert first.parent == tmp_path
