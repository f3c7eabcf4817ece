"""Bracketed expressions of digits modulo 5, and equations of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from hsa_pyg.datasets.sequences import ROOT

MODULUS = 5


@dataclass
class Expression:
    """A bracketed expression, its tree and its value.

    Every part of more than one symbol is an expression of its own: ``-3``, ``(3)``,
    ``(-3)`` and ``(left+right)``. What stands in it are its children, in order: the
    brackets and the operator as leaves, digits as leaves, other parts as expressions.

    Args:
        symbols: The symbols, a character each.
        symbol_parent: Expression that each symbol is a child of, or ``ROOT``.
        parent: Expression above each expression, or ``ROOT``.
        start: Place of the first symbol of each expression.
        value: Its value modulo 5.
    """

    symbols: list[str] = field(default_factory=list)
    symbol_parent: list[int] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    value: int = 0

    def write(self, symbol: str, parent: int = ROOT) -> None:
        """Add a symbol behind the others."""
        self.symbols.append(symbol)
        self.symbol_parent.append(parent)


def _negate(values: list[int]) -> None:
    values.append(-values.pop() % MODULUS)


def _add(values: list[int]) -> None:
    right = values.pop()
    values.append((values.pop() + right) % MODULUS)


def _subtract(values: list[int]) -> None:
    right = values.pop()
    values.append((values.pop() - right) % MODULUS)


def _multiply(values: list[int]) -> None:
    right = values.pop()
    values.append(values.pop() * right % MODULUS)


_COMPUTE = {"+": _add, "-": _subtract, "*": _multiply}

# A symbol, the length of an expression to draw, or what computes with the last values.
_Piece: TypeAlias = "str | int | Callable[[list[int]], None]"


def draw_expression(
    length: int, operators: Sequence[str], below: Callable[[int], int]
) -> Expression:
    """Draw an expression of so many symbols.

    One of length 1 is a digit, of length 2 ``-d``, 3 ``(d)``, 4 ``(-d)``; a longer one
    is ``(left op right)``, where the length of the left side is uniform between 1 and
    ``length`` - 4, and the operator is uniform.

    Args:
        length: Number of symbols.
        operators: Some of ``"+"``, ``"-"`` and ``"*"``.
        below: Draws an integer from 0 to its argument - 1.

    Example:
        >>> expression = draw_expression(8, "+-*", lambda number: number - 1)
        >>> "".join(expression.symbols), expression.value
        ('((-4)*4)', 4)
        >>> expression.parent, expression.symbol_parent
        ([-1, 0], [0, 1, 1, 1, 1, 0, 0, 0])
    """
    drawn = Expression()
    values: list[int] = []
    # Lengths of hundreds of thousands nest deeper than Python's stack.
    work: list[tuple[_Piece, int]] = [(length, ROOT)]
    while work:
        piece, parent = work.pop()
        if isinstance(piece, str):
            drawn.write(piece, parent)
        elif not isinstance(piece, int):
            piece(values)
        elif piece == 1:
            values.append(below(MODULUS))
            drawn.write(str(values[-1]), parent)
        else:
            drawn.parent.append(parent)
            drawn.start.append(len(drawn.symbols))
            here = len(drawn.parent) - 1
            pieces = _pieces(piece, operators, below)
            work.extend((inside, here) for inside in reversed(pieces))
    drawn.value = values.pop()
    return drawn


def _pieces(
    length: int, operators: Sequence[str], below: Callable[[int], int]
) -> list[_Piece]:
    """What an expression of this length, at least 2, consists of."""
    if length == 2:
        return ["-", 1, _negate]
    if length == 3:
        return ["(", 1, ")"]
    if length == 4:
        return ["(", "-", 1, _negate, ")"]
    left = 1 + below(length - 4)
    operator = operators[below(len(operators))]
    return ["(", left, operator, length - left - 3, _COMPUTE[operator], ")"]


def draw_equation(length: int, below: Callable[[int], int]) -> tuple[Expression, int]:
    """Draw an equation ``expression=value`` with one digit hidden, and that digit.

    The expression has ``length`` - 2 symbols over ``+`` and ``-``, so that the hidden
    digit, written ``x``, is the only solution. It is the first digit at or behind a
    uniform place, around the end. ``=`` and the value stand outside of the expression.

    Args:
        length: Number of symbols, at least 3.
        below: Draws an integer from 0 to its argument - 1.
    """
    equation = draw_expression(length - 2, "+-", below)
    place = below(length - 2)
    while not equation.symbols[place].isdigit():
        place = (place + 1) % (length - 2)
    hidden = int(equation.symbols[place])
    equation.symbols[place] = "x"
    equation.write("=")
    equation.write(str(equation.value))
    return equation, hidden
