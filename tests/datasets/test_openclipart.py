from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch_geometric.loader import DataLoader

from hsa_pyg.datasets.openclipart import OpenClipart

SVG = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE svg [<!ENTITY ns_svg "http://www.w3.org/2000/svg">
<!ENTITY outside SYSTEM "file:///etc/passwd">]>
<svg xmlns="&ns_svg;"><metadata>
<rdf:RDF xmlns:cc="http://web.resource.org/cc/"
 xmlns:dc="http://purl.org/dc/elements/1.1/"
 xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><cc:Work rdf:about="">
<dc:title> {title} </dc:title><dc:description>{description}</dc:description>
<dc:subject><rdf:Bag>{keywords}</rdf:Bag></dc:subject>
<dc:creator><cc:Agent><dc:title>The artist</dc:title></cc:Agent></dc:creator>
</cc:Work></rdf:RDF></metadata>
<path d="M 0 0"/></svg>"""


def draw(folder, name, colour, title="", description="", keywords=(), size=(40, 24)):
    png, svg = folder / "png" / f"{name}.png", folder / "svg" / f"{name}.svg"
    png.parent.mkdir(parents=True, exist_ok=True)
    svg.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((*size, 3), colour, np.uint8)).save(png)
    listed = "".join(f"<rdf:li>{keyword}</rdf:li>" for keyword in keywords)
    text = SVG.format(title=title, description=description, keywords=listed)
    svg.write_text(text, encoding="utf-8")
    return png


@pytest.fixture
def raw(tmp_path):
    """Ten animals and ten plants in nested folders."""
    folder = tmp_path / "openclipart"
    for i in range(10):
        draw(
            folder,
            f"animals/birds/bird{i}",
            i,
            f"Bird {i}",
            "An animal\n that   flies.",
            ["", "animals", "Animal", "bird", "BIRD", "water animal"],
        )
        draw(folder, f"plants/tree{i}", 100 + i, f"Tree {i}", "", ["green", "tree"])
    return folder


@pytest.fixture
def clipart(raw, tmp_path):
    return OpenClipart(tmp_path / "root", raw_dir=raw, min_frequency=1, log=False)


def test_a_drawing_is_its_picture_and_its_words(clipart):
    assert len(clipart) == 20
    assert clipart.num_classes == 22
    assert clipart.sources[3] == "animals/birds/bird3.png"
    assert clipart.texts(3) == {
        "title": "Bird 3",
        "description": "An that flies.",
        "keywords": "bird\nwater",
    }
    assert clipart.texts(13) == {"title": "Tree 3", "keywords": "green\ntree"}
    assert clipart.report == {
        "items that lost words which name a class": 10,
        "items without description": 10,
    }
    signal = clipart[3]
    assert signal.validate()
    assert signal.schema == clipart[13].schema
    assert signal["image"].size.tolist() == [[40, 24]]
    assert signal["patch"].x.shape == (15, 192)
    assert torch.allclose(signal["patch"].x, torch.tensor(3 / 255))
    labels = [clipart.classes[one.y.item()] for one in clipart]
    assert labels == ["animals"] * 10 + ["plants"] * 10


def test_what_is_no_file_is_left_out_and_counted(raw, tmp_path):
    (raw / "png/animals/folder.png").mkdir()
    (raw / "png/animals/nowhere.png").symlink_to("missing.png")
    clipart = OpenClipart(tmp_path / "root", raw_dir=raw, log=False)
    assert len(clipart) == 20
    assert clipart.report["pictures that are no files"] == 2


def test_words_of_classes_may_stay(raw, tmp_path):
    whole = OpenClipart(
        tmp_path / "root", raw_dir=raw, strip_class_words=False, log=False
    )
    assert whole.texts(0)["keywords"] == "animals\nAnimal\nbird\nwater animal"
    assert "animals" in whole.tokenizer.get_vocab()


def test_the_vocabulary_has_no_word_of_a_class(clipart):
    assert not {"animal", "animals", "plants"} & set(clipart.tokenizer.get_vocab())
    assert "etc" not in clipart.tokenizer.get_vocab()
    assert "artist" not in clipart.tokenizer.get_vocab()


def test_splits_are_within_each_class(raw, tmp_path):
    sources = []
    for split, size in (("train", 8), ("val", 1), ("test", 1)):
        part = OpenClipart(tmp_path / "root", split, raw_dir=raw, log=False)
        assert part._data.y.view(-1).bincount().tolist()[0] == size
        assert len(part) == 2 * size
        sources += part.sources
    assert len(set(sources)) == 20


def add_copies(raw):
    """One drawing in two more places, once as a link."""
    original = raw / "png/plants/tree0.png"
    for name in ("animals/copy", "unsorted/copy"):
        draw(raw, name, 0, "Copy", "", ["copied"])
        path = raw / "png" / f"{name}.png"
        path.unlink()
    (raw / "png/animals/copy.png").symlink_to(original)
    (raw / "png/unsorted/copy.png").write_bytes(original.read_bytes())


def test_each_picture_is_taken_once(raw, tmp_path):
    add_copies(raw)
    (raw / "png/animals/copy.png").unlink()
    once = OpenClipart(tmp_path / "root", raw_dir=raw, log=False)
    assert len(once) == 20
    assert "plants/tree0.png" in once.sources
    assert once.report["copies of pictures"] == 1


def test_copies_are_in_one_split(raw, tmp_path):
    add_copies(raw)
    whole = OpenClipart(tmp_path / "root", raw_dir=raw, copies=True, log=False)
    assert len(whole) == 22
    found = set()
    for split in ("train", "val", "test"):
        part = OpenClipart(
            tmp_path / "root", split, raw_dir=raw, copies=True, log=False
        )
        held = {source for source in part.sources if "copy" in source}
        held |= {"plants/tree0.png"} & set(part.sources)
        assert len(held) in (0, 3)
        found |= held
    assert len(found) == 3


def test_faults_are_counted_and_leave_the_rest(raw, tmp_path):
    (raw / "png/animals/birds/bird0.png").write_bytes(b"\x89PNG\r\n\x1a\nbroken")
    (raw / "svg/animals/birds/bird1.svg").write_text("<svg><metadata>")
    (raw / "svg/animals/birds/bird2.svg").unlink()
    (raw / "svg/animals/birds/bird3.svg").write_text("<svg/>")
    bomb = "".join(
        f'<!ENTITY a{i} "{"".join(f"&a{i - 1};" for _ in range(10))}">'
        for i in range(1, 12)
    )
    (raw / "svg/animals/birds/bird4.svg").write_text(
        f'<!DOCTYPE svg [<!ENTITY a0 "{"x" * 99}">{bomb}]><svg>&a11;</svg>'
    )
    draw(raw, "nonsense/picture", 7)
    clipart = OpenClipart(tmp_path / "root", raw_dir=raw, log=False)
    assert len(clipart) == 20
    report = clipart.report
    assert report["pictures that are broken or too large"] == 1
    assert report["drawings that are broken XML"] == 2
    assert report["drawings that are missing"] == 1
    assert report["items without title"] == 4
    assert report["pictures in a folder of no class"] == 1
    assert clipart.texts(0)["title"] == "Bird 0"
    for number in range(5):
        assert clipart[number].validate()
        assert clipart[number].schema == clipart[19].schema


def test_an_item_of_nothing_is_counted(raw, tmp_path):
    (raw / "svg/plants/tree9.svg").unlink()
    some = OpenClipart(tmp_path / "root", raw_dir=raw, parts=["title"], log=False)
    assert len(some) == 19
    assert some.report["items without any part"] == 1


def test_batches_and_files_give_the_items_back(clipart, tmp_path, monkeypatch):
    (batch,) = DataLoader(clipart[[17, 0, 3]], batch_size=3)
    assert batch.validate()
    assert batch[0]["patch"].x.equal(clipart[17]["patch"].x)
    assert batch[1].source == clipart.sources[0]
    torch.save(clipart[3], tmp_path / "one.pt")
    one = torch.load(tmp_path / "one.pt", weights_only=True)
    assert one["patch"].x.equal(clipart[3]["patch"].x)
    # The raw data is not needed again.
    monkeypatch.setattr(OpenClipart, "process", None)
    again = OpenClipart(tmp_path / "root", min_frequency=1, log=False)
    assert again.texts(17) == clipart.texts(17)


def test_a_folder_without_pictures_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"root/raw: .*has no folder 'png'"):
        OpenClipart(tmp_path / "root", log=False)
    with pytest.raises(FileNotFoundError, match=r"raw_dir: .*Debian packages"):
        OpenClipart(tmp_path / "root", raw_dir=tmp_path / "nowhere", log=False)
    (tmp_path / "raw/png").mkdir(parents=True)
    with pytest.raises(FileNotFoundError, match=r"has no picture png/CLASS/\*.png"):
        OpenClipart(tmp_path / "root", raw_dir=tmp_path / "raw", log=False)


def test_raw_files_may_lie_in_the_root(raw, tmp_path):
    (tmp_path / "root").mkdir()
    raw.rename(tmp_path / "root/raw")
    assert len(OpenClipart(tmp_path / "root", log=False)) == 20
    assert Path(tmp_path / "root/raw/png").is_dir()
