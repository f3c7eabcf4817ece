import numpy as np
import pytest
import torch

from hsa_pyg.converters.pixel_arrays import pixels_of


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        (np.uint8, 51, 0.2),
        (np.uint16, 13107, 0.2),
        (">u2", 13107, 0.2),
        (np.bool_, True, 1.0),
        (np.float64, 0.2, 0.2),
        (np.float16, 0.5, 0.5),
    ],
)
def test_types(dtype, value, expected):
    pixels = pixels_of(np.full((2, 5), value, dtype=dtype))
    assert pixels.dtype == torch.float32
    assert pixels.shape == (1, 2, 5)
    assert pixels.flatten().tolist() == pytest.approx([expected] * 10)


def test_layouts():
    picture = torch.rand(3, 5, 7)
    assert pixels_of(picture).equal(picture)
    assert pixels_of(picture.permute(1, 2, 0)).equal(picture)
    assert pixels_of(picture.permute(1, 2, 0).numpy()).equal(picture)
    assert pixels_of(picture[:, :, :3], layout="chw").equal(picture[:, :, :3])
    assert pixels_of(picture[:, :, :3], layout="hwc").shape == (3, 3, 5)


def test_the_pixels_are_a_copy():
    picture = torch.rand(1, 4, 6, requires_grad=True)
    pixels_of(picture).fill_(0)
    assert picture.max() > 0
    flipped = np.arange(6, dtype=np.uint8).reshape(2, 3)[:, ::-1]
    assert pixels_of(flipped)[0, 0].mul(255).round().tolist() == [2, 1, 0]


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (torch.rand(3, 8, 3), r"shape \[3, 8, 3\] may be .* layout='hwc'"),
        (torch.rand(5, 8, 7), r"1 \(grey\), 3 .* got the shape \[5, 8, 7\]"),
        (torch.rand(2, 3, 8, 8), "one by one"),
        (torch.rand(8), r"got the shape \[8\]"),
        (torch.rand(0, 8), "has no pixel"),
        (torch.rand(4, 9) + 1, r"lie in 0\.\.1, but these lie in 1.* Divide"),
        (torch.full((4, 9), -0.1), r"lie in -0\.1"),
        (torch.full((4, 9), torch.nan), "finite"),
        (torch.full((4, 9), torch.inf), "finite"),
    ],
)
def test_what_cannot_be_pixels_is_refused(array, message):
    with pytest.raises(ValueError, match=message):
        pixels_of(array)
    with pytest.raises(ValueError, match=message):
        pixels_of(array.numpy())


@pytest.mark.parametrize(
    "array", [torch.ones(4, 9, dtype=torch.long), np.full((2, 2), "a"), np.ones(2) * 1j]
)
def test_other_types_are_refused(array):
    with pytest.raises(TypeError, match="Pixels are"):
        pixels_of(array)


def test_a_layout_that_does_not_hold():
    with pytest.raises(ValueError, match="channels"):
        pixels_of(torch.rand(3, 8, 9), layout="hwc")
    with pytest.raises(ValueError, match="layout='wh' is not known"):
        pixels_of(torch.rand(3, 8, 9), layout="wh")
