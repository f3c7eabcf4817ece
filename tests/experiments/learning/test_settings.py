import pytest

from hsa_pyg.cli import SettingsError
from hsa_pyg.experiments.configuration import expand, load_configuration, override
from hsa_pyg.experiments.learning.settings import (
    BAG_OF_WORDS,
    LearningSettings,
    complete_settings,
)

CONFIGURATIONS = (
    *("reviews", "reviews-folds", "imdb", "imdb-paper", "sst", "list-ops", "elec"),
    "ablations",
)


def complete(**settings):
    return complete_settings(LearningSettings(**settings))


def test_what_is_usual_depends_on_the_task_and_the_regime():
    assert complete(task="imdb").train_size == 5_000
    assert complete(task="imdb", train_size=0).train_size == 0
    assert complete(task="MOVIE_REVIEWS").task == "movie-reviews"
    paper = complete(task="imdb", regime="paper")
    assert (paper.layers, paper.heads, paper.channels) == (1, 3, 384)
    assert (paper.lr, paper.schedule, paper.block) == (2e-5, "linear", "paper")
    assert paper.self_attention is False
    assert (paper.hidden, paper.expansion) == (128, None)
    wide = complete(task="imdb", regime="paper", expansion=2)
    assert (wide.hidden, wide.expansion) == (None, 2)
    assert (complete().hidden, complete().expansion) == (None, 2)
    assert complete(regime="paper", lr=1e-3).lr == 1e-3


def test_null_is_what_is_usual():
    names = ("readout", "tree", "position", "features", "regime", "clip", "max_tokens")
    assert complete(**dict.fromkeys(names)) == complete()
    assert complete(task="emoji", parts=None).parts == "both"


def test_what_plays_no_part_is_cleared():
    deepset = complete(model="deepset")
    assert deepset == complete(model="deepset", heads=2, position_channels=8)
    assert deepset.heads is None
    assert complete(model="hsa", window=5).window is None
    assert complete(model="segment").window == 128
    narrow = complete(model="deepset", hidden=32)
    assert (narrow.hidden, narrow.expansion) == (32, None)
    for model in ("segment", "hgt", "gps", "performer"):
        other = complete(model=model, hidden=32)
        assert other == complete(model=model)
        assert other.hidden is None
    assert complete(task="bbbp", model="gine-hsa", hidden=32).hidden is None
    assert complete(windows=[3]).windows == []
    assert complete(task="sst", phrase_weight=0.5).phrase_weight == 0.5
    assert complete(task="sst", tree="flat", phrase_weight=0.5).phrase_weight == 0.0
    assert complete(phrase_weight=0.5).phrase_weight is None
    bag = complete(model=BAG_OF_WORDS, lr=0.5, features="glove", max_tokens=9)
    assert bag == complete(model=BAG_OF_WORDS)
    assert complete(task="bbbp", model="gine-none").heads is None
    assert complete(task="emoji", target="subcategory").target == "subcategory"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"task": "imbd"}, "no task 'imbd'; did you mean 'imdb'"),
        ({"model": "flatt"}, "did you mean 'flat'"),
        ({"features": "bert"}, "no features 'bert'"),
        ({"heads": 3}, "3 heads do not divide 64 channels"),
        ({"model": "performer", "heads": 64}, "64 heads leave one of 64"),
        (
            {"task": "esol", "model": "gine-performer", "channels": 4},
            "4 heads leave one of 4",
        ),
        ({"model": "segment", "layers": 1}, "needs layers=2"),
        ({"tree": "windows", "windows": []}, "needs windows"),
        ({"tree": "windows", "windows": [1]}, "at least 2 wide"),
        ({"task": "sst", "features": "minilm-sentences"}, "has no features"),
        ({"task": "list-ops", "features": "glove"}, "has no features 'glove'"),
        ({"vectors": "here.txt"}, "vectors is for"),
        ({"features": "minilm-words"}, "has no features 'minilm-words'"),
        ({"tune_vectors": True}, "tune_vectors is for features=glove or minilm-tok"),
        ({"fold": 10}, "0 to 9"),
        ({"dropout": 1.0}, r"in \[0, 1\)"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"hidden": 0}, "hidden must be at least 1"),
        ({"hidden": 32, "expansion": 1}, "set one of them"),
        ({"group": 1}, "at least 2 nodes"),
        ({"length": [5]}, "takes two numbers"),
        ({"model": "gine-hsa"}, "reads bonds"),
        ({"task": "emoji", "train_size": 5}, "no choice of train_size"),
        ({"task": "bbbp", "tree": "flat"}, "no choice of tree"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, message):
    with pytest.raises(SettingsError, match=message):
        complete(**settings)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_shipped_configurations_are_whole(name):
    configuration = load_configuration(name)
    settings = expand(configuration)
    assert len(settings) >= 2
    assert configuration.page == "docs/results.md"
    assert any(one.settings.model == "hsa" for one in settings)


def test_the_paper_compares_with_the_flat_twin_of_512_tokens():
    configuration = load_configuration("imdb-paper")
    override(configuration, ["model=flat"])
    (setting,) = expand(configuration)
    assert setting.settings.max_tokens == 512
    assert setting.settings.tree == "flat"


def test_ablations_change_one_thing_each():
    settings = [one.settings for one in expand(load_configuration("ablations"))]
    assert len(settings) == 13
    assert {one.tree for one in settings} == {"own", "random", "windows"}
    assert {one.depth for one in settings if one.tree == "own"} == {0, 1, 2}
    assert sum(bool(one.position) for one in settings) == 12
