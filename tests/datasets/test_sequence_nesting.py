from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hsa_pyg.datasets.sequence_nesting import SequenceNesting
from hsa_pyg.datasets.sequences import Sequences
from tests.nested_lists import flatten, joined, nested_list

PAD = 9
NAMES = "abcdefgh()"


def rows(*lengths):
    """Sequences of these lengths, tokens 0, 1, ... modulo 9."""
    parts = [
        Sequences.from_rows(np.arange(length)[None] % 9, np.array([length % 3]))
        for length in lengths
    ]
    return joined(parts)


def signals(nesting, *lengths):
    return list(nesting.signals(rows(*lengths), PAD))


def bracketed():
    """``a(b(c)d)`` with the tree that its brackets make."""
    text = "a(b(c)d)"
    return Sequences(
        lengths=np.array([len(text)]),
        labels=np.array([0]),
        tokens=np.array(["abcdefg()".index(letter) for letter in text]),
        token_parent=np.array([-1, 0, 0, 1, 1, 1, 0, 0]),
        num_expressions=np.array([2]),
        expression_parent=np.array([-1, 0]),
        expression_start=np.array([1, 3]),
    )


def test_flat_sequences_are_one_family():
    (signal,) = signals(SequenceNesting(), 5)
    assert signal.validate()
    assert signal["token"].x.tolist() == [0, 1, 2, 3, 4]
    assert signal["token"].x.dtype == torch.long
    assert signal["token"].pos.tolist() == [[0.0], [1.0], [2.0], [3.0], [4.0]]
    assert (signal.hierarchy.num_families, signal.hierarchy.max_depth) == (1, 1)
    assert signal.y.tolist() == [2]


def test_windows_are_cut_from_the_bottom_up_and_the_last_is_ragged():
    (signal,) = signals(SequenceNesting("windows", (3, 2)), 8)
    names = "01234567"
    assert nested_list(signal, names) == [
        [["0", "1", "2"], ["3", "4", "5"]],
        [["6", "7"]],
    ]
    # Windows of the highest level come first.
    edge = signal["window", "child_of", "sequence"].edge_index
    assert edge.tolist() == [[0, 1], [0, 0]]
    assert signal.validate()


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=4),
    st.lists(st.integers(2, 7), min_size=1, max_size=3),
)
def test_windows_hold_all_tokens_in_order(lengths, widths):
    nesting = SequenceNesting("windows", tuple(widths))
    for signal, length in zip(signals(nesting, *lengths), lengths, strict=True):
        assert signal.validate()
        assert signal.schema == nesting.schema
        names = list(map(str, range(9)))
        tree = nested_list(signal, names)
        assert flatten(tree) == [str(place % 9) for place in range(length)]
        depth = signal.hierarchy.depth[signal.hierarchy.leaves]
        assert depth.unique().tolist() == [len(widths) + 1]
        level = tree
        for width in reversed(widths):
            sizes = Counter(map(len, level[:-1]))
            assert set(sizes) <= {width}
            assert 1 <= len(level[-1]) <= width
            level = [part for window in level for part in window]


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=4),
    st.one_of(st.none(), st.integers(30, 50)),
    st.integers(1, 9),
    st.sampled_from([(), (5,), (2, 3)]),
)
def test_padding_stands_behind_the_sequence(lengths, pad_to, multiple, windows):
    nesting = SequenceNesting(
        "windows" if windows else "flat", windows, True, pad_to, multiple
    )
    for signal, length in zip(signals(nesting, *lengths), lengths, strict=True):
        tokens = signal["token"].x.tolist()
        assert tokens[:length] == [place % 9 for place in range(length)]
        assert set(tokens[length:]) <= {PAD}
        assert len(tokens) % multiple == 0
        least = max(length, pad_to or 0)
        assert least <= len(tokens) < least + multiple
        assert signal.hierarchy.num_leaves == len(tokens)
        assert signal.validate()


def test_trees_have_the_leaves_of_the_flat_sequence():
    sequences = bracketed()
    names = [*"abcdefg()", "[PAD]"]
    (flat,) = SequenceNesting().signals(sequences, PAD)
    (tree,) = SequenceNesting("tree").signals(sequences, PAD)
    assert torch.equal(flat["token"].x, tree["token"].x)
    assert nested_list(tree, names) == ["a", ["(", "b", ["(", "c", ")"], "d", ")"]]
    assert tree.validate()
    # What the tree has of the schema does not depend on the sequence.
    (single,) = SequenceNesting("tree").signals(rows(1), PAD)
    assert single.schema == tree.schema == SequenceNesting("tree").schema
    assert single.hierarchy.num_leaves == 1


def test_trees_need_no_brackets_and_may_be_padded():
    nesting = SequenceNesting("tree", brackets=False, pad_multiple=3)
    names = [*"abcdefg()", "[PAD]"]
    twice = joined([bracketed(), bracketed()])
    for signal in nesting.signals(twice, PAD, brackets=[7, 8]):
        assert nested_list(signal, names) == ["a", ["b", ["c"], "d"], "[PAD]", "[PAD]"]
        assert signal.validate()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"hierarchy": "forest"}, "hierarchy='forest' is not known"),
        ({"hierarchy": "windows"}, "give widths from the bottom up"),
        ({"windows": (4,)}, "does not go with hierarchy='flat'"),
        ({"hierarchy": "windows", "windows": (4, 1)}, "at least 2, got 1"),
        ({"brackets": False}, "brackets=False needs hierarchy='tree'"),
        ({"pad_multiple": 0}, "pad_multiple must be at least 1, got 0"),
        ({"pad_to": -1}, "pad_to must be at least 1, got -1"),
    ],
)
def test_arguments_that_do_not_go_together_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        SequenceNesting(**arguments)


def test_each_nesting_has_a_key_of_its_own():
    nestings = [
        SequenceNesting(),
        SequenceNesting(pad_to=40),
        SequenceNesting(pad_multiple=9),
        SequenceNesting("tree"),
        SequenceNesting("tree", brackets=False),
        SequenceNesting("windows", (5,)),
        SequenceNesting("windows", (5, 4)),
    ]
    assert len({nesting.key for nesting in nestings}) == len(nestings)
