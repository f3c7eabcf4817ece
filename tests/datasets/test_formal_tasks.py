from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsa_pyg.datasets.formal_tasks import FORMAL_TASKS
from hsa_pyg.datasets.sequences import random_stream


def even_pairs(tokens):
    return sum(left != right for left, right in pairwise(tokens)) % 2


def parity(tokens):
    return tokens.count(1) % 2


def missing_duplicates(tokens):
    half = len(tokens) // 2
    hidden = tokens.index(2)
    assert tokens.count(2) == 1
    whole = [
        max(pair) if 2 not in pair else min(pair)
        for pair in zip(tokens[:half], tokens[half:], strict=True)
    ]
    rest = [token for place, token in enumerate(tokens) if place != hidden]
    doubled = whole + whole
    del doubled[hidden]
    assert rest == doubled
    return whole[hidden % half]


def cycle_navigation(tokens):
    place = 0
    for token in tokens:
        place = (place + {0: -1, 1: 0, 2: 1}[token]) % 5
    return place


def stack_manipulation(tokens):
    first = next(place for place, token in enumerate(tokens) if token > 1)
    stack, actions = tokens[:first], tokens[first:]
    # A bit that follows an action would be no part of the stack.
    assert 1 <= len(stack) < len(tokens)
    assert all(action in (2, 3, 4) for action in actions)
    for action in actions:
        stack = stack[:-1] if action == 2 else [*stack, action - 3]
    return stack[-1] if stack else 2


SOLVERS = {
    "even_pairs": even_pairs,
    "parity": parity,
    "missing_duplicates": missing_duplicates,
    "cycle_navigation": cycle_navigation,
    "stack_manipulation": stack_manipulation,
}


@pytest.mark.parametrize(
    ("task", "tokens", "label"),
    [
        ("even_pairs", [0, 1, 1, 0], 0),
        ("even_pairs", [0, 1, 0, 1], 1),
        ("parity", [1, 0, 1, 1], 1),
        ("missing_duplicates", [0, 1, 1, 0, 0, 2, 1, 0], 1),
        ("missing_duplicates", [1, 0, 1, 1, 2, 1], 0),
        ("cycle_navigation", [2, 0, 1, 0, 0], 3),
        ("cycle_navigation", [2, 2, 2, 0], 2),
        ("stack_manipulation", [0, 1, 1, 0, 4, 2, 2], 1),
        ("stack_manipulation", [1, 1, 0, 2, 2, 2], 2),
        ("stack_manipulation", [1, 2, 2, 3], 0),
    ],
)
def test_the_solvers_know_the_examples_of_the_definitions(task, tokens, label):
    assert SOLVERS[task](tokens) == label


@pytest.mark.parametrize("task", SOLVERS)
@given(st.integers(2, 30), st.integers(0, 1000))
def test_labels_are_what_independent_solvers_find(task, half, seed):
    length = 2 * half if task == "missing_duplicates" else half
    drawn = FORMAL_TASKS[task].draw(random_stream("any", seed), 50, length)
    rows = drawn.tokens.reshape(50, length).tolist()
    assert [SOLVERS[task](row) for row in rows] == drawn.labels.tolist()
    assert max(map(max, rows)) < len(FORMAL_TASKS[task].symbols)
    assert drawn.labels.max() < FORMAL_TASKS[task].num_classes


@pytest.mark.parametrize("task", FORMAL_TASKS)
def test_the_shortest_sequences_are_drawn(task):
    known = FORMAL_TASKS[task]
    drawn = known.draw(random_stream("any", 0), 200, known.shortest)
    assert drawn.lengths.tolist() == [known.shortest] * 200
    assert set(drawn.labels.tolist()) <= set(range(known.num_classes))
    assert len(set(drawn.labels.tolist())) >= 2


@pytest.mark.parametrize("task", FORMAL_TASKS)
def test_more_sequences_begin_with_the_same(task):
    draw = FORMAL_TASKS[task].draw
    few = draw(random_stream("any", 3), 7, 20)
    many = draw(random_stream("any", 3), 30, 20).first(7)
    assert np.array_equal(few.tokens, many.tokens)
    assert np.array_equal(few.labels, many.labels)
    assert np.array_equal(few.token_parent, many.token_parent)
    assert np.array_equal(few.expression_parent, many.expression_parent)


def rows(task, number, length=40):
    drawn = FORMAL_TASKS[task].draw(random_stream("any", 9), number, length)
    return drawn.tokens.reshape(number, length)


@pytest.mark.parametrize(
    ("task", "kinds"), [("even_pairs", 2), ("parity", 2), ("cycle_navigation", 3)]
)
def test_tokens_are_uniform(task, kinds):
    tokens = rows(task, 2000)
    shares = np.bincount(tokens.reshape(-1)) / tokens.size
    assert np.allclose(shares, 1 / kinds, atol=0.01)
    # Each place by itself, and neighbours apart from each other.
    assert np.allclose((tokens == 1).mean(0), 1 / kinds, atol=0.05)
    both = (tokens[:, 1:] == 1) & (tokens[:, :-1] == 1)
    assert abs(both.mean() - 1 / kinds**2) < 0.01


def test_the_hidden_bit_is_anywhere():
    place = (rows("missing_duplicates", 8000) == 2).argmax(1)
    counts = np.bincount(place, minlength=40)
    assert counts.min() > 130
    assert counts.max() < 275


def test_stacks_are_of_any_size_and_actions_uniform():
    tokens = rows("stack_manipulation", 8000)
    size = (tokens > 1).argmax(1)
    counts = np.bincount(size, minlength=40)
    assert counts[0] == 0
    assert counts[1:].min() > 135
    assert counts[1:].max() < 280
    actions = np.bincount(tokens[tokens > 1])[2:]
    assert np.allclose(actions / actions.sum(), 1 / 3, atol=0.01)
    bits = tokens[tokens < 2]
    assert abs(bits.mean() - 0.5) < 0.01
