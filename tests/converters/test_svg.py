import base64
import io
import subprocess
import sys

import pytest
import torch

from hsa_pyg.converters import svg
from hsa_pyg.converters.raster import BadImageError
from hsa_pyg.converters.svg import looks_like_svg, read_svg

pytest.importorskip("resvg_py", reason="resvg-py is not installed")
Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")

SVG = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
RED = '<rect width="20" height="20" fill="red"/>'


def read(inside=RED, attributes='width="20" height="20"', max_size=224, limit=10**6):
    content = f"<svg {SVG} {attributes}>{inside}</svg>".encode()
    return read_svg(content, "a.svg", max_size, limit)


def test_a_drawing_is_rendered_with_alpha():
    pixels, size, left_out = read('<rect width="10" height="20" fill="red"/>')
    assert size == (20, 20)
    assert left_out == 0
    assert pixels.shape == (4, 20, 20)
    assert pixels[:, 0, 0].tolist() == [1, 0, 0, 1]
    assert pixels[3, 0, 19] == 0


@pytest.mark.parametrize(
    "attributes",
    [
        'width="10.5" height="20px"',
        'width="1in" height="72pt"',
        'width="1cm" height="10mm"',
        'viewBox="1 2 30,40.5"',
        'width="60" viewBox="0 0 30 40"',
        'height="60" viewBox="0 0 30 40"',
        'width="100%" height="100%" viewBox="0 0 30 40"',
        'width="50%" height="50%" viewBox="0 0 30 40"',
        'width="2em" height="10"',
        'width="wide" height="10"',
        'width="30" style="width:50px"',
        "",
    ],
)
def test_the_size_is_the_one_that_the_renderer_takes(attributes):
    import resvg_py

    markup = f"<svg {SVG} {attributes}>{RED}</svg>"
    png = resvg_py.svg_to_bytes(svg_string=markup, dpi=96.0)
    natural = Image.open(io.BytesIO(png))
    pixels, size, _ = read(attributes=attributes)
    assert size == (natural.height, natural.width)
    assert pixels.shape[1:] == size


def test_drawings_are_rendered_at_the_size_that_they_are_scaled_to():
    pixels, size, _ = read(attributes='width="3000" height="2000"', max_size=60)
    assert size == (2000, 3000)
    assert pixels.shape == (4, 40, 60)
    pixels, size, _ = read('<rect width="900" height="90"/>', "", max_size=60)
    assert size == (90, 900)
    assert pixels.shape == (4, 6, 60)


@pytest.fixture
def secret(tmp_path, monkeypatch):
    """A red picture, in the working folder."""
    Image.new("RGB", (20, 20), "red").save(tmp_path / "secret.png")
    red = f'<svg {SVG} width="20" height="20">{RED}</svg>'
    (tmp_path / "secret.svg").write_text(red)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("key", ["href", "xlink:href"])
def test_no_file_is_read(secret, key):
    for name in ("secret.png", "secret.svg"):
        path = secret / name
        for address in (name, f"./{name}", path, path.as_uri(), f"file:{path}"):
            link = f'{key}="{address}" width="20" height="20"'
            inner = f'<svg {SVG} width="20" height="20"><image {link}/></svg>'
            coded = base64.b64encode(inner.encode()).decode()
            drawings = (
                f"<image {link}/>",
                f'<filter id="f"><feImage {link}/></filter>'
                '<rect width="20" height="20" filter="url(#f)"/>',
                f'<image width="20" height="20" '
                f'{key}="data:image/svg+xml;base64,{coded}"/>',
            )
            for inside in drawings:
                pixels, _, left_out = read(inside)
                assert pixels.eq(0).all(), inside
                assert left_out == 1
            use = f'<use {key}="{address}#a" width="20" height="20"/>'
            style = f"<style>image {{ href: url({address}); {key}: {address} }}</style>"
            for inside in (use, f'{style}<image width="20" height="20"/>'):
                assert read(inside)[0].eq(0).all(), inside


def test_external_entities_are_not_read(secret):
    head = f'<!DOCTYPE svg [<!ENTITY a SYSTEM "{secret / "secret.svg"}">]>'
    content = f'{head}<svg {SVG} width="20" height="20">&a;</svg>'.encode()
    assert read_svg(content, "a.svg", None, 10**6)[0].eq(0).all()


def test_embedded_pictures_are_drawn(secret):
    for name, kind in (("secret.png", "image/png"), ("secret.svg", "image/svg+xml")):
        coded = base64.b64encode((secret / name).read_bytes()).decode()
        inside = f'<image href="data:{kind};base64,{coded}" width="20" height="20"/>'
        pixels, _, left_out = read(inside)
        assert pixels[:, 10, 10].tolist() == [1, 0, 0, 1]
        assert left_out == 0


def test_text_is_drawn_where_there_are_fonts():
    found = subprocess.run(["fc-list"], capture_output=True, check=False).stdout
    if not found:
        pytest.skip("this system has no fonts")
    for family in (
        "",
        "serif",
        "sans-serif",
        "monospace",
        "Times New Roman",
        "Nobody's",
    ):
        text = (
            f'<text y="15" font-family="{family}">WWW</text>'
            if family
            else ('<text y="15">WWW</text>')
        )
        assert read(text)[0][3].sum() > 1, family


@pytest.mark.parametrize(
    ("inside", "attributes", "reason"),
    [
        (RED, 'width="1e400" height="9"', "states a size of inf x 9"),
        (RED, 'width="-4" height="9"', "states a size of -4 x 9"),
        (RED, 'width="0" height="9"', "states a size of 0 x 9"),
        (RED, 'width="1e10" height="9"', "states a size"),
        (RED, 'width="50%" viewBox="0 0 1e9 1e9"', "rendering it takes more"),
        ('<rect width="1e7" height="1e7"/>', "", "rendering it takes more"),
        ('<rect width="2e3" height="2e3"/>', "", "too large: 2000 x 2000"),
        ("<g>" * 100_000 + "</g>" * 100_000, "", "nest deeper"),
        ("<a:b/>", "", "namespace"),
        (
            # A chain of clips is no nesting of elements, but the renderer recurses.
            "".join(
                f'<clipPath id="c{i}" clip-path="url(#c{i + 1})">{RED}</clipPath>'
                for i in range(20_000)
            )
            + f'<g clip-path="url(#c0)">{RED}</g>',
            "",
            "rendering it takes more",
        ),
    ],
)
def test_drawings_made_to_hurt(inside, attributes, reason):
    with pytest.raises(BadImageError, match=rf"'a\.svg' .*{reason}"):
        read(inside, attributes)


def test_absurd_sizes_are_bounded_by_max_size():
    pixels, size, _ = read(attributes='width="1e9" height="1e9"')
    assert size == (10**9, 10**9)
    assert pixels.shape == (4, 224, 224)
    with pytest.raises(BadImageError, match=r"too large: 1000000000 x 1000000000"):
        read(attributes='width="1e9" height="1e9"', max_size=None)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limits")
def test_time_and_memory_are_bounded(monkeypatch):
    slow = '<rect width="20" height="20" opacity="0.5"/>' * 100_000
    monkeypatch.setattr(svg, "_PROCESSOR_SECONDS", 1)
    with pytest.raises(BadImageError, match="more than 1 s"):
        read(slow)
    monkeypatch.setattr(svg, "_MEMORY", 2**20)
    with pytest.raises(BadImageError, match="1 MB"):
        read(attributes='width="999" height="999"', max_size=None)


def test_a_renderer_that_hangs_is_ended(monkeypatch):
    monkeypatch.setattr(svg, "_SECONDS", 0.001)
    with pytest.raises(BadImageError, match=r"not rendered in 0\.001 s"):
        read()


def test_a_renderer_that_fails_says_why(monkeypatch):
    monkeypatch.setattr(svg, "_PROCESSOR_SECONDS", "many")
    with pytest.raises(BadImageError, match=r"cannot be read: ValueError: .*'many'"):
        read()


def test_without_the_renderer_its_extra_is_named(monkeypatch):
    monkeypatch.setattr(svg.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r'pip install "hsa-pyg\[image\]"'):
        read()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "iso-8859-15"])
def test_encodings(encoding):
    declared = encoding.removesuffix("-sig")
    text = (
        f'<?xml version="1.0" encoding="{declared}"?>\n<svg {SVG} width="9" '
        f'height="9"><!-- é -->{RED}</svg>'
    )
    content = text.encode(encoding)
    assert looks_like_svg(content)
    pixels, _, _ = read_svg(content, "a.svg", None, 100)
    assert pixels[:, 0, 0].equal(torch.tensor([1.0, 0, 0, 1]))
