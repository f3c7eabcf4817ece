import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hsa_pyg.converters.pixels import (
    convert_channels,
    cut_patches,
    fitted,
    grid_size,
    join_patches,
    resize,
)


@given(
    channels=st.sampled_from([1, 3, 4]),
    height=st.integers(1, 20),
    width=st.integers(1, 20),
    patch=st.integers(1, 9),
)
def test_patches_put_together_are_the_picture(channels, height, width, patch):
    picture = torch.rand(channels, height, width)
    x = cut_patches(picture, patch)
    rows, cols = grid_size(height, width, patch)
    assert x.shape == (rows * cols, channels * patch * patch)
    assert join_patches(x, channels, patch, (height, width)).equal(picture)


def test_patches_run_row_by_row_and_channel_by_channel():
    picture = torch.arange(3 * 4 * 4).view(3, 4, 4)
    x = cut_patches(picture, 2)
    assert x[1].view(3, 2, 2).equal(picture[:, :2, 2:])
    assert x[2].view(3, 2, 2).equal(picture[:, 2:, :2])


def test_the_last_row_and_column_are_repeated():
    x = cut_patches(torch.tensor([[[1, 2, 3], [4, 5, 6], [7, 8, 9]]]), 2)
    assert x.tolist() == [[1, 2, 4, 5], [3, 3, 6, 6], [7, 8, 7, 8], [9, 9, 9, 9]]


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 500))
def test_fitted_sizes_are_never_larger_and_never_empty(height, width, most):
    fit = fitted(height, width, most)
    assert 1 <= fit[0] <= height
    assert 1 <= fit[1] <= width
    assert max(fit) == min(max(height, width), most)
    assert fitted(height, width, None) == (height, width)


def test_channels():
    colours = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1]]).T.view(3, 1, 3)
    grey = convert_channels(colours, 1)
    assert grey.flatten().tolist() == pytest.approx([0.299, 0.587, 0.114])
    assert convert_channels(grey, 3).equal(grey.expand(3, 1, 3))
    assert convert_channels(colours, 4)[3].unique().tolist() == [1]
    assert convert_channels(grey, 4)[:3].equal(grey.expand(3, 1, 3))
    # Over white: what cannot be seen is white, whatever its colour.
    unseen = torch.cat([colours, torch.zeros(1, 1, 3)])
    assert convert_channels(unseen, 3).unique().tolist() == [1]
    assert convert_channels(unseen, 1).flatten().tolist() == pytest.approx([1, 1, 1])
    assert convert_channels(unseen, 4) is unseen


def test_scaling_down_averages_and_weights_colours_by_their_alpha():
    checkers = torch.tensor([[0.0, 1], [1, 0]]).repeat(32, 32)[None]
    assert resize(checkers, 8, 8).sub(0.5).abs().max() < 0.01
    # Red that is seen beside green that is not: half transparent red.
    stripes = torch.zeros(4, 16, 16)
    stripes[0, :, 0::2] = stripes[3, :, 0::2] = 1
    stripes[1, :, 1::2] = 1
    red, green, _, alpha = resize(stripes, 2, 2)
    assert red.min() > 0.99
    assert green.max() < 0.01
    assert alpha.sub(0.5).abs().max() < 0.1
    assert resize(stripes * 0, 2, 2).eq(0).all()
