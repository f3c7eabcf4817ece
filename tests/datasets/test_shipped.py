import pytest

from hsa_pyg.datasets.shipped import shipped_file


@pytest.mark.parametrize("place", ["hsa_pyg/datasets/_shipped", "datasets"])
def test_a_file_is_found_in_a_wheel_and_in_a_checkout(place, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "hsa_pyg.datasets.shipped.__file__",
        str(tmp_path / "hsa_pyg/datasets/shipped.py"),
    )
    expected = tmp_path / place / "plays" / "a.zip"
    expected.parent.mkdir(parents=True)
    expected.touch()
    assert shipped_file("plays", "a.zip") == expected


def test_a_missing_file_names_both_places_and_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "hsa_pyg.datasets.shipped.__file__",
        str(tmp_path / "hsa_pyg/datasets/shipped.py"),
    )
    with pytest.raises(FileNotFoundError) as error:
        shipped_file("plays", "a.zip", "Pass raw_zip=.")
    assert "_shipped/plays/a.zip' nor at" in str(error.value)
    assert str(error.value).endswith("datasets/plays/a.zip'. Pass raw_zip=.")
