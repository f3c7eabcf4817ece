from collections import Counter
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsa_pyg.datasets import list_ops_trees
from hsa_pyg.datasets.list_ops_trees import OPERATORS, SYMBOLS, draw_list_ops
from hsa_pyg.datasets.sequences import random_stream
from tests.nested_lists import joined, list_value, parsed_lists


def draw(length, seed=0, max_depth=10, max_arguments=10, parts=1):
    found = draw_list_ops(random_stream("any", seed), length, max_depth, max_arguments)
    return joined(list(islice(found, parts)))


def texts(sequences):
    stops = np.cumsum(sequences.lengths).tolist()
    names = np.array(SYMBOLS)[sequences.tokens]
    return [
        " ".join(names[stop - length : stop])
        for stop, length in zip(stops, sequences.lengths.tolist(), strict=True)
    ]


def operations(tree):
    if isinstance(tree, list):
        yield tree
        for part in tree:
            yield from operations(part)


def depth(tree):
    return 1 + max(map(depth, tree)) if isinstance(tree, list) else 1


@pytest.fixture(scope="module")
def paper():
    """Expressions of the lengths that the semantic focus paper has."""
    return draw((500, 600), parts=4)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("[MAX 2 9 [MIN 4 7 ] 0 ]", 9),
        ("[MED 1 4 ]", 2),
        ("[MED 9 1 8 ]", 8),
        ("[SM 8 5 [MIN 4 2 ] 9 ]", 4),
    ],
)
def test_the_evaluator_knows_the_operations(text, value):
    assert list_value(parsed_lists(text)) == value


def test_long_expressions_are_worth_what_their_text_is(paper):
    assert len(paper) > 400
    for text, label in zip(texts(paper), paper.labels.tolist(), strict=True):
        assert list_value(parsed_lists(text)) == label
    assert paper.lengths.min() > 500
    assert paper.lengths.max() < 600


@given(
    st.integers(0, 40),
    st.integers(10, 60),
    st.integers(4, 10),
    st.integers(4, 10),
    st.integers(0, 100),
)
def test_expressions_keep_to_their_limits(low, room, max_depth, max_args, seed):
    drawn = draw((low, low + room), seed, max_depth, max_args)
    assert drawn.lengths.min() > low
    assert drawn.lengths.max() < low + room
    sequences = zip(texts(drawn), drawn.labels.tolist(), strict=True)
    for text, label in islice(sequences, 100):
        tree = parsed_lists(text)
        assert list_value(tree) == label
        assert depth(tree) <= max_depth
        for _, *arguments, bracket in operations(tree):
            assert 2 <= len(arguments) <= max_args
            assert bracket == "]"


def test_a_digit_counts_one_and_an_operator_two(paper):
    for text, length in zip(texts(paper), paper.lengths.tolist(), strict=True):
        operators = text.count("[")
        digits = sum(map(str.isdigit, text.split()))
        assert digits + 2 * operators == length


def test_the_tree_is_that_of_the_text(paper):
    first = first_expression = 0
    for text, length, number in zip(
        texts(paper),
        paper.lengths.tolist(),
        paper.num_expressions.tolist(),
        strict=True,
    ):
        path, above, starts, parents = [-1], [], [], []
        for place, token in enumerate(text.split()):
            if token.startswith("["):
                above.append(path[-1])
                starts.append(place)
                path.append(len(above) - 1)
            parents.append(path[-1])
            if token == "]":
                path.pop()
        stop, stop_expression = first + length, first_expression + number
        expressions = slice(first_expression, stop_expression)
        assert paper.token_parent[first:stop].tolist() == parents
        assert paper.expression_parent[expressions].tolist() == above
        assert paper.expression_start[expressions].tolist() == starts
        first, first_expression = stop, stop_expression
    assert first == paper.tokens.size


def test_nodes_are_drawn_as_long_range_arena_does():
    # Nothing is thrown away, so that the chances are those of the generator.
    drawn = draw((0, 10_000), max_depth=5, max_arguments=10)
    trees = [parsed_lists(text) for text in texts(drawn)]
    assert len(trees) == 16_384
    digits = sum(isinstance(tree, str) for tree in trees)
    assert abs(digits / len(trees) - 0.75) < 0.015
    found = [part for tree in trees for part in operations(tree)]
    arguments = Counter(len(part) - 2 for part in found)
    assert set(arguments) == set(range(2, 11))
    operators = Counter(part[0] for part in found)
    assert set(operators) == set(OPERATORS)
    for counts in (arguments, operators):
        expected = len(found) / len(counts)
        assert all(abs(n / expected - 1) < 0.1 for n in counts.values())
    # The second level: six arguments on average, a quarter of them operators.
    inside = [part for tree in trees if isinstance(tree, list) for part in tree[1:-1]]
    assert abs(np.mean([isinstance(part, list) for part in inside]) - 0.25) < 0.015
    # At the largest depth there is none.
    assert max(map(depth, trees)) == 5
    values = Counter(tree for tree in trees if isinstance(tree, str))
    assert all(abs(n / digits - 0.1) < 0.015 for n in values.values())


def test_classes_are_as_uneven_as_the_operations_make_them(paper):
    shares = np.bincount(paper.labels, minlength=10) / len(paper)
    # 0.16 for 0 and 9, which minima and maxima bring about.
    assert abs(shares[[0, 9]].mean() - 0.16) < 0.04
    assert shares[1:9].max() < 0.14


def test_a_range_that_no_expression_has_is_refused(monkeypatch):
    monkeypatch.setattr(list_ops_trees, "_PATIENCE", 3)
    with pytest.raises(ValueError, match=r"between 1 and 4 .* widen the range"):
        draw((1, 4))
