"""Slots hold every member once, and tiles cut them where kernels can work."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given

from hsa_pyg import SignalHierarchy
from hsa_pyg.slots import TILE_SLOTS, cut_into_tiles
from tests.forests import forests, random_parents, regular, side_by_side, star
from tests.test_compilation import members


def families(layout):
    """Members of every family by its internal number, as the slots have them."""
    return {
        number: layout.slot_member[first : first + size].tolist()
        for number, (first, size) in enumerate(
            zip(layout.family_first.tolist(), layout.family_size.tolist(), strict=True)
        )
    }


def check(hierarchy):
    layout = hierarchy.layout
    found = families(layout)
    expected = {
        owner: (line, mixed)
        for owner, line, mixed in members(layout, hierarchy.num_leaves)
    }
    assert found == {owner: line for owner, (line, _) in expected.items()}
    order, kinds = layout.family_order.tolist(), layout.kind_sizes.tolist()
    is_mixed = [expected[number][1] for number in order]
    assert is_mixed == sorted(is_mixed)
    assert kinds[1][0] == sum(is_mixed)
    assert kinds[0][0] == len(order) - sum(is_mixed)
    for first, stop in ((0, kinds[0][0]), (kinds[0][0], len(order))):
        assert order[first:stop] == sorted(order[first:stop])
    slots = [number for number in order for _ in found[number]]
    assert layout.slot_family.tolist() == slots
    assert kinds[0][1] == sum(len(found[number]) for number in order[: kinds[0][0]])
    assert kinds[0][1] + kinds[1][1] == len(slots)
    check_tiles(layout)


def check_tiles(layout):
    bounds = layout.tile_start.tolist()
    size, kinds = layout.family_size.tolist(), layout.kind_sizes.tolist()
    assert bounds[0] == 0
    assert bounds[-1] == layout.slot_member.numel()
    assert kinds[0][2] + kinds[1][2] == len(bounds) - 1
    assert bounds[kinds[0][2]] == kinds[0][1]
    for tile, (start, stop) in enumerate(pairwise(bounds)):
        assert 0 < stop - start <= TILE_SLOTS
        inside = layout.slot_family[start:stop].tolist()
        if size[inside[0]] > TILE_SLOTS:
            # A piece of one large family, cut at multiples of the tile.
            first = layout.family_first[inside[0]].item()
            assert set(inside) == {inside[0]}
            assert (start - first) % TILE_SLOTS == 0
            assert stop == min(start + TILE_SLOTS, first + size[inside[0]])
            continue
        assert start == layout.family_first[inside[0]]
        assert stop == layout.family_first[inside[-1]] + size[inside[-1]]
        last_of_kind = stop == kinds[0][1] or tile == len(bounds) - 2
        if not last_of_kind:
            # The next family would not have fitted.
            following = size[int(layout.slot_family[stop])]
            assert following + stop - start > TILE_SLOTS


@given(forests(max_nodes=20))
def test_slots_hold_what_the_buckets_hold(hierarchy):
    check(hierarchy)


@pytest.mark.parametrize(
    "parent",
    [
        star(TILE_SLOTS - 1),
        star(TILE_SLOTS),
        star(TILE_SLOTS + 1),
        star(3 * TILE_SLOTS),
        regular(16, 3),
        regular(2, 8),
        regular(70, 2),
        random_parents(500, 0, reach=3),
        random_parents(2000, 1, new_tree=0.01),
        side_by_side(star(2), star(200), star(3), star(64), star(1), star(65))[0],
    ],
    ids=lambda parent: str(parent.numel()),
)
def test_large_families_are_cut_and_small_ones_packed(parent):
    check(SignalHierarchy.from_parents(parent))


def test_tiles_of_regular_families_are_full():
    layout = SignalHierarchy.from_parents(regular(16, 3)).layout
    length = layout.tile_start.diff()
    assert (length[: int(layout.kind_sizes[0, 2])] == TILE_SLOTS).all()


def test_no_families_make_no_tiles():
    for hierarchy in (
        SignalHierarchy.from_parents(torch.tensor([-1, -1])),
        SignalHierarchy.from_parents(torch.empty(0, dtype=torch.long)),
    ):
        assert hierarchy.layout.tile_start.tolist() == [0]
        assert hierarchy.layout.kind_sizes.tolist() == [[0, 0, 0], [0, 0, 0]]


def test_tiles_do_not_mix_the_kinds():
    start, leaf_tiles = cut_into_tiles(torch.tensor([3, 4, 5, 6]), 2)
    assert start.tolist() == [0, 7, 18]
    assert leaf_tiles == 1
