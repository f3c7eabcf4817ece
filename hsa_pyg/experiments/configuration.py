"""Configuration files of experiments, and the settings that they expand to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from itertools import product, takewhile
from pathlib import Path
from typing import Any

from hsa_pyg.cli import SettingsError
from hsa_pyg.experiments.experiment import Experiment, find_experiment, nearest
from hsa_pyg.experiments.records import differences

try:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
except ImportError as error:
    raise ImportError(
        'Experiments need OmegaConf: pip install "hsa-pyg[train]".'
    ) from error

_HERE = Path(__file__).parent
#: Where configurations lie: in an installed package, and in a checkout.
FOLDERS = (_HERE / "_shipped", _HERE.parents[1] / "examples" / "experiments")


@dataclass
class Configuration:
    """What a configuration file says.

    Args:
        experiment: Class of the experiment.
        axes: Values of each setting that is varied; every combination is run.
        variants: Settings that go together; every combination is run with each.
        settings: Values of other settings, where they differ from the defaults.
        seeds: How often each setting is run, with seeds from 0.
        page: Markdown page that the report goes into.
        name: Of the file.
    """

    experiment: str = ""
    axes: dict[str, list[Any]] = field(default_factory=dict)
    variants: list[dict[str, Any]] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    seeds: int = 5
    page: str = "docs/results.md"
    name: str = ""


@dataclass(frozen=True)
class Setting:
    """One point of the grid.

    Args:
        name: Unique among the settings of an experiment; part of file names.
        settings: The experiment's complete settings.
    """

    name: str
    settings: Any

    @property
    def configuration(self) -> dict[str, Any]:
        """The settings as they stand in results files."""
        return asdict(self.settings)


def load_configuration(name: str) -> Configuration:
    """Read a configuration by the name of a shipped file, or by a path.

    Raises:
        SettingsError: if there is no such file, or a key in it is not known.
    """
    path = _find(name)
    try:
        read: Any = OmegaConf.to_container(
            OmegaConf.load(path), resolve=True, throw_on_missing=True
        )
    except OmegaConfBaseException as error:  # of "???", which stands for a value
        raise SettingsError(f"{path} cannot be read: {error}") from error
    except Exception as error:  # YAML's own errors, of a class of the parser's
        raise SettingsError(f"{path} is no YAML file: {error}") from error
    if not isinstance(read, dict):
        raise SettingsError(f"{path} must hold keys and values.")
    known = [one.name for one in fields(Configuration) if one.name != "name"]
    _check_keys(read, known, path.name)
    try:
        merged = OmegaConf.merge(OmegaConf.structured(Configuration), read)
    except OmegaConfBaseException as error:
        raise SettingsError(f"{path}, {_reason(error)}.") from error
    except TypeError as error:  # a list where keys and values should be
        raise SettingsError(
            f"{path}: axes and settings are keys and values, variants a list of such."
        ) from error
    configuration: Any = OmegaConf.to_object(merged)
    configuration.name = path.stem
    if not configuration.experiment:
        raise SettingsError(
            f"{path} does not say what it runs: begin it with a line such as "
            "'experiment: learning' (docs/experiments.md)."
        )
    if configuration.seeds < 1:
        raise SettingsError(f"{path}: seeds must be at least 1.")
    experiment = find_experiment(configuration.experiment)
    settings = _names(experiment)
    for part in ("axes", "settings"):
        _check_keys(getattr(configuration, part), settings, f"{path.name}, {part}")
    for variant in configuration.variants:
        _check_keys(variant, settings, f"{path.name}, variants")
    beside = {"settings": [configuration.settings], "variants": configuration.variants}
    for part, others in beside.items():
        for key in configuration.axes:
            if any(key in other for other in others):
                raise SettingsError(
                    f"{path.name}: {key!r} stands in axes and in {part}, of which one "
                    "would be ignored: leave it in one of them."
                )
    return configuration


def override(configuration: Configuration, assignments: Sequence[str]) -> None:
    """Change settings by ``key=value`` texts; ``key=a,b`` makes an axis.

    A list in brackets is one value of a setting that takes a list. Of the variants that
    say something about a key, those with another value are left out.

    Raises:
        SettingsError: if a text is no assignment, or its key is not known.
    """
    experiment = find_experiment(configuration.experiment)
    lists = {one.name for one in fields(experiment.settings) if "list" in str(one.type)}
    for text in assignments:
        key, equals, value = text.partition("=")
        if not equals or not value:
            raise SettingsError(f"--set takes key=value, got {text!r}.")
        _check_keys([key], _names(experiment), "--set")
        if key in lists:
            values = [_parse(value)]
        else:
            values = [_parse(one) for one in value.strip("[]").split(",")]
        configuration.axes.pop(key, None)
        configuration.settings.pop(key, None)
        if any(key in variant for variant in configuration.variants):
            configuration.variants = _with(configuration.variants, key, values)
        elif len(values) > 1 or key in experiment.naming:
            configuration.axes[key] = values
        else:
            configuration.settings[key] = values[0]


def expand(configuration: Configuration) -> list[Setting]:
    """Every setting of the grid, each once.

    Raises:
        SettingsError: if a value does not fit its setting, or settings one another.
    """
    experiment = find_experiment(configuration.experiment)
    axes = configuration.axes
    for key, values in axes.items():
        if not values:
            raise SettingsError(f"The axis {key!r} has no values.")
    found: dict[str, Setting] = {}
    known: list[Any] = []
    combinations = product(*axes.values(), configuration.variants or [{}])
    for *combination, variant in combinations:
        chosen = {**dict(zip(axes, combination, strict=True)), **variant}
        asked = {**configuration.settings, **chosen}
        complete = _complete(experiment, asked)
        if complete in known:
            continue
        known.append(complete)
        setting = Setting(_name(experiment, asked, complete), complete)
        other = found.setdefault(setting.name, setting)
        if other is not setting:
            changed = differences(setting.configuration, other.configuration)
            raise SettingsError(
                f"Two settings would have files of one name, {setting.name!r}, but "
                f"differ ({changed}): leave one of them to a configuration of its own."
            )
    return list(found.values())


def check_used(assignments: Sequence[str], grid: Sequence[Setting]) -> None:
    """Refuse texts that :func:`override` took and that no setting of the grid has.

    Args:
        assignments: ``key=value`` texts.
        grid: What :func:`expand` gives.

    Raises:
        SettingsError: if a value is asked for that plays no part anywhere.
    """
    for text in assignments:
        key, _, value = text.partition("=")
        found = [setting.configuration[key] for setting in grid]
        if _parse(value) not in (None, []) and all(one in (None, []) for one in found):
            raise SettingsError(
                f"--set {text}: {key} plays no part in any of these "
                f"{len(grid)} settings. Leave it out; --settings lists what counts."
            )


def usual_values(grid: Sequence[Setting]) -> dict[str, list[Any]]:
    """The values of each setting over a grid, each once; None and [] are left out.

    Args:
        grid: What :func:`expand` gives.
    """
    found: dict[str, list[Any]] = {}
    for setting in grid:
        for name, value in setting.configuration.items():
            values = found.setdefault(name, [])
            if value not in (None, [], *values):
                values.append(value)
    return found


def _with(
    variants: Sequence[dict[str, Any]], key: str, values: Sequence[Any]
) -> list[dict[str, Any]]:
    """The variants in which a key has one of some values; each value is in one."""
    kept = [
        {**variant, key: value}
        for variant in variants
        for value in values
        if variant.get(key, value) == value
    ]
    there = [variant[key] for variant in kept]
    return kept + [{key: value} for value in values if value not in there]


@dataclass(frozen=True)
class _Asked:
    """Values of settings, alike if their texts are: 1 and True are not."""

    text: str
    values: Mapping[str, Any] = field(compare=False)


def _complete(experiment: Experiment, values: Mapping[str, Any]) -> Any:
    asked = _Asked(repr(sorted(values.items())), dict(values))
    found = _completed(type(experiment), asked)
    if isinstance(found, SettingsError):
        raise SettingsError(str(found)) from found.__cause__
    return deepcopy(found)


# A name is found by completing the settings without each of them, and the commands of a
# page by trying many: without a memory one report takes minutes.
@lru_cache(maxsize=20_000)
def _completed(experiment: type[Experiment], asked: _Asked) -> Any:
    """Complete settings, or the error that says why there are none."""
    try:
        return experiment().complete(_typed(experiment.settings, asked.values))
    except SettingsError as error:
        return error


def _typed(settings: type, values: Mapping[str, Any]) -> Any:
    try:
        return OmegaConf.to_object(OmegaConf.merge(_schema(settings), dict(values)))
    except OmegaConfBaseException as error:
        raise SettingsError(f"No fitting value: {_reason(error)}.") from error
    except TypeError as error:  # a list within a list
        raise SettingsError(f"No fitting value: {error}.") from error


@lru_cache
def _schema(settings: type) -> Any:
    return OmegaConf.structured(settings)


def _reason(error: OmegaConfBaseException) -> str:
    return f"{error.full_key}: {str(error).splitlines()[0]}"


def _name(experiment: Experiment, asked: Mapping[str, Any], settings: Any) -> str:
    """Of what was asked for and makes a difference, not of what follows from it."""
    parts = [str(getattr(settings, key)) for key in experiment.naming]
    for one in fields(settings):
        if one.name not in asked or one.name in experiment.naming:
            continue
        value = getattr(settings, one.name)
        if value == _without(experiment, asked, one.name):
            continue
        if value is True:
            parts.append(one.name)
        elif isinstance(value, list):
            parts.append(one.name + "-".join(map(str, value)))
        else:
            parts.append(f"{one.name}{'none' if value is None else value}")
    return re.sub(r"[^A-Za-z0-9.]+", "-", "-".join(parts))


def _without(experiment: Experiment, asked: Mapping[str, Any], key: str) -> Any:
    """A setting's value if it is not asked for; NotImplemented if that does not fit."""
    rest = {one: value for one, value in asked.items() if one != key}
    try:
        return getattr(_complete(experiment, rest), key)
    except SettingsError:
        return NotImplemented


def _names(experiment: Experiment) -> list[str]:
    return [one.name for one in fields(experiment.settings)]


def _check_keys(keys: Iterable[str], known: Sequence[str], place: str) -> None:
    for key in keys:
        if key not in known:
            raise SettingsError(
                f"There is no setting {key!r} ({place}){nearest(str(key), known)}"
            )


def _parse(text: str) -> Any:
    """A value as YAML reads it."""
    if not text.strip():
        raise SettingsError("--set key=a,b takes a value between any two commas.")
    try:
        read: Any = OmegaConf.to_container(OmegaConf.create(f"value: {text}"))
    except Exception as error:
        raise SettingsError(f"--set cannot read the value {text!r}.") from error
    return read["value"]


def find_configuration(name: str) -> Path | None:
    """The shipped configuration of a name; None if there is none."""
    return _shipped().get(name)


def shipped_configurations() -> dict[str, str]:
    """The shipped configurations by name, each with the first sentence of its file."""
    return {name: _first_sentence(path) for name, path in _shipped().items()}


def _first_sentence(path: Path) -> str:
    comment = takewhile(
        lambda line: line.startswith("#"), path.read_text("utf-8").splitlines()
    )
    text = " ".join(line.lstrip("# ") for line in comment)
    return re.split(r"(?<=\.)\s", text, maxsplit=1)[0]


def _find(name: str) -> Path:
    path = Path(name)
    if path.suffix in (".yaml", ".yml") and path.is_file():
        return path
    shipped = _shipped()
    if path.suffix in (".yaml", ".yml"):
        raise SettingsError(
            f"There is no file {name!r}: give its path from here, or the name of a "
            f"shipped experiment without {path.suffix}."
        )
    if name not in shipped:
        raise SettingsError(f"There is no experiment {name!r}{nearest(name, shipped)}")
    return shipped[name]


def _shipped() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for folder in FOLDERS:
        for path in sorted(folder.glob("*.yaml")):
            found.setdefault(path.stem, path)
    return found
