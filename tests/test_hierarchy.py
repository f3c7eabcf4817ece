"""The compiled forest against slow walks along the parents."""

import copy
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hsa_pyg import SignalHierarchy, hierarchical_attention
from tests.forests import childless, forests, parent_vectors, random_parents

# 2 pages of sections of words and images; a third page without anything below.
NODES = {"word": 5, "image": 2, "section": 3, "page": 3}
EDGES = {
    ("word", "child_of", "section"): torch.tensor([[4, 0, 1, 2, 3], [1, 0, 0, 0, 1]]),
    ("section", "child_of", "page"): torch.tensor([[0, 1, 2], [0, 1, 1]]),
    ("image", "child_of", "page"): torch.tensor([[0, 1], [1, 0]]),
    ("page", "links_to", "page"): torch.tensor([[0, 1], [1, 0]]),
}


def path(parent, node):
    """The node and its ancestors, by walking."""
    nodes = [node]
    while parent[nodes[-1]] >= 0:
        nodes.append(int(parent[nodes[-1]]))
    return nodes


@given(forests(max_nodes=20))
def test_attributes_are_those_of_the_tree_as_given(hierarchy):
    parent, leaves = hierarchy.parent, hierarchy.leaves.tolist()
    paths = [path(parent, node) for node in range(parent.numel())]
    count = [sum(node in paths[leaf] for leaf in leaves) for node in range(len(paths))]
    assert hierarchy.leaf_counts.tolist() == count
    assert hierarchy.depth.tolist() == [len(nodes) - 1 for nodes in paths]
    assert hierarchy.max_depth == max(hierarchy.depth.tolist())
    assert hierarchy.num_nodes == len(paths)
    assert hierarchy.num_leaves == len(leaves)
    roots = [node for node in range(len(paths)) if parent[node] < 0]
    assert hierarchy.roots.tolist() == roots
    assert hierarchy.num_roots == hierarchy.num_trees == len(roots)
    families = {}
    for node, nodes in enumerate(paths):
        if count[node] and len(nodes) > 1:
            families[nodes[1]] = families.get(nodes[1], 0) + 1
    assert hierarchy.num_families == len(families)
    assert hierarchy.max_branching == max(families.values(), default=0)
    assert hierarchy.num_empty == count.count(0)
    tree = [roots.index(paths[leaf][-1]) for leaf in leaves]
    assert hierarchy.leaf_tree.tolist() == tree


@given(parent_vectors(), st.data())
def test_depth_of_the_lowest_common_ancestor(parent, data):
    hierarchy = SignalHierarchy.from_parents(parent)
    some = st.lists(st.integers(0, parent.numel() - 1), min_size=1, max_size=5)
    i, j = data.draw(some), data.draw(some)
    depths = hierarchy.lca_depth(torch.tensor(i)[:, None], torch.tensor(j))
    for row, a in enumerate(i):
        for column, b in enumerate(j):
            common = set(path(parent, a)) & set(path(parent, b))
            assert depths[row, column] == len(common) - 1
    assert int(hierarchy.lca_depth(i[0], i[0])) == hierarchy.depth[i[0]]


@pytest.mark.parametrize("wrong", [-1, 3])
def test_a_node_that_does_not_exist_has_no_common_ancestors(wrong):
    hierarchy = SignalHierarchy.from_parents(torch.tensor([-1, 0, 0]))
    with pytest.raises(IndexError, match=f"node {wrong} does not exist.* 0 to 2"):
        hierarchy.lca_depth(1, wrong)


@pytest.mark.parametrize("wrong", [1.5, True])
def test_ancestors_of_what_is_no_node_id(wrong):
    hierarchy = SignalHierarchy.from_parents(torch.tensor([-1, 0, 0]))
    with pytest.raises(TypeError, match="node ids must be integers, got torch"):
        hierarchy.lca_depth(1, wrong)


def test_later_writes_to_the_argument_change_nothing():
    parent = torch.tensor([-1, 0, 0])
    hierarchy = SignalHierarchy.from_parents(parent)
    parent[:] = 1
    assert hierarchy.parent.tolist() == [-1, 0, 0]


def test_compiled_in_inference_mode_it_still_serves_training():
    """A signal keeps its hierarchy, and may first be looked at in an evaluation."""
    with torch.inference_mode():
        hierarchies = [
            SignalHierarchy.from_parents(torch.tensor([-1, 0, 0, 1, 1])),
            SignalHierarchy.from_edge_index(EDGES, NODES),
        ]
    for hierarchy in hierarchies:
        x = torch.rand(hierarchy.num_leaves, 1, 2, requires_grad=True)
        hierarchical_attention(x, x, x, hierarchy).sum().backward()
        assert x.grad.isfinite().all()


def test_any_integer_type_and_an_untouched_argument():
    parent = torch.tensor([-1, 0, 0, 1], dtype=torch.int32)
    before = parent.clone()
    hierarchy = SignalHierarchy.from_parents(parent)
    assert hierarchy.parent.dtype == torch.long
    assert torch.equal(parent, before)


def test_a_mask_tells_empty_inner_nodes_from_leaves():
    parent = torch.tensor([-1, 0, 0, 1, 2, 4])  # 3 is a leaf, 5 is an empty section
    mask = torch.tensor([False, False, False, True, False, False])
    hierarchy = SignalHierarchy.from_parents(parent, mask)
    assert hierarchy.leaves.tolist() == [3]
    assert hierarchy.num_empty == 3  # 5 and what has only 5 below
    assert hierarchy.num_families == 2
    assert SignalHierarchy.from_parents(parent).leaves.tolist() == [3, 5]


def test_trees_without_leaves_keep_their_place():
    """Also the last one: sizes come from the forest, not from the largest index."""
    parent = torch.tensor([-1, -1, 1, -1, -1, 4])
    mask = torch.tensor([False, False, True, False, False, False])
    hierarchy = SignalHierarchy.from_parents(parent, mask)
    assert hierarchy.num_trees == 4
    assert hierarchy.leaf_tree.tolist() == [1]


def test_a_forest_of_nothing():
    for hierarchy in (
        SignalHierarchy.from_parents(torch.empty(0, dtype=torch.long)),
        SignalHierarchy.from_edge_index({}, {}),
        SignalHierarchy.from_edge_index(
            {("word", "child_of", "page"): torch.empty(2, 0, dtype=torch.long)},
            {"word": 0, "page": 0},
        ),
    ):
        assert hierarchy.num_nodes == hierarchy.num_leaves == hierarchy.num_trees == 0
        assert hierarchy.max_depth == hierarchy.max_branching == 0


def test_types_are_numbered_one_after_another():
    hierarchy = SignalHierarchy.from_edge_index(EDGES, NODES)
    assert hierarchy.node_slices == {
        "word": (0, 5),
        "image": (5, 7),
        "section": (7, 10),
        "page": (10, 13),
    }
    assert hierarchy.parent.tolist() == [
        *[7, 7, 7, 8, 8],
        *[11, 10],
        *[10, 11, 11],
        *[-1, -1, -1],
    ]
    assert hierarchy.leaf_slices == {"word": (0, 5), "image": (5, 7)}
    assert hierarchy.leaves.tolist() == list(range(7))
    assert hierarchy.num_empty == 2  # a section without words, a page without leaves
    assert hierarchy.leaf_tree.tolist() == [0, 0, 0, 1, 1, 1, 0]
    assert hierarchy.num_trees == 3


def test_leaf_rows_follow_node_types_around_inner_ones():
    order = {name: NODES[name] for name in ("image", "section", "word", "page")}
    hierarchy = SignalHierarchy.from_edge_index(EDGES, order)
    assert hierarchy.leaf_slices == {"image": (0, 2), "word": (2, 7)}
    assert hierarchy.leaves.tolist() == [0, 1, 5, 6, 7, 8, 9]


def test_a_type_without_nodes_has_an_empty_slice():
    nodes = {"audio": 0, **NODES, "video": 0}
    none = torch.empty(2, 0, dtype=torch.long)
    edges = {**EDGES, ("audio", "child_of", "page"): none}
    hierarchy = SignalHierarchy.from_edge_index(edges, nodes)
    assert hierarchy.leaf_slices["audio"] == (0, 0)
    assert hierarchy.leaf_slices["video"] == (7, 7)
    assert hierarchy.node_slices["video"] == (13, 13)


def test_leaf_types_can_be_given():
    hierarchy = SignalHierarchy.from_edge_index(EDGES, NODES, leaf_types=["word"])
    assert hierarchy.leaf_slices == {"word": (0, 5)}
    assert hierarchy.num_leaves == 5
    with pytest.raises(ValueError, match="leaf type 'text' is not among"):
        SignalHierarchy.from_edge_index(EDGES, NODES, leaf_types=["text"])


def test_samples_of_a_batch_are_its_trees():
    """A sample may hold several roots, or none; the last ones may be empty."""
    batch = {
        "word": torch.tensor([1, 1, 1, 1, 1]),
        "image": torch.tensor([1, 1]),
        "section": torch.tensor([1, 1, 1]),
        "page": torch.tensor([1, 1, 2]),
    }
    hierarchy = SignalHierarchy.from_edge_index(
        EDGES, NODES, batch_dict=batch, num_trees=5
    )
    assert hierarchy.leaf_tree.tolist() == [1] * 7
    assert (hierarchy.num_roots, hierarchy.num_trees) == (3, 5)
    assert (
        SignalHierarchy.from_edge_index(EDGES, NODES, batch_dict=batch).num_trees == 3
    )


@pytest.mark.parametrize(
    "copied",
    [
        lambda h: pickle.loads(pickle.dumps(h)),
        copy.copy,
        copy.deepcopy,
        lambda h: h.to("cpu"),
    ],
    ids=["pickle", "copy", "deepcopy", "to"],
)
def test_copies_hold_the_same(copied):
    hierarchy = SignalHierarchy.from_edge_index(EDGES, NODES)
    other = copied(hierarchy)
    assert repr(other) == repr(hierarchy)
    assert other.leaf_slices == hierarchy.leaf_slices
    for name in SignalHierarchy._tensors:
        assert torch.equal(getattr(other, name), getattr(hierarchy, name))
    for name in ("bucket_member", "entity_log_count", "level_ptr", "buckets"):
        assert torch.equal(getattr(other.layout, name), getattr(hierarchy.layout, name))


def test_moving_to_another_device_leaves_this_one_alone():
    hierarchy = SignalHierarchy.from_edge_index(EDGES, NODES)
    assert hierarchy.to("cpu") is hierarchy
    moved = hierarchy.to("meta")
    assert moved.device.type == moved.layout.bucket_member.device.type == "meta"
    assert moved.num_leaves == hierarchy.num_leaves
    # What Python loops over stays where reading it waits for nobody.
    assert moved.layout.level_ptr.device.type == "cpu"
    assert moved.layout.buckets.device.type == "cpu"
    assert "device='meta'" in repr(moved)
    assert hierarchy.device.type == hierarchy.layout.bucket_member.device.type == "cpu"


def test_pinned_memory_or_a_clear_error_without_an_accelerator():
    hierarchy = SignalHierarchy.from_edge_index(EDGES, NODES)
    if torch.cuda.is_available():
        pinned = hierarchy.pin_memory()
        assert pinned.leaves.is_pinned()
        assert pinned.layout.bucket_member.is_pinned()
        assert not hierarchy.leaves.is_pinned()
    else:
        # What torch says depends on whether it was built for CUDA.
        with pytest.raises(RuntimeError, match=r"accelerator|NVIDIA driver"):
            hierarchy.pin_memory()


def test_repr_tells_the_size_in_one_line():
    hierarchy = SignalHierarchy.from_edge_index(EDGES, NODES)
    assert repr(hierarchy) == (
        "SignalHierarchy(nodes=13, leaves=7, roots=3, families=4, depth=2, "
        "branching=3, empty=2)"
    )


def test_a_path_of_a_hundred_thousand_nodes_compiles():
    parent = torch.arange(-1, 99_999)
    hierarchy = SignalHierarchy.from_parents(parent)
    assert (hierarchy.max_depth, hierarchy.num_families) == (99_999, 99_999)
    assert hierarchy.leaves.tolist() == [99_999]
    assert int(hierarchy.lca_depth(7, 50_000)) == 7


def test_there_is_no_bare_constructor():
    with pytest.raises(TypeError, match=r"from_parents.*from_edge_index"):
        SignalHierarchy()


def test_parents_equal_edges():
    """Both ways to build a forest give the same layout."""
    parent = random_parents(60, seed=0)
    by_parents = SignalHierarchy.from_parents(parent)
    child = (parent >= 0).nonzero().view(-1)
    # All nodes in one type, and a leaf type would be an inner type: move leaves last.
    leaf = childless(parent)
    order = torch.cat([leaf.nonzero().view(-1), (~leaf).nonzero().view(-1)])
    new_id = torch.empty_like(order).scatter_(0, order, torch.arange(60))
    leaves = int(leaf.sum())
    edges = {
        (name, "child_of", "inner"): torch.stack(
            [new_id[c] - (0 if name == "leaf" else leaves), new_id[parent[c]] - leaves]
        )
        for name, c in (("leaf", child[leaf[child]]), ("inner", child[~leaf[child]]))
    }
    nodes = {"leaf": leaves, "inner": 60 - leaves}
    by_edges = SignalHierarchy.from_edge_index(edges, nodes)
    assert torch.equal(by_edges.leaf_counts[new_id], by_parents.leaf_counts)
    assert torch.equal(by_edges.depth[new_id], by_parents.depth)
