"""One run: on from its checkpoint, to its results file."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from hsa_pyg.cli import SettingsError
from hsa_pyg.experiments.checkpoints import damaged
from hsa_pyg.experiments.configuration import Setting
from hsa_pyg.experiments.experiment import (
    Experiment,
    Progress,
    find_experiment,
    with_later_settings,
)
from hsa_pyg.experiments.locks import locked
from hsa_pyg.experiments.records import (
    Record,
    describe_environment,
    differences,
    rounded,
    write_whole,
)

#: Files in the folder of a run that is not finished.
_CONFIGURATION = "configuration.json"
_CHECKPOINT = "checkpoint.pt"
_PROGRESS = "progress.json"
_LOCK = "lock"

#: Exit status of a process whose run is at work in another one.
AT_WORK = 75


class RunAtWorkError(ChildProcessError):
    """Another process has taken the run."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"is at work in another process ({name}). Repeat the command when that has "
            "ended."
        )


@dataclass(frozen=True)
class Standing:
    """Where an interrupted run goes on.

    Args:
        epoch: Epochs that are done; None if there is a checkpoint that does not tell.
        epochs: Epochs in all; None if it is not known.
    """

    epoch: int | None
    epochs: int | None

    def __str__(self) -> str:
        if self.epoch is None:
            return "goes on from its last epoch"
        if self.epoch == 0:
            return "starts again: it had not come to the end of an epoch"
        return f"goes on after epoch {self.epoch} of {self.epochs}"

    @property
    def left(self) -> float:
        """The part of the epochs that is not done, as far as that is known."""
        return 1.0 - self.epoch / self.epochs if self.epoch and self.epochs else 1.0


@dataclass(frozen=True)
class Run:
    """A setting with a seed.

    Args:
        experiment: Class of the experiment.
        setting: The setting.
        seed: The seed.
        results: Folder of the results files.
        work: Folder of the checkpoints.
    """

    experiment: str
    setting: Setting
    seed: int
    results: Path
    work: Path

    @property
    def name(self) -> str:
        """Of its files."""
        return f"{self.setting.name}-{self.seed}"

    @property
    def record(self) -> Path:
        """Its results file."""
        return self.results / f"{self.name}.json"

    @property
    def folder(self) -> Path:
        """Its checkpoint, and what it has printed, until it is finished."""
        return self.work / self.name

    def is_finished(self) -> bool:
        """Whether its results are there.

        Raises:
            SettingsError: if they, or its checkpoint, are of another configuration.
        """
        if self.record.exists():
            found = Record.read(self.record)
            self._check(found.configuration, self.record, "a finished run")
            told = {"experiment": found.experiment, "seed": found.seed}
            changed = differences(
                {"experiment": self.experiment, "seed": self.seed}, told
            )
            if changed:
                raise SettingsError(
                    f"{self.record} holds another run ({changed}): delete it, or give "
                    "it its own name."
                )
            return True
        begun = self.folder / _CONFIGURATION
        if begun.exists():
            settings = with_later_settings(self.experiment, _read(begun))
            self._check(settings, self.folder, "an interrupted run")
        return False

    def standing(self) -> Standing | None:
        """Where an interrupted run stands; None if it was not begun, or is finished."""
        if self.record.exists() or not (self.folder / _CONFIGURATION).exists():
            return None
        checkpoint, told = self.folder / _CHECKPOINT, self.folder / _PROGRESS
        if not checkpoint.exists():
            return Standing(0, None)
        if not told.exists():
            return Standing(None, None)
        progress = _read(told)
        # A process may have been killed between the two files of an epoch.
        if progress["checkpoint"] != checkpoint.stat().st_mtime_ns:
            return Standing(None, progress["epochs"])
        return Standing(progress["epoch"], progress["epochs"])

    def known_seconds(self) -> float | None:
        """How long other seeds of the setting took, if they are there."""
        for path in self.results.glob(f"{self.setting.name}-*.json"):
            found = Record.read(path)
            if found.setting == self.setting.name:
                return found.seconds
        return None

    def _check(self, found: Mapping[str, Any], path: Path, what: str) -> None:
        changed = differences(self.setting.configuration, found)
        if changed:
            raise SettingsError(
                f"{path} holds {what} with other settings ({changed}). Ask for those "
                "settings, choose another --out, or delete it and its other seeds."
            )

    def specification(self) -> str:
        """What another process needs to run this, as JSON."""
        return json.dumps(
            {
                "experiment": self.experiment,
                "name": self.setting.name,
                "configuration": self.setting.configuration,
                "seed": self.seed,
                "results": str(self.results),
                "work": str(self.work),
            }
        )

    @classmethod
    def from_specification(cls, text: str) -> Run:
        """The run that :meth:`specification` tells of."""
        told = json.loads(text)
        experiment = find_experiment(told["experiment"])
        setting = Setting(told["name"], experiment.settings(**told["configuration"]))
        return cls(
            told["experiment"],
            setting,
            told["seed"],
            Path(told["results"]),
            Path(told["work"]),
        )


def execute(run: Run, tell: Callable[[Progress], None]) -> Record:
    """Run on one thread, write the results file, and remove the checkpoint.

    Args:
        run: What to run; a finished one is only read.
        tell: Called after each epoch.

    Raises:
        RunAtWorkError: if another process has it at work.
    """
    with locked(run.folder / _LOCK, seconds=0) as ours:
        if not ours:
            raise RunAtWorkError(run.name)
        done = run.is_finished()
        record = Record.read(run.record) if done else _execute(run, tell)
        shutil.rmtree(run.folder)
    return record


def _execute(run: Run, tell: Callable[[Progress], None]) -> Record:
    from hsa_pyg.integrations.memory import forget_peak, peak_memory

    forget_peak()
    experiment = find_experiment(run.experiment)
    environment = _environment(run, experiment)

    def note(progress: Progress) -> None:
        _note(run, progress)
        tell(progress)

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        outcome = experiment.run(
            run.setting.settings, run.seed, run.folder / _CHECKPOINT, note
        )
    finally:
        torch.set_num_threads(threads)
    record = Record(
        experiment=run.experiment,
        setting=run.setting.name,
        seed=run.seed,
        configuration=run.setting.configuration,
        environment=environment,
        seconds=outcome.seconds,
        peak_memory=peak_memory(),
        attention_flops=outcome.attention_flops,
        history=[rounded(row) for row in outcome.history],
        final=rounded(outcome.final),
        facts=outcome.facts,
    )
    record.write(run.record)
    return record


def _note(run: Run, progress: Progress) -> None:
    """Write beside the checkpoint of an epoch which epoch it is of."""
    checkpoint = run.folder / _CHECKPOINT
    # What is done in one go, as a bag of words, keeps none.
    if checkpoint.exists():
        told = {
            "epoch": progress.epoch,
            "epochs": progress.epochs,
            "checkpoint": checkpoint.stat().st_mtime_ns,
        }
        write_whole(run.folder / _PROGRESS, json.dumps(told))


def _read(path: Path) -> Any:
    """The JSON of a file in the folder of a run that is not finished."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise damaged(path, error) from error


def _environment(run: Run, experiment: Experiment) -> dict[str, Any]:
    """Of all processes that have worked on the run, if they differ."""
    now = describe_environment(threads=1)
    path = run.folder / "environment.json"
    begun = _read(path) if path.exists() else []
    write_whole(path, json.dumps([*begun, now]))
    configuration = json.dumps(run.setting.configuration)
    write_whole(run.folder / _CONFIGURATION, configuration)
    return {**now, "earlier": begun} if begun else now


def main() -> None:
    """``python -m hsa_pyg.experiments.running SPECIFICATION``: tell progress by lines.

    Each line is the JSON of a :class:`~hsa_pyg.experiments.experiment.Progress`.
    """

    def tell(progress: Progress) -> None:
        print(json.dumps(asdict(progress)), flush=True)

    try:
        execute(Run.from_specification(sys.argv[1]), tell)
    except KeyboardInterrupt:
        # What is written is whole; the next call goes on from there.
        raise SystemExit(130) from None
    except RunAtWorkError:
        raise SystemExit(AT_WORK) from None


if __name__ == "__main__":
    main()
