"""The results files: one JSON file for each run of a setting with a seed."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from hsa_pyg.cli import SettingsError

#: Their versions stand in every results file.
PACKAGES = ("hsa-pyg", "torch", "torch-geometric", "numpy", "lightning")
_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Record:
    """A finished run.

    Args:
        experiment: Class of the experiment.
        setting: Name of the setting.
        seed: Seed.
        configuration: Every setting.
        environment: Revision, versions, machine.
        seconds: Time of the run.
        peak_memory: Most bytes resident in its process.
        attention_flops: FLOPs of attention's matrix products, over the whole run.
        history: A row of numbers for each epoch.
        final: The numbers that the run is judged by.
        facts: What else there is to say.
    """

    experiment: str
    setting: str
    seed: int
    configuration: Mapping[str, Any]
    environment: Mapping[str, Any]
    seconds: float
    peak_memory: int
    attention_flops: int
    history: list[dict[str, float]]
    final: Mapping[str, float]
    facts: Mapping[str, Any]

    @property
    def environments(self) -> list[Mapping[str, Any]]:
        """Of all processes that the run was in; more than one if it was interrupted."""
        return [*self.environment.get("earlier", ()), self.environment]

    def write(self, path: Path) -> None:
        """Write the results file, whole or not at all."""
        told = asdict(self)
        keys = dict.fromkeys(key for row in self.history for key in row)
        # By columns, each on one line: a run may have a thousand rows.
        columns = [
            f"  {json.dumps(key)}: {json.dumps([row.get(key) for row in self.history])}"
            for key in keys
        ]
        told["history"] = None
        text = json.dumps(told, indent=1, allow_nan=False)
        history = "{\n" + ",\n".join(columns) + "\n }"
        text = text.replace('"history": null', f'"history": {history}', 1)
        write_whole(path, text + "\n")

    @classmethod
    def read(cls, path: Path) -> Record:
        """Read a results file; settings that came later are as nobody asks for them.

        Raises:
            SettingsError: if it is none.
        """
        from hsa_pyg.experiments.experiment import with_later_settings

        try:
            told = json.loads(path.read_text(encoding="utf-8"))
            keys, columns = told["history"].keys(), told["history"].values()
            told["history"] = [
                {
                    k: value
                    for k, value in zip(keys, row, strict=True)
                    if value is not None
                }
                for row in zip(*columns, strict=True)
            ]
            settings = told["configuration"]
            told["configuration"] = with_later_settings(told["experiment"], settings)
            return cls(**told)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise SettingsError(
                f"{path} is no results file of hsa-pyg experiment ({error}): delete it "
                "and run the experiment again."
            ) from error


def rounded(row: Mapping[str, float]) -> dict[str, float]:
    """Numbers with 7 significant digits, as many as float32 has."""
    return {
        key: value if isinstance(value, int) else float(f"{value:.7g}")
        for key, value in row.items()
    }


def write_whole(path: Path, text: str) -> None:
    """Write a file such that it is never there in part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def read_records(folder: Path) -> list[Record]:
    """All results files of a folder, by setting and seed.

    Raises:
        FileNotFoundError: if there are none.
        SettingsError: if a file is none, or has not the name of what it holds, as a
            copy has, or two seeds of one setting have different configurations.
    """
    records = []
    first: dict[str, Record] = {}
    for path in sorted(folder.glob("*.json")):
        record = Record.read(path)
        if path.name != f"{record.setting}-{record.seed}.json":
            raise SettingsError(
                f"{path} holds seed {record.seed} of {record.setting!r}, which is not "
                "its name: delete it if it is a copy."
            )
        other = first.setdefault(record.setting, record)
        changed = differences(record.configuration, other.configuration)
        if changed:
            raise SettingsError(
                f"{path} and seed {other.seed} of {record.setting!r} have other "
                f"settings ({changed}), as runs of two versions have: delete the older "
                "ones and run the experiment again."
            )
        records.append(record)
    if not records:
        raise FileNotFoundError(
            f"There are no results in {folder}: run hsa-pyg experiment first."
        )
    return sorted(records, key=lambda record: (record.setting, record.seed))


def differences(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """What two configurations differ in, in words; empty if in nothing."""
    keys = [*wanted, *(key for key in found if key not in wanted)]
    absent = "absent"
    return ", ".join(
        f"{key} {found.get(key, absent)} -> {wanted.get(key, absent)}"
        for key in keys
        if found.get(key, absent) != wanted.get(key, absent)
    )


def describe_environment(threads: int) -> dict[str, Any]:
    """Revision of the code, versions, processor and time, for a results file.

    Args:
        threads: Threads that the run uses.
    """
    return {
        **_revision(),
        "versions": {
            "python": platform.python_version(),
            **{name: _version(name) for name in PACKAGES},
        },
        "processor": _processor(),
        "threads": threads,
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def _revision() -> dict[str, Any]:
    """Of the checkout that the package lies in; None for an installed package."""
    revision = _git("rev-parse", "HEAD")
    changed = _git("status", "--porcelain", "--", "hsa_pyg", "examples")
    return {
        "revision": revision,
        "dirty": None if revision is None else bool(changed),
    }


def _git(*arguments: str) -> str | None:
    if not (_ROOT / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", "-C", str(_ROOT), *arguments],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
