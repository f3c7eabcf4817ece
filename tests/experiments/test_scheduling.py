import re
import signal
import sys

import pytest

from hsa_pyg.experiments import scheduling
from hsa_pyg.experiments.configuration import Setting
from hsa_pyg.experiments.experiment import TERMINATED
from hsa_pyg.experiments.running import Run
from hsa_pyg.experiments.scheduling import Schedule
from hsa_pyg.experiments.semantic_focus.settings import (
    FocusSettings,
    complete_settings,
)

TINY = {"train_size": 10, "val_size": 5, "batch_size": 5, "length": 4, "blocks": 1}


@pytest.fixture
def runs(tmp_path):
    """Two small runs."""
    setting = Setting("tiny", complete_settings(FocusSettings(**TINY, epochs=1)))
    return [
        Run("semantic-focus", setting, seed, tmp_path / "results", tmp_path / "work")
        for seed in (0, 1)
    ]


@pytest.fixture
def ends_by(monkeypatch):
    """A function that has every run's process end in one way."""
    popen = scheduling.subprocess.Popen

    def set_up(code):
        def start(command, **options):
            return popen([sys.executable, "-c", code], **options)

        monkeypatch.setattr(scheduling.subprocess, "Popen", start)

    return set_up


def kill(number):
    return f"import os; os.kill(os.getpid(), {int(number)})"


@pytest.mark.parametrize(
    ("code", "jobs", "told"),
    [
        (
            kill(signal.SIGKILL),
            2,
            r"was killed \(out of memory\?\)\. .* --jobs 1 to go",
        ),
        (kill(signal.SIGKILL), 1, r"was killed \(out of memory\?\)\. Free some memory"),
        (
            kill(signal.SIGSEGV),
            2,
            r"was ended by signal 11, Segm.* \(log: .*log\.txt\)",
        ),
        ("raise SystemExit(130)", 2, "was interrupted. Repeat the command to go on"),
        ("raise SystemExit(143)", 2, "was interrupted. Repeat the command to go on"),
        ("raise SystemExit(0)", 2, r"left no results \(log: .*log\.txt\)\."),
        ("raise KeyError('clip')", 2, "failed, exit status 1: KeyError: 'clip'"),
        ("raise SystemExit(75)", 2, r"is at work in another process \(tiny-[01]\)\."),
        ("raise SystemExit(3)", 2, "failed, exit status 3: it said nothing"),
    ],
)
def test_how_a_process_ended_is_said(runs, ends_by, capsys, code, jobs, told):
    ends_by(code)
    found = Schedule(runs, jobs).execute()
    assert found.keys() == {"tiny-0", "tiny-1"}
    for text in found.values():
        assert re.match(told, text)
    shown = capsys.readouterr().out
    assert "0/2" in shown
    assert "2 not finished" in shown


def test_sigterm_ends_the_runs_at_work_too(runs, ends_by):
    # Each would sleep for an hour.
    ends_by(
        "import os, signal, time\n"
        "os.kill(os.getppid(), signal.SIGTERM)\n"
        "time.sleep(3600)"
    )
    before = signal.getsignal(signal.SIGTERM)
    schedule = Schedule(runs, 2)
    with pytest.raises(SystemExit) as stopped:
        schedule.execute()
    assert stopped.value.code == TERMINATED
    assert not schedule._children
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize("jobs", [0, 2])
def test_runs_that_came_to_their_end_count_as_done(runs, capsys, jobs):
    assert Schedule(runs, jobs).execute() == {}
    assert all(run.is_finished() for run in runs)
    shown = capsys.readouterr().out
    assert "2/2" in shown
    assert "not finished" not in shown
