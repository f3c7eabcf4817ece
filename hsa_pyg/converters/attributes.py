"""Columns of the attributes that all nodes or edges of one type have."""

from __future__ import annotations

import numbers
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy
import torch
from torch import Tensor

# Names that mean something else to PyG, which shifts, joins or skips such attributes.
_MANGLED = ("index", "face", "batch", "ptr", "adj")


def common_columns(
    rows: Sequence[Mapping[Any, Any]], reserved: Collection[str]
) -> tuple[dict[str, Tensor | list[str]], list[str]]:
    """Make a column of every attribute that all rows have.

    Numbers, tensors, arrays and sequences of numbers of one shape become a tensor
    (whole numbers int64, others float32, booleans bool); strings become a list. Names
    that are no identifiers (``3``) or are reserved get the prefix ``attribute_``.

    Args:
        rows: The attributes of each node; None is no value.
        reserved: Names that the caller needs for itself.

    Returns:
        The columns by name, and what was left out: each attribute with the reason.

    Example:
        >>> rows = [{"size": 3, 0: "a", "note": "new"}, {"size": 4, 0: "b"}]
        >>> common_columns(rows, ["x"])
        ({'size': tensor([3, 4]), 'attribute_0': ['a', 'b']},
         ["'note' (1 of 2 have it)"])
    """
    counts: dict[Any, int] = {}
    for row in rows:
        for key, value in row.items():
            if value is not None:
                counts[key] = counts.get(key, 0) + 1
    columns: dict[str, Tensor | list[str]] = {}
    dropped = []
    for key, count in counts.items():
        name = attribute_name(key, reserved)
        if count < len(rows):
            dropped.append(f"{key!r} ({count} of {len(rows)} have it)")
        elif any(part in name for part in _MANGLED):
            dropped.append(f"{key!r} (PyG mangles names like this; rename it)")
        elif name in columns:
            dropped.append(f"{key!r} (another attribute has the name {name!r} too)")
        else:
            column = as_column([row[key] for row in rows])
            if column is None:
                dropped.append(
                    f"{key!r} (not all numbers or tensors of one shape, or strings)"
                )
            else:
                columns[name] = column
    return columns, dropped


def attribute_name(key: Any, reserved: Collection[str]) -> str:
    """The name under which a store can keep an attribute.

    Example:
        >>> (
        ...     attribute_name(3, []),
        ...     attribute_name("mass (kg)", []),
        ...     attribute_name("x", "x"),
        ... )
        ('attribute_3', 'mass_kg', 'attribute_x')
    """
    name = re.sub(r"\W+", "_", str(key)).strip("_")
    if not name.isidentifier() or name in reserved:
        return f"attribute_{name}"
    return name


def as_column(values: Sequence[Any]) -> Tensor | list[str] | None:
    """One tensor or one list of strings that holds all values; None if none does."""
    if all(isinstance(value, str) for value in values):
        return list(values)
    try:
        rows = [_as_array(value) for value in values]
    except (TypeError, ValueError, OverflowError):
        return None
    if len({row.shape for row in rows}) != 1:
        return None
    kinds = {row.dtype.kind for row in rows}
    if not kinds <= set("biuf"):
        return None
    if kinds == {"b"}:
        dtype: Any = numpy.bool_
    else:
        dtype = numpy.float32 if kinds & set("fb") else numpy.int64
    return torch.from_numpy(numpy.stack(rows).astype(dtype))


def _as_array(value: Any) -> numpy.ndarray:
    if isinstance(value, Tensor):
        return (
            value.detach().cpu().float().numpy()
            if (value.dtype == torch.bfloat16)
            else value.detach().cpu().numpy()
        )
    if isinstance(
        value, bool | numbers.Real | numpy.ndarray | numpy.generic | list | tuple
    ):
        return numpy.asarray(value)
    raise TypeError(f"{type(value).__name__} is no number")
