"""Every leaf meets every family on its root path once, at its own place in it."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given

from hsa_pyg import SignalHierarchy
from hsa_pyg.ops.root_paths import RootPaths
from tests.forests import forests, random_parents, regular, star


def met(hierarchy, channels=1):
    """(family, leaf row) -> member that the leaf lies in, as the tiles have it."""
    layout, found = hierarchy.layout, {}
    paths = RootPaths(layout, hierarchy.num_leaves)
    for _, groups in paths.levels(upward=True):
        for run in paths.runs(groups, channels):
            for t, family in enumerate(run.family.tolist()):
                for leaf, own in zip(
                    run.leaf[t].tolist(), run.own[t].tolist(), strict=True
                ):
                    if leaf == hierarchy.num_leaves:
                        continue
                    assert not run.hidden[t, own]
                    assert (family, leaf) not in found
                    found[family, leaf] = (run.mixed, int(run.member[t, own]))
    return found


def expected(hierarchy):
    layout, parent = hierarchy.layout, hierarchy.parent.tolist()
    inner = layout.internal_node.tolist()
    number = {node: i for i, node in enumerate(inner)}
    entity = {node: i for i, node in enumerate(layout.entity_node[:-1].tolist())}
    mixed = set(layout.family_order[int(layout.kind_sizes[0, 0]) :].tolist())
    pairs = {}
    for row, leaf in enumerate(hierarchy.leaves.tolist()):
        node = leaf
        while parent[node] >= 0:
            above = parent[node]
            if above in number:
                family = number[above]
                member = entity[node] if family in mixed else row
                pairs[family, row] = (family in mixed, member)
            node = above
    return pairs


@given(forests(max_nodes=20))
def test_random_forests(hierarchy):
    assert met(hierarchy) == expected(hierarchy)


@pytest.mark.parametrize(
    "parent", [star(150), regular(3, 5), random_parents(400, 1)], ids=len
)
@pytest.mark.parametrize("channels", [1, 2**18])
def test_many_leaves_and_small_tiles(parent, channels):
    hierarchy = SignalHierarchy.from_parents(parent)
    assert met(hierarchy, channels) == expected(hierarchy)


def test_leaves_below_a_node_follow_one_another():
    hierarchy = SignalHierarchy.from_parents(random_parents(200, 4))
    layout = hierarchy.layout
    paths = RootPaths(layout, hierarchy.num_leaves)
    bounds = layout.level_ptr.tolist()
    for start, stop in pairwise(bounds):
        node, leaf = paths.leaves_below(slice(start, stop))
        held = torch.bincount(node, minlength=stop - start)
        assert torch.equal(held, layout.internal_count[start:stop])
        assert leaf.unique().numel() == leaf.numel()
