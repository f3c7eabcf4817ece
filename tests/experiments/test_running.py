import dataclasses
import json

import pytest
import torch

from hsa_pyg.cli import SettingsError
from hsa_pyg.experiments.configuration import Setting
from hsa_pyg.experiments.running import Run, execute
from hsa_pyg.experiments.semantic_focus.settings import (
    FocusSettings,
    complete_settings,
)

TINY = {
    "train_size": 20,
    "val_size": 10,
    "batch_size": 10,
    "length": 6,
    "blocks": 1,
    "epochs": 2,
}


def make(folder, **settings):
    complete = complete_settings(FocusSettings(**{**TINY, **settings}))
    setting = Setting("tiny", complete)
    return Run("semantic-focus", setting, 3, folder / "results", folder / "work")


def test_a_run_travels_to_another_process_as_text(tmp_path):
    run = make(tmp_path, attention="hsa", windows=[3])
    assert Run.from_specification(run.specification()) == run


def test_a_run_writes_its_record_and_clears_its_folder(tmp_path):
    run, told = make(tmp_path), []
    assert not run.is_finished()
    assert run.known_seconds() is None
    record = execute(run, told.append)
    assert run.is_finished()
    assert run.record.name == "tiny-3.json"
    assert not run.folder.exists()
    assert [one.epoch for one in told] == [1, 2]
    assert all(one.rate > 0 and one.epochs == 2 for one in told)
    assert record.facts["parameters"] == 25_282
    assert run.known_seconds() == record.seconds
    # A second time it is only read.
    assert execute(run, told.append) == record
    assert len(told) == 2


def test_an_interrupted_run_with_other_settings_is_refused(tmp_path):
    run = make(tmp_path)

    def interrupt(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute(run, interrupt)
    assert (run.folder / "checkpoint.pt").exists()
    with pytest.raises(SettingsError, match=r"interrupted run .*\(clip 0.5 -> 0.25\)"):
        make(tmp_path, clip=0.25).is_finished()
    record = execute(run, lambda progress: None)
    assert len(record.history) == 2
    assert len(json.loads(run.record.read_text())["environment"]["earlier"]) == 1


def test_a_setting_whose_name_begins_alike_is_another(tmp_path):
    run = make(tmp_path)
    other = dataclasses.replace(execute(run, lambda progress: None), setting="tiny-hsa")
    run.record.unlink()
    other.write(run.results / "tiny-hsa-3.json")
    assert run.known_seconds() is None


def test_the_number_of_threads_is_as_before(tmp_path):
    before = torch.get_num_threads()
    during = []
    torch.set_num_threads(2)
    try:
        execute(make(tmp_path), lambda progress: during.append(torch.get_num_threads()))
        assert during == [1, 1]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
