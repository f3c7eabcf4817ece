import gzip
import itertools
import re
import zipfile
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch_geometric.loader import DataLoader

from hsa_pyg.converters import to_brackets
from hsa_pyg.datasets import SSTTrees

SST = Path(__file__).parents[2].parent / "shared" / "data" / "sst_trees"
needs_treebank = pytest.mark.skipif(
    not SST.exists(), reason="the Stanford Sentiment Treebank is not there"
)
LINES = {
    "train": ["(3 (2 It) (4 works))", "(1 (2 It) (0 bores))", "(2 (2 So) (2 it))"],
    "dev": ["(2 Hm)", "(4 (3 Really) (3 works))"],
    "test": ["(0 (1 No) (2 (2 1\\/2) (2 star)))"],
}


@pytest.fixture
def raw(tmp_path):
    folder = tmp_path / "given"
    folder.mkdir()
    for name, lines in LINES.items():
        text = "\n".join(lines) + "\n"
        if name == "dev":
            (folder / "dev.txt.gz").write_bytes(gzip.compress(text.encode()))
        else:
            (folder / f"{name}.txt").write_text(text)
    return folder


@pytest.fixture(scope="module")
def lines():
    return {
        split: gzip.decompress((SST / f"{name}.txt.gz").read_bytes())
        .decode()
        .strip("\n")
        .split("\n")
        for split, name in (("train", "train"), ("val", "dev"), ("test", "test"))
    }


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("sst")


@pytest.fixture(scope="module")
def treebank(root):
    return SSTTrees(root, raw_folder=SST, log=False)


@needs_treebank
def test_every_tree_is_there_with_the_shape_of_its_brackets(treebank, lines):
    texts = [line for part in lines.values() for line in part]
    assert [len(part) for part in lines.values()] == [8544, 1101, 2210]
    assert len(treebank) == len(texts) == 11_855
    # Counted in the characters, and of all trees at once: one by one takes minutes.
    opened = [text.count("(") for text in texts]
    leaves = [len(re.findall(r"\([0-4] [^()]+\)", text)) for text in texts]
    depths = [
        max(itertools.accumulate((c == "(") - (c == ")") for c in text)) - 1
        for text in texts
    ]
    labels = [list(map(int, re.findall(r"\(([0-4]) ", text))) for text in texts]
    found: dict[str, list] = {"opened": [], "leaves": [], "depths": [], "labels": []}
    for start in range(0, len(treebank), 4000):
        batch = next(iter(DataLoader(treebank[start : start + 4000], 4000)))
        h = batch.hierarchy
        tree = torch.cat([batch["phrase"].batch, batch["word"].batch])
        depth = torch.zeros(h.num_trees, dtype=torch.long)
        found["opened"] += tree.bincount().tolist()
        found["leaves"] += h.leaf_tree.bincount().tolist()
        found["depths"] += depth.scatter_reduce(0, tree, h.depth, "amax").tolist()
        y = torch.cat([batch["phrase"].y, batch["word"].y])
        for label in range(5):
            counts = tree[y == label].bincount(minlength=h.num_trees)
            found["labels"] += [] if label else [[] for _ in range(h.num_trees)]
            for place, count in enumerate(counts.tolist()):
                found["labels"][place + start] += [label] * count
    assert found["opened"] == opened
    assert found["leaves"] == leaves
    assert found["depths"] == depths
    assert found["labels"] == [sorted(of_tree) for of_tree in labels]
    assert treebank._data.y.tolist() == [of_tree[0] for of_tree in labels]


@needs_treebank
def test_trees_are_the_lines_of_the_files(treebank, lines):
    texts = [line for part in lines.values() for line in part]
    for index in (0, 8543, 8544, 9644, 9645, 11_854, *range(100, 11_855, 997)):
        signal = treebank[index]
        assert signal.validate()
        assert to_brackets(signal) == texts[index]
    assert treebank[8544].source == "dev.txt:1"


@needs_treebank
def test_vocabulary_is_counted_on_the_training_split(treebank, lines):
    words = Counter(
        word.lower()
        for line in lines["train"]
        for word in re.findall(r"\([0-4] ([^()]+)\)", line)
        if "\\" not in word and not word.startswith("-")
    )
    known = treebank.vocabulary
    assert known[:2] == ["[PAD]", "[UNK]"]
    assert known[2:5] == [word for word, _ in words.most_common(3)]
    assert set(words) <= set(known)
    assert treebank.vocab_size == 16_584
    signal = treebank[9000]
    for number, word in zip(
        signal["word"].x.tolist(), signal["word"].text, strict=True
    ):
        assert known[number] in (word.lower(), "[UNK]")


@needs_treebank
def test_the_binary_task_leaves_out_neutral_sentences(root, treebank):
    part = SSTTrees(root, "val", binary=True, log=False)
    assert len(part) == 872
    assert part.num_classes == 2
    assert part.report == {"neutral sentences": 229}
    whole = [treebank[index] for index in range(8544, 9645)]
    kept = [signal for signal in whole if signal.y.item() != 2]
    assert [s.y.item() for s in part] == [int(s.y.item() > 2) for s in kept]
    assert part[0]["phrase"].y.equal(kept[0]["phrase"].y)


@pytest.mark.parametrize("binary", [False, True])
def test_splits_are_the_files(raw, tmp_path, binary):
    sizes = {"train": 3, "val": 2, "test": 1}
    neutral = {"train": 1, "val": 1, "test": 0}
    for split, size in sizes.items():
        part = SSTTrees(tmp_path, split, binary=binary, raw_folder=raw, log=False)
        assert len(part) == size - binary * neutral[split]
    whole = SSTTrees(tmp_path, binary=binary, log=False)
    assert len(whole) == 6 - 2 * binary
    assert whole.num_classes == (2 if binary else 5)
    assert sorted(p.name for p in (tmp_path / "raw").iterdir()) == [
        "dev.txt.gz",
        "test.txt",
        "train.txt",
    ]


def test_each_phrase_is_a_signal_once(raw, tmp_path):
    sentences = [
        "(4 (2 A) (4 (3 good) (2 film)))",
        "(3 (3 good) (2 film))",
        "(1 (4 (3 good) (2 film)) (1 (2 (2 the) (2 end)) (1 bad)))",
    ]
    (raw / "train.txt").write_text("\n".join(sentences))
    found = SSTTrees(tmp_path, "train", phrases=True, raw_folder=raw, log=False)
    assert [to_brackets(signal) for signal in found] == [
        *sentences,
        "(4 (3 good) (2 film))",
        "(2 (2 the) (2 end))",
        "(1 (2 (2 the) (2 end)) (1 bad))",
    ]
    assert [signal.y.item() for signal in found] == [4, 3, 1, 4, 2, 1]
    assert [signal.source for signal in found][2:5] == [
        *("train.txt:3", "train.txt:1, character 9", "train.txt:3, character 28"),
    ]
    assert all(signal.validate() for signal in found)
    binary = SSTTrees(tmp_path, "train", binary=True, phrases=True, log=False)
    assert [signal.y.item() for signal in binary] == [1, 1, 0, 1, 0]
    assert binary.report == {"neutral phrases": 1}
    # The files of sentences alone are others.
    assert len(SSTTrees(tmp_path, "train", log=False)) == 3


@needs_treebank
def test_the_phrases_of_the_treebank_are_as_documented(root, treebank):
    found = SSTTrees(root, "val", binary=True, phrases=True, log=False)
    assert len(found) == 872 + 9112
    assert "9,112" in SSTTrees.__doc__


def test_a_sentence_of_one_word_keeps_its_label(raw, tmp_path):
    signal = SSTTrees(tmp_path, "val", raw_folder=raw, log=False)[0]
    assert signal.y.tolist() == [2]
    assert signal["word"].x.tolist() == [1]
    assert signal.source == "dev.txt:1"


def test_vocabulary_settings(raw, tmp_path):
    def words(**settings):
        return SSTTrees(tmp_path, raw_folder=raw, log=False, **settings).vocabulary[2:]

    assert words() == ["it", "bores", "so", "works"]
    assert words(lowercase=False) == ["It", "So", "bores", "it", "works"]
    assert words(min_frequency=2) == ["it"]
    assert words(max_vocab_size=4) == ["it", "bores"]
    with pytest.raises(ValueError, match="max_vocab_size must be at least 3"):
        words(max_vocab_size=2)


def test_a_second_start_loads_and_filters_are_counted(
    raw, tmp_path, monkeypatch, capfd
):
    options = {"pre_filter": lambda s: s.y.item() > 1, "pre_transform": lambda s: s}
    first = SSTTrees(tmp_path, raw_folder=raw, **options)
    assert first.report == {"sentences that pre_filter refused": 2}
    assert "Converting SSTTrees" in capfd.readouterr().err
    monkeypatch.setattr(SSTTrees, "process", None)
    assert len(SSTTrees(tmp_path, log=False, **options)) == len(first) == 4
    torch.load(first.processed_paths[0], weights_only=True)


def test_broken_files_are_named_with_their_line(raw, tmp_path):
    (raw / "test.txt").write_text("(1 a)\n(1 (2 b)\n")
    with pytest.raises(ValueError, match=r"test.txt:2: The bracket at character 0"):
        SSTTrees(tmp_path / "a", raw_folder=raw, log=False)
    (raw / "test.txt").write_text("(7 a)\n")
    with pytest.raises(ValueError, match=r"test.txt:1: a word has the label 7"):
        SSTTrees(tmp_path / "b", raw_folder=raw, log=False)
    (raw / "train.txt").write_text("(x a")
    with pytest.raises(ValueError, match=r"train.txt:1: "):
        SSTTrees(tmp_path / "c", raw_folder=raw, log=False)
    (raw / "train.txt").write_bytes(b"(1 \xff)")
    with pytest.raises(ValueError, match=r"train.txt' is not utf-8"):
        SSTTrees(tmp_path / "d", raw_folder=raw, log=False)
    (raw / "dev.txt.gz").write_bytes(b"\x1f\x8bnothing")
    (raw / "train.txt").write_text("(1 a)")
    with pytest.raises(ValueError, match=r"dev.txt.gz' is no gzip file"):
        SSTTrees(tmp_path / "e", raw_folder=raw, log=False)
    (raw / "dev.txt.gz").unlink()
    with pytest.raises(FileNotFoundError, match=r"'dev.txt' or 'dev.txt.gz' is not in"):
        SSTTrees(tmp_path / "f", raw_folder=raw, log=False)
    for name in ("train", "dev", "test"):
        (raw / f"{name}.txt").write_text("\n")
    with pytest.raises(ValueError, match=r"train.txt' has no tree"):
        SSTTrees(tmp_path / "g", raw_folder=raw, log=False)


def test_an_empty_file_is_no_packed_one(raw, tmp_path):
    (raw / "dev.txt.gz").unlink(missing_ok=True)
    (raw / "dev.txt").unlink(missing_ok=True)
    (raw / "dev.txt.gz").write_bytes(b"")
    with pytest.raises(ValueError, match=r"dev.txt.gz' has no tree"):
        SSTTrees(tmp_path / "root", raw_folder=raw, log=False)


def test_another_treebank_under_one_root_is_refused(raw, tmp_path):
    SSTTrees(tmp_path / "root", "test", raw_folder=raw, log=False)
    (raw / "test.txt").write_text("(1 other)\n")
    with pytest.raises(ValueError, match=r"is another \w+ than raw_folder="):
        SSTTrees(tmp_path / "root", "test", raw_folder=raw, log=False)
    with pytest.raises(ValueError, match="split='dev' is not known"):
        SSTTrees(tmp_path / "root", "dev", raw_folder=raw)


def test_the_archive_of_the_publication_is_unpacked(tmp_path, monkeypatch):
    def download(url, folder, log, filename):
        assert url == "https://nlp.stanford.edu/sentiment/trainDevTestTrees_PTB.zip"
        with zipfile.ZipFile(Path(folder) / filename, "w") as archive:
            for name, lines in LINES.items():
                archive.writestr(f"trees/{name}.txt", "\n".join(lines))

    monkeypatch.setattr("hsa_pyg.datasets.raw_files.download_url", download)
    assert len(SSTTrees(tmp_path, log=False)) == 6
    assert len(list((tmp_path / "raw").iterdir())) == 3


def test_without_a_network_the_remedy_is_said(tmp_path, monkeypatch):
    def download(url, folder, log, filename):
        raise OSError("no route")

    monkeypatch.setattr("hsa_pyg.datasets.raw_files.download_url", download)
    with pytest.raises(FileNotFoundError, match=r"no route.*pass raw_folder="):
        SSTTrees(tmp_path, log=False)


@pytest.mark.parametrize("content", [b"<html>", None])
def test_what_is_not_the_archive_does_not_stay(tmp_path, monkeypatch, content):
    def download(url, folder, log, filename):
        path = Path(folder) / filename
        if content is None:
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("trees/train.txt", "")
        else:
            path.write_bytes(content)

    monkeypatch.setattr("hsa_pyg.datasets.raw_files.download_url", download)
    with pytest.raises(ValueError, match=r"gave no zip|without trees/dev.txt"):
        SSTTrees(tmp_path, log=False)
    assert list((tmp_path / "raw").iterdir()) == []
