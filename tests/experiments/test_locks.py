import pytest

from hsa_pyg.experiments.locks import locked


def test_one_holds_a_lock_and_the_next_does_not(tmp_path):
    path = tmp_path / "new" / "lock"
    with locked(path, seconds=0) as ours:
        assert ours
        with locked(path, seconds=0) as others:
            assert not others
        with locked(path, seconds=0.05) as others:
            assert not others
    with locked(path, seconds=-1) as ours:
        assert ours


def test_a_lock_is_free_after_an_error(tmp_path):
    with pytest.raises(KeyError), locked(tmp_path / "lock", seconds=0):
        raise KeyError("clip")
    with locked(tmp_path / "lock", seconds=0) as ours:
        assert ours
