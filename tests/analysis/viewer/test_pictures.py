import numpy as np
import pytest
import torch

from hsa_pyg import NestedSignal
from hsa_pyg.analysis.viewer.contents import TreeOrder
from hsa_pyg.analysis.viewer.pictures import find_pictures
from hsa_pyg.converters import from_image


def drawn(picture):
    """The picture [rows * side, cols * side, channels] that its patches make."""
    side, channels = picture["side"], picture["channels"]
    canvas = np.zeros((picture["rows"] * side, picture["cols"] * side, channels))
    for place, patch in enumerate(picture["pixels"].reshape(-1, side, side, channels)):
        top, left = divmod(place, picture["cols"])
        canvas[top * side :, left * side :][:side, :side] = patch
    return canvas


@pytest.mark.parametrize("tree", ["grid", "quadtree"])
@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("size", [(20, 28), (4, 4), (4, 36), (52, 12)])
def test_patches_lie_where_the_picture_has_them(tree, channels, size):
    torch.manual_seed(0)
    pixels = torch.rand(channels, *size)
    signal = from_image(pixels, patch=4, tree=tree, layout="chw")
    (picture,) = find_pictures(signal, TreeOrder(signal))
    assert (picture["rows"], picture["cols"]) == (size[0] // 4, size[1] // 4)
    assert (picture["channels"], picture["side"]) == (channels, 4)
    expected = (pixels * 255).round().permute(1, 2, 0).numpy()
    np.testing.assert_array_equal(drawn(picture), expected)
    assert sorted(picture["cells"].tolist()) == sorted(
        TreeOrder(signal).number[signal.hierarchy.leaves.numpy()].tolist()
    )


def test_large_patches_are_scaled_down():
    signal = from_image(torch.rand(3, 64, 64), patch=32)
    (picture,) = find_pictures(signal, TreeOrder(signal))
    assert picture["side"] == 16
    assert picture["pixels"].size == 4 * 3 * 16 * 16


def test_a_grid_of_other_vectors_has_cells_but_no_pixels():
    signal = NestedSignal()
    signal["map"].num_nodes = 1
    signal["cell"].x = torch.randn(5, 3)
    signal["cell"].pos = torch.tensor([[0, 0], [0, 1], [0, 2], [1, 0], [1, 2.0]])
    edge = torch.tensor([[0, 1, 2, 3, 4], [0] * 5])
    signal["cell", "child_of", "map"].edge_index = edge
    (picture,) = find_pictures(signal, TreeOrder(signal))
    assert (picture["rows"], picture["cols"], picture["side"]) == (2, 3, 0)
    assert picture["cells"].tolist() == [1, 2, 3, 4, -1, 5]
