from pathlib import Path

import pytest

from hsa_pyg.cli import SettingsError
from hsa_pyg.experiments.learning.settings import LearningSettings, complete_settings
from hsa_pyg.experiments.learning.task import drawn, load_task


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
