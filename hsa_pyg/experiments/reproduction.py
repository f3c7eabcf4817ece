"""The commands that make given runs again, found from their settings."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import fields
from itertools import groupby
from math import inf
from typing import Any

from hsa_pyg.cli import SettingsError
from hsa_pyg.experiments.configuration import (
    Configuration,
    expand,
    find_configuration,
    load_configuration,
    override,
)
from hsa_pyg.experiments.experiment import find_experiment
from hsa_pyg.experiments.page import by_setting
from hsa_pyg.experiments.records import Record

#: Settings by the names of their runs.
Settings = dict[str, Mapping[str, Any]]
#: Values of each key that ``--set`` gives.
Assignments = dict[str, list[Any]]


def reproduction(records: Sequence[Record], name: str) -> str:
    """A line of Markdown: the commands that make the runs again, and what they miss.

    Args:
        records: Finished runs of one configuration.
        name: Of the configuration.
    """
    if find_configuration(name) is None:
        seeds = 1 + max(record.seed for record in records)
        return (
            f"`hsa-pyg experiment {name}.yaml --seeds {seeds}`, with the file of that "
            "name; it does not come with the package, so that the command is not "
            "checked against the runs."
        )
    found, missed = commands(records, name)
    text = "; ".join(f"`{one}`" for one in found)
    if missed:
        told = ", ".join(f"`{one}`" for one in missed)
        text = f"{text}; " if text else ""
        text += f"no command of this version has the settings of {told}."
    return text


def commands(records: Sequence[Record], name: str) -> tuple[list[str], list[str]]:
    """Commands whose settings are those of the records together, and no others.

    Args:
        records: Finished runs of one configuration.
        name: Of the configuration, a shipped one.

    Returns:
        The commands, and names of the settings that none reaches, such as those of
        another version.
    """
    search = _Search(load_configuration(name))
    groups = by_setting(records)
    seeds = {one: 1 + max(r.seed for r in group) for one, group in groups.items()}
    told: list[str] = []
    missed: list[str] = []
    for number in sorted(set(seeds.values()), reverse=True):
        wanted: Settings = {
            one: group[0].configuration
            for one, group in groups.items()
            if seeds[one] == number
        }
        for part, assignments in search.parts(wanted):
            if assignments is None:
                missed += part
                continue
            words = ["hsa-pyg", "experiment", name, "--seeds", str(number)]
            for text in _texts(assignments):
                words += ["--set", text]
            told.append(shlex.join(words))
    return told, missed


class _Search:
    """Finds the assignments that turn a configuration into given settings.

    Args:
        configuration: What is changed by ``--set``.
    """

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.experiment = find_experiment(configuration.experiment)
        names = [one.name for one in fields(self.experiment.settings)]
        #: In the order in which they are told.
        self.keys = list(dict.fromkeys((*self.experiment.naming, *names)))
        self._reached: dict[tuple[str, ...], Settings | None] = {}

    def parts(self, wanted: Settings) -> Iterable[tuple[Settings, Assignments | None]]:
        """The settings in few parts, each with its assignments; None if none do."""
        whole = self.find(wanted)
        if whole is not None or len(wanted) == 1:
            return [(wanted, whole)]
        shipped = self._reach({}) or {}
        plain = {k: one for k, one in wanted.items() if one == shipped.get(k)}
        if 0 < len(plain) < len(wanted):
            rest = {k: one for k, one in wanted.items() if k not in plain}
            return [*self.parts(plain), *self.parts(rest)]
        parts: list[tuple[Settings, Assignments | None]] = []
        for piece in self._pieces(wanted):
            for i, (part, _) in enumerate(parts):
                joined = self.find(part | piece)
                if joined is not None:
                    parts[i] = (part | piece, joined)
                    break
            else:
                parts.append((piece, self.find(piece)))
        return parts

    def _pieces(self, wanted: Settings) -> Iterator[Settings]:
        """By what their names tell, if one command has those, else one by one."""

        def kind(item: tuple[str, Mapping[str, Any]]) -> list[str]:
            return [str(item[1][key]) for key in self.experiment.naming]

        for _, items in groupby(sorted(wanted.items(), key=kind), key=kind):
            same = dict(items)
            if self.find(same) is not None:
                yield same
            else:
                yield from ({name: one} for name, one in same.items())

    def find(self, wanted: Settings) -> Assignments | None:
        """Assignments under which there are these settings and no others."""
        differing = dict(self._candidates({}, wanted))
        # What names tell comes first: it leaves the fewest settings to look at.
        chosen = {k: differing[k] for k in self.experiment.naming if k in differing}
        best = self._distance(chosen, wanted)
        if best == inf:
            chosen, best = {}, self._distance({}, wanted)
        while best:
            before = best
            gains = [
                (self._distance({**chosen, key: values}, wanted), key, values)
                for key, values in self._candidates(chosen, wanted)
            ]
            # Those that bring most come first: others may follow from them.
            for _, key, values in sorted(gains, key=lambda gain: gain[0]):
                left = self._distance({**chosen, key: values}, wanted)
                if left < best:
                    best = left
                    chosen[key] = values
                    if any(gain[0] == inf for gain in gains):
                        break  # What did not go together may do so now.
            if best == before:
                return None
        for key in list(chosen):
            rest = {one: values for one, values in chosen.items() if one != key}
            if not self._distance(rest, wanted):
                chosen = rest
        return {key: chosen[key] for key in self.keys if key in chosen}

    def _candidates(
        self, chosen: Assignments, wanted: Settings
    ) -> Iterator[tuple[str, list[Any]]]:
        """Keys in which something differs, with all values that are wanted."""
        reached = self._reach(chosen) or {}
        differing: set[str] = set()
        for some, others in ((wanted, reached), (reached, wanted)):
            for item in some.items():
                differing |= min(
                    (_differing(item, one) for one in others.items()), key=len
                )
        for key in self.keys:
            if key not in differing or key in chosen:
                continue
            values = []
            for one in wanted.values():
                value = one.get(key)
                # What is None or empty plays no part, and need not be asked for.
                if value not in (None, []) and value not in values:
                    values.append(value)
            if values and (len(values) == 1 or not isinstance(values[0], list)):
                yield key, values

    def _distance(self, chosen: Assignments, wanted: Settings) -> float:
        """In how much the settings differ from the wanted ones; 0 if in nothing."""
        reached = self._reach(chosen)
        if reached is None:
            return inf
        return sum(
            min(len(_differing(item, one)) for one in others.items())
            for some, others in ((wanted, reached), (reached, wanted))
            for item in some.items()
        )

    def _reach(self, chosen: Assignments) -> Settings | None:
        """The settings under assignments; None if these do not go together."""
        texts = _texts(chosen)
        if (key := tuple(sorted(texts))) not in self._reached:
            changed = deepcopy(self.configuration)
            try:
                override(changed, texts)
                expanded = expand(changed)
            except SettingsError:
                self._reached[key] = None
            else:
                self._reached[key] = {s.name: s.configuration for s in expanded}
        return self._reached[key]


def _differing(
    one: tuple[str, Mapping[str, Any]], other: tuple[str, Mapping[str, Any]]
) -> set[str]:
    """Keys with different values, and ``""`` for different names.

    A setting that one does not know, as it is older, is None there.
    """
    (name, settings), (other_name, others) = one, other
    keys = settings.keys() | others.keys()
    found = {key for key in keys if settings.get(key) != others.get(key)}
    return found | ({""} if name != other_name else set())


def _texts(assignments: Assignments) -> list[str]:
    return [
        f"{key}={','.join(_text(value) for value in values)}"
        for key, values in assignments.items()
    ]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{','.join(_text(one) for one in value)}]"
    return str(value)
