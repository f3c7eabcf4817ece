import io
import struct
import warnings
import zlib

import numpy as np
import pytest
import torch

from hsa_pyg.converters.raster import BadImageError, loaded_pixels, read_raster

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")

LIMIT = 1_000_000
FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP")


def encoded(image, format, **options):
    out = io.BytesIO()
    image.save(out, format, **options)
    return out.getvalue()


def read(content, max_size=None, max_pixels=LIMIT):
    return read_raster(content, "a.png", max_size, max_pixels)


def gradient(height=24, width=32):
    """An RGB picture without sharp edges, which JPEG keeps nearly as it is."""
    rows = np.linspace(0, 255, height)[:, None] + np.zeros(width)
    cols = np.linspace(0, 255, width) + np.zeros((height, 1))
    return np.stack([rows, cols, 255 - rows], axis=2).round().astype(np.uint8)


@pytest.mark.parametrize("format", FORMATS)
def test_every_format(format):
    pixels, size = read(encoded(Image.fromarray(gradient()), format))
    assert size == (24, 32)
    assert pixels.dtype == torch.float32
    expected = torch.from_numpy(gradient()).permute(2, 0, 1) / 255
    if format in ("PNG", "BMP"):
        assert pixels.equal(expected)
    else:
        assert (pixels - expected).abs().mean() < 0.04


@pytest.mark.parametrize(
    ("mode", "color", "channels", "expected"),
    [
        ("1", 1, 1, [1]),
        ("L", 51, 1, [0.2]),
        ("LA", (51, 102), 4, [0.2, 0.2, 0.2, 0.4]),
        ("P", 3, 3, None),
        ("RGB", (255, 51, 0), 3, [1, 0.2, 0]),
        ("RGBA", (255, 51, 0, 102), 4, [1, 0.2, 0, 0.4]),
        ("I;16", 13107, 1, [0.2]),
    ],
)
def test_every_mode_of_png(mode, color, channels, expected):
    pixels, _ = read(encoded(Image.new(mode, (3, 2), color), "PNG"))
    assert pixels.shape == (channels, 2, 3)
    if expected:
        assert pixels[:, 0, 0].tolist() == pytest.approx(expected, abs=1e-6)


def test_palettes_with_and_without_transparency():
    image = Image.new("P", (2, 2), 1)
    image.putpalette([0, 0, 0, 255, 51, 0])
    assert read(encoded(image, "PNG"))[0][:, 0, 0].tolist() == pytest.approx(
        [1, 0.2, 0]
    )
    for transparency in (1, b"\xff\x00"):
        pixels, _ = read(encoded(image, "PNG", transparency=transparency))
        assert pixels[:, 0, 0].tolist() == pytest.approx([1, 0.2, 0, 0])
    pixels, _ = read(encoded(Image.new("RGB", (2, 2)), "PNG", transparency=(0, 0, 0)))
    assert pixels.flatten().tolist() == [0] * 16


def test_16_bits_of_grey_are_kept():
    deep = np.arange(0, 65536, 256, dtype=np.uint16).reshape(16, 16)
    pixels, _ = read(encoded(Image.fromarray(deep), "PNG"))
    assert pixels[0].mul(65535).round().long().equal(torch.from_numpy(deep).long())
    pixels, _ = read(encoded(Image.fromarray(deep), "PNG"), max_size=4)
    assert pixels.shape == (1, 4, 4)


def test_cmyk():
    image = Image.new("CMYK", (16, 16), (0, 255, 255, 0))
    pixels, _ = read(encoded(image, "JPEG"))
    assert pixels[:, 8, 8].tolist() == pytest.approx([1, 0, 0], abs=0.02)


@pytest.mark.parametrize("orientation", range(10))
@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP"])
def test_pictures_stand_upright(orientation, format):
    from PIL import ImageOps

    exif = Image.Exif()
    exif[0x0112] = orientation
    content = encoded(Image.fromarray(gradient()), format, exif=exif.tobytes())
    upright = ImageOps.exif_transpose(Image.open(io.BytesIO(content))).convert("RGB")
    pixels, size = read(content)
    assert size == (upright.height, upright.width)
    assert pixels.equal(
        torch.from_numpy(np.array(upright)).permute(2, 0, 1).float() / 255
    )


def test_broken_exif_data_leave_the_picture_as_it_is():
    content = encoded(
        Image.fromarray(gradient()), "JPEG", exif=b"Exif\0\0II*\0\xff\xff\xff\xff"
    )
    assert read(content)[1] == (24, 32)


def test_the_first_frame_of_an_animation():
    red, blue = (Image.new("RGB", (4, 4), name) for name in ("red", "blue"))
    for format in ("GIF", "WEBP", "PNG"):
        content = encoded(
            red, format, save_all=True, append_images=[blue], duration=9, lossless=True
        )
        assert read(content)[0][:3, 0, 0].tolist() == pytest.approx([1, 0, 0])


def test_pictures_are_scaled_down_and_never_up():
    content = encoded(Image.fromarray(gradient()), "PNG")
    pixels, size = read(content, max_size=8)
    assert pixels.shape == (3, 6, 8)
    assert size == (24, 32)
    assert read(content, max_size=100)[0].shape == (3, 24, 32)
    line = encoded(Image.new("L", (900, 1)), "PNG")
    assert read(line, max_size=8)[0].shape == (1, 1, 8)


def png(width, height, data=b""):
    def chunk(kind, body):
        check = zlib.crc32(kind + body)
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", check)

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(data))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("side", [1001, 12_000, 20_000, 2**31 - 1])
def test_bombs_are_refused_by_their_header(side):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(BadImageError, match=r"'a\.png'.*(too large|exceeds)"):
            read(png(side, side))


@pytest.mark.parametrize(
    ("format", "options"),
    [*((format, {}) for format in FORMATS), ("JPEG", {"progressive": True})],
)
def test_a_cut_off_file_is_refused_wherever_it_ends(format, options):
    content = encoded(Image.fromarray(gradient()), format, **options)
    whole, _ = read(content)
    refused = []
    for stop in range(0, len(content), max(1, len(content) // 150)):
        try:
            pixels, _ = read(content[:stop])
        except BadImageError as error:
            refused.append(str(error))
        else:
            # Only what stands behind the pixels may be missing.
            assert pixels.equal(whole)
    assert len(refused) > 100
    assert all(message.startswith("Picture 'a.png' cannot") for message in refused)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is empty"),
        (b"hello there", "neither PNG, JPEG, GIF, WEBP, BMP nor SVG"),
        (b"\x89PNG\r\n\x1a\n", r"a\.png"),
        (b"II*\0", "neither"),
        (png(5, 5), "truncated"),
    ],
)
def test_what_is_no_picture_is_named(content, reason):
    with pytest.raises(BadImageError, match=reason):
        read(content)


def test_images_of_pillow():
    image = Image.fromarray(gradient())
    pixels, size = loaded_pixels(image, None, LIMIT)
    assert size == (24, 32)
    assert pixels.equal(torch.from_numpy(gradient()).permute(2, 0, 1) / 255)
    for mode in ("HSV", "YCbCr", "LAB", "CMYK", "RGBX", "RGBa", "La", "PA"):
        source = image.convert("LA") if mode == "La" else image
        source = source.convert("RGBA") if mode == "RGBa" else source
        source = source.convert("P") if mode == "PA" else source
        assert loaded_pixels(source.convert(mode), None, LIMIT)[1] == (24, 32), mode
    floats = Image.fromarray(np.full((2, 2), 0.25, dtype=np.float32))
    assert loaded_pixels(floats, None, LIMIT)[0].unique().tolist() == [0.25]
    with pytest.raises(ValueError, match="mode F holds values from 0 to 1"):
        loaded_pixels(Image.fromarray(np.full((2, 2), 3, np.float32)), None, LIMIT)
    with pytest.raises(BadImageError, match="too large"):
        loaded_pixels(image, None, 10)
    content = encoded(image, "PNG")
    half = content[: len(content) // 2]
    with pytest.raises(BadImageError, match="truncated"):
        loaded_pixels(Image.open(io.BytesIO(half)), None, LIMIT)
