"""What an experiment is: settings, a run for each of them, and a page of results."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from hsa_pyg.cli import SettingsError
from hsa_pyg.experiments.records import Record

#: Module and class of each experiment; loaded when it is asked for.
_CLASSES = {
    "learning": ("learning.experiment", "Learning"),
    "semantic-focus": ("semantic_focus.experiment", "SemanticFocus"),
    "vertices": ("learning.vertices", "Vertices"),
}

#: Exit status of a process that SIGTERM has ended.
TERMINATED = 143


@dataclass(frozen=True)
class Progress:
    """Where a run stands after an epoch.

    Args:
        epoch: Epochs done.
        epochs: Epochs in all.
        text: Losses and scores in a few words.
        rate: Leaves (tokens) trained on per second.
    """

    epoch: int
    epochs: int
    text: str
    rate: float


@dataclass(frozen=True)
class Outcome:
    """What a run has measured.

    Args:
        history: A row of numbers for each epoch.
        final: The numbers that the run is judged by.
        attention_flops: FLOPs of attention's matrix products, over the whole run.
        facts: What else there is to say, such as why the run ended early.
        seconds: Time spent, that before an interruption included.
    """

    history: Sequence[Mapping[str, float]]
    final: Mapping[str, float]
    attention_flops: int
    seconds: float
    facts: Mapping[str, Any] = field(default_factory=dict)


class Experiment(ABC):
    """A class of runs that differ in their settings and seeds.

    Attributes:
        name: As in configuration files.
        settings: Dataclass of the settings, every field with a default.
        naming: Settings that every run's name tells.
    """

    name: ClassVar[str]
    settings: ClassVar[type]
    naming: ClassVar[tuple[str, ...]]

    @abstractmethod
    def complete(self, settings: Any) -> Any:
        """Check settings, fill in what others imply, and clear what plays no part.

        Raises:
            SettingsError: if they do not fit together.
        """

    @abstractmethod
    def run(
        self,
        settings: Any,
        seed: int,
        checkpoint: Path,
        tell: Callable[[Progress], None],
    ) -> Outcome:
        """Run once, on from ``checkpoint`` if there is one.

        Args:
            settings: Complete ones.
            seed: Of everything that is drawn.
            checkpoint: File to write after each epoch.
            tell: Called after each epoch.
        """

    @abstractmethod
    def work(self, settings: Any) -> float:
        """FLOPs of a whole run, for an estimate of its time."""

    @abstractmethod
    def page(self, records: Sequence[Record], images: Path, configuration: str) -> str:
        """Markdown tables of finished runs: a configuration's part of its page.

        Args:
            records: Finished runs of the configuration.
            images: Folder of the pictures.
            configuration: Its name, for experiments with several on one page.
        """


def find_experiment(name: str) -> Experiment:
    """The experiment of a name.

    Raises:
        SettingsError: if there is none.
    """
    if name not in _CLASSES:
        raise SettingsError(f"There is no experiment {name!r}{nearest(name, _CLASSES)}")
    module, cls = _CLASSES[name]
    return getattr(import_module(f"hsa_pyg.experiments.{module}"), cls)()


def with_later_settings(
    experiment: str, configuration: Mapping[str, Any]
) -> dict[str, Any]:
    """A configuration and the settings that came after it was written.

    They are as they are where nobody asks for them: a new setting changes no run that
    does not. What this version cannot read stays as it is.

    Args:
        experiment: Class of the experiment.
        configuration: Settings of a run, of this version or an older one.
    """
    found = dict(configuration)
    if experiment not in _CLASSES:
        return found
    of = find_experiment(experiment)
    names = [one.name for one in fields(of.settings)]
    if set(names) == set(found) or not set(found) <= set(names):
        return found
    try:
        complete = of.complete(of.settings(**found))
    except SettingsError:
        return found
    return {name: found.get(name, getattr(complete, name)) for name in names}


def nearest(key: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown key: what is close, or all that are known.

    Close is a name that is spelt nearly alike, or one whose words hold all words of the
    key, or are among them: ``size`` is a part of ``train_size``.

    Args:
        key: The unknown one.
        known: The known ones.
    """
    known = list(known)
    close = get_close_matches(key, known, n=1, cutoff=0.7)
    words = _words(key)
    if words and not close:
        close = [one for one in known if words <= _words(one) or _words(one) <= words]
    if close:
        *others, last = map(repr, close)
        return f"; did you mean {', '.join(others)}{' or ' * bool(others)}{last}?"
    return f"; known are {', '.join(known)}."


def _words(name: str) -> set[str]:
    return set(re.split(r"[^a-z0-9]+", name.lower())) - {""}
