import warnings

import pytest
from torch_geometric.data import Batch

from hsa_pyg.converters import from_documents


@pytest.fixture
def folder(tmp_path):
    for name, text in {
        "pos/b.txt": "Good film.",
        "pos/a.txt": "Great end. Go.",
        "neg/c.txt": "Bad.",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


def names(signals, folder):
    return [signal.source.removeprefix(f"{folder.as_posix()}/") for signal in signals]


def test_a_folder_is_converted_in_sorted_order_with_its_labels(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        signals = from_documents(folder, labels="folder", progress=False)
    assert names(signals, folder) == ["neg/c.txt", "pos/a.txt", "pos/b.txt"]
    assert [signal.y.item() for signal in signals] == [0, 1, 1]
    assert [signal["token"].num_nodes for signal in signals] == [2, 5, 3]


def test_a_list_of_files_keeps_its_order(folder):
    paths = [folder / "pos/b.txt", str(folder / "neg/c.txt")]
    signals = from_documents(paths, labels=lambda path: len(path.stem), progress=False)
    assert names(signals, folder) == ["pos/b.txt", "neg/c.txt"]
    assert [signal.y.item() for signal in signals] == [1, 1]


def test_empty_and_unreadable_documents_are_left_out_with_one_warning(folder):
    (folder / "neg/void.txt").write_text(" \n")
    (folder / "pos/void.txt").write_text("")
    (folder / "photo.png").write_bytes(b"\x89PNG")
    (folder / "table.pdf").write_bytes(b"%PDF")
    (folder / ".hidden").write_bytes(b"\0\xff")
    with pytest.warns(UserWarning, match="left out") as caught:
        signals = from_documents(folder, progress=False)
    assert len(signals) == 3
    (warning,) = caught
    message = str(warning.message)
    assert "2 empty" in message
    assert "neg/void.txt" in message
    assert "pos/void.txt" in message
    assert "2 of an unsupported format" in message
    assert "photo.png" in message
    assert "table.pdf" in message
    assert ".hidden" not in message
    # The warning points at the caller.
    assert warning.filename == __file__


def test_listed_files_are_never_left_out_for_their_format(folder):
    (folder / "table.pdf").write_bytes(b"%PDF")
    with pytest.raises(ValueError, match=r"table.pdf' is unknown"):
        from_documents([folder / "table.pdf"], progress=False)


def test_documents_of_unlike_formats_have_one_schema(folder):
    (folder / "page.html").write_text("<h1>One</h1><p>Two")
    signals = from_documents(folder, progress=False)
    assert len({repr(signal.schema) for signal in signals}) == 1
    batch = Batch.from_data_list(signals)
    batch.validate()
    assert batch["section"].num_nodes == 1


def test_one_file_in_another_encoding_stops_with_its_name(folder):
    (folder / "neg/d.txt").write_bytes(b"caf\xe9")
    with pytest.raises(ValueError, match=r"neg/d.txt' is not utf-8: byte 0xe9"):
        from_documents(folder, progress=False)
    assert len(from_documents(folder, encoding="latin-1", progress=False)) == 4


def test_nothing_to_convert_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="no document to convert"):
        from_documents(tmp_path, progress=False)
    (tmp_path / "void.txt").write_text("")
    with (
        pytest.warns(UserWarning, match="void.txt"),
        pytest.raises(ValueError, match="1 empty"),
    ):
        from_documents(tmp_path, progress=False)
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        from_documents(tmp_path / "absent")
    with pytest.raises(FileNotFoundError, match="from_document"):
        from_documents(tmp_path / "void.txt")


def test_the_progress_bar_counts_documents(folder, capsys):
    from_documents(folder)
    assert "3/3" in capsys.readouterr().err
    from_documents(folder, progress=False)
    assert capsys.readouterr().err == ""


def test_unknown_labels_are_an_error(folder):
    with pytest.raises(ValueError, match="labels='name' is not known: use 'folder'"):
        from_documents(folder, labels="name", progress=False)


@pytest.mark.parametrize("label", ["neg", [1, 0], b"x"])
def test_a_label_that_is_no_number_names_the_document(folder, label):
    with pytest.raises(TypeError, match=r"label y of document '.*txt' is .*a number"):
        from_documents(folder, labels=lambda path: label, progress=False)


def test_links_out_of_the_folder_are_left_out(tmp_path):
    (tmp_path / "secret.txt").write_text("Secret.")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.txt").write_text("It rained.")
    (folder / "b.txt").symlink_to(tmp_path / "secret.txt")
    with pytest.warns(UserWarning, match=r"outside the folder: '.*b\.txt'"):
        (signal,) = from_documents(folder, progress=False)
    assert signal["document"].text == ["It rained."]


def test_texts_instead_of_paths_are_named():
    with pytest.raises(FileNotFoundError, match="takes paths; a text itself"):
        from_documents(["It rained.", "We read."], progress=False)
