import dataclasses
import json
import os

import pytest
import torch

from hsa_pyg.cli import SettingsError
from hsa_pyg.experiments import running
from hsa_pyg.experiments.configuration import Setting
from hsa_pyg.experiments.experiment import Progress
from hsa_pyg.experiments.running import Run, RunAtWorkError, execute
from hsa_pyg.experiments.semantic_focus.experiment import SemanticFocus
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


def test_the_results_of_another_run_are_not_its_own(tmp_path):
    run = make(tmp_path)
    record = execute(run, lambda progress: None)
    dataclasses.replace(record, seed=4).write(run.record)
    with pytest.raises(SettingsError, match=r"holds another run \(seed 4 -> 3\)"):
        run.is_finished()


@pytest.mark.parametrize("name", ["configuration.json", "progress.json"])
def test_a_damaged_file_of_a_run_is_named(tmp_path, name):
    run = make(tmp_path)

    def interrupt(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute(run, interrupt)
    (run.folder / name).write_text('{"epoch": ')
    with pytest.raises(SettingsError, match=rf"{name} is damaged .* delete the folder"):
        (run.is_finished(), run.standing())


def test_an_interrupted_run_with_other_settings_is_refused(tmp_path):
    run = make(tmp_path)

    def interrupt(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute(run, interrupt)
    assert (run.folder / "checkpoint.pt").exists()
    with pytest.raises(SettingsError, match=r"interrupted run .*\(clip 0.5 -> 0.25\)"):
        make(tmp_path, clip=0.25).is_finished()
    assert str(run.standing()) == "goes on after epoch 1 of 2"
    assert run.standing().left == 0.5
    record = execute(run, lambda progress: None)
    assert run.standing() is None
    assert len(record.history) == 2
    assert len(json.loads(run.record.read_text())["environment"]["earlier"]) == 1


def test_a_run_at_work_is_not_taken_by_another_process(tmp_path):
    run, told = make(tmp_path), []

    def take(progress):
        # Another process, as far as locks go: they belong to an opened file.
        with pytest.raises(RunAtWorkError, match=r"at work in another .*\(tiny-3\)"):
            execute(run, lambda progress: None)
        told.append(progress.epoch)

    execute(run, take)
    assert told == [1, 2]
    assert run.is_finished()
    assert not run.folder.exists()


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


@pytest.fixture
def begun(tmp_path):
    """A run that was interrupted after its first epoch."""
    run = make(tmp_path)
    assert run.standing() is None

    def interrupt(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute(run, interrupt)
    return run


def test_a_checkpoint_without_its_epoch_is_said_to_be_there(begun):
    # As of a version that did not write it.
    (begun.folder / "progress.json").unlink()
    assert str(begun.standing()) == "goes on from its last epoch"
    assert begun.standing().left == 1.0
    assert len(execute(begun, lambda progress: None).history) == 2


def test_an_epoch_that_is_not_of_the_checkpoint_is_not_told(begun):
    # Killed after another epoch's checkpoint, before the file that tells of it.
    later = (begun.folder / "checkpoint.pt").stat().st_mtime_ns + 10**9
    os.utime(begun.folder / "checkpoint.pt", ns=(later, later))
    assert str(begun.standing()) == "goes on from its last epoch"


def test_a_run_without_a_checkpoint_starts_again(begun):
    (begun.folder / "checkpoint.pt").unlink()
    assert str(begun.standing()).startswith("starts again")


class InOneGo(SemanticFocus):
    """Tells of an epoch, and keeps no checkpoint."""

    def run(self, settings, seed, checkpoint, tell):
        tell(Progress(1, 1, "done", 0.0))
        raise KeyboardInterrupt


def test_what_keeps_no_checkpoint_does_not_say_that_it_goes_on(tmp_path, monkeypatch):
    run = make(tmp_path)
    monkeypatch.setattr(running, "find_experiment", lambda name: InOneGo())
    with pytest.raises(KeyboardInterrupt):
        execute(run, lambda progress: None)
    assert str(run.standing()).startswith("starts again")
