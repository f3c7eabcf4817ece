import warnings

import pytest
from torch_geometric.loader import DataLoader

from hsa_pyg.converters import from_images, to_image

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")


@pytest.fixture
def folder(tmp_path):
    for name, mode, size in (
        ("dog/b.png", "RGB", (40, 30)),
        ("dog/a.gif", "L", (9, 70)),
        ("cat/c.jpg", "RGB", (20, 20)),
        ("cat/.hidden.png", "RGB", (20, 20)),
    ):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        Image.new(mode, size).save(path)
    return tmp_path


def names(signals, folder):
    return [signal.source.removeprefix(f"{folder.as_posix()}/") for signal in signals]


def test_a_folder_is_converted_in_sorted_order_with_its_labels(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        signals = from_images(folder, labels="folder", progress=False)
    assert names(signals, folder) == ["cat/c.jpg", "dog/a.gif", "dog/b.png"]
    assert [signal.y.item() for signal in signals] == [0, 1, 1]
    (batch,) = DataLoader(signals, batch_size=3)
    batch.validate()
    assert batch.num_graphs == 3


def test_a_list_of_files_keeps_its_order(folder):
    signals = from_images(
        [folder / "dog/b.png", str(folder / "cat/c.jpg")],
        patch=8,
        tree="grid",
        channels=1,
        max_size=20,
        labels=lambda path: len(path.suffix) / 2,
        progress=False,
    )
    assert names(signals, folder) == ["dog/b.png", "cat/c.jpg"]
    assert [signal.y.item() for signal in signals] == [2, 2]
    assert [to_image(signal).shape for signal in signals] == [(1, 15, 20), (1, 20, 20)]
    assert signals[0].node_types == ["image", "patch"]


def test_bad_files_are_left_out_with_one_warning(folder):
    (folder / "cat/void.png").write_bytes(b"")
    (folder / "dog/notes.txt").write_text("hello")
    with pytest.warns(UserWarning, match="3 images left out") as caught:
        signals = from_images(folder, max_pixels=1000, progress=False)
    assert len(signals) == 2
    (warning,) = caught
    message = str(warning.message)
    for part in ("void.png' cannot be read: it is empty", "notes.txt", "b.png' is too"):
        assert part in message
    assert warning.filename == __file__


def test_drawings_that_refer_to_other_files_are_named(folder):
    pytest.importorskip("resvg_py", reason="resvg-py is not installed")
    for name in ("a.svg", "b.svg"):
        (folder / name).write_text(
            '<svg xmlns="http://www.w3.org/2000/svg"><image href="dog/b.png"/></svg>'
        )
    with pytest.warns(UserWarning, match="outside") as caught:
        signals = from_images(folder, progress=False)
    assert len(signals) == 5
    (warning,) = caught
    assert "a.svg" in str(warning.message)
    assert "b.svg" in str(warning.message)


def test_what_cannot_be_converted(folder, tmp_path_factory):
    with pytest.raises(ValueError, match="labels='name' is not known"):
        from_images(folder, labels="name")
    with pytest.raises(FileNotFoundError, match="no folder"):
        from_images(folder / "cat/c.jpg")
    with pytest.raises(FileNotFoundError, match=r"missing\.png"):
        from_images([folder / "missing.png"], progress=False)
    with pytest.raises(ValueError, match="no image to convert"):
        from_images(tmp_path_factory.mktemp("void"), progress=False)
