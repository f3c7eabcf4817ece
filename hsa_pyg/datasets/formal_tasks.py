"""How the sequences of the formal language tasks are drawn, and what labels them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import RandomState

from hsa_pyg.datasets.expressions import (
    MODULUS,
    Expression,
    draw_equation,
    draw_expression,
)
from hsa_pyg.datasets.sequences import Ints, Sequences, scale


@dataclass(frozen=True)
class FormalTask:
    """A task.

    Args:
        symbols: Name of each token.
        num_classes: Number of classes.
        shortest: Smallest length.
        draw: Draws so many sequences of a length. More of them begin with the same.
        has_tree: Whether its sequences are bracketed expressions.
        step: Lengths are multiples of it.
    """

    symbols: tuple[str, ...]
    num_classes: int
    shortest: int
    draw: Callable[[RandomState, int, int], Sequences]
    has_tree: bool = False
    step: int = 1


def _bits(random: RandomState, number: int, length: int) -> Ints:
    return scale(random.random_sample((number, length)), 2)


def _draw_even_pairs(random: RandomState, number: int, length: int) -> Sequences:
    bits = _bits(random, number, length)
    unequal = bits[:, :-1] != bits[:, 1:]
    return Sequences.from_rows(bits, unequal.sum(1) % 2)


def _draw_parity(random: RandomState, number: int, length: int) -> Sequences:
    bits = _bits(random, number, length)
    return Sequences.from_rows(bits, bits.sum(1) % 2)


def _draw_missing_duplicates(
    random: RandomState, number: int, length: int
) -> Sequences:
    # All that makes a sequence is one row, so that more rows begin with the same.
    uniform = random.random_sample((number, length // 2 + 1))
    bits = np.tile(scale(uniform[:, 1:], 2), 2)
    hidden = (np.arange(number), scale(uniform[:, 0], length))
    labels = bits[hidden]
    bits[hidden] = 2
    return Sequences.from_rows(bits, labels)


def _draw_cycle_navigation(random: RandomState, number: int, length: int) -> Sequences:
    steps = scale(random.random_sample((number, length)), 3)
    return Sequences.from_rows(steps, (steps - 1).sum(1) % MODULUS)


def _draw_stack_manipulation(
    random: RandomState, number: int, length: int
) -> Sequences:
    uniform = random.random_sample((number, length + 1))
    size = 1 + scale(uniform[:, :1], length - 1)
    given = np.arange(length) < size
    tokens = np.where(given, scale(uniform[:, 1:], 2), 2 + scale(uniform[:, 1:], 3))
    return Sequences.from_rows(tokens, _tops(tokens))


def _tops(tokens: Ints) -> Ints:
    """Top of the stack behind the last of the tokens, 2 if it is empty."""
    number, length = tokens.shape
    rows = np.arange(number)
    # Below the stack lies a 2, which no POP takes away.
    stack = np.full((number, length + 1), 2)
    height = np.zeros(number, dtype=np.int64)
    for token in tokens.T:
        pops = token == 2
        height = np.where(pops, np.maximum(height - 1, 0), height + 1)
        pushed = np.where(token > 2, token - 3, token)
        stack[rows[~pops], height[~pops]] = pushed[~pops]
    return stack[rows, height]


_DIGITS = tuple(map(str, range(MODULUS)))
_ARITHMETIC = (*_DIGITS, *"+-*()")
_EQUATION = (*_DIGITS, *"+-()x=")


def _draw_modular_arithmetic(
    random: RandomState, number: int, length: int
) -> Sequences:
    def draw(below: Callable[[int], int]) -> tuple[Expression, int]:
        expression = draw_expression(length, "+-*", below)
        return expression, expression.value

    return _draw_expressions(random, number, draw, _ARITHMETIC)


def _draw_solve_equation(random: RandomState, number: int, length: int) -> Sequences:
    return _draw_expressions(
        random, number, lambda below: draw_equation(length, below), _EQUATION
    )


def _draw_expressions(
    random: RandomState,
    number: int,
    draw: Callable[[Callable[[int], int]], tuple[Expression, int]],
    symbols: tuple[str, ...],
) -> Sequences:
    ids = {symbol: token for token, symbol in enumerate(symbols)}
    drawn: list[Expression] = []
    labels = []
    for _ in range(number):
        expression, label = draw(lambda count: int(random.random_sample() * count))
        drawn.append(expression)
        labels.append(label)
    return Sequences(
        lengths=_ints([len(one.symbols) for one in drawn]),
        labels=_ints(labels),
        tokens=_ints([ids[symbol] for one in drawn for symbol in one.symbols]),
        token_parent=_ints([parent for one in drawn for parent in one.symbol_parent]),
        num_expressions=_ints([len(one.parent) for one in drawn]),
        expression_parent=_ints([parent for one in drawn for parent in one.parent]),
        expression_start=_ints([start for one in drawn for start in one.start]),
    )


def _ints(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)


FORMAL_TASKS = {
    "even_pairs": FormalTask(("0", "1"), 2, 2, _draw_even_pairs),
    "parity": FormalTask(("0", "1"), 2, 1, _draw_parity),
    "missing_duplicates": FormalTask(
        ("0", "1", "?"), 2, 2, _draw_missing_duplicates, step=2
    ),
    "cycle_navigation": FormalTask(
        ("-1", "0", "+1"), MODULUS, 1, _draw_cycle_navigation
    ),
    "stack_manipulation": FormalTask(
        ("0", "1", "POP", "PUSH0", "PUSH1"), 3, 2, _draw_stack_manipulation
    ),
    "modular_arithmetic": FormalTask(
        _ARITHMETIC, MODULUS, 1, _draw_modular_arithmetic, has_tree=True
    ),
    "solve_equation": FormalTask(
        _EQUATION, MODULUS, 3, _draw_solve_equation, has_tree=True
    ),
}
"""The tasks by their names."""
