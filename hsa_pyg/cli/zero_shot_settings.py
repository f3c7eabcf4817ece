"""What ``hsa-pyg zero-shot`` is asked, and how its words are read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hsa_pyg.cli import SettingsError


@dataclass(frozen=True)
class ZeroShotSettings:
    """What ``hsa-pyg zero-shot`` measures; see ``hsa-pyg zero-shot --help``."""

    model: str
    data: Path
    layers: Sequence[str] = ("all",)
    hierarchies: Sequence[str] = ("segments:0.1",)
    tie_queries: bool = True
    self_attention: bool = True
    specials: str = "root"
    samples: int | None = None
    max_length: int | None = None
    labels: bool = True
    probe: bool = False
    train: Path | None = None
    train_samples: int = 1000
    classes: Mapping[str, str] = field(default_factory=dict)
    lengths: Sequence[int] = (64, 256, 512, 2048, 8192)
    text_column: str = "text"
    label_column: str = "label"
    seed: int = 0
    device: str = "cpu"


def layer_names(text: str) -> str | list[int]:
    """What ``replace_attention`` calls the layers of ``--layers``."""
    if text in ("all", "alternate"):
        return text
    if not re.fullmatch(r"\s*\d+(\s*,\s*\d+)*\s*", text):
        raise SettingsError(
            f"--layers {text!r} is not known; write numbers from 0 as in 7,9,11, or "
            "all, alternate, select:3 (so many) or select:0.1 (so much of the FLOPs)."
        )
    return [int(number) for number in text.split(",")]


def selection_budget(text: str) -> int | float:
    """The budget of ``select:3`` or ``select:0.1``."""
    number = text.removeprefix("select:")
    try:
        return int(number) if number.isdigit() else float(number)
    except ValueError:
        raise SettingsError(
            f"--layers {text!r} names no budget; write select:3 for three layers or "
            "select:0.1 for a tenth of the attention's FLOPs."
        ) from None


def read_classes(pairs: Sequence[str]) -> dict[str, str]:
    """The values of ``--class LABEL=CLASS``."""
    for pair in pairs:
        if "=" not in pair:
            raise SettingsError(
                f"--class {pair!r} must be LABEL=CLASS, as in neg=LABEL_0."
            )
    return dict(pair.split("=", 1) for pair in pairs)


def read_lengths(text: str) -> list[int]:
    """The numbers of ``--lengths``."""
    try:
        lengths = [int(number) for number in text.split(",") if number.strip()]
    except ValueError:
        lengths = [0]
    if any(length < 1 for length in lengths):
        raise SettingsError(
            f"--lengths {text!r} must be numbers of tokens, as in 64,512."
        )
    return sorted(set(lengths))
