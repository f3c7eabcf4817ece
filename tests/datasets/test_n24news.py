import json
import pickle
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch_geometric.loader import DataLoader

from hsa_pyg.datasets.n24news import N24News

SECTIONS = ("Art &amp; Design", "Sports", "Well")


def article(number):
    return {
        "section": SECTIONS[number % 3],
        "headline": f"Headline {number} &amp; more",
        "abstract": "It&#8217;s short.",
        "caption": f"Caption of picture {number}.",
        "image_url": "https://example.org/a.jpg",
        "article_url": f"https://example.org/{number}.html",
        "image_id": f"id-{number}",
        "body": "First paragraph. Two sentences.\n\nSecond paragraph.",
    }


def save_picture(folder, name, number, size=(40, 64)):
    folder.mkdir(parents=True, exist_ok=True)
    pixels = np.full((*size, 3), number, np.uint8)
    Image.fromarray(pixels).save(folder / f"{name}.jpg", quality=95)


def write_news(folder, rows, layout="imgs", file="nytimes_dataset.json"):
    folder.mkdir(exist_ok=True)
    (folder / file).write_text(json.dumps(rows), encoding="utf-8")
    for number, row in enumerate(rows):
        save_picture(folder / layout, row["image_id"], 3 * number)
    return folder


@pytest.fixture
def rows():
    return [article(number) for number in range(30)]


@pytest.fixture
def raw(rows, tmp_path):
    return write_news(tmp_path / "N24News", rows)


@pytest.fixture
def news(raw, tmp_path):
    return N24News(tmp_path / "root", raw_dir=raw, min_frequency=1, log=False)


def names_of(news, keys):
    return [news.part_names[key] for key in keys.tolist()]


def test_an_article_is_a_record_of_its_parts(news):
    assert len(news) == 30
    assert news.classes == ("Art & Design", "Sports", "Well")
    assert news.num_classes == 3
    signal = news[4]
    assert signal.validate()
    assert signal.source == "nytimes_dataset.json:4" == news.sources[4]
    assert signal.y.tolist() == [1]
    assert names_of(news, signal["figure"].key) == ["figure"]
    assert names_of(news, signal["image"].key) == ["image"]
    documents = names_of(news, signal["document"].key)
    inside = signal["document", "child_of", "figure"].edge_index[0].tolist()
    assert [documents[node] for node in inside] == ["caption"]
    assert sorted(documents) == ["abstract", "body", "caption", "headline"]
    assert signal["image"].size.tolist() == [[40, 64]]
    assert signal["patch"].x.dtype == torch.float
    assert torch.allclose(signal["patch"].x, torch.tensor(12 / 255), atol=0.01)
    assert news.report == {}


def test_entities_are_resolved_and_spans_point_into_the_texts(news):
    texts = news.texts(7)
    assert texts["headline"] == "Headline 7 & more"
    assert texts["abstract"] == "It’s short."
    signal = news[7]
    document = names_of(news, signal["document"].key).index("body")
    first = signal["paragraph", "child_of", "document"].edge_index
    paragraphs = first[0][first[1] == document].tolist()
    spans = signal["paragraph"].span[paragraphs].tolist()
    assert [texts["body"][start:stop] for start, stop in spans] == [
        "First paragraph. Two sentences.",
        "Second paragraph.",
    ]


def test_one_file_is_split_by_hash_within_each_section(raw, tmp_path):
    parts = {
        split: N24News(tmp_path / "root", split, raw_dir=raw, log=False)
        for split in ("train", "val", "test")
    }
    for split, size in (("train", 8), ("val", 1), ("test", 1)):
        labels = Counter(signal.y.item() for signal in parts[split])
        assert labels == {0: size, 1: size, 2: size}
        assert parts[split].classes == ("Art & Design", "Sports", "Well")
    whole = {source for part in parts.values() for source in part.sources}
    assert len(whole) == 30


@pytest.mark.parametrize("place", [".", "news"])
def test_published_splits_are_used(place, rows, raw, tmp_path):
    (raw / place).mkdir(exist_ok=True)
    for name, chosen in (
        ("train", rows[:20]),
        ("dev", rows[20:26]),
        ("test", rows[26:]),
    ):
        path = raw / place / f"nytimes_{name}.json"
        path.write_text(json.dumps(chosen), encoding="utf-8")
    sizes = [
        len(N24News(tmp_path / "root", split, raw_dir=raw, log=False))
        for split in ("train", "val", "test", None)
    ]
    assert sizes == [20, 6, 4, 30]
    val = N24News(tmp_path / "root", "val", log=False)
    assert val.sources[0] == "nytimes_dev.json:0"
    assert val.texts(0)["headline"] == "Headline 20 & more"
    assert "20" not in N24News(tmp_path / "root", log=False).tokenizer.get_vocab()


def test_every_known_fault_is_counted_and_leaves_the_rest(rows, tmp_path):
    rows[0]["body"] = ""
    rows[1]["body"] = "Please enable JS and disable any ad blocker"
    del rows[2]["body"]
    rows[3]["body"] = None
    rows[4]["section"] = ""
    rows[6]["image_id"] = "../../outside"
    rows[7]["image_id"] = None
    rows[8]["caption"] = 7
    rows[9]["headline"] = "with\0nul"
    raw = write_news(
        tmp_path / "N24News", [row for row in rows if row["image_id"]], file="all.json"
    )
    rows[12:14] = [{**article(12), "image_id": "id-12.jpg"}, "no object"]
    rows[14]["image_id"] = "too long for a file" * 20
    (raw / "nytimes_dataset.json").write_text(json.dumps(rows))
    (raw / "imgs/id-10.jpg").unlink()
    (raw / "imgs/id-11.jpg").write_bytes(b"\xff\xd8\xffbroken")
    news = N24News(tmp_path / "root", raw_dir=raw, log=False)
    assert len(news) == 28
    assert news.report == {
        "rows without a usable body": 4,
        "rows without a section": 2,
        "rows without a usable image_id": 2,
        "rows whose picture is missing": 2,
        "rows whose picture is broken": 1,
        "rows without a usable caption": 1,
    }
    for signal in news:
        assert signal.validate()
        assert signal.schema == news[20].schema
    assert set(news.texts(0)) == {"headline", "abstract", "caption"}
    # The picture of a name that has its ending already.
    place = news.sources.index("nytimes_dataset.json:12")
    assert news[place]["patch"].x.size(0) > 0
    place = news.sources.index("nytimes_dataset.json:10")
    assert news[place]["patch"].x.size(0) == 0
    assert "caption" in news.texts(place)


def test_an_article_of_nothing_is_left_out(rows, raw, tmp_path):
    rows[3] = {"section": "Sports"}
    (raw / "nytimes_dataset.json").write_text(json.dumps(rows))
    news = N24News(tmp_path / "root", raw_dir=raw, log=False)
    assert len(news) == 29
    assert news.report["rows without any part"] == 1
    assert "nytimes_dataset.json:3" not in news.sources


def test_articles_of_one_picture_are_in_one_split(rows, raw, tmp_path):
    for row in rows[::3]:
        row["image_id"] = "id-0"
    (raw / "nytimes_dataset.json").write_text(json.dumps(rows))
    sizes = [
        sum(signal.y.item() == 0 for signal in N24News(tmp_path, split, raw_dir=raw))
        for split in ("train", "val", "test")
    ]
    assert sorted(sizes) == [0, 0, 10]


@pytest.mark.parametrize("layout", ["imgs", "images"])
def test_both_layouts_of_pictures_are_found(layout, rows, tmp_path):
    raw = write_news(tmp_path / "N24News", rows[:6], layout)
    news = N24News(tmp_path / "root", raw_dir=raw, log=False)
    assert all(signal["patch"].x.size(0) > 0 for signal in news)
    named = N24News(tmp_path / "root", raw_dir=raw, image_layout=layout, log=False)
    assert named[2]["patch"].x.equal(news[2]["patch"].x)
    other = {"imgs": "images", "images": "imgs"}[layout]
    with pytest.raises(FileNotFoundError, match="There is no folder of pictures"):
        N24News(tmp_path / "root", raw_dir=raw, image_layout=other, log=False)


def test_words_alone_need_no_pictures(raw, tmp_path):
    shutil.rmtree(raw / "imgs")
    news = N24News(
        tmp_path / "root", raw_dir=raw, parts=["body", "headline"], log=False
    )
    assert news[0].validate()
    assert news[0]["patch"].x.shape == (0, 3 * 16 * 16)
    assert set(news.texts(0)) == {"headline", "body"}
    texts, labels = news.raw_texts()
    assert texts[5].startswith("Headline 5 & more\nFirst paragraph.")
    assert labels.tolist() == [number % 3 for number in range(30)]


def test_batches_in_any_order_give_the_articles_back(news):
    order = [7, 0, 11, 4]
    (batch,) = DataLoader([news[number] for number in order], batch_size=4)
    assert batch.validate()
    for place, number in enumerate(order):
        assert batch[place]["token"].x.equal(news[number]["token"].x)
        assert batch[place]["patch"].x.equal(news[number]["patch"].x)
        assert batch[place].source == news.sources[number]


def test_a_loader_reads_the_part_that_was_chosen(news):
    chosen = news[[20, 3, 17]]
    (batch,) = DataLoader(chosen, batch_size=3)
    assert batch.source == chosen.sources == [news.sources[i] for i in (20, 3, 17)]
    assert [signal.source for signal in chosen] == chosen.sources
    assert chosen.texts(0) == news.texts(20)
    assert chosen.raw_texts().labels.tolist() == [2, 0, 2]


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_open_the_database_for_themselves(start, news):
    loader = DataLoader(
        news[2:10], batch_size=4, num_workers=2, multiprocessing_context=start
    )
    found = [source for batch in loader for source in batch.source]
    assert found == news.sources[2:10]


def test_a_second_start_reads_the_database(news, tmp_path, monkeypatch):
    monkeypatch.setattr(N24News, "process", None)
    again = N24News(tmp_path / "root", min_frequency=1, log=False)
    assert again.sources == news.sources
    assert again.classes == news.classes
    assert again[9]["token"].x.equal(news[9]["token"].x)
    assert pickle.loads(pickle.dumps(again))[9].source == news.sources[9]
    torch.save(again[3], tmp_path / "one.pt")
    one = torch.load(tmp_path / "one.pt", weights_only=True)
    assert one["patch"].x.equal(news[3]["patch"].x)
    with pytest.raises(TypeError, match="NoneType"):
        N24News(tmp_path / "root", min_frequency=1, log=False, force_reload=True)


def test_filters_and_transforms(raw, tmp_path):
    news = N24News(
        tmp_path / "root",
        raw_dir=raw,
        pre_filter=is_sport,
        transform=mark,
        log=False,
    )
    assert len(news) == 10
    assert news.report == {"rows that pre_filter refused": 20}
    assert news[0].marked
    (batch,) = DataLoader(news[:2], batch_size=2)
    assert batch.marked.tolist() == [True, True]


def is_sport(signal):
    return signal.y.item() == 1


def is_nothing(signal):
    return False


def mark(signal):
    signal.marked = True
    return signal


def test_an_interrupted_run_starts_again(raw, tmp_path, monkeypatch):
    keep = N24News._keep
    monkeypatch.setattr(N24News, "_keep", None)
    with pytest.raises(TypeError, match="NoneType"):
        N24News(tmp_path / "root", raw_dir=raw, log=False)
    monkeypatch.setattr(N24News, "_keep", keep)
    assert len(N24News(tmp_path / "root", raw_dir=raw, log=False)) == 30


def test_a_broken_database_is_named(news, tmp_path):
    Path(news.processed_paths[0]).write_bytes(b"no database" * 1000)
    again = N24News(tmp_path / "root", min_frequency=1, log=False)
    with pytest.raises(ValueError, match=r"\.db' cannot be read .*force_reload=True"):
        again[0]


def test_raw_files_that_are_wrong_are_named(raw, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"has neither nytimes_train.json"):
        N24News(tmp_path / "root", log=False)
    path = raw / "nytimes_dataset.json"
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match=r"element 29 is broken JSON, or the file is"):
        N24News(tmp_path / "root", raw_dir=raw, log=False)
    path.write_text("[]")
    with pytest.raises(ValueError, match="has no article for split=None"):
        N24News(tmp_path / "root", raw_dir=raw, log=False)


def test_bad_arguments_are_named(raw, tmp_path):
    with pytest.raises(ValueError, match="split='dev' is not known"):
        N24News(tmp_path, "dev")
    with pytest.raises(ValueError, match="image_layout='pics' is not known"):
        N24News(tmp_path, image_layout="pics")
    with pytest.raises(ValueError, match="parts: 'figure' is not known"):
        N24News(tmp_path, parts=["figure"])
    with pytest.raises(ValueError, match="has no article for split=None"):
        N24News(tmp_path / "root", raw_dir=raw, pre_filter=is_nothing, log=False)
    bare = N24News(tmp_path / "root", raw_dir=raw, keep_text=False, log=False)
    with pytest.raises(ValueError, match="pass keep_text=True"):
        bare.texts(0)


def test_other_files_are_refused_and_absent_ones_are_not_missed(rows, raw, tmp_path):
    asked = {"raw_dir": raw, "min_frequency": 1, "log": False}
    first = N24News(tmp_path / "root", **asked)
    write_news(raw, [*rows, article(30)])
    with pytest.raises(ValueError, match=r"made of other files: bytes were .* delete"):
        N24News(tmp_path / "root", **asked)
    assert len(N24News(tmp_path / "root", force_reload=True, **asked)) == 31
    shutil.rmtree(raw)
    assert len(N24News(tmp_path / "root", **asked)) == len(first) + 1
