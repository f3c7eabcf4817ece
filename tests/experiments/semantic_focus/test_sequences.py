import pytest
import torch

from hsa_pyg.cli import SettingsError
from hsa_pyg.datasets import FormalLanguage, ListOps
from hsa_pyg.experiments.semantic_focus.sequences import load_rows, window_tree
from hsa_pyg.experiments.semantic_focus.settings import (
    FocusSettings,
    complete_settings,
)


def rows(split="train", seed=0, **settings):
    complete = complete_settings(FocusSettings(train_size=6, val_size=4, **settings))
    return load_rows(complete, split, seed)


def check_same(found, dataset):
    assert found.vocab_size == dataset.vocab_size
    assert found.num_classes == dataset.num_classes
    for i, signal in enumerate(dataset):
        assert torch.equal(found.tokens[i], signal["token"].x)
        assert found.labels[i] == signal.y.item()
        h, expected = found.hierarchy([i]), signal.hierarchy
        assert h.num_nodes == expected.num_nodes
        leaves = expected.leaves
        for one in range(0, h.num_leaves, 3):
            mine = h.lca_depth(h.leaves[one], h.leaves)
            assert torch.equal(mine, expected.lca_depth(leaves[one], leaves))


def test_flat_sequences_are_those_of_the_data_set():
    found = rows("val", seed=3, task="parity", attention="topk", k=9)
    assert found.tokens.shape == (4, 45)
    assert found.same_trees
    expected = FormalLanguage("parity", "val", num_samples=4, seed=3, pad_multiple=9)
    check_same(found, expected)


def test_expressions_bring_their_trees():
    found = rows(task="solve-equation", attention="hsa", length=12)
    expected = FormalLanguage(
        "solve_equation", num_samples=6, length=12, hierarchy="tree"
    )
    check_same(found, expected)


def test_lists_are_padded_to_the_longest_and_one_for_all_seeds():
    asked = {"task": "list-ops", "min_length": 8, "max_length": 20}
    found = rows(seed=5, attention="hsa", **asked)
    expected = ListOps(num_samples=6, length=(8, 20), hierarchy="tree", pad_to=19)
    check_same(found, expected)
    banded = rows(attention="banded", width=5, **asked)
    assert banded.tokens.shape == (6, 20)
    assert torch.equal(banded.tokens[:, :19], found.tokens)
    own = rows(seed=5, attention="full", shared_data=False, **asked)
    assert not torch.equal(own.tokens, found.tokens)


def test_windows_nest():
    found = rows(task="even-pairs", attention="hsa", length=14, windows=[3, 2])
    expected = FormalLanguage(
        "even_pairs", num_samples=6, length=14, hierarchy="windows", windows=[3, 2]
    )
    check_same(found, expected)
    assert window_tree(4, []).tolist() == [-1, 0, 0, 0, 0]
    assert window_tree(5, [2]).tolist() == [-1, 0, 0, 0, 1, 1, 2, 2, 3]


def test_a_batch_is_a_forest():
    found = rows(task="modular-arithmetic", attention="hsa", length=9)
    h = found.hierarchy([4, 1])
    assert (h.num_trees, h.num_leaves) == (2, 18)
    assert h.leaf_tree.tolist() == [0] * 9 + [1] * 9
    assert h.num_nodes == found.trees[4].numel() + found.trees[1].numel()


def test_what_a_task_cannot_be_is_said():
    with pytest.raises(SettingsError, match="missing-duplicates: length of"):
        rows(task="missing-duplicates", length=7)
