import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch_geometric.loader import DataLoader

from hsa_pyg.converters import to_image
from hsa_pyg.datasets.class_words import tells_class
from hsa_pyg.datasets.emoji import FILES, EmojiMultimodal

REAL = Path(__file__).parents[2].parent / "shared" / "data" / "emoji"
needs_real = pytest.mark.skipif(not REAL.exists(), reason=f"{REAL} is not there")


def write_emoji(folder, number=40):
    """A sheet of 7 columns; flags and fruit, one of which has another skin tone."""
    folder.mkdir()
    sheet = np.zeros((34 * 7, 34 * 7, 4), np.uint8)
    emoji = []
    for i in range(number):
        row, column = divmod(i, 7)
        cell = sheet[34 * row + 1 : 34 * row + 33, 34 * column + 1 : 34 * column + 33]
        cell[...] = (i, 2 * i, 255 - i, 255)
        kind = i % 2
        emoji.append(
            {
                "name": f"Flag of land{i}" if kind else f"FRUIT {i}",
                "unified": f"1F{i:03X}",
                "short_names": [f"flag-{i}", "flags"] if kind else [f"fruit_{i}"],
                "category": ("Food", "Flags")[kind],
                "subcategory": ("fresh-fruit", "flag")[kind] + str(i % 4 // 2),
                "sheet_x": column,
                "sheet_y": row,
                "has_img_twitter": True,
            }
        )
        if i == 4:
            tone = {"unified": "1F004-1F3FB", "sheet_x": 6, "sheet_y": 6}
            emoji[i]["skin_variations"] = {"1F3FB": tone}
    (folder / "emoji.json").write_text(json.dumps(emoji))
    Image.fromarray(sheet).save(folder / "sheet_32.png")
    return folder


@pytest.fixture
def raw(tmp_path):
    return write_emoji(tmp_path / "emoji")


@pytest.fixture
def emoji(raw, tmp_path):
    return EmojiMultimodal(tmp_path / "root", raw_dir=raw, min_frequency=1, log=False)


def test_an_emoji_is_its_picture_and_its_names(emoji):
    assert len(emoji) == 40
    assert emoji.classes == ("Flags", "Food")
    signal = emoji[5]
    assert signal.validate()
    assert signal.schema == emoji[4].schema
    assert signal.source == "1F005"
    assert signal.y.tolist() == [0]
    assert signal["image"].key.tolist() == [0]
    assert signal["document"].key.tolist() == [1, 2]
    assert emoji.texts(5) == {"name": "of land5", "short_names": "-5"}
    assert emoji.texts(4) == {"name": "FRUIT 4", "short_names": "fruit_4"}
    assert signal["patch"].x.shape == (16, 4 * 8 * 8)


def test_pixels_are_those_of_the_cell(emoji):
    for number in (0, 5, 39):
        pixels = to_image(emoji[number])
        expected = torch.tensor([number, 2 * number, 255 - number, 255]) / 255
        assert pixels.shape == (4, 32, 32)
        assert pixels.allclose(expected.view(4, 1, 1).expand(4, 32, 32))


def test_each_short_name_is_a_phrase(raw, tmp_path):
    whole = EmojiMultimodal(
        tmp_path / "root", raw_dir=raw, strip_class_words=False, log=False
    )
    assert whole.texts(5) == {"name": "Flag of land5", "short_names": "flag-5\nflags"}
    assert whole[5]["sentence"].num_nodes == 3
    assert whole.raw_texts().texts[5] == "Flag of land5\nflag-5\nflags"
    assert whole.report == {}


def test_words_that_name_classes_are_counted(emoji, raw, tmp_path):
    assert emoji.report == {"items that lost words which name a class": 20}
    sub = EmojiMultimodal(
        tmp_path / "root", target="subcategory", raw_dir=raw, log=False
    )
    assert sub.num_classes == 4
    assert sub.texts(4) == {"name": "4", "short_names": "_4"}
    assert sub.report == {"items that lost words which name a class": 40}


def test_splits_are_within_each_subcategory(raw, tmp_path):
    sizes = {}
    for split in ("train", "val", "test"):
        part = EmojiMultimodal(tmp_path / "root", split, raw_dir=raw, log=False)
        sizes[split] = Counter(signal.y.item() for signal in part)
    assert sizes == {"train": {0: 16, 1: 16}, "val": {0: 2, 1: 2}, "test": {0: 2, 1: 2}}


def test_skin_tones_are_in_the_split_of_what_they_vary(raw, tmp_path):
    toned = EmojiMultimodal(tmp_path / "root", raw_dir=raw, skin_tones=True, log=False)
    assert len(toned) == 41
    assert toned.sources[5] == "1F004-1F3FB"
    assert toned.texts(5) == toned.texts(4)
    for split in ("train", "val", "test"):
        part = EmojiMultimodal(tmp_path / "root", split, skin_tones=True, log=False)
        assert ("1F004" in part.sources) == ("1F004-1F3FB" in part.sources)


@pytest.mark.parametrize("parts", ["image", ["name"], ["short_names", "image"]])
def test_parts_can_be_chosen(parts, raw, tmp_path):
    some = EmojiMultimodal(tmp_path / "root", parts=parts, raw_dir=raw, log=False)
    whole = EmojiMultimodal(tmp_path / "root", raw_dir=raw, log=False)
    assert some[3].validate()
    # One schema, so that models take either.
    assert some[3].schema == whole[3].schema
    assert some[3]["patch"].x.size(0) == (16 if "image" in parts else 0)
    assert set(some.texts(3)) == {"name", "short_names"} & {*parts}


def test_a_missing_picture_leaves_the_words(raw, tmp_path):
    listed = json.loads((raw / "emoji.json").read_text())
    listed[0]["has_img_twitter"] = False
    listed[1]["sheet_x"] = 99
    (raw / "emoji.json").write_text(json.dumps(listed))
    emoji = EmojiMultimodal(tmp_path / "root", raw_dir=raw, log=False)
    assert len(emoji) == 40
    assert emoji.report["items without image"] == 2
    assert emoji[0].validate()
    loader = DataLoader(emoji[[0, 2, 1, 3]], batch_size=4)
    (batch,) = loader
    assert batch.validate()
    assert batch[1]["patch"].x.equal(emoji[2]["patch"].x)
    assert batch[0]["patch"].x.shape == (0, 256)


def test_batches_copies_and_files_give_the_emoji_back(emoji, tmp_path, monkeypatch):
    (batch,) = DataLoader(emoji[[7, 0, 3]], batch_size=3)
    assert batch.validate()
    assert batch[0]["patch"].x.equal(emoji[7]["patch"].x)
    assert batch[2].source == emoji.sources[3]
    copied = emoji.copy([3, 7])
    assert copied[1]["patch"].x.equal(emoji[7]["patch"].x)
    torch.save(emoji[3], tmp_path / "one.pt")
    one = torch.load(tmp_path / "one.pt", weights_only=True)
    assert one["patch"].x.equal(emoji[3]["patch"].x)
    monkeypatch.setattr(EmojiMultimodal, "process", None)
    again = EmojiMultimodal(tmp_path / "root", min_frequency=1, log=False)
    assert again[7]["patch"].x.equal(emoji[7]["patch"].x)
    assert again.texts(7) == emoji.texts(7)
    assert again.text(7) == "of land7\n-7"


def test_texts_that_were_not_kept_say_so(raw, tmp_path):
    bare = EmojiMultimodal(tmp_path / "root", raw_dir=raw, keep_text=False, log=False)
    assert "text" not in bare[0]["document"]
    with pytest.raises(ValueError, match="pass keep_text=True"):
        bare.texts(0)


def test_missing_files_say_where_to_get_them(tmp_path, monkeypatch):
    monkeypatch.setattr("hsa_pyg.datasets.shipped.__file__", str(tmp_path / "a/b/c.py"))
    with pytest.raises(FileNotFoundError, match=r"'emoji.json' is neither.*raw_dir=:"):
        EmojiMultimodal(tmp_path / "root", log=False)


def test_files_that_come_with_the_package_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "hsa_pyg.datasets.shipped.__file__",
        str(tmp_path / "hsa_pyg/datasets/shipped.py"),
    )
    (tmp_path / "datasets").mkdir()
    write_emoji(tmp_path / "datasets/emoji", 4)
    assert len(EmojiMultimodal(tmp_path / "root", log=False)) == 4


def test_other_files_than_the_kept_ones_are_refused(emoji, tmp_path):
    other = write_emoji(tmp_path / "other", 6)
    with pytest.raises(ValueError, match=r"emoji.json' is another file than raw_dir="):
        EmojiMultimodal(tmp_path / "root", raw_dir=other)


def test_raw_files_that_are_wrong_are_named(raw, tmp_path):
    sheet = (raw / "sheet_32.png").read_bytes()
    (raw / "sheet_32.png").write_bytes(sheet[:200])
    with pytest.raises(ValueError, match=r"sheet_32.png' is no picture, or a part"):
        EmojiMultimodal(tmp_path / "a", raw_dir=raw, log=False)
    (raw / "sheet_32.png").unlink()
    with pytest.raises(FileNotFoundError, match=r"no file .*sheet_32.png'"):
        EmojiMultimodal(tmp_path / "b", raw_dir=raw, log=False)
    (raw / "sheet_32.png").write_bytes(sheet)
    for broken in ('[{"unified": "1F', '[{"unified": "1F600"}]', "[1]"):
        (raw / "emoji.json").write_text(broken)
        with pytest.raises(ValueError, match=r"emoji.json' is not a list of emoji"):
            EmojiMultimodal(tmp_path / f"c{len(broken)}", raw_dir=raw, log=False)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sheet_x", None),
        ("sheet_y", "1"),
        ("sheet_x", -3),
        ("category", None),
        ("subcategory", 7),
        ("short_names", None),
        ("name", 7),
        ("unified", 3),
        ("skin_variations", {"1F3FB": {"unified": "1F44B-1F3FB"}}),
    ],
)
def test_entries_of_other_forms_are_named(raw, tmp_path, key, value):
    emoji = json.loads((raw / "emoji.json").read_text())
    emoji[1][key] = value
    (raw / "emoji.json").write_text(json.dumps(emoji))
    with pytest.raises(ValueError, match=r"emoji.json' is not a list of emoji"):
        EmojiMultimodal(tmp_path / "root", raw_dir=raw, log=False)


def test_bad_arguments_are_named(raw, tmp_path):
    with pytest.raises(ValueError, match="target='kind' is not known"):
        EmojiMultimodal(tmp_path, target="kind")
    with pytest.raises(ValueError, match="parts: 'sound' is not known; they are"):
        EmojiMultimodal(tmp_path, parts=["sound"], raw_dir=raw)
    with pytest.raises(ValueError, match="parts is empty"):
        EmojiMultimodal(tmp_path, parts=[], raw_dir=raw)


@needs_real
def test_the_real_list_has_the_counts_that_are_documented(tmp_path):
    emoji = json.loads((REAL / "emoji.json").read_text(encoding="utf-8"))
    told = {
        target: sum(
            tells_class(" ".join([one["name"], *one["short_names"]]), one[target])
            for one in emoji
        )
        for target in ("category", "subcategory")
    }
    assert len(emoji) == 1911
    assert sum(len(one.get("skin_variations", ())) for one in emoji) == 1875
    assert told == {"category": 304, "subcategory": 601}
    assert sum(one["category"] == "Flags" for one in emoji) == 270


@needs_real
def test_real_emoji(tmp_path):
    (tmp_path / "raw").mkdir()
    for name in FILES:
        (tmp_path / "raw" / name).write_bytes((REAL / name).read_bytes())
    val = EmojiMultimodal(tmp_path, "val", parts=["image", "name"], log=False)
    assert val.num_classes == 10
    assert len(val) == 180
    items = val.items()
    parts = Counter(item.split for item in items)
    assert parts == {"train": 1533, "val": 180, "test": 198}
    of_class = {split: Counter() for split in parts}
    for item in items:
        of_class[item.split][item.label] += 1
    assert set(of_class["train"]) == set(range(10))
    for label, number in of_class["train"].items():
        whole = sum(counts[label] for counts in of_class.values())
        assert number / whole == pytest.approx(0.8, abs=0.03)
    for signal in val[::40]:
        assert signal.validate()
        assert signal["patch"].x.shape == (16, 256)
        assert signal["patch"].x.any()
