import contextlib
import gzip
import io
import itertools
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.loader import DataLoader

from hsa_pyg.converters import collect_labels, from_brackets, to_brackets
from hsa_pyg.converters.brackets import (
    BRACKETS_SCHEMA,
    bracket_words,
    unescape,
)
from hsa_pyg.converters.trees import Vocabulary
from hsa_pyg.data import Schema

SST = Path(__file__).parents[2].parent / "shared" / "data" / "sst_trees"
TREE = "(3 (2 It) (4 (4 (2 really) (3 works)) (2 .)))"


def bracket_depth(text):
    """Depth of the tree by counting characters alone."""
    steps = [(char == "(") - (char == ")") for char in text]
    return max(itertools.accumulate(steps)) - 1


def test_every_bracket_is_a_node_with_its_label_and_place():
    signal = from_brackets(TREE, vocabulary=["it", "really", "works", "."], y=1)
    assert signal.validate()
    assert Schema.of(signal).nodes == BRACKETS_SCHEMA.nodes
    assert signal["phrase"].y.tolist() == [3, 4, 4]
    assert signal["word"].y.tolist() == [2, 2, 3, 2]
    assert signal["word"].x.tolist() == [0, 1, 2, 3]
    assert signal["word"].text == ["It", "really", "works", "."]
    assert signal["word"].pos.tolist() == [[0], [0], [1], [1]]
    assert signal["phrase"].pos.tolist() == [[0], [1], [0]]
    assert signal["word", "child_of", "phrase"].edge_index.tolist() == [
        [0, 1, 2, 3],
        [0, 2, 2, 1],
    ]
    assert signal.y.tolist() == [1]
    assert signal.hierarchy.max_depth == bracket_depth(TREE)


def test_a_tree_of_one_word_is_a_leaf():
    signal = from_brackets("(4 Amazing)")
    assert signal.validate()
    assert signal["phrase"].num_nodes == 0
    assert signal.hierarchy.num_leaves == 1
    assert to_brackets(signal) == "(4 Amazing)"


def test_labels_that_are_no_numbers_need_a_vocabulary():
    tree = "( (S (NP (DT The) (NN dog)) (VP barks)) )"
    labels = collect_labels([tree])
    assert labels == ["DT", "NN", "NP", "S", "VP"]
    signal = from_brackets(tree, labels=labels)
    assert to_brackets(signal, labels) == "(S (NP (DT The) (NN dog)) (VP barks))"
    with pytest.raises(ValueError, match="label 'S' at character 2 is no integer"):
        from_brackets(tree)
    with pytest.raises(ValueError, match="label 'NP' at character 5 is not in labels"):
        from_brackets(tree, labels=["S"])
    assert from_brackets(tree, labels=["[UNK]"])["word"].y.tolist() == [0, 0, 0]


def test_escaped_words_are_kept_in_both_forms():
    tree = r"(2 (2 -LRB-) (2 (2 1\/2) (2 (2 \*\*\*) (2 -RRB-))))"
    signal = from_brackets(tree)
    assert signal["word"].text == ["(", "1/2", "***", ")"]
    assert signal["word"].written == ["-LRB-", r"1\/2", r"\*\*\*", "-RRB-"]
    assert to_brackets(signal) == tree
    assert unescape("--") == "--"
    assert bracket_words(tree) == signal["word"].text


def test_case_counts_where_asked_for():
    words = Vocabulary(["it", "It"], "word", "vocabulary")
    assert from_brackets("(1 It)", vocabulary=words)["word"].x.tolist() == [0]
    cased = from_brackets("(1 It)", vocabulary=words, lowercase=False)
    assert cased["word"].x.tolist() == [1]


def test_children_are_written_in_the_order_of_their_places():
    signal = from_brackets("(0 (1 b) (2 (3 c)) (4 a))")
    assert to_brackets(signal) == "(0 (1 b) (2 (3 c)) (4 a))"
    signal["word"].pos = torch.tensor([[2.0], [0.0], [0.0]])
    assert to_brackets(signal) == "(0 (4 a) (2 (3 c)) (1 b))"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no bracket"),
        ("  \n", "holds no bracket"),
        ("word", "'word' at character 0 stands outside of a bracket"),
        ("(1 a", "bracket at character 0 is never closed"),
        ("(1 (2 a)", "bracket at character 0 is never closed: .* 8 characters"),
        (")", r"'\)' at character 0 closes no bracket"),
        ("(1 a))", "ends before character 5"),
        ("(1 a) (1 b)", "ends before character 6"),
        ("(1)", "character 0 holds neither a word nor a bracket"),
        ("()", "holds neither a word nor a bracket"),
        ("(1 (2 a) b)", "'b' at character 9 stands after a bracket"),
        ("(1 a (2 b))", "character 0 holds the word 'a' and a bracket"),
        ("((1 a) (2 b))", "character 0 has no label but several"),
        ("(1 ((2 a)))", "bracket at character 3 has no label"),
        ("(99999999999999999999 a)", "is no integer"),
        ("(1_0 a)", "is no integer"),
    ],
)
def test_broken_brackets_are_named_with_their_place(text, message):
    with pytest.raises(ValueError, match=message):
        from_brackets(text)


def test_wrong_objects_are_named():
    with pytest.raises(TypeError, match="is a string, got a bytes"):
        from_brackets(b"(1 a)")
    signal = from_brackets("(1 a)")
    del signal["word"].written
    with pytest.raises(ValueError, match="no 'written' of type 'word'"):
        to_brackets(signal)
    batch = next(iter(DataLoader([from_brackets("(1 a)")] * 2, batch_size=2)))
    with pytest.raises(ValueError, match="2 roots; write the trees of a batch"):
        to_brackets(batch)


def test_deep_trees_need_no_recursion():
    depth = 10_000
    text = "(1 (2 x) " * depth + "(1 y)" + ")" * depth
    signal = from_brackets(text)
    assert signal.hierarchy.max_depth == depth
    assert to_brackets(signal) == " ".join(text.split())


trees = st.recursive(
    st.tuples(st.integers(0, 4), st.text("ab()\\/ é", min_size=1)).map(
        lambda leaf: (
            f"({leaf[0]} w{leaf[1].strip().translate(str.maketrans('()', '[]'))})"
        )
    ),
    lambda inner: st.tuples(st.integers(0, 4), st.lists(inner, min_size=1)).map(
        lambda node: f"({node[0]} {' '.join(node[1])})"
    ),
)


@given(trees)
def test_brackets_round_trip(text):
    signal = from_brackets(text)
    assert to_brackets(signal) == text
    assert signal.hierarchy.num_nodes == text.count("(")


@given(st.text("()12 a\n-"))
def test_nothing_but_a_value_error_comes_out(text):
    signal = None
    with contextlib.suppress(ValueError):
        signal = from_brackets(text)
    assert signal is None or signal.validate()


def test_signals_are_saved_and_batched():
    signals = [from_brackets(TREE), from_brackets("(4 Amazing)")]
    file = io.BytesIO()
    torch.save(signals[0], file)
    file.seek(0)
    again = torch.load(file, weights_only=True)
    assert to_brackets(again) == TREE
    batch = next(iter(DataLoader(signals, batch_size=2)))
    assert batch.hierarchy.num_trees == 2
    first, second = batch.to_data_list()
    assert (to_brackets(first), to_brackets(second)) == (TREE, "(4 Amazing)")


@pytest.mark.skipif(not SST.exists(), reason="the treebank is not there")
def test_the_treebank_is_written_back_character_by_character():
    text = gzip.decompress((SST / "dev.txt.gz").read_bytes()).decode()
    for line in text.split("\n")[:300]:
        assert to_brackets(from_brackets(line)) == line
