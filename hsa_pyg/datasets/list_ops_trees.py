"""Random expressions of list operations, as Long Range Arena draws them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.random import RandomState

from hsa_pyg.datasets.sequences import ROOT, Ints, Sequences, offsets, scale

OPERATORS = ("[MIN", "[MAX", "[MED", "[SM")
SYMBOLS = (*map(str, range(10)), *OPERATORS, "]")
_CLOSE = SYMBOLS.index("]")
_FIRST_OPERATOR = SYMBOLS.index(OPERATORS[0])
#: Chance that a node is an operator, where it may be one.
_OPERATOR = 0.25
#: Expressions drawn at once. The data depend on it.
_CANDIDATES = 16_384
#: So many draws in a row without one of a length asked for, and there is none.
_PATIENCE = 200


@dataclass(frozen=True)
class _Level:
    """The nodes of one depth of many trees; children stand in the order of parents.

    Args:
        tree: ``[n]`` tree of each node.
        arguments: ``[n]`` number of its arguments, 0 for a digit.
    """

    tree: Ints
    arguments: Ints


def draw_list_ops(
    random: RandomState, length: tuple[int, int], max_depth: int, max_arguments: int
) -> Iterator[Sequences]:
    """Yield expressions without end, as many at a time as come out.

    Args:
        random: What draws them.
        length: Their length lies between these two, which are excluded themselves.
        max_depth: Depth at which all nodes are digits; the root has depth 1.
        max_arguments: Largest number of arguments of an operator.

    Raises:
        ValueError: If none of very many has such a length.
    """
    failures = 0
    while failures < _PATIENCE:
        levels, found = _draw_shapes(random, length, max_depth, max_arguments)
        failures += 1
        if found > 0:
            failures = 0
            yield _fill(random, levels, found)
    raise ValueError(
        f"none of {_PATIENCE * _CANDIDATES:,} expressions has a length between "
        f"{length[0]} and {length[1]} (both excluded) with max_depth={max_depth} and "
        f"max_args={max_arguments}: widen the range"
    )


def _draw_shapes(
    random: RandomState, length: tuple[int, int], max_depth: int, max_arguments: int
) -> tuple[list[_Level], int]:
    """Draw trees and keep those of the right length, numbered anew."""
    tree = np.arange(_CANDIDATES)
    size = np.zeros(_CANDIDATES, dtype=np.int64)
    levels = []
    for depth in range(1, max_depth + 1):
        arguments = 2 + scale(random.random_sample(tree.size), max_arguments - 1)
        is_digit = random.random_sample(tree.size) >= _OPERATOR
        arguments[is_digit | (depth == max_depth)] = 0
        levels.append(_Level(tree, arguments))
        cost = 1 + (arguments > 0)
        size += np.bincount(tree, cost, _CANDIDATES).astype(np.int64)
        tree = np.repeat(tree, arguments)
        # No need to draw on where the length is exceeded already.
        least = size + np.bincount(tree, minlength=_CANDIDATES)
        tree = tree[least[tree] < length[1]]
        size = np.where(least < length[1], size, length[1])
    right = (size > length[0]) & (size < length[1])
    number = np.cumsum(right) - 1
    kept = [
        _Level(number[level.tree[here]], level.arguments[here])
        for level in levels
        if (here := right[level.tree]).any()
    ]
    return kept, int(right.sum())


def _fill(random: RandomState, levels: list[_Level], trees: int) -> Sequences:
    """Draw digits and operators, and write the expressions down."""
    symbols = []
    for level in levels:
        uniform = random.random_sample(level.tree.size)
        operator = _FIRST_OPERATOR + scale(uniform, len(OPERATORS))
        symbols.append(np.where(level.arguments > 0, operator, scale(uniform, 10)))
    sizes = _sizes(levels)
    starts = _starts(levels, sizes)
    # Where the first token of each tree stands, and where those of all nodes do.
    first = offsets(sizes[0])
    place = np.concatenate(
        [first[level.tree] + start for level, start in zip(levels, starts, strict=True)]
    )
    size, symbol = np.concatenate(sizes), np.concatenate(symbols)
    tokens = np.full(sizes[0].sum(), _CLOSE)
    tokens[place] = symbol
    tree = np.concatenate([level.tree for level in levels])
    operators = np.flatnonzero(symbol >= _FIRST_OPERATOR)
    number = np.bincount(tree[operators], minlength=trees)
    # Operators by their places, which is depth first.
    ordered = operators[np.argsort(place[operators])]
    expression = np.full(symbol.size + 1, ROOT)
    expression[ordered] = np.arange(ordered.size) - offsets(number)[tree[ordered]]
    above = expression[_parents(levels)]
    token_parent = np.empty_like(tokens)
    token_parent[place] = np.where(symbol >= _FIRST_OPERATOR, expression[:-1], above)
    closing = place[operators] + size[operators] - 1
    token_parent[closing] = expression[operators]
    return Sequences(
        lengths=sizes[0],
        labels=_values(levels, symbols),
        tokens=tokens,
        token_parent=token_parent,
        num_expressions=number,
        expression_parent=above[ordered],
        expression_start=(place - first[tree])[ordered],
    )


def _sizes(levels: list[_Level]) -> list[Ints]:
    """Number of tokens of each node: 1 for a digit, else 2 and those inside."""
    sizes: list[Ints] = []
    below = np.zeros(0, dtype=np.int64)
    for level in reversed(levels):
        inside = np.zeros(level.tree.size, dtype=np.int64)
        has = level.arguments > 0
        if has.any():
            inside[has] = 1 + np.add.reduceat(below, _first_arguments(level))
        below = 1 + inside
        sizes.append(below)
    return sizes[::-1]


def _starts(levels: list[_Level], sizes: list[Ints]) -> list[Ints]:
    """Place of the first token of each node in its tree."""
    starts = [np.zeros(levels[0].tree.size, dtype=np.int64)]
    for level, size in zip(levels[:-1], sizes[1:], strict=True):
        before = offsets(size)
        has = level.arguments > 0
        shift = starts[-1][has] + 1 - before[_first_arguments(level)]
        starts.append(before + np.repeat(shift, level.arguments[has]))
    return starts


def _parents(levels: list[_Level]) -> Ints:
    """Number of the parent of each node, counted through all levels; roots have -1."""
    parents = [np.full(levels[0].tree.size, -1)]
    first = 0
    for level in levels[:-1]:
        nodes = first + np.arange(level.tree.size)
        parents.append(np.repeat(nodes, level.arguments))
        first += level.tree.size
    return np.concatenate(parents)


def _values(levels: list[_Level], symbols: list[Ints]) -> Ints:
    """Value of each tree."""
    below = np.zeros(0, dtype=np.int64)
    for level, symbol in zip(reversed(levels), reversed(symbols), strict=True):
        value = symbol.copy()
        has = level.arguments > 0
        if has.any():
            first, number = _first_arguments(level), level.arguments[has]
            owner = np.repeat(np.arange(number.size), number)
            ordered = below[np.lexsort((below, owner))]
            middle = ordered[first + (number - 1) // 2] + ordered[first + number // 2]
            results = [
                ordered[first],
                ordered[first + number - 1],
                middle // 2,
                np.add.reduceat(below, first) % 10,
            ]
            value[has] = np.choose(symbol[has] - _FIRST_OPERATOR, results)
        below = value
    return below


def _first_arguments(level: _Level) -> Ints:
    """Place in the next level of the first argument of each operator."""
    return offsets(level.arguments)[level.arguments > 0]
