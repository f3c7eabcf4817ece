import os

import pytest

from hsa_pyg.converters import from_document, from_documents, from_image, from_images
from hsa_pyg.converters.folder_files import files_below, read_file


@pytest.fixture
def folder(tmp_path):
    """A folder with links inside, out of it, to nothing, and round in a circle."""
    folder = tmp_path / "own"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.txt").write_text("One.")
    (folder / "deep/b.txt").write_text("Two.")
    (folder / ".git").mkdir()
    (folder / ".git/c.txt").write_text("No.")
    (tmp_path / "secret.txt").write_text("Secret.")
    (folder / "again.txt").symlink_to(folder / "a.txt")
    (folder / "out.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "gone.txt").symlink_to(folder / "nothing.txt")
    (folder / "loop").symlink_to(folder)
    (folder / "up").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe.txt")
    return folder


def test_files_inside_and_links_outside(folder):
    inside, outside = files_below(folder)
    names = [path.relative_to(folder).as_posix() for path in inside]
    assert names == ["a.txt", "again.txt", "deep/b.txt"]
    assert [path.name for path in outside] == ["out.txt"]


def test_links_out_of_a_folder_are_not_read(folder):
    with pytest.warns(UserWarning, match=r"outside the folder: .*out.txt"):
        signals = from_documents(folder, progress=False)
    texts = [signal["document"].text for signal in signals]
    assert texts == [["One."], ["One."], ["Two."]]


def test_links_to_pictures_outside_are_not_read(tmp_path):
    image = pytest.importorskip("PIL.Image")
    folder = tmp_path / "own"
    folder.mkdir()
    for path in (folder / "a.png", tmp_path / "secret.png"):
        image.new("RGB", (16, 16), "red").save(path)
    (folder / "out.png").symlink_to(tmp_path / "secret.png")
    with pytest.warns(UserWarning, match=r"1 images left out: .*out.png' leads out"):
        signals = from_images(folder, progress=False)
    assert [signal.source for signal in signals] == [(folder / "a.png").as_posix()]


def test_pipes_and_devices_are_not_read(folder):
    with pytest.raises(ValueError, match=r"pipe.txt' is no regular file but a device"):
        from_document(folder / "pipe.txt")
    with pytest.raises(ValueError, match=r"is no regular file but a device"):
        from_image(folder / "pipe.txt")
    with pytest.raises(ValueError, match=r"'own' is no regular file but a folder"):
        read_file(folder, "own")
    with pytest.raises(FileNotFoundError):
        read_file(folder / "nothing.txt", "nothing.txt")
