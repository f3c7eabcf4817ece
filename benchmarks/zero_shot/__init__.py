"""What pretrained models lose when hierarchical attention replaces softmax attention.

Every section is a page of its own, docs/benchmarks/zero_shot_SECTION.md. What was
measured is kept row by row in docs/results/zero_shot/SECTION.jsonl: a setting that is
there is not measured again, so that a run that was cut off goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec

from benchmarks.report import Options, Section

#: Each section has a page to itself.
PAGES = True
_NAMES = ("reactions", "intents", "reviews", "finetuned", "long", "speed")


def _section(name: str) -> Callable[[Options], Section]:
    """The section of a module, which is imported late: it needs extras."""

    def measured(options: Options) -> Section:
        return import_module(f"{__name__}.{name}").section(options)

    return measured


SECTIONS = {name: _section(name) for name in _NAMES if find_spec(f"{__name__}.{name}")}


def summary(name: str) -> str:
    """What the page of a section begins with."""
    return import_module(f"{__name__}.{name}").__doc__ or ""
