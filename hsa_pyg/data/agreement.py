"""Loud where PyG's collate is silent: samples of unlike types in one batch."""

from __future__ import annotations

from hsa_pyg.data.schema import Schema, check_counted


def check_alike(schemas: list[Schema]) -> None:
    """Raise a ValueError that names the first sample whose schema is not the first's.

    PyG's ``collate`` looks at the first sample's types and attributes alone, so what
    only later samples have would be lost.
    """
    for number, schema in enumerate(schemas):
        check_counted(schema, f"sample {number}")
        if schema == schemas[0]:
            continue
        raise ValueError(
            f"{_difference(schemas[0], schema, number)}. PyG would batch and store all "
            "samples by the types and attributes of the first one and lose or misplace "
            "nodes; pass the list through hsa_pyg.data.unify, or use "
            "hsa_pyg.loader.DataLoader, which does so"
        )


def _difference(first: Schema, other: Schema, number: int) -> str:
    ours, theirs = dict(first.groups()), dict(other.groups())
    for (label, features), lacking in [
        *((group, theirs) for group in ours.items()),
        *((group, ours) for group in theirs.items()),
    ]:
        who, lacks = ("0", number) if lacking is theirs else (number, "0")
        if label not in lacking:
            return f"sample {who} has {label}, which sample {lacks} lacks"
        for name, feature in features.items():
            if name not in lacking[label]:
                return (
                    f"attribute {name!r} of {label} is in sample {who} but not in "
                    f"sample {lacks}"
                )
            if lacking[label][name] != feature:
                return (
                    f"attribute {name!r} of {label} is {feature} in sample {who} but "
                    f"{lacking[label][name]} in sample {lacks}"
                )
    kind = sorted(set(first.counted) ^ set(other.counted))[0]
    who, lacks = ("0", number) if kind in first.counted else (number, "0")
    return f"type {kind!r} stores 'num_nodes' in sample {who} but not in sample {lacks}"
