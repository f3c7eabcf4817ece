import io
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Batch
from torch_geometric.loader import DataLoader

from hsa_pyg import NestedSignal
from hsa_pyg.converters.image import from_image, image_schema, to_image
from hsa_pyg.converters.images import BadImageError

TREES = ["grid", "quadtree"]


@pytest.fixture
def pillow():
    return pytest.importorskip("PIL.Image", reason="Pillow is not installed")


@given(
    channels=st.sampled_from([1, 3, 4]),
    height=st.integers(5, 60),
    width=st.integers(5, 60),
    patch=st.integers(1, 20),
    tree=st.sampled_from(TREES),
)
def test_every_image_becomes_a_valid_signal_and_back(
    channels, height, width, patch, tree
):
    picture = torch.rand(channels, height, width)
    signal = from_image(picture, patch, tree)
    signal.validate()
    assert to_image(signal).equal(picture)
    rows, cols = -(-height // patch), -(-width // patch)
    assert signal["patch"].x.shape == (rows * cols, channels * patch**2)
    hierarchy = signal.hierarchy
    assert hierarchy.num_leaves == rows * cols
    assert hierarchy.num_roots == 1
    if tree == "quadtree":
        assert hierarchy.max_branching <= 4
    else:
        assert hierarchy.max_depth == 1
    assert NestedSignal(schema=image_schema(channels, patch, tree)).node_types == (
        signal.node_types
    )
    assert set(signal.schema.nodes) == set(image_schema(channels, patch, tree).nodes)


def test_a_known_quadtree():
    signal = from_image(torch.arange(12).view(3, 4).to(torch.uint8), patch=1)
    assert signal["patch"].x.mul(255).flatten().tolist() == pytest.approx([*range(12)])
    assert signal["image"].size.tolist() == [[3, 4]]
    assert signal["image"].scaled.tolist() == [[3, 4]]
    assert signal["image"].patch_shape.tolist() == [[1, 1, 1]]
    edges = signal.edge_index_dict
    assert edges["quadrant", "child_of", "image"].tolist() == [[0, 1, 2, 3], [0] * 4]
    assert edges["quadrant", "child_of", "quadrant"].shape == (2, 0)
    assert edges["patch", "child_of", "image"].shape == (2, 0)
    assert edges["patch", "child_of", "quadrant"].tolist() == [
        [*range(12)],
        [0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 3, 3],
    ]
    assert signal["quadrant"].pos.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert signal["patch"].pos[:6].tolist() == [[0, 0], [0, 1]] * 2 + [[1, 0], [1, 1]]


def test_a_known_grid():
    signal = from_image(torch.rand(4, 5), patch=2, tree="grid")
    assert "quadrant" not in signal.node_types
    assert signal["patch"].pos.tolist() == [
        [row, col] for row in (0, 1) for col in (0, 1, 2)
    ]
    assert signal["patch", "child_of", "image"].edge_index[1].tolist() == [0] * 6


@pytest.mark.parametrize("tree", TREES)
def test_images_of_unlike_size_batch_in_any_order(tree):
    sizes = [(5, 5), (64, 7), (33, 100), (100, 100), (1, 1)]
    signals = [
        from_image(torch.rand(1, *size), 16, tree, layout="chw", y=number)
        for number, size in enumerate(sizes)
    ]
    for order in (signals, signals[::-1]):
        (batch,) = DataLoader(order, batch_size=len(order))
        batch.validate()
        assert batch.hierarchy.num_roots == len(order)
        for number, signal in enumerate(order):
            assert to_image(batch[number]).equal(to_image(signal))
            assert batch.y[number] == signal.y
            assert batch[number]["patch"].pos.equal(signal["patch"].pos)
        with pytest.raises(ValueError, match=r"to_image\(batch\[i\]\)"):
            to_image(batch)


def test_saving_and_loading(tmp_path):
    signal = from_image(torch.rand(3, 20, 40))
    torch.save(signal, tmp_path / "a.pt")
    assert to_image(torch.load(tmp_path / "a.pt", weights_only=True)).equal(
        to_image(signal)
    )


def test_all_ways_to_give_an_image_agree(pillow, tmp_path):
    values = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    image = pillow.fromarray(values)
    path = tmp_path / "a.png"
    image.save(path)
    wanted = torch.from_numpy(values).permute(2, 0, 1) / 255
    for given_as in (
        *(path, str(path), path.read_bytes(), bytearray(path.read_bytes())),
        *(image, pillow.open(path), values, torch.from_numpy(values), wanted),
    ):
        signal = from_image(given_as)
        assert to_image(signal).equal(wanted)
        is_path = given_as is path or isinstance(given_as, str)
        assert signal.source == (path.as_posix() if is_path else "")


@pytest.mark.parametrize(
    ("mode", "channels"), [("1", 1), ("L", 1), ("RGB", 3), ("LA", 4), ("CMYK", 3)]
)
def test_channels_are_kept_or_brought_to_what_is_asked(pillow, mode, channels):
    image = pillow.new(mode, (8, 9))
    assert to_image(from_image(image)).shape == (channels, 9, 8)
    for wanted in (1, 3, 4):
        assert to_image(from_image(image, channels=wanted)).shape == (wanted, 9, 8)


def test_scaling_down(pillow):
    smooth = torch.linspace(0, 1, 90).expand(3, 60, 90)
    signal = from_image(smooth, max_size=30)
    assert signal["image"].size.tolist() == [[60, 90]]
    assert signal["image"].scaled.tolist() == [[20, 30]]
    small = to_image(signal)
    assert small.shape == (3, 20, 30)
    # Files are scaled like arrays, up to their 8 bits.
    image = pillow.fromarray((smooth * 255).byte().permute(1, 2, 0).numpy())
    assert (to_image(from_image(image, max_size=30)) - small).abs().max() < 0.01
    assert to_image(from_image(smooth, max_size=90)).equal(smooth)


@pytest.mark.parametrize(
    ("y", "expected"),
    [(3, torch.tensor([3])), (0.5, torch.tensor([0.5])), (torch.ones(2), None)],
)
def test_labels(y, expected):
    signal = from_image(torch.rand(8, 8), y=y)
    assert signal.y.equal(y if expected is None else expected)
    assert "y" not in from_image(torch.rand(8, 8))


def test_labels_that_are_none():
    with pytest.raises(TypeError, match="The label y of an image is 'cat'"):
        from_image(torch.rand(8, 8), y="cat")


def test_drawings_and_what_they_may_not_load():
    pytest.importorskip("resvg_py", reason="resvg-py is not installed")
    content = (
        b'<svg xmlns="http://www.w3.org/2000/svg" width="30" height="20">'
        b'<image href="a.png"/></svg>'
    )
    with pytest.warns(UserWarning, match="refers to 1 pictures outside") as caught:
        signal = from_image(content)
    assert caught[0].filename == __file__
    assert to_image(signal).shape == (4, 20, 30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_image(content.replace(b'href="a.png"', b""))


def test_an_image_of_other_patches():
    signal = from_image(torch.rand(3, 20, 40))
    signal["patch"].x = signal["patch"].x * 0
    assert to_image(signal).eq(0).all()
    signal["patch"].x = signal["patch"].x[:, :5]
    with pytest.raises(ValueError, match=r"6 patches of shape \[3, 16, 16\]"):
        to_image(signal)
    with pytest.raises(ValueError, match="A signal of from_image is wanted"):
        to_image(NestedSignal())


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"array_or_path": 3}, TypeError, "got a int"),
        ({"array_or_path": [[1.0]]}, TypeError, "got a list"),
        ({"array_or_path": b"\0", "layout": "hwc"}, ValueError, "for arrays"),
        ({"array_or_path": torch.rand(3, 9, 3)}, ValueError, "layout="),
        ({"array_or_path": torch.rand(9, 9) * 255}, ValueError, "lie in 0"),
        ({"patch": 0}, ValueError, "patch must be positive"),
        ({"tree": "bush"}, ValueError, "tree='bush'"),
        ({"channels": 2}, ValueError, "channels must be 1"),
        ({"max_size": 0}, ValueError, "max_size must be positive"),
        ({"array_or_path": "missing.png"}, FileNotFoundError, "missing.png"),
    ],
)
def test_what_is_no_image(arguments, error, message):
    with pytest.raises(error, match=message):
        from_image(**{"array_or_path": torch.rand(9, 9), **arguments})


def test_files_that_are_no_image(pillow, tmp_path):
    (tmp_path / "a.png").write_bytes(b"hello")
    with pytest.raises(BadImageError, match=r"a\.png' cannot be read"):
        from_image(tmp_path / "a.png")
    out = io.BytesIO()
    pillow.new("L", (100, 100)).save(out, "PNG")
    with pytest.raises(BadImageError, match="max_pixels=99"):
        from_image(out.getvalue(), max_pixels=99)


def test_the_schema_is_complete():
    signal = from_image(torch.rand(8, 8))
    bare = NestedSignal(schema=image_schema(1, 16))
    assert bare["quadrant"].num_nodes == signal["quadrant"].num_nodes == 0
    bare["image"].num_nodes = 1
    bare["image"].size = bare["image"].scaled = torch.zeros(1, 2, dtype=torch.long)
    bare["image"].patch_shape = torch.zeros(1, 3, dtype=torch.long)
    bare.source = ""
    assert Batch.from_data_list([bare, signal]).num_graphs == 2
