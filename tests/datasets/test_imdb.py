import itertools
import tarfile
from io import BytesIO
from pathlib import Path

import pytest
import torch
from torch_geometric.loader import DataLoader

from hsa_pyg.datasets import raw_files
from hsa_pyg.datasets.imdb import IMDB, URL

REAL = Path(__file__).parents[2].parent / "shared" / "data" / "imdb" / "imdb.tar.xz"
TEXT = "Bad &amp; long.<br /><br />Do <i>not</i> go.<br />Really."


def write_reviews(folder, parts=("train", "test"), number=10):
    for part, (label, stars) in itertools.product(parts, (("neg", 2), ("pos", 9))):
        (folder / part / label).mkdir(parents=True)
        for i in range(number):
            path = folder / part / label / f"{i}_{stars}.txt"
            path.write_text(f"{TEXT} {part} {label} {i}")
    (folder / "train" / "unsup").mkdir()
    for i in range(3):
        (folder / "train" / "unsup" / f"{i}_0.txt").write_text("No stars.")
    (folder / "README").write_text("about")
    (folder / "train" / "urls_pos.txt").write_text("http://")
    return folder


@pytest.fixture
def folder(tmp_path):
    return write_reviews(tmp_path / "aclImdb")


def pack(folder, path, mode):
    with tarfile.open(path, mode) as archive:
        archive.add(folder, "aclImdb")
    return path


@pytest.fixture
def archive(folder, tmp_path):
    return pack(folder, tmp_path / "aclImdb_v1.tar.gz", "w:gz")


def test_breaks_become_lines_and_paragraphs(archive, tmp_path):
    imdb = IMDB(tmp_path / "root", "test", raw_archive=archive, log=False)
    assert len(imdb) == 20
    assert imdb.sources[0] == "test/neg/0_2.txt"
    assert imdb.text(0) == ("Bad &amp; long.\n\nDo <i>not</i> go.\nReally. test neg 0")
    first = imdb[0]
    assert first.validate()
    assert first.schema == imdb[19].schema
    assert first["paragraph"].num_nodes == 2
    assert (first.y.tolist(), first.rating.tolist()) == ([0], [2])
    last = imdb[19]
    assert (last.y.tolist(), last.rating.tolist()) == ([1], [9])
    spans = first["token"].span.tolist()
    text = imdb.text(0)
    assert "".join(text[a:b] for a, b in spans) == "".join(text.split())


def test_val_is_drawn_from_train_where_there_is_none(archive, tmp_path):
    parts = {
        split: IMDB(tmp_path / "root", split, raw_archive=archive, log=False)
        for split in ("train", "val", "test")
    }
    assert [len(part) for part in parts.values()] == [16, 4, 20]
    for part in parts.values():
        assert sum(signal.y.item() for signal in part) == len(part) // 2
    # Known by name: a change here changes everyone's validation set.
    assert parts["val"].sources == [
        "train/neg/0_2.txt",
        "train/neg/7_2.txt",
        "train/pos/0_9.txt",
        "train/pos/5_9.txt",
    ]
    whole = IMDB(tmp_path / "root", log=False)
    assert whole.sources == [name for part in parts.values() for name in part.sources]


def test_a_folder_val_is_used(tmp_path):
    folder = write_reviews(tmp_path / "imdb", ("train", "val", "test"), 3)
    val = IMDB(tmp_path / "root", "val", raw_dir=folder, log=False)
    assert val.sources[0] == "val/neg/0_2.txt"
    assert len(val) == 6
    assert len(IMDB(tmp_path / "root", "train", log=False)) == 6


def test_unlabelled_reviews_are_counted(archive, tmp_path):
    imdb = IMDB(tmp_path / "root", "test", raw_archive=archive, log=False)
    assert imdb.report == {"reviews without a label (unsup)": 3}


@pytest.mark.parametrize("form", ["folder", "tar", "tar.gz", "tar.xz", "lies there"])
def test_every_form_gives_the_same(form, folder, archive, tmp_path):
    expected = IMDB(tmp_path / "expected", raw_archive=archive, log=False)
    root = tmp_path / "root"
    given = {}
    if form == "folder":
        given["raw_dir"] = folder
    elif form == "lies there":
        (root / "raw").mkdir(parents=True)
        folder.rename(root / "raw" / "aclImdb")
    else:
        mode = {"tar": "w", "tar.gz": "w:gz", "tar.xz": "w:xz"}[form]
        given["raw_archive"] = pack(folder, tmp_path / f"other.{form}", mode)
    imdb = IMDB(root, log=False, **given)
    assert imdb.report == expected.report
    assert imdb.raw_texts().texts == expected.raw_texts().texts
    assert imdb.text(7) == expected.text(7)
    for one, other in zip(imdb, expected, strict=True):
        assert one.source == other.source
        assert one["token"].x.equal(other["token"].x)


def test_a_second_start_reads_the_processed_files(archive, tmp_path, monkeypatch):
    first = IMDB(tmp_path / "root", "val", raw_archive=archive, log=False)
    monkeypatch.setattr(IMDB, "process", None)
    again = IMDB(tmp_path / "root", "val", log=False)
    assert again.sources == first.sources
    assert again.text(1) == first.text(1)


def test_batches_and_files_give_the_reviews_back(archive, tmp_path):
    imdb = IMDB(tmp_path / "root", "test", raw_archive=archive, log=False)
    (batch,) = DataLoader(imdb[[19, 0, 5]], batch_size=3)
    assert batch.validate()
    assert batch.rating.tolist() == [9, 2, 2]
    assert batch[0].source == imdb.sources[19]
    torch.save(imdb[3], tmp_path / "one.pt")
    one = torch.load(tmp_path / "one.pt", weights_only=True)
    assert one["token"].x.equal(imdb[3]["token"].x)


def test_workers_that_are_spawned_read_the_reviews(archive, tmp_path):
    imdb = IMDB(tmp_path / "root", "test", raw_archive=archive, log=False)
    loader = DataLoader(
        imdb[3:11],
        batch_size=4,
        num_workers=1,
        persistent_workers=True,
        multiprocessing_context="spawn",
    )
    for _ in range(2):
        found = [source for batch in loader for source in batch.source]
        assert found == imdb.sources[3:11]


@pytest.mark.parametrize("suffix", ["tar", "tar.gz", "tar.xz"])
def test_a_truncated_archive_is_named_and_leaves_nothing(suffix, folder, tmp_path):
    mode = {"tar": "w", "tar.gz": "w:gz", "tar.xz": "w:xz"}[suffix]
    broken = pack(folder, tmp_path / f"broken.{suffix}", mode)
    content = broken.read_bytes()
    broken.write_bytes(content[: len(content) // 2 + 100])
    with pytest.raises(
        ValueError, match=r"broken.tar.*is no tar archive, or a part of"
    ):
        IMDB(tmp_path / "root", raw_archive=broken, log=False)
    assert list((tmp_path / "root/raw").iterdir()) == []


def test_wrong_labels_are_named(folder, tmp_path):
    (folder / "test/neg/7_9.txt").write_text("Misplaced.")
    with pytest.raises(ValueError, match=r"'test/neg/7_9.txt' is labelled wrong: 9 st"):
        IMDB(tmp_path / "root", raw_dir=folder, log=False)


def test_other_files_are_not_taken_for_the_reviews(folder, tmp_path):
    with pytest.raises(ValueError, match=r"no file train/neg/NUMBER_STARS.txt"):
        IMDB(tmp_path / "root", raw_dir=folder / "train", log=False)
    with pytest.raises(FileNotFoundError, match=r"There is no .*nowhere"):
        IMDB(tmp_path / "root", raw_dir=tmp_path / "nowhere", log=False)
    path = tmp_path / "twice.tar"
    with tarfile.open(path, "w") as archive:
        for top in ("a", "b"):
            member = tarfile.TarInfo(f"{top}/train/neg/0_2.txt")
            archive.addfile(member, BytesIO())
    with pytest.raises(ValueError, match=r"has 'train/neg/0_2.txt' in two folders"):
        IMDB(tmp_path / "root", raw_archive=path, log=False)


def test_members_that_are_no_reviews_are_not_read(folder, tmp_path):
    path = pack(folder, tmp_path / "odd.tar", "w")
    with tarfile.open(path, "a") as archive:
        for name in (
            "../../test/neg/90_2.txt",
            "/test/neg/91_2.txt",
            "__MACOSX/aclImdb/test/neg/._92_2.txt",
            "aclImdb/test/neg/93.txt",
        ):
            archive.addfile(tarfile.TarInfo(name), BytesIO())
        link = tarfile.TarInfo("aclImdb/test/neg/94_2.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    assert len(IMDB(tmp_path / "root", "test", raw_archive=path, log=False)) == 20


def test_another_archive_than_the_kept_one_is_refused(archive, folder, tmp_path):
    IMDB(tmp_path / "root", "val", raw_archive=archive, log=False)
    (folder / "test/neg/0_2.txt").write_text("Changed.")
    other = pack(folder, tmp_path / "other.tar.gz", "w:gz")
    with pytest.raises(ValueError, match="is another file than raw_archive="):
        IMDB(tmp_path / "root", raw_archive=other)
    (tmp_path / "root/raw/second.tar").write_bytes(b"")
    with pytest.raises(ValueError, match=r"holds 'aclImdb.tar.gz' and 'second.tar'"):
        IMDB(tmp_path / "root")
    with pytest.raises(ValueError, match="raw_archive and raw_dir were both given"):
        IMDB(tmp_path / "new", raw_archive=other, raw_dir=folder)


def test_without_network_the_archive_is_named(tmp_path, monkeypatch):
    def offline(url, folder, log, filename):
        assert url == URL
        raise OSError("no network")

    monkeypatch.setattr(raw_files, "download_url", offline)
    with pytest.raises(FileNotFoundError, match=r"aclImdb_v1.tar.gz.*no network.*Put"):
        IMDB(tmp_path / "root", log=False)


def test_a_broken_download_does_not_stay_behind(archive, tmp_path, monkeypatch):
    content = archive.read_bytes()

    def online(url, folder, log, filename):
        (Path(folder) / filename).write_bytes(content)

    monkeypatch.setattr(raw_files, "download_url", online)
    content, whole = content[:400], content
    with pytest.raises(ValueError, match="is no tar archive, or a part of one"):
        IMDB(tmp_path / "root", log=False)
    content = whole
    assert len(IMDB(tmp_path / "root", "test", log=False)) == 20


@pytest.mark.skipif(not REAL.exists(), reason=f"{REAL} is not there")
def test_real_reviews(tmp_path):
    kept = []
    with (
        raw_files.reading_tar(REAL) as archive,
        tarfile.open(tmp_path / "some.tar", "w") as some,
    ):
        counts = dict.fromkeys(itertools.product(("train", "val", "test"), "np"), 0)
        for member in archive:
            parts = member.name.split("/")
            if not member.isfile() or len(parts) != 4:
                continue
            counts[parts[1], parts[2][0]] += 1
            if counts[parts[1], parts[2][0]] <= 60:
                some.addfile(member, archive.extractfile(member))
                kept.append(member.name)
    assert list(counts.values()) == [10_000] * 2 + [2_500] * 2 + [12_500] * 2
    imdb = IMDB(tmp_path, raw_archive=tmp_path / "some.tar", log=False)
    assert len(imdb) == len(kept) == 360
    assert len(IMDB(tmp_path, "val", log=False)) == 120
    several = sum(signal["paragraph"].num_nodes > 1 for signal in imdb)
    assert 0.5 < several / 360 < 0.66
    for number, text in enumerate(imdb.raw_texts().texts):
        assert "<br" not in text
        spans = imdb[number]["token"].span.tolist()
        assert "".join(text[a:b] for a, b in spans) == "".join(text.split())
