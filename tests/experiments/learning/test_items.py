import pytest
import torch

from hsa_pyg.cli import SettingsError
from hsa_pyg.experiments.learning.building import build_model
from hsa_pyg.experiments.learning.settings import LearningSettings, complete_settings
from hsa_pyg.experiments.learning.task import load_task
from hsa_pyg.loader import DataLoader
from hsa_pyg.nn import KeyValuePosition
from tests.experiments.learning import small_sources

SMALL = {"channels": 8, "heads": 2, "position_channels": 4}


def load(tmp_path, **options):
    settings = complete_settings(LearningSettings(**SMALL, **options))
    return settings, load_task(settings, tmp_path / "data", tmp_path / "cache")


def leaves(task, kind):
    return sum(signal[kind].num_nodes for signal in task.train)


@pytest.mark.parametrize(
    ("parts", "has"), [("both", (1, 1)), ("text", (1, 0)), ("image", (0, 1))]
)
def test_emoji_are_known_by_the_parts_that_are_asked_for(tmp_path, parts, has):
    small_sources.write_emoji(tmp_path / "cache")
    settings, task = load(tmp_path, task="emoji", parts=parts)
    assert (len(task.train), len(task.val), len(task.test)) == (32, 4, 4)
    assert task.facts["train"] == 32
    found = (leaves(task, "token") > 0, leaves(task, "patch") > 0)
    assert found == tuple(map(bool, has))
    batch = next(iter(DataLoader(task.train, 4, schema=task.schema)))
    for model in ("hsa", "flat", "deepset"):
        settings.model = model
        out = build_model(settings, task)(batch)
        assert out.shape == (4, 2)
        assert out.isfinite().all()


def test_texts_are_for_a_bag_of_words(tmp_path):
    small_sources.write_emoji(tmp_path / "cache")
    _, task = load(tmp_path, task="emoji")
    train, _, test = task.texts()
    assert len(train.texts) == 32
    assert len(test.texts) == 4
    assert train.labels.tolist() == [int(signal.y) for signal in task.train]
    # The classes are Flags and Food; neither word is there.
    assert "waving" in train.texts[int(torch.argmin(train.labels))]
    _, alone = load(tmp_path, task="emoji", parts="image")
    assert alone.texts is None


def test_subcategories_are_other_classes(tmp_path):
    small_sources.write_emoji(tmp_path / "cache")
    _, task = load(tmp_path, task="emoji", target="subcategory")
    assert task.outputs == 2
    assert sorted({int(signal.y) for signal in task.train}) == [0, 1]


def test_clip_art_has_22_classes(tmp_path):
    small_sources.write_clip_art(tmp_path / "data")
    _, task = load(tmp_path, task="clip-art")
    assert task.outputs == 22
    assert (len(task.train), len(task.val), len(task.test)) == (16, 2, 2)
    assert leaves(task, "token") > 0
    assert leaves(task, "patch") > 0


def test_clip_art_that_is_not_there_says_where_to_get_it(tmp_path):
    with pytest.raises(SettingsError, match="openclipart-png"):
        load(tmp_path, task="clip-art")


@pytest.mark.parametrize(
    ("parts", "documents", "pictures"), [("both", 4, 1), ("text", 3, 0)]
)
def test_news_have_their_parts_and_positions_by_key(
    tmp_path, parts, documents, pictures
):
    small_sources.write_news(tmp_path / "data")
    settings, task = load(tmp_path, task="n24news", parts=parts)
    assert task.outputs == 2
    assert len(task.train) + len(task.val) + len(task.test) == 60
    assert task.facts["left out"]["train"] == {}
    signal = task.train[0]
    assert signal["document"].num_nodes == documents
    assert signal["image"].num_nodes == pictures
    batch = next(iter(DataLoader(task.train, 4, schema=task.schema)))
    model = build_model(settings, task)
    assert model(batch).isfinite().all()
    item, figure = (model.position.domains[kind] for kind in ("item", "figure"))
    assert isinstance(item, KeyValuePosition)
    assert item.embedding.weight.shape == (6, 4)
    assert item is not figure
    again = build_model(settings, task).position.domains["item"]
    assert not torch.equal(again.embedding.weight, item.embedding.weight)


def test_texts_of_news_are_cut(tmp_path):
    small_sources.write_news(tmp_path / "data")
    _, whole = load(tmp_path, task="n24news", parts="text")
    _, cut = load(tmp_path, task="n24news", parts="text", max_tokens=2)
    assert leaves(whole, "token") > leaves(cut, "token") == 3 * 2 * len(cut.train)
    assert "caption" not in repr(whole.texts()[0].texts)
    assert "picture" not in repr(whole.texts()[0].texts)


def test_news_that_are_not_there_say_where_to_get_them(tmp_path):
    with pytest.raises(SettingsError, match="N24News there"):
        load(tmp_path, task="n24news")
