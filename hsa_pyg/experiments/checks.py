"""What settings of experiments are checked for alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

from hsa_pyg.cli import SettingsError
from hsa_pyg.experiments.experiment import nearest


def check_name(key: str, value: Any, known: Iterable[str]) -> None:
    """Check that a setting is one of the names that are known.

    Args:
        key: The setting.
        value: Its value.
        known: The names.

    Raises:
        SettingsError: if it is none of them; the sentence tells the nearest.
    """
    names = list(known)
    if value not in names:
        near = nearest(str(value), names)
        raise SettingsError(f"There is no {key} {value!r}{near}")


def check_least(settings: Any, least: Mapping[str, float]) -> None:
    """Check that settings are finite and not below their bounds; None is left out.

    Args:
        settings: The settings.
        least: The bound of each setting by its name.

    Raises:
        SettingsError: for the first one that is.
    """
    for name, bound in least.items():
        value = getattr(settings, name)
        if value is not None and not isfinite(value):
            raise SettingsError(f"{name} must be a finite number, got {value}.")
        if value is not None and value < bound:
            raise SettingsError(f"{name} must be at least {bound}, got {value}.")


def check_heads(settings: Any) -> None:
    """Check that the heads fit the channels; None for either is left out.

    Args:
        settings: The settings, with ``model``, ``heads`` and ``channels``.

    Raises:
        SettingsError: if the heads do not divide the channels, or leave performer
            attention one channel each, for which it has no random features.
    """
    heads, channels = settings.heads, settings.channels
    if heads is None or channels is None:
        return
    if channels % heads:
        raise SettingsError(f"{heads} heads do not divide {channels} channels.")
    if settings.model.endswith("performer") and heads == channels:
        raise SettingsError(
            f"Performer attention needs heads of two channels at least: {heads} heads "
            f"leave one of {channels}."
        )
