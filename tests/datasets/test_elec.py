import tarfile

import pytest
import torch
from torch_geometric.loader import DataLoader

from hsa_pyg.datasets import raw_files
from hsa_pyg.datasets.elec import Elec

NEGATIVE = "It broke . I sent it back ! The cable is lost"
POSITIVE = "Works great . No cable needed ."


@pytest.fixture
def raw(tmp_path):
    """A folder in the layout of Johnson and Zhang, with what is not to be read."""
    folder = tmp_path / "elec"
    folder.mkdir()
    for stem, number in (("elec-25k-train", 20), ("elec-test", 6)):
        lines = [f"{(NEGATIVE, POSITIVE)[i % 2]} {stem}{i}" for i in range(number)]
        (folder / f"{stem}.txt.tok").write_text("\n".join(lines) + "\n")
        (folder / f"{stem}.cat").write_text("1\n2\n" * (number // 2))
    (folder / "elec-25k-unlab00.txt.tok").write_text("unlabelled\n")
    (folder / "README").write_text("about")
    return folder


@pytest.fixture
def archive(raw, tmp_path):
    with tarfile.open(tmp_path / "elec2.tar.gz", "w:gz") as packed:
        packed.add(raw, "elec")
    return tmp_path / "elec2.tar.gz"


def test_a_line_is_a_review(raw, tmp_path):
    elec = Elec(tmp_path / "root", raw_dir=raw, log=False)
    assert len(elec) == 26
    assert elec.sources[0] == "elec-25k-train.txt.tok:1"
    assert elec.sources[-1] == "elec-test.txt.tok:6"
    first = elec[0]
    assert first.validate()
    assert first.y.tolist() == [0]
    assert elec[1].y.tolist() == [1]
    assert elec.text(0) == f"{NEGATIVE} elec-25k-train0"
    spans = first["sentence"].span.tolist()
    assert [elec.text(0)[a:b] for a, b in spans] == [
        "It broke .",
        "I sent it back !",
        "The cable is lost elec-25k-train0",
    ]


def test_the_last_fifth_of_training_is_val(raw, tmp_path):
    sizes = []
    for split in ("train", "val", "test"):
        part = Elec(tmp_path / "root", split, raw_dir=raw, log=False)
        sizes.append(len(part))
        if split == "val":
            assert part.sources == [
                f"elec-25k-train.txt.tok:{i}" for i in range(17, 21)
            ]
    assert sizes == [16, 4, 6]


def test_files_come_out_of_an_archive(raw, archive, tmp_path):
    packed = Elec(tmp_path / "a", "test", raw_archive=archive, log=False)
    loose = Elec(tmp_path / "b", "test", raw_dir=raw, log=False)
    assert sorted(path.name for path in (tmp_path / "a/raw").iterdir()) == sorted(
        [*packed.raw_file_names, "elec-25k.sha256"]
    )
    assert packed.raw_texts().texts == loose.raw_texts().texts
    for one, other in zip(packed, loose, strict=True):
        assert one["token"].x.equal(other["token"].x)


def test_another_archive_is_refused(archive, tmp_path):
    Elec(tmp_path / "root", "test", raw_archive=archive, log=False)
    Elec(tmp_path / "root", "train", raw_archive=archive, log=False)
    archive.write_bytes(archive.read_bytes() + b"\0")
    with pytest.raises(ValueError, match=r"another archive than raw_archive=.*another"):
        Elec(tmp_path / "root", "test", raw_archive=archive, log=False)
    # Without its stamp, as older versions left it, the files are taken as they are.
    (tmp_path / "root/raw/elec-25k.sha256").unlink()
    Elec(tmp_path / "root", "test", raw_archive=archive, log=False)


def test_raw_files_that_lie_there_are_used(raw, tmp_path):
    (tmp_path / "root").mkdir()
    raw.rename(tmp_path / "root/raw")
    assert len(Elec(tmp_path / "root", "test", log=False)) == 6


def test_batches_and_files_give_the_reviews_back(raw, tmp_path, monkeypatch):
    elec = Elec(tmp_path / "root", "test", raw_dir=raw, log=False)
    (batch,) = DataLoader(elec[[4, 1, 2]], batch_size=3)
    assert batch.validate()
    assert [batch[i].source for i in range(3)] == [elec.sources[i] for i in (4, 1, 2)]
    torch.save(elec[1], tmp_path / "one.pt")
    one = torch.load(tmp_path / "one.pt", weights_only=True)
    assert one["token"].x.equal(elec[1]["token"].x)
    monkeypatch.setattr(Elec, "process", None)
    assert len(Elec(tmp_path / "root", "test", log=False)) == 6


def test_only_a_line_feed_ends_a_review(raw, tmp_path):
    text = raw / "elec-test.txt.tok"
    text.write_bytes("a\x0bb\x85c \u2028 d\r\n".encode() + b"two\n" * 4 + b"last")
    elec = Elec(tmp_path / "root", "test", raw_dir=raw, log=False)
    assert elec.text(0) == "a\x0bb\x85c \u2028 d"
    assert elec.text(5) == "last"


def test_empty_reviews_are_counted(raw, tmp_path):
    (raw / "elec-test.txt.tok").write_text("one\n\n \nfour\nfive\nsix\n")
    elec = Elec(tmp_path / "root", "test", raw_dir=raw, log=False)
    assert elec.report == {"texts without a token": 2}
    assert [source.rpartition(":")[2] for source in elec.sources] == list("1456")


def test_unlike_numbers_of_lines_are_named(raw, tmp_path):
    (raw / "elec-test.cat").write_text("1\n2\n1\n")
    with pytest.raises(ValueError, match=r"elec-test.txt.tok' has 6 reviews, but .* 3"):
        Elec(tmp_path / "root", raw_dir=raw, log=False)


@pytest.mark.parametrize("label", ["3", "pos", ""])
def test_wrong_labels_are_named(label, raw, tmp_path):
    (raw / "elec-test.cat").write_text(f"1\n{label}\n1\n2\n1\n2\n")
    with pytest.raises(ValueError, match=r"elec-test.cat': line 2 is '.*labels are 1"):
        Elec(tmp_path / "root", raw_dir=raw, log=False)


def test_another_encoding_can_be_given(raw, tmp_path):
    (raw / "elec-test.txt.tok").write_bytes("caf\xe9 .\n".encode("latin-1") * 6)
    with pytest.raises(ValueError, match=r"elec-test.txt.tok' is not utf-8.*encoding="):
        Elec(tmp_path / "root", raw_dir=raw, log=False)
    elec = Elec(tmp_path / "root", "test", raw_dir=raw, encoding="latin-1", log=False)
    assert elec.text(2) == "café ."


def test_a_truncated_archive_is_named_and_leaves_nothing(archive, tmp_path):
    archive.write_bytes(archive.read_bytes()[:300])
    with pytest.raises(ValueError, match=r"elec2.tar.gz' is no tar archive, or a part"):
        Elec(tmp_path / "root", raw_archive=archive, log=False)
    assert list((tmp_path / "root/raw").iterdir()) == []


def test_missing_files_are_named(raw, archive, tmp_path):
    with pytest.raises(ValueError, match=r"has no file 'elec-50k-train.txt.tok'"):
        Elec(tmp_path / "root", size="50k", raw_archive=archive, log=False)
    (raw / "elec-test.cat").unlink()
    with pytest.raises(FileNotFoundError, match=r"has no file 'elec-test.cat'"):
        Elec(tmp_path / "root", raw_dir=raw, log=False)


def test_without_network_the_files_are_named(tmp_path, monkeypatch):
    def offline(url, folder, log, filename):
        raise OSError("no network")

    monkeypatch.setattr(raw_files, "download_url", offline)
    with pytest.raises(FileNotFoundError, match=r"no network.*Put elec-25k-train.txt"):
        Elec(tmp_path / "root", log=False)


def test_what_is_downloaded_is_unpacked(archive, tmp_path, monkeypatch):
    def online(url, folder, log, filename):
        (tmp_path / "root/raw" / filename).write_bytes(archive.read_bytes())

    monkeypatch.setattr(raw_files, "download_url", online)
    assert len(Elec(tmp_path / "root", "test", log=False)) == 6


def test_other_files_than_the_kept_ones_are_refused(raw, tmp_path):
    Elec(tmp_path / "root", "test", raw_dir=raw, log=False)
    (raw / "elec-test.cat").write_text("2\n" * 6)
    with pytest.raises(ValueError, match=r"elec-test.cat' is another file than raw_d"):
        Elec(tmp_path / "root", "test", raw_dir=raw, log=False)


def test_bad_arguments_are_named(raw, archive, tmp_path):
    with pytest.raises(ValueError, match="size='30k' is not known"):
        Elec(tmp_path, size="30k")
    with pytest.raises(ValueError, match="were both given"):
        Elec(tmp_path, raw_archive=archive, raw_dir=raw)
