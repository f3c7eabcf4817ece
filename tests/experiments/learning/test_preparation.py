import subprocess
import sys
from collections import Counter

from hsa_pyg.experiments.learning.preparation import alone
from tests.experiments.learning import tiny_data

#: Loads the task, and notes each data set that it has to convert.
_LOAD = """
import sys
from pathlib import Path
from hsa_pyg.datasets import IMDB
from hsa_pyg.experiments.learning.settings import LearningSettings, complete_settings
from hsa_pyg.experiments.learning.task import load_task

folder = Path(sys.argv[1])
process = IMDB.process

def noted(self):
    with open(folder / "processed.txt", "a") as file:
        file.write(f"{self.split}\\n")
    process(self)

IMDB.process = noted
settings = complete_settings(LearningSettings(task="imdb", train_size=0, val_size=0))
task = load_task(settings, folder / "data", folder / "cache")
print(len(task.train), len(task.val), len(task.test))
"""
_WAITING = "waiting for another process to prepare imdb\n"


def test_of_two_processes_one_prepares_the_data(tmp_path):
    tiny_data.write_imdb(tmp_path / "data")
    with alone("imdb", tmp_path / "cache"):
        children = [
            subprocess.Popen(
                [sys.executable, "-c", _LOAD, str(tmp_path)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for _ in range(2)
        ]
        for child in children:
            assert child.stderr is not None
            assert child.stderr.readline() == _WAITING
        # Neither has begun.
        assert not (tmp_path / "processed.txt").exists()
    for child in children:
        out, errors = child.communicate()
        assert child.returncode == 0, errors
        assert out.split() == ["32", "8", "40"]
    split = Counter((tmp_path / "processed.txt").read_text().split())
    assert split == {"train": 1, "val": 1, "test": 1}


def test_other_tasks_do_not_wait(tmp_path, caplog):
    with alone("imdb", tmp_path), alone("elec", tmp_path):
        assert {path.name for path in tmp_path.iterdir()} == {"imdb.lock", "elec.lock"}
    with alone("imdb", tmp_path):
        pass
    assert caplog.text == ""
