import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from hsa_pyg.cli import SettingsError, experiment
from hsa_pyg.cli.app import app
from hsa_pyg.experiments.configuration import load_configuration
from hsa_pyg.experiments.descriptions import describe_settings
from hsa_pyg.experiments.experiment import find_experiment
from hsa_pyg.experiments.semantic_focus.experiment import SemanticFocus

TINY = {
    "train_size": 30,
    "val_size": 10,
    "batch_size": 10,
    "length": 10,
    "blocks": 1,
    "epochs": 2,
}


def tiny(**changes):
    return [
        part
        for key, value in {**TINY, **changes}.items()
        for part in ("--set", f"{key}={value}")
    ]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A function that runs the command in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        return CliRunner().invoke(app, list(arguments), catch_exceptions=False)

    return run


def results(folder):
    paths = sorted((folder / "docs/results/semantic-focus").glob("*.json"))
    return {path.name: json.loads(path.read_text()) for path in paths}


def numbers(result):
    return {key: x for key, x in result["history"].items() if "seconds" not in key}


def test_an_experiment_is_run_once_and_reported(run, tmp_path):
    asked = ["experiment", "semantic-focus", "--task", "even-pairs"]
    asked += ["--attention", "full,topk", "--attention", "hsa", "--seeds", "2"]
    asked += [*tiny(), "--jobs", "0"]
    planned = run(*asked, "--dry-run").output
    assert "6 runs, 0 of them finished before" in planned
    assert re.search(
        r"In all 0.\d minutes of work, about 0.\d minutes by 1 job\.", planned
    )
    assert not (tmp_path / "docs").exists()
    assert run(*asked).exit_code == 0
    found = results(tmp_path)
    assert len(found) == 6
    assert not list((tmp_path / "runs/experiments/semantic-focus").iterdir())
    for result in found.values():
        assert result["history"]["epoch"] == [0, 1]
        assert result["configuration"]["train_size"] == 30
        assert result["environment"]["versions"]["torch"]
        assert {"revision", "dirty", "processor"} <= result["environment"].keys()
        assert result["final"]["val_loss"] == result["history"]["val_loss"][-1]
        assert result["peak_memory"] > 0
        assert result["attention_flops"] > 0
        assert result["seconds"] > 0
        assert all(x > 0 for x in result["history"]["processor_seconds"])
    assert "6 runs, 6 of them finished before" in run(*asked).output
    assert results(tmp_path) == found

    report = run("report", "semantic-focus", "--page", "docs/page.md")
    assert "6 runs -> docs/page.md" in report.output
    page = (tmp_path / "docs/page.md").read_text()
    assert "### even-pairs" in page
    assert page.count("| topk |") == 3
    picture = tmp_path / "docs/images/semantic_focus_even-pairs.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "(images/semantic_focus_even-pairs.png)" in page
    (tmp_path / "docs/results/of-others").mkdir()
    report = run("report")
    assert "of-others is of no shipped experiment" in report.output
    assert "6 runs -> docs/semantic_focus.md" in report.output
    assert (tmp_path / "docs/semantic_focus.md").exists()


def test_a_finished_run_with_other_settings_is_refused(run, tmp_path):
    asked = ["experiment", "semantic-focus", "--attention", "full", "--seeds", "1"]
    run(*asked, *tiny(), "--jobs", "0")
    (name,) = results(tmp_path)
    path = tmp_path / "docs/results/semantic-focus" / name
    held = json.loads(path.read_text())
    held["configuration"]["clip"] = 0.25
    path.write_text(json.dumps(held))
    with pytest.raises(SettingsError, match=r"\(clip 0.25 -> 0.5\).*choose another"):
        run(*asked, *tiny(), "--jobs", "0")
    path.write_text("{")
    with pytest.raises(ValueError, match="no results file"):
        run(*asked, *tiny(), "--jobs", "0")


def test_a_killed_run_goes_on_and_ends_as_an_undisturbed_one(run, tmp_path):
    more = tiny(epochs=4, train_size=1_000, attention="topk")
    asked = ["experiment", "semantic-focus", "--seeds", "1", *more]
    command = [sys.executable, "-m", "hsa_pyg.cli", *asked, "--jobs", "1"]
    asked += ["--jobs", "0"]
    child = subprocess.Popen(command, cwd=tmp_path, start_new_session=True)
    work = tmp_path / "runs/experiments/semantic-focus"
    deadline = time.monotonic() + 600
    while not list(work.glob("*/checkpoint.pt")):
        assert time.monotonic() < deadline
        assert child.poll() is None
        time.sleep(0.02)
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    assert not results(tmp_path)
    (path,) = work.glob("*/checkpoint.pt")
    epochs = len(torch.load(path)["history"])
    done = run(*asked)
    assert done.exit_code == 0
    # It may have been killed between the checkpoint and the file that tells its epoch.
    name = path.parent.name
    assert (
        f"{name} goes on after epoch {epochs} of 4." in done.output
        or f"{name} goes on from its last epoch." in done.output
    )
    (resumed,) = results(tmp_path).values()
    assert run(*asked, "--out", "again/docs/results").exit_code == 0
    (whole,) = results(tmp_path / "again").values()
    assert len(whole["history"]["epoch"]) == 4
    assert numbers(resumed) == numbers(whole)
    assert len(resumed["environment"]["earlier"]) == 1
    assert "earlier" not in whole["environment"]


@pytest.mark.parametrize("send", [os.kill, os.killpg])
def test_ctrl_c_leaves_what_can_be_gone_on_from(tmp_path, run, send):
    more = tiny(epochs=500, train_size=500)
    asked = ["experiment", "semantic-focus", "--attention", "full", "--seeds", "2"]
    command = [sys.executable, "-m", "hsa_pyg.cli", *asked, *more]
    child = subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Tests that run in the background of a shell may ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    work = tmp_path / "runs/experiments/semantic-focus"
    deadline = time.monotonic() + 600
    while len(list(work.glob("*/progress.json"))) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    send(child.pid, signal.SIGINT)
    output, _ = child.communicate(timeout=600)
    assert child.returncode == 130
    assert "repeat the command" in output
    assert not results(tmp_path)
    # None of the two counts as done.
    assert "all runs" in output
    assert "0/2" in output
    assert "2/2" not in output
    said = run(*asked, *more, "--dry-run").output
    for path in work.glob("*/checkpoint.pt"):
        epochs = len(torch.load(path)["history"])
        told = (
            f"{path.parent.name} goes on after epoch {epochs} of 500.",
            f"{path.parent.name} goes on from its last epoch.",
        )
        assert any(line in output for line in told)
        assert any(line in said for line in told)


def test_a_run_that_fails_is_named_and_the_others_are_done(run, tmp_path):
    asked = ["experiment", "semantic-focus", "--seeds", "1", "--jobs", "2"]
    asked += ["--attention", "full", *tiny(clip="1e30"), "--set", "lr=1e30,0.1"]
    done = run(*asked)
    assert done.exit_code == 1
    assert "failed, exit status 1: FloatingPointError: The training loss" in done.output
    assert len(results(tmp_path)) == 1


def test_what_is_not_there_is_said(run):
    with pytest.raises(SettingsError, match="did you mean 'semantic-focus'"):
        run("experiment", "semantic-focu")
    with pytest.raises(SettingsError, match="no setting 'epoch'"):
        run("experiment", "semantic-focus", "--set", "epoch=3")
    Path("taken").write_text("")
    with pytest.raises(SettingsError, match=r"can be written .* another --out"):
        run("experiment", "semantic-focus", "--seeds", "1", "--out", "taken")
    with pytest.raises(SettingsError, match=r"There is no file 'mine\.yaml': give"):
        run("experiment", "mine.yaml")
    with pytest.raises(SettingsError, match="k=3: k plays no part in any of these 1"):
        run("experiment", "semantic-focus", "--attention", "full", "--set", "k=3")
    with pytest.raises(FileNotFoundError, match="no results of experiments in docs"):
        run("report")
    with pytest.raises(FileNotFoundError, match="run hsa-pyg experiment first"):
        run("report", "semantic-focus")


def test_a_plan_adds_up_in_the_unit_of_its_rows(run, monkeypatch):
    asked = ["experiment", "semantic-focus", "--attention", "full,topk", "--dry-run"]
    asked += ["--seeds", "2", *tiny()]
    # Four runs of 100 minutes each, then of 100 seconds.
    monkeypatch.setattr(SemanticFocus, "work", lambda self, settings: 3e12)
    monkeypatch.setattr(experiment, "_matrix_speed", lambda: 1e9)
    planned = run(*asked, "--jobs", "3").output
    assert planned.count(": 2 runs of 100.0 minutes (from its FLOPs)") == 2
    assert "In all 6.7 hours of work, about 3.3 hours by 3 jobs." in planned
    monkeypatch.setattr(SemanticFocus, "work", lambda self, settings: 5e10)
    planned = run(*asked, "--jobs", "2").output
    assert planned.count(": 2 runs of 1.7 minutes (from its FLOPs)") == 2
    assert "In all 6.7 minutes of work, about 3.3 minutes by 2 jobs." in planned
    one = [word for word in asked if word not in ("--seeds", "2")]
    planned = run(*one, "--seeds", "1").output
    assert planned.count(": 1.7 minutes (from its FLOPs)") == 2


def test_without_a_name_the_shipped_experiments_are_listed(run, tmp_path):
    done = run("experiment")
    assert done.exit_code == 0
    shipped = Path(__file__).parents[2] / "examples" / "experiments"
    for path in shipped.glob("*.yaml"):
        assert f"  {path.stem} " in done.output
    # What the file says, up to its first full stop.
    text = " ".join(done.output.split())
    assert "Stanford Sentiment Treebank on its own parse trees" in text
    assert "Leaves are GloVe vectors" not in text
    assert not list(tmp_path.iterdir())
    for asked in (["--task", "sst"], ["--dry-run"], ["--settings"]):
        with pytest.raises(SettingsError, match="need the NAME of an experiment"):
            run("experiment", *asked)


@pytest.mark.parametrize("name", ["semantic-focus", "reviews", "cora"])
def test_the_settings_of_an_experiment_are_listed(run, tmp_path, name):
    done = run("experiment", name, "--settings")
    assert done.exit_code == 0
    assert not list(tmp_path.iterdir())
    configuration = load_configuration(name)
    described = describe_settings(find_experiment(configuration.experiment).settings)
    rows = [line.split() for line in done.output.splitlines() if line[2:3].strip()]
    listed = [row[0] for row in rows if row[0] in described]
    assert listed == list(described)


def test_settings_are_listed_as_they_are_asked_for(run):
    asked = ["experiment", "semantic-focus", "--attention", "hsa", "--settings"]
    asked += ["--task", "list-ops", "--set", "nesting=windows"]
    output = run(*asked, "--set", "windows=[5,4]", "--set", "lr=0.5,0.25").output
    rows = {row[0]: row[1:] for row in map(str.split, output.splitlines()) if row}
    assert rows["windows"][0] == "[5,4]"
    assert rows["lr"][:2] == ["0.5,", "0.25"]
    assert rows["log_scores"][0] == "false"
    assert rows["max_length"][0] == "600"
    assert rows["length"][0] == rows["k"][0] == "-"
    assert "One of list-ops, even-pairs," in " ".join(output.split())
    assert "plays no part here" in output
