import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.loader import DataLoader

from hsa_pyg import NestedSignal, SignalHierarchy
from hsa_pyg.analysis import attention_flops, tree_shape
from hsa_pyg.datasets import FakeNestedDataset


def document():
    """document > 3 paragraphs (one empty) > words, the second paragraph with one."""
    signal = NestedSignal()
    signal["document"].num_nodes = 1
    signal["paragraph"].num_nodes = 3
    signal["word"].x = torch.arange(4)
    signal["paragraph", "child_of", "document"].edge_index = torch.tensor(
        [[0, 1, 2], [0, 0, 0]]
    )
    signal["word", "child_of", "paragraph"].edge_index = torch.tensor(
        [[0, 1, 2, 3], [0, 0, 0, 2]]
    )
    return signal


def test_a_document_by_hand():
    shape = tree_shape(document())
    assert shape.nodes == {"document": 1, "paragraph": 3, "word": 4}
    assert shape.leaves == {"word": 4}
    assert (shape.trees, shape.levels, shape.num_nodes, shape.num_leaves) == (
        1,
        3,
        8,
        4,
    )
    assert shape.nodes_at_depth == [1, 3, 4]
    assert shape.leaves_at_depth == [0, 0, 4]
    assert (shape.families, shape.largest_family) == (3, 3)
    assert shape.largest_parent == ("paragraph", 0)
    assert shape.mean_family == 2.0
    assert (shape.only_children, shape.longest_chain) == (1, 1)
    assert shape.empty == {"paragraph": 1}
    assert (shape.pairs, shape.flat_pairs) == (2**2 + 3**2 + 1, 16)
    assert shape.saving == pytest.approx(16 / 14)


def by_hand(parent):
    """families, largest, only children and the longest chain, node by node."""
    children = {}
    for node, above in enumerate(parent):
        children.setdefault(above, []).append(node)
    families = [below for above, below in children.items() if above >= 0]
    only = {below[0] for below in families if len(below) == 1}
    longest = 0
    for node in only:
        length = 0
        while node in only:
            length, node = length + 1, parent[node]
        longest = max(longest, length)
    return len(families), max(map(len, families), default=0), len(only), longest


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 2**20), min_size=1, max_size=40))
def test_any_tree_is_counted_as_by_hand(draws):
    parent = [-1] + [draw % (i + 1) for i, draw in enumerate(draws)]
    shape = tree_shape(SignalHierarchy.from_parents(torch.tensor(parent)))
    assert (
        shape.families,
        shape.largest_family,
        shape.only_children,
        shape.longest_chain,
    ) == by_hand(parent)
    assert sum(shape.nodes_at_depth) == len(parent) == shape.num_nodes
    assert sum(shape.leaves_at_depth) == shape.num_leaves


def test_a_batch_is_the_sum_of_its_signals():
    signals = list(FakeNestedDataset(num_samples=7, empty=0.3, seed=3))
    shapes = [tree_shape(signal) for signal in signals]
    (batch,) = DataLoader(signals, batch_size=7)
    together = tree_shape(batch)
    assert together.trees == 7
    assert together.pairs == sum(shape.pairs for shape in shapes)
    assert together.flat_pairs == sum(shape.flat_pairs for shape in shapes)
    assert together.num_leaves == sum(shape.num_leaves for shape in shapes)
    assert together.longest_chain == max(shape.longest_chain for shape in shapes)
    assert sum(together.empty.values()) == batch.hierarchy.num_empty
    flops = attention_flops(batch.hierarchy, channels=1, heads=1)
    assert (flops.hsa, flops.softmax) == (5 * together.pairs, 5 * together.flat_pairs)


def test_trees_of_a_single_leaf_and_none_at_all():
    alone = tree_shape(SignalHierarchy.from_parents(torch.tensor([-1])))
    assert (alone.levels, alone.num_leaves, alone.families) == (1, 1, 0)
    assert alone.largest_parent is None
    assert alone.saving == 1.0
    none = tree_shape(SignalHierarchy.from_parents(torch.tensor([], dtype=torch.long)))
    assert (none.levels, none.num_nodes, none.longest_chain) == (0, 0, 0)


def test_a_million_nodes_are_measured():
    nodes = 1_000_000
    parent = (torch.arange(nodes) - 1) // 8
    parent[0] = -1
    hierarchy = SignalHierarchy.from_parents(parent)
    shape = tree_shape(hierarchy)
    assert shape.num_nodes == nodes
    assert shape.largest_family == 8


def test_a_deep_chain_is_measured_without_walking_it():
    parent = torch.arange(100_000) - 1
    shape = tree_shape(SignalHierarchy.from_parents(parent))
    assert shape.longest_chain == 99_999
    assert shape.levels == 100_000


def test_what_has_no_tree_is_refused():
    with pytest.raises(TypeError, match="must be a SignalHierarchy, got str"):
        tree_shape("tree")
