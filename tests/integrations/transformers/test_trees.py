"""Trees over tokens: who is whose parent, and what a bad specification says."""

import pytest
import torch

from hsa_pyg import SignalHierarchy
from hsa_pyg.integrations.transformers.trees import (
    Tokens,
    Windows,
    in_reading_order,
    make_builder,
    nested_forest,
)


def tokens(*texts, grid=None):
    """Texts as strings: ``c`` a special token, ``t`` one of the text, ``.`` padding."""
    kept = torch.tensor([[x != "." for x in text] for text in texts])
    special = torch.tensor([[x == "c" for x in text] for text in texts])
    return Tokens(kept, special, grid=grid)


def nested(hierarchy):
    """The forest as nested lists of leaf rows, children in the order of node ids."""
    row = {node: at for at, node in enumerate(hierarchy.leaves.tolist())}
    children = {node: [] for node in range(hierarchy.num_nodes)}
    for node, parent in enumerate(hierarchy.parent.tolist()):
        if parent >= 0:
            children[parent].append(node)

    def below(node):
        if node in row:
            return row[node]
        found = [below(child) for child in children[node]]
        return found[0] if len(found) == 1 else found

    return [below(root) for root in hierarchy.roots.tolist()]


def test_windows_of_one_size_until_the_root_can_hold_the_rest():
    forest = make_builder("window:2")(tokens("ctttttc", "cttc..."))
    assert nested(forest)[0] == [0, 6, [[1, 2], [3, 4]], 5]
    assert nested(forest)[1] == [7, 8, 9, 10]


def test_a_window_as_long_as_the_text_is_one_family():
    for spec in ("window:5", "window:512", "flat"):
        forest = make_builder(spec)(tokens("ctttttc", ".ctttc."))
        assert nested(forest) == [list(range(7)), list(range(7, 12))]
        assert forest.num_families == 2


def test_the_papers_windows_from_the_bottom_up():
    forest = make_builder("windows:2,3")(tokens("ttttttttt"))
    assert nested(forest) == [[[[0, 1], [2, 3], [4, 5]], [[6, 7], 8]]]


def test_no_window_reaches_across_a_special_token_or_a_text():
    forest = make_builder("windows:4")(tokens("cttctttttc", "tttt......"))
    assert nested(forest) == [
        [0, 3, 9, [1, 2], [4, 5, 6, 7], 8],
        [10, 11, 12, 13],
    ]


def test_padding_left_or_right_gives_the_same_tree():
    build = make_builder("window:2")
    left = build(tokens("...ctttttc"))
    right = build(tokens("ctttttc..."))
    assert left.parent.equal(right.parent)


def test_a_text_without_tokens_is_an_empty_tree():
    forest = make_builder("window:2")(tokens("...", "ttt", "..."))
    assert (forest.num_roots, forest.num_leaves, forest.num_empty) == (3, 3, 2)
    assert forest.leaf_tree.tolist() == [1, 1, 1]


def test_a_batch_of_nothing():
    forest = make_builder("window:2")(tokens("..."))
    assert (forest.num_roots, forest.num_leaves) == (1, 0)


def test_a_batch_gives_every_text_the_tree_it_has_alone():
    texts = ["cttttttttttc", "ctc.........", "cttctttcttc.", "tttttttttttt"]
    for spec in ("window:3", "windows:2,3", "flat"):
        build = make_builder(spec)
        together = nested(build(tokens(*texts)))
        first = 0
        for text, tree in zip(texts, together, strict=True):
            alone = nested(build(tokens(text)))[0]
            assert tree == _shift(alone, first)
            first += sum(x != "." for x in text)


def _shift(tree, by):
    if isinstance(tree, int):
        return tree + by
    return [_shift(part, by) for part in tree]


def test_quadrants_with_the_class_token_at_the_root():
    forest = make_builder("quadtree")(tokens("c" + "t" * 12, grid=(3, 4)))
    assert sorted(map(str, nested(forest)[0])) == sorted(
        map(str, [0, [1, 2, 5, 6], [3, 4, 7, 8], [9, 10], [11, 12]])
    )


def test_quadrants_of_a_whole_batch_are_those_of_one_image():
    build = make_builder("quadtree")
    alone = nested(build(tokens("c" + "t" * 35, grid=(5, 7))))[0]
    both = nested(build(tokens("c" + "t" * 35, "c" + "t" * 35, grid=(5, 7))))
    assert both == [alone, _shift(alone, 36)]


def test_quadrants_need_patches():
    with pytest.raises(ValueError, match="pixel_values"):
        make_builder("quadtree")(tokens("cttttc"))
    with pytest.raises(ValueError, match="2 x 2 patches"):
        make_builder("quadtree")(tokens("ttttt", grid=(2, 2)))


def test_labels_need_be_distinct_within_a_text_alone():
    batch = tokens("tttt", "tttt")
    level = torch.tensor([0, 0, 1, 1] * 2)
    assert nested(nested_forest(batch, [level])) == [
        [[0, 1], [2, 3]],
        [[4, 5], [6, 7]],
    ]


@pytest.mark.parametrize("sizes", [(4, 2), (3, 5)])
def test_groups_lie_within_groups_of_the_next_level(sizes):
    levels = [torch.arange(20) // size for size in sizes]
    with pytest.raises(ValueError, match=r"level 1 cut through .* from the bottom up"):
        nested_forest(tokens("t" * 20), levels)
    # What has no group in the next level lies in none of it, as a whole.
    levels = [torch.arange(20) // 5, torch.zeros(20).long()]
    levels[1][12:] = -1
    with pytest.raises(ValueError, match="level 1 cut through"):
        nested_forest(tokens("t" * 20), levels)


@pytest.mark.parametrize("level", [torch.arange(3), [0, 0, 1, 1]])
def test_a_level_has_a_group_for_every_token(level):
    with pytest.raises(ValueError, match=r"level 0 must be a tensor \[4\]"):
        nested_forest(tokens("tttt"), [level])


def test_groups_need_not_be_neighbours():
    level = torch.tensor([0, 1, 0, -1])
    forest = nested_forest(tokens("tttt"), [level])
    assert sorted(map(str, nested(forest)[0])) == ["1", "3", "[0, 2]"]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("window", "not known"),
        ("window:", "number of nodes"),
        ("window:x", "number of nodes"),
        ("window:1", "2 nodes or more"),
        ("windows:2,,4", "number of nodes"),
        ("windows:2,1", "2 nodes or more"),
        ("ward:x", "number of nodes"),
        ("ward:1", "2 members or more"),
        ("clusters:x", "no share of softmax"),
        ("segments:2", "at most 1, got 2"),
        ("energy:", "no share of softmax"),
        ("sentences", "tokenizer"),
        ("tree", "not known"),
    ],
)
def test_a_specification_that_does_not_fit(spec, words):
    with pytest.raises(ValueError, match=words):
        make_builder(spec)


def test_a_specification_of_another_kind():
    with pytest.raises(TypeError, match="a name or a function, got int"):
        make_builder(4)


def test_trees_by_scores_ask_for_them():
    for spec in ("ward:8", "clusters:0.1", "segments:0.1", "energy:0.1"):
        assert make_builder(spec).needs_scores
    assert make_builder("segments:0.1").adjacent
    assert not make_builder("clusters:0.1").adjacent
    assert not make_builder("window:8").needs_scores


def test_a_function_is_its_own_builder():
    def build(batch):
        return nested_forest(batch, [])

    assert make_builder(build) is build


def test_reading_order_numbers_parents_first_and_keeps_the_leaves():
    forest = make_builder("windows:2,2")(tokens("ctttttc", "ttt....", "......."))
    ordered = in_reading_order(forest)
    assert ordered.num_leaves == forest.num_leaves
    assert (ordered.parent < torch.arange(ordered.num_nodes)).all()
    assert nested(ordered) == [[0, [[1, 2], [3, 4]], 5, 6], [[7, 8], 9], []]


def test_reading_order_refuses_scattered_nodes():
    forest = nested_forest(tokens("ttt"), [torch.tensor([0, 1, 0])])
    with pytest.raises(ValueError, match="follow one another"):
        in_reading_order(forest)


def test_a_forest_by_any_other_way_is_a_hierarchy():
    assert isinstance(make_builder("flat")(tokens("tt")), SignalHierarchy)


def test_a_class_and_a_number_too_large_are_named():
    with pytest.raises(TypeError, match=r"not its class: give Windows\(\.\.\.\)"):
        make_builder(Windows)
    with pytest.raises(ValueError, match="a number of nodes should stand"):
        make_builder("window:99999999999999999999")
