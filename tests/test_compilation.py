"""The layout that the passes run on: every member in one place, siblings together."""

import pytest
import torch
from hypothesis import given

from hsa_pyg import SignalHierarchy
from hsa_pyg.compilation import (
    BUCKET_FIELDS,
    bucket_widths,
    consecutive,
    count_leaves,
    roots_and_depths,
    splice_chains,
)
from tests.forests import childless, forests, parent_vectors, random_parents, regular


def members(layout, num_leaves):
    """Families as (internal number, members as leaf rows or entities, mixed)."""
    found = []
    spare = (num_leaves, layout.entity_node.numel() - 1)
    for row in layout.buckets.tolist():
        bucket = dict(zip(BUCKET_FIELDS, row, strict=True))
        width, number = bucket["width"], bucket["families"]
        start = bucket["member"]
        grid = layout.bucket_member[start : start + width * number].view(number, width)
        first = bucket["family"]
        owners = layout.bucket_family[first : first + number]
        for owner, line in zip(owners.tolist(), grid, strict=True):
            real = line[line != spare[bucket["mixed"]]].tolist()
            assert bucket["padded"] or len(real) == width
            assert 2 * len(real) >= width
            found.append((owner, real, bool(bucket["mixed"])))
        if bucket["start"] >= 0:
            flat = grid.reshape(-1)
            assert torch.equal(flat, torch.arange(flat.numel()) + bucket["start"])
    return found


@given(forests(max_nodes=20))
def test_buckets_hold_the_families_of_the_spliced_forest(hierarchy):
    layout, parent = hierarchy.layout, hierarchy.parent.tolist()
    count = hierarchy.leaf_counts.tolist()
    children = {}
    for node, above in enumerate(parent):
        if above >= 0 and count[node]:
            children.setdefault(above, []).append(node)
    inner = layout.internal_node.numel()
    found = {}
    for owner, line, mixed in members(layout, hierarchy.num_leaves):
        if mixed:
            nodes = layout.entity_node[torch.tensor(line)].tolist()
        else:
            nodes = hierarchy.leaves[torch.tensor(line)].tolist()
        # A family is mixed if a member is no leaf, or hangs on a chain of its own.
        leaf = set(hierarchy.leaves.tolist())
        assert mixed == any(node not in leaf for node in nodes)
        found[int(layout.internal_node[owner])] = sorted(nodes)
    expected = {node: kin for node, kin in children.items() if len(kin) > 1}
    assert found == expected
    assert len(found) == inner


@given(forests(max_nodes=20))
def test_internal_nodes_go_by_level_parents_first(hierarchy):
    layout = hierarchy.layout
    level = torch.zeros_like(layout.internal_parent)
    for number, above in enumerate(layout.internal_parent.tolist()):
        assert above < number
        level[number] = 0 if above < 0 else level[above] + 1
    bounds = layout.level_ptr
    assert torch.equal(level, level.sort().values)
    assert bounds.diff().tolist() == torch.bincount(level).tolist()[: len(bounds) - 1]
    counts = hierarchy.leaf_counts[layout.internal_node]
    assert torch.equal(layout.internal_count, counts)


@given(parent_vectors(max_nodes=20))
def test_pointer_doubling_finds_what_walks_find(parent):
    root, depth, cycle = roots_and_depths(parent)
    assert cycle is None
    is_leaf = childless(parent)
    count = count_leaves(parent, is_leaf)
    expected = torch.zeros_like(parent)
    for node in range(parent.numel()):
        steps, at = 0, node
        expected[at] += is_leaf[node]
        while parent[at] >= 0:
            steps, at = steps + 1, int(parent[at])
            expected[at] += is_leaf[node]
        assert (int(root[node]), int(depth[node])) == (at, steps)
    assert torch.equal(count, expected)


def test_chains_are_spliced_out_whole():
    # 0 -> (1 -> 2 -> 3 -> (4, 5 -> 6), 7), and 8 -> 9 with the leaf 9
    parent = torch.tensor([-1, 0, 1, 2, 3, 3, 5, 0, -1, 8])
    leaf = childless(parent)
    kept, above, top, below = splice_chains(parent, leaf, count_leaves(parent, leaf))
    assert kept.nonzero().view(-1).tolist() == [0, 3, 4, 6, 7, 9]
    assert above[kept].tolist() == [-1, 0, 3, 3, 0, -1]
    assert top[kept].tolist() == [0, 1, 4, 5, 7, 8]
    assert below.tolist() == [0, 3, 3, 3, 4, 6, 6, 7, 9, 9]


def test_a_chain_costs_no_level():
    """A path of 1,000 nodes above a family is one level, not 1,000."""
    path = torch.arange(-1, 999)
    hierarchy = SignalHierarchy.from_parents(torch.cat([path, torch.full((5,), 999)]))
    assert hierarchy.max_depth == 1000
    assert hierarchy.layout.level_ptr.tolist() == [0, 1]


def test_a_regular_tree_is_read_in_place():
    """Numbered level by level, every family of a level follows the one before."""
    layout = SignalHierarchy.from_parents(regular(4, 3)).layout
    starts = layout.buckets[:, BUCKET_FIELDS.index("start")].tolist()
    padded = layout.buckets[:, BUCKET_FIELDS.index("padded")].tolist()
    assert min(starts) >= 0
    assert not any(padded)


@pytest.mark.parametrize("seed", range(5))
def test_few_buckets_for_many_sizes(seed):
    """Python loops over buckets: their number is bounded by the sizes, not families."""
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(2, 41, (400,), generator=generator)
    inner = torch.arange(1, 401)
    parent = torch.cat([torch.tensor([-1]), torch.zeros(400).long()])
    parent = torch.cat([parent, inner.repeat_interleave(sizes)])
    layout = SignalHierarchy.from_parents(parent).layout
    assert layout.buckets.size(0) <= sizes.unique().numel() + 1
    assert layout.bucket_family.numel() == 401


@given(parent_vectors(max_nodes=14))
def test_a_bucket_is_never_narrower_than_its_families_nor_twice_as_wide(parent):
    sizes, counts = torch.unique(
        torch.bincount(parent.clamp(min=0)) + 2, return_counts=True
    )
    widths = bucket_widths(sizes.tolist(), counts.tolist())
    assert len(widths) == len(sizes)
    for size, width in zip(sizes.tolist(), widths, strict=True):
        assert size <= width <= 2 * size
        assert width in sizes.tolist()
    assert widths == sorted(widths)


@pytest.mark.parametrize(
    ("index", "expected"),
    [([4, 5, 6], 4), ([4, 6, 5], -1), ([4, 5, 7], -1), ([8, 9, 9], -1), ([], -1)],
)
def test_consecutive_members(index, expected):
    assert consecutive(torch.tensor(index, dtype=torch.long), padding=9) == expected


def test_energy_is_found_by_every_node():
    """A spliced node stands for the node below it, an empty one for nothing."""
    parent = torch.tensor([-1, 0, 1, 2, 2, 0, 5])
    mask = torch.tensor([False, False, False, True, True, False, False])
    hierarchy = SignalHierarchy.from_parents(parent, mask)
    layout = hierarchy.layout
    inner = layout.internal_node.tolist()
    assert inner == [2]
    assert layout.node_energy.tolist() == [0, 0, 0, 1, 2, 3, 3]


def test_compilation_does_not_depend_on_how_nodes_are_numbered():
    shapes = set()
    for seed in range(4):
        parent = random_parents(80, seed=7)
        order = torch.randperm(80, generator=torch.Generator().manual_seed(seed))
        renamed = torch.full_like(parent, -1)
        renamed[order] = torch.where(parent < 0, -1, order[parent.clamp(min=0)])
        layout = SignalHierarchy.from_parents(renamed).layout
        shapes.add((tuple(layout.level_ptr.tolist()), str(layout.buckets[:, :3])))
    assert len(shapes) == 1
