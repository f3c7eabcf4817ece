from pathlib import Path

import pytest

from hsa_pyg.cli import SettingsError
from hsa_pyg.experiments.learning.settings import LearningSettings, complete_settings
from hsa_pyg.experiments.learning.task import OF_DATA, drawn, load_task
from tests.experiments.learning import tiny_data


class Watched:
    """Settings that remember what of them was read."""

    def __init__(self, settings):
        self._settings, self.read = settings, set()

    def __getattr__(self, name):
        self.read.add(name)
        return getattr(self._settings, name)


def test_a_draw_is_the_same_for_all_runs():
    places = drawn(100, 10, "training")
    assert places == drawn(100, 10, "training") == sorted(set(places))
    assert len(places) == 10
    assert drawn(3, 0, "test") == drawn(3, None, "test") == [0, 1, 2]
    with pytest.raises(SettingsError, match="There are 3 test samples, not 4"):
        drawn(3, 4, "test")


@pytest.mark.parametrize("task", ["imdb", "elec", "sst"])
def test_data_that_are_not_there_are_told_of(task, tmp_path):
    settings = complete_settings(LearningSettings(task=task))
    with pytest.raises(SettingsError, match="HSA_PYG_DATA"):
        load_task(settings, tmp_path / "data", tmp_path / "cache")


def test_an_unknown_task_is_refused():
    settings = LearningSettings(task="imbd")
    with pytest.raises(SettingsError, match="did you mean 'imdb'"):
        load_task(settings, Path("data"), Path("cache"))


@pytest.mark.parametrize(
    "chosen",
    [
        {"task": "movie-reviews", "fold": 0, "max_tokens": 5, "tree": "windows"},
        {"task": "movie-reviews", "train_size": 8, "depth": 2},
        {"task": "imdb", "train_size": 0, "val_size": 0, "tree": "random"},
        {"task": "sst", "binary": True, "group": 2},
        {"task": "sst", "each_phrase": True},
        {"task": "list-ops", "train_size": 4, "val_size": 2, "test_size": 2}
        | {"length": [5, 9], "tree": "flat"},
    ],
    ids=["folds", "drawn", "imdb", "sst", "phrases", "list-ops"],
)
def test_what_a_task_reads_is_listed(chosen, tmp_path):
    data, cache = tmp_path / "data", tmp_path / "cache"
    tiny_data.write_movie_reviews(cache)
    tiny_data.write_imdb(data)
    tiny_data.write_sst(data)
    watched = Watched(complete_settings(LearningSettings(**chosen)))
    task = load_task(watched, data, cache)
    assert len(task.train) > 0
    assert "task" in watched.read
    assert watched.read <= set(OF_DATA)
