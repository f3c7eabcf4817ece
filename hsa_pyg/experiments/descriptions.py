"""What each setting of an experiment is, as the docstring of its dataclass says."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable
from dataclasses import fields

#: ``:data:`~a.module.NAME` ``, and text in double backticks.
_ROLE = re.compile(r":\w+:`~?(?:[\w]+\.)*(\w+)`")
_LITERAL = re.compile(r"``(.+?)``")
#: The first line of an argument; lines that go on stand further to the right.
_ARGUMENT = re.compile(r" {4}(\w+): (.*)")


def describe_settings(settings: type) -> dict[str, str]:
    """Descriptions of all fields of a dataclass, in the order of the fields.

    A constant that a description refers to, and that the dataclass's module knows, is
    told by the names that it holds.

    Args:
        settings: The dataclass; its docstring tells of every field under ``Args:``.

    Raises:
        ValueError: if a field has no description, or what has one is no field.
    """
    told = _arguments(inspect.getdoc(settings) or "")
    names = [one.name for one in fields(settings)]
    wrong = [name for name in names if name not in told]
    wrong += [name for name in told if name not in names]
    if wrong:
        raise ValueError(
            f"The docstring of {settings.__name__} has to tell, under Args, of each "
            f"field and of nothing else; see {', '.join(wrong)}."
        )
    known = vars(sys.modules[settings.__module__])

    def say(role: re.Match[str]) -> str:
        value = known.get(role[1])
        held = list(value) if isinstance(value, Iterable) else []
        return ", ".join(held) if held and _all_texts(held) else role[1]

    return {name: _LITERAL.sub(r"\1", _ROLE.sub(say, told[name])) for name in names}


def _arguments(docstring: str) -> dict[str, str]:
    """Names and descriptions under ``Args:``, each in one line."""
    _, _, rest = f"\n{docstring}\n".partition("\nArgs:\n")
    found: dict[str, list[str]] = {}
    name = ""
    for line in rest.splitlines():
        if line and not line.startswith("    "):
            break
        first = _ARGUMENT.fullmatch(line)
        if first:
            name = first[1]
            found[name] = [first[2]]
        elif line.strip():
            found[name].append(line.strip())
    return {name: " ".join(lines) for name, lines in found.items()}


def _all_texts(values: Iterable[object]) -> bool:
    return all(isinstance(one, str) for one in values)
