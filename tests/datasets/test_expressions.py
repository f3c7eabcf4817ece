import random
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsa_pyg.datasets.expressions import draw_equation, draw_expression
from tests.nested_lists import arithmetic_value

LENGTHS = st.integers(1, 120)
SEEDS = st.integers(0, 10_000)


def tree_of(expression):
    """The nested list that the parents of symbols and expressions describe."""
    lists = [[] for _ in expression.parent]
    root = []
    begins = dict(zip(expression.start, range(len(lists)), strict=True))
    for place, symbol in enumerate(expression.symbols):
        if place in begins:
            number = begins[place]
            above = expression.parent[number]
            assert above < number
            (root if above < 0 else lists[above]).append(lists[number])
        parent = expression.symbol_parent[place]
        (root if parent < 0 else lists[parent]).append(symbol)
    return root


def shape(part):
    """An expression with its parts as d (a digit) and E (an expression)."""
    return "".join(
        "E" if isinstance(child, list) else "d" if child.isdigit() else child
        for child in part
    )


def inner(tree):
    for part in tree:
        if isinstance(part, list):
            yield part
            yield from inner(part)


@given(LENGTHS, SEEDS, st.sampled_from(["+-", "+-*"]))
def test_python_finds_the_same_value(length, seed, operators):
    below = random.Random(seed).randrange
    expression = draw_expression(length, operators, below)
    text = "".join(expression.symbols)
    assert len(text) == length
    assert set(text) <= {*"01234()", *operators}
    assert eval(text) % 5 == expression.value


@given(LENGTHS, SEEDS)
def test_the_tree_has_the_symbols_in_order_and_the_value(length, seed):
    expression = draw_expression(length, "+-*", random.Random(seed).randrange)
    (tree,) = tree_of(expression)
    assert arithmetic_value(tree) == expression.value
    shapes = {shape(part) for part in inner([tree])}
    assert all(re.fullmatch(r"-d|\(-?d\)|\([dE][-+*][dE]\)", found) for found in shapes)
    assert expression.start == sorted(expression.start)


@pytest.mark.parametrize(
    ("length", "shape"),
    [(1, r"\d"), (2, r"-\d"), (3, r"\(\d\)"), (4, r"\(-\d\)"), (5, r"\(\d[-+*]\d\)")],
)
def test_short_expressions_have_one_form(length, shape):
    below = random.Random(0).randrange
    drawn = {"".join(draw_expression(length, "+-*", below).symbols) for _ in range(400)}
    assert all(re.fullmatch(shape, text) for text in drawn)
    assert len(drawn) == (75 if length == 5 else 5)


def test_operators_and_the_length_of_the_left_side_are_uniform():
    below = random.Random(1).randrange
    number = 6000
    lefts, operators = Counter(), Counter()
    for _ in range(number):
        expression = draw_expression(9, "+-*", below)
        (tree,) = tree_of(expression)
        left = "".join(expression.symbols[1:])
        # The sides of 9 symbols are one of 1 to 5 and the rest of 6.
        sides = [len(part) if isinstance(part, list) else 1 for part in tree]
        lefts[sides[1], left[0] == "("] += 1
        operators[tree[2]] += 1
    assert all(abs(count - number / 3) < 150 for count in operators.values())
    # Lengths 3 (a bracketed digit) and 5 (an operator) are the lists (d) and (dod).
    assert len(lefts) == 5
    assert all(abs(count - number / 5) < 130 for count in lefts.values())


def test_expressions_nest_deeper_than_pythons_stack():
    expression = draw_expression(40_001, "+-", lambda number: number - 1)
    assert len(expression.symbols) == 40_001
    assert expression.parent == list(range(-1, 9_999))


@given(st.integers(3, 80), SEEDS)
def test_the_hidden_digit_is_the_only_solution(length, seed):
    equation, hidden = draw_equation(length, random.Random(seed).randrange)
    text = "".join(equation.symbols)
    assert len(text) == length
    left, right = text.split("=")
    assert left.count("x") == 1
    assert "*" not in left
    solutions = [
        digit
        for digit in range(5)
        if eval(left.replace("x", str(digit))) % 5 == int(right)
    ]
    assert solutions == [hidden]
    *tree, equals, value = tree_of(equation)
    assert (equals, value) == ("=", right)
    assert arithmetic_value(tree[0], unknown=hidden) == int(right)


def test_every_digit_may_be_hidden():
    below = random.Random(2).randrange
    places = Counter(draw_equation(7, below)[0].symbols.index("x") for _ in range(1000))
    # (a+b)=v: from ( and a one comes to a, from the rest but b around the end.
    assert set(places) == {1, 3}
    assert abs(places[1] - 600) < 60
