"""Signals of sequences as nested lists, and what these are worth."""

import statistics
from dataclasses import fields

import numpy as np

from hsa_pyg.datasets.sequences import Sequences
from hsa_pyg.hierarchy import CHILD_OF

ROOT = ("sequence", 0)


def joined(parts):
    """The sequences of all parts."""
    columns = {
        field.name: np.concatenate([getattr(part, field.name) for part in parts])
        for field in fields(Sequences)
    }
    return Sequences(**columns)


def nested_list(signal, names):
    """The tree below the root: names of tokens, lists of what else there is.

    Children stand in the order of their ``pos``, which must count them from 0.
    """
    children = {ROOT: []}
    for child, relation, parent in signal.edge_types:
        if relation == CHILD_OF:
            edge = signal[child, relation, parent].edge_index
            for low, high in zip(*edge.tolist(), strict=True):
                place = signal[child].pos[low].item()
                children.setdefault((parent, high), []).append((place, (child, low)))
    made = {}
    waiting = [ROOT]
    for node in waiting:
        below = sorted(children.get(node, []))
        assert [place for place, _ in below] == list(range(len(below)))
        waiting += [child for _, child in below if child[0] != "token"]
    for node in reversed(waiting):
        made[node] = [
            names[signal["token"].x[number]] if kind == "token" else made[kind, number]
            for _, (kind, number) in sorted(children.get(node, []))
        ]
    assert len(made) == signal.hierarchy.num_nodes - signal.hierarchy.num_leaves
    return made[ROOT]


def flatten(tree):
    """The tokens of a nested list, in order."""
    if isinstance(tree, str):
        return [tree]
    return [token for part in tree for token in flatten(part)]


def arithmetic_value(tree, unknown=None):
    """Value of an expression modulo 5, with or without its brackets."""
    if isinstance(tree, str):
        return unknown if tree == "x" else int(tree)
    signs = [part for part in tree if part in ("+", "-", "*")]
    values = [
        arithmetic_value(part, unknown)
        for part in tree
        if part not in ("+", "-", "*", "(", ")")
    ]
    if len(values) == 1:
        return (-values[0] if signs else values[0]) % 5
    (left, right), (sign,) = values, signs
    return {"+": left + right, "-": left - right, "*": left * right}[sign] % 5


def list_value(tree):
    """Value of a list operation, with or without its closing brackets."""
    if isinstance(tree, str):
        return int(tree)
    operator, *arguments = tree
    values = [list_value(part) for part in arguments if part != "]"]
    return {
        "[MIN": min,
        "[MAX": max,
        "[MED": lambda values: int(statistics.median(values)),
        "[SM": lambda values: sum(values) % 10,
    }[operator](values)


def parsed_lists(text):
    """The nested list of a bracketed text such as ``[MAX 2 [MIN 4 7 ] ]``."""
    path = [[]]
    for token in text.split():
        if token.startswith("["):
            path.append([token])
        elif token == "]":
            done = path.pop()
            path[-1].append([*done, token])
        else:
            path[-1].append(token)
    ((tree,),) = path
    return tree
