import io
import pickle
import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hsa_pyg.converters.images import (
    BadImageError,
    Patches,
    PictureReader,
    patch_tree,
)

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")

SVG = (
    b'<svg xmlns="http://www.w3.org/2000/svg" width="20" height="12">'
    b'<rect width="20" height="12" fill="red" opacity="0.5"/></svg>'
)


def encoded(image, format, **options):
    out = io.BytesIO()
    image.save(out, format, **options)
    return out.getvalue()


def picture(mode="RGB"):
    noise = np.random.default_rng(0).integers(0, 256, (12, 20, 3), dtype=np.uint8)
    return Image.fromarray(noise).convert(mode)


FILES = {
    "png": encoded(picture(), "PNG"),
    "palette": encoded(picture("P"), "PNG", transparency=3),
    "grey-alpha": encoded(picture("LA"), "PNG"),
    "16-bit": encoded(Image.new("I;16", (20, 12), 999), "PNG"),
    "jpeg": encoded(picture(), "JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\0\0\0\0\0"),
    "cmyk": encoded(picture("CMYK"), "JPEG", progressive=True),
    "gif": encoded(picture(), "GIF", save_all=True, append_images=[picture("L")]),
    "webp": encoded(picture("RGBA"), "WEBP", lossless=True),
    "bmp": encoded(picture(), "BMP"),
    "svg": SVG,
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_every_kind_of_file_in_every_number_of_channels(name, channels):
    if name == "svg":
        pytest.importorskip("resvg_py", reason="resvg-py is not installed")
    reader = PictureReader(patch=8, channels=channels)
    patches = reader.read(FILES[name], name)
    assert patches.x.shape == (6, reader.width)
    assert patches.x.dtype == torch.float32
    assert patches.x.min() >= 0
    assert patches.x.max() <= 1
    assert (patches.rows, patches.cols) == (2, 3)
    assert (patches.height, patches.width) == (12, 20)
    assert patches.x.equal(reader.read(FILES[name], name).x)


def test_known_patches():
    values = np.array([[0, 51, 102], [153, 204, 255]], dtype=np.uint8)
    content = encoded(Image.fromarray(values), "PNG")
    patches = PictureReader(patch=2, channels=1).read(content, "a")
    assert isinstance(patches, Patches)
    expected = torch.tensor([[0, 0.2, 0.6, 0.8], [0.4, 0.4, 1, 1]])
    assert torch.allclose(patches.x, expected)


def test_transparency_is_white_or_kept():
    content = encoded(Image.new("RGBA", (2, 2), (255, 0, 0, 0)), "PNG")
    for channels, expected in ((1, [1]), (3, [1, 1, 1]), (4, [1, 0, 0, 0])):
        x = PictureReader(patch=2, channels=channels).read(content, "a").x
        assert x.view(channels, 4)[:, 0].tolist() == pytest.approx(expected)


def test_pictures_are_scaled_down_before_they_are_cut():
    content = encoded(Image.new("L", (300, 100)), "PNG")
    patches = PictureReader(max_size=96).read(content, "a")
    assert (patches.rows, patches.cols) == (2, 6)
    assert (patches.height, patches.width) == (100, 300)
    patches = PictureReader(max_size=None).read(content, "a")
    assert (patches.rows, patches.cols) == (7, 19)


def test_the_number_of_pixels_is_bounded():
    with pytest.raises(BadImageError, match=r"'a\.png' is too large: 20 x 12 pixels"):
        PictureReader(max_pixels=239).read(FILES["png"], "a.png")
    assert PictureReader(max_pixels=240).read(FILES["png"], "a.png").rows == 1


def test_a_drawing_counts_what_it_may_not_load():
    pytest.importorskip("resvg_py", reason="resvg-py is not installed")
    content = SVG.replace(b"</svg>", b'<image href="/etc/passwd"/></svg>')
    assert PictureReader().read(content, "a").left_out == 1
    assert PictureReader().read(SVG, "a").left_out == 0


def test_a_reader_can_be_pickled_and_shows_its_settings():
    reader = PictureReader(8, "quadtree", 4, None, 1000)
    copy = pickle.loads(pickle.dumps(reader))
    assert repr(copy) == repr(reader)
    assert vars(eval(repr(reader))) == vars(reader)
    assert reader.width == 256


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"patch": 0}, "patch must be positive, but is 0"),
        ({"max_size": 0}, "max_size must be positive"),
        ({"max_pixels": -1}, "max_pixels must be positive"),
        ({"channels": 2}, "channels must be 1"),
        ({"channels": None}, "channels must be 1"),
        ({"tree": "bush"}, "tree='bush' is not known"),
    ],
)
def test_settings_out_of_range(setting, message):
    with pytest.raises(ValueError, match=message):
        PictureReader(**setting)


@pytest.mark.parametrize("setting", [{"patch": 2.5}, {"max_size": "8"}])
def test_settings_of_other_types(setting):
    with pytest.raises(TypeError, match="must be an integer"):
        PictureReader(**setting)


def test_the_interface_of_other_converters():
    assert issubclass(BadImageError, ValueError)
    assert len(patch_tree(3, 3, "quadtree").patch_parent) == 9


def read_or_refused(content):
    """Whether a picture is read as it should be, or refused as it should be."""
    reader = PictureReader(patch=4, channels=4, max_size=32, max_pixels=100_000)
    try:
        patches = reader.read(content, "a.png")
    except BadImageError as error:
        return "'a.png'" in str(error)
    fits = patches.x.shape == (patches.rows * patches.cols, reader.width)
    return fits and bool(((patches.x >= 0) & (patches.x <= 1)).all())


def mutated(content, seed):
    """Change, cut, repeat or insert some bytes."""
    draw = random.Random(seed)
    changed = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 5, 20))):
        start = draw.randrange(len(changed) + 1)
        stop = min(len(changed), start + draw.choice((1, 1, 2, 4, 50)))
        kind = draw.randrange(5)
        if kind == 0:
            changed[start:stop] = draw.randbytes(stop - start)
        elif kind == 1:
            changed[start:stop] = draw.choice((b"\0", b"\xff", b"\x7f")) * (
                stop - start
            )
        elif kind == 2:
            del changed[start:stop]
        elif kind == 3:
            changed[start:start] = changed[start:stop]
        else:
            changed[start:start] = draw.randbytes(draw.choice((1, 4)))
    return bytes(changed)


@pytest.mark.parametrize("name", [name for name in FILES if name != "svg"])
@settings(max_examples=150)
@given(seed=st.integers(0, 2**32))
def test_broken_files_are_read_or_refused(name, seed):
    assert read_or_refused(mutated(FILES[name], seed))


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32))
def test_broken_drawings_are_read_or_refused(seed):
    pytest.importorskip("resvg_py", reason="resvg-py is not installed")
    assert read_or_refused(mutated(SVG, seed))


@settings(max_examples=200)
@given(
    start=st.sampled_from(
        [b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b"RIFF", b"BM", b"<svg"]
    ),
    rest=st.binary(max_size=200),
)
def test_any_bytes_are_read_or_refused(start, rest):
    assert read_or_refused(start + rest)
