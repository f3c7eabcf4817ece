import re
import zipfile
from pathlib import Path

import pytest
import torch
from torch_geometric.loader import DataLoader

from hsa_pyg.datasets import Shakespeare
from hsa_pyg.datasets.plays import read_plays
from hsa_pyg.datasets.shakespeare import split_scenes

ZIP = (
    Path(__file__).parents[2].parent
    / "shared"
    / "data"
    / "shakespeare"
    / "shakespeare.zip"
)
needs_plays = pytest.mark.skipif(not ZIP.exists(), reason="the plays are not there")
SPLITS = ("train", "val", "test")


def speech(speaker, *lines):
    body = "".join(f"<LINE>{line}</LINE>" for line in lines)
    return f"<SPEECH><SPEAKER>{speaker}</SPEAKER>{body}</SPEECH>"


@pytest.fixture
def small_zip(tmp_path):
    """A play of two acts with five scenes each, of Ann, Bob and once the moon."""
    path = tmp_path / "small.zip"
    acts = ""
    for act in range(2):
        scenes = ""
        for scene in range(5):
            scenes += "<SCENE>"
            scenes += speech("ANN", f"I am here {act}.", "And there.")
            scenes += speech("BOB", f"No {scene}, you.")
            scenes += "</SCENE>"
        acts += f"<ACT>{scenes}</ACT>"
    acts = acts.replace("</SCENE>", speech("MOON", "Shine", "shine!") + "</SCENE>", 1)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("plays/dusk.xml", f"<PLAY>{acts}</PLAY>")
    return path


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("shakespeare")


@pytest.fixture(scope="module")
def raw_plays():
    """The plays as they stand in the files, read without the package."""
    with zipfile.ZipFile(ZIP) as archive:
        return {
            name: archive.read(name).decode()
            for name in archive.namelist()
            if name.endswith(".xml")
        }


@needs_plays
def test_whole_plays_hold_every_element(root, raw_plays):
    plays = Shakespeare(root, level="play", raw_zip=ZIP, log=False)
    assert len(plays) == 8
    for play, (_, text) in zip(plays, sorted(raw_plays.items()), strict=True):
        assert play.validate()
        assert play["act"].num_nodes == text.count("<ACT>")
        scenes = text.count("<SCENE>") + text.count("<PROLOGUE>")
        assert play["scene"].num_nodes == scenes
        assert play["speech"].num_nodes == text.count("<SPEECH>")
        spoken = re.sub(r"<STAGEDIR>.*?</STAGEDIR>", "", text, flags=re.DOTALL)
        lines = re.findall(r"<LINE>(.*?)</LINE>", spoken, flags=re.DOTALL)
        lines = [" ".join(line.split()) for line in lines if line.strip()]
        assert play["line"].num_nodes == len(lines)
        whole = play["play"].text[0]
        assert whole == "\n".join(lines).replace("&amp;", "&")
        spans = play["token"].span.tolist()
        covered = "".join(whole[start:stop] for start, stop in spans)
        assert covered == "".join(whole.split())
        for kind in ("play", "act", "scene", "speech"):
            first, last = play[kind].span[0, 0], play[kind].span[-1, 1]
            assert (first, last) == (0, len(whole))
    assert plays.report["elements STAGEDIR"] == sum(
        text.count("<STAGEDIR>") for text in raw_plays.values()
    )
    speeches = sum(play["speech"].num_nodes for play in plays)
    assert speeches == 6914
    masks = torch.stack([plays._data["speech"][f"{part}_mask"] for part in SPLITS])
    assert masks.sum(0).eq(1).all()


@needs_plays
def test_speeches_are_labelled_by_their_speaker(root, raw_plays):
    speeches = Shakespeare(root, raw_zip=ZIP, log=False)
    assert len(speeches) == 4125
    assert speeches.num_classes == 36
    left = speeches.report
    rare = left["speeches of speakers with fewer than 50"]
    assert rare + left["speeches without one speaker"] + len(speeches) == 6914
    hamlet = speeches.classes.index("hamlet/HAMLET")
    assert int((speeches._data.y == hamlet).sum()) == 359
    signal = speeches[1000]
    assert signal.validate()
    play = signal.source.split("/")[0]
    assert speeches.classes[signal.y].startswith(play)
    raw = next(text for name, text in raw_plays.items() if f"/{play}.xml" in name)
    first = signal["speech"].text[0].split("\n")[0]
    before = raw[: raw.index(first)]
    speaker = re.findall(r"<SPEAKER>(.*?)</SPEAKER>", before)[-1]
    assert speeches.classes[signal.y] == f"{play}/{speaker}"


@needs_plays
def test_scenes_are_in_one_part_each(root):
    parts = {
        split: Shakespeare(root, split, level="scene", raw_zip=ZIP, log=False)
        for split in SPLITS
    }
    places = {split: {s.source for s in part} for split, part in parts.items()}
    assert [len(found) for found in places.values()] == [142, 18, 18]
    assert len(set().union(*places.values())) == 178
    for split, part in parts.items():
        assert part[0]["speech"][f"{split}_mask"].all()
        plays = {place.split("/")[0] for place in places[split]}
        assert len(plays) == 8
    speeches = Shakespeare(root, "test", raw_zip=ZIP, log=False)
    assert {s.source.rpartition("/")[0] for s in speeches} <= places["test"]
    assert speeches._data["token"].x.max() < speeches.vocab_size
    # Known by name: a change here changes everyone's test set.
    assert sorted(places["test"])[:3] == ["a_and_c/3/11", "a_and_c/3/4", "a_and_c/4/15"]


def test_a_scene_is_a_tree_of_speeches(small_zip, tmp_path):
    scenes = Shakespeare(
        tmp_path, level="scene", min_speeches=5, raw_zip=small_zip, log=False
    )
    assert len(scenes) == 10
    scene = scenes[0]
    assert scene.source == "dusk/1/1"
    assert scenes.classes == ("dusk/ANN", "dusk/BOB")
    assert scene["speech"].y.tolist() == [0, 1, -100]
    assert scene["speech"].speaker == ["ANN", "BOB", "MOON"]
    assert scene["speech"].pos.tolist() == [[0], [1], [2]]
    assert scene["line"].pos.tolist() == [[0], [1], [0], [0], [1]]
    text = scene["scene"].text[0]
    assert text == "I am here 0.\nAnd there.\nNo 0, you.\nShine\nshine!"
    assert [text[a:b] for a, b in scene["line"].span.tolist()] == text.split("\n")
    assert [text[a:b] for a, b in scene["speech"].span.tolist()][1] == "No 0, you."
    assert scene["line", "child_of", "speech"].edge_index[1].tolist() == [0, 0, 1, 2, 2]


def test_a_speech_is_a_tree_of_lines(small_zip, tmp_path):
    speeches = Shakespeare(tmp_path, min_speeches=5, raw_zip=small_zip, log=False)
    assert len(speeches) == 20
    assert speeches.report == {"speeches of speakers with fewer than 5": 1}
    signal = speeches[0]
    assert signal.source == "dusk/1/1/1"
    assert signal.y.tolist() == [0]
    assert signal.node_types == ["speech", "line", "token"]
    batch = next(iter(DataLoader(speeches, batch_size=20)))
    assert batch.hierarchy.num_trees == 20
    assert batch.y.tolist() == [0, 1] * 10


def test_vocabulary_is_counted_on_the_training_scenes(small_zip, tmp_path):
    found = Shakespeare(
        tmp_path, min_speeches=5, min_frequency=1, raw_zip=small_zip, log=False
    )
    parts = split_scenes(read_plays(small_zip))
    numbers = {p.split("/")[2] for p, part in parts.items() if part == "train"}
    known = {str(int(number) - 1) for number in numbers} | {"0", "1"}
    words = set(found.tokenizer.get_vocab())
    assert words & set("0123456789") == known


def test_a_second_start_loads(small_zip, tmp_path, monkeypatch):
    options = {"min_speeches": 5, "pre_filter": lambda s: True}
    Shakespeare(tmp_path, raw_zip=small_zip, pre_transform=lambda s: s, **options)
    monkeypatch.setattr(Shakespeare, "process", None)
    again = Shakespeare(tmp_path, log=False, pre_transform=lambda s: s, **options)
    assert again.num_classes == 2
    torch.load(again.processed_paths[0], weights_only=True)


def test_bad_arguments_are_named(small_zip, tmp_path):
    def load(*args, root="root", **options):
        options = {"raw_zip": small_zip, "log": False, **options}
        return Shakespeare(tmp_path / root, *args, **options)

    with pytest.raises(ValueError, match="level='act' is not"):
        load(level="act")
    with pytest.raises(ValueError, match="split='dev' is not known"):
        load("dev")
    with pytest.raises(ValueError, match="a play has scenes of every part"):
        load("test", level="play")
    with pytest.raises(ValueError, match=r"No speaker has min_speeches=50 .* is 10"):
        load()
    with pytest.raises(ValueError, match=r"has no sample .*20 samples that pre_filter"):
        load(min_speeches=5, pre_filter=lambda signal: False)
    other = tmp_path / "other.zip"
    other.write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"is another \w+ than raw_zip="):
        load(raw_zip=other)
    with pytest.raises(ValueError, match=r"other.zip' is no zip archive"):
        load(raw_zip=other, root="new")


def test_a_missing_archive_says_where_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr("hsa_pyg.datasets.shipped.__file__", str(tmp_path / "a/b/c.py"))
    with pytest.raises(FileNotFoundError, match="Pass raw_zip=, a zip archive of the"):
        Shakespeare(tmp_path, log=False)


def test_what_was_left_out_is_said_once(small_zip, tmp_path, capsys):
    Shakespeare(tmp_path / "root", raw_zip=small_zip, min_speeches=5)
    assert capsys.readouterr().err.count("Left out") == 1
