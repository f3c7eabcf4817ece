import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from hsa_pyg.converters.patch_tree import patch_tree

SIDES = st.integers(1, 40)


@given(rows=SIDES, cols=SIDES)
@example(rows=1, cols=1)
@example(rows=2, cols=2)
@example(rows=1, cols=37)
@example(rows=31, cols=29)
def test_a_quadtree_holds_every_patch_once_in_families_of_at_most_four(rows, cols):
    tree = patch_tree(rows, cols, "quadtree")
    num_quadrants = len(tree.quadrant_parent)
    assert tree.patch_parent.shape == (rows * cols,)
    assert tree.patch_pos.shape == (rows * cols, 2)
    assert tree.quadrant_pos.shape == (num_quadrants, 2)
    # Parents before children.
    assert (tree.quadrant_parent < torch.arange(num_quadrants)).all()
    parents = torch.cat([tree.quadrant_parent, tree.patch_parent])
    places = torch.cat([tree.quadrant_pos, tree.patch_pos])
    sizes = torch.bincount(parents + 1, minlength=num_quadrants + 1)
    assert sizes.max() <= 4
    # No only child, but the patch of an image of one patch.
    assert sizes.min() >= 2 or rows * cols == 1
    # Siblings have places of their own, 0 or 1 on each axis.
    assert ((places == 0) | (places == 1)).all()
    seats = torch.stack([parents, *places.long().T])
    assert seats.unique(dim=1).size(1) == seats.size(1)


@given(rows=st.integers(1, 14), cols=st.integers(1, 14))
def test_quadrants_are_rectangles_that_lie_as_their_places_say(rows, cols):
    tree = patch_tree(rows, cols, "quadtree")
    grid = torch.cartesian_prod(torch.arange(rows), torch.arange(cols))
    number = len(tree.quadrant_parent)
    inside = [[] for _ in range(number)]
    for patch, parent in enumerate(tree.patch_parent.tolist()):
        while parent >= 0:
            inside[parent].append(patch)
            parent = tree.quadrant_parent[parent].item()
    boxes = []
    for patches in inside:
        low, high = grid[patches].amin(0), grid[patches].amax(0)
        assert len(patches) == (high - low + 1).prod()
        boxes.append(low)
    for first in range(number):
        for second in range(first + 1, number):
            if tree.quadrant_parent[first] == tree.quadrant_parent[second]:
                by_place = tree.quadrant_pos[second] - tree.quadrant_pos[first]
                assert (boxes[second] - boxes[first]).sign().equal(by_place.long())


def test_known_trees():
    tree = patch_tree(2, 2, "quadtree")
    assert tree.quadrant_parent.tolist() == []
    assert tree.patch_parent.tolist() == [-1] * 4
    assert tree.patch_pos.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    # 3 x 3: 2 x 2, 2 x 1, 1 x 2, and a patch that hangs from the image itself.
    tree = patch_tree(3, 3, "quadtree")
    assert tree.quadrant_parent.tolist() == [-1, -1, -1]
    assert tree.quadrant_pos.tolist() == [[0, 0], [0, 1], [1, 0]]
    assert tree.patch_parent.tolist() == [0, 0, 1, 0, 0, 1, 2, 2, -1]
    assert tree.patch_pos[8].tolist() == [1, 1]
    # A row of 5: halves of 3 and 2, of which the first has a part of 2 and a patch.
    tree = patch_tree(1, 5, "quadtree")
    assert tree.quadrant_parent.tolist() == [-1, -1, 0]
    assert tree.patch_parent.tolist() == [2, 2, 0, 1, 1]


def test_a_grid_has_rows_and_columns():
    tree = patch_tree(2, 3, "grid")
    assert len(tree.quadrant_parent) == len(tree.quadrant_pos) == 0
    assert tree.quadrant_pos.shape == (0, 2)
    assert tree.patch_parent.tolist() == [-1] * 6
    assert tree.patch_pos.tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]


def test_what_a_caller_does_to_a_tree_stays_with_him():
    patch_tree(4, 4, "quadtree").patch_pos.fill_(7)
    assert patch_tree(4, 4, "quadtree").patch_pos.max() == 1


def test_large_grids():
    tree = patch_tree(600, 500, "quadtree")
    assert (torch.bincount(tree.patch_parent) >= 1).sum() > 70_000
    assert (tree.patch_parent >= 0).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [((0, 3, "grid"), "0 x 3"), ((2, 2, "tree"), "tree='tree' is not known")],
)
def test_what_is_no_grid_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        patch_tree(*settings)
