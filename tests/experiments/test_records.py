from dataclasses import replace

import pytest

from hsa_pyg.cli import SettingsError
from hsa_pyg.experiments.records import (
    Record,
    describe_environment,
    differences,
    read_records,
    rounded,
    write_whole,
)


def record(setting="full", seed=0):
    return Record(
        experiment="another",
        setting=setting,
        seed=seed,
        configuration={"lr": 0.1},
        environment={},
        seconds=1.5,
        peak_memory=3,
        attention_flops=4,
        history=[{"epoch": 0, "loss": 0.5}, {"epoch": 1, "loss": 0.25, "more": 2.0}],
        final={"loss": 0.5},
        facts={},
    )


def test_records_are_read_as_they_were_written(tmp_path):
    for setting, seed in (("topk", 0), ("full", 10), ("full", 2)):
        record(setting, seed).write(tmp_path / f"{setting}-{seed}.json")
    found = read_records(tmp_path)
    assert '"loss": [0.5, 0.25]' in (tmp_path / "topk-0.json").read_text()
    assert found == [record("full", 2), record("full", 10), record("topk", 0)]


def test_what_is_no_record_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="run hsa-pyg experiment first"):
        read_records(tmp_path)
    (tmp_path / "a.json").write_text('{"seed": 1}')
    with pytest.raises(SettingsError, match=r"a\.json is no results file"):
        read_records(tmp_path)


def test_a_copy_of_a_record_is_not_a_second_run(tmp_path):
    record("full", 2).write(tmp_path / "full-2.json")
    record("full", 2).write(tmp_path / "full-3.json")
    with pytest.raises(SettingsError, match=r"full-3\.json holds seed 2 of 'full'"):
        read_records(tmp_path)


def test_seeds_of_other_settings_are_not_averaged(tmp_path):
    record("full", 0).write(tmp_path / "full-0.json")
    older = replace(record("full", 1), configuration={"lr": 0.2})
    older.write(tmp_path / "full-1.json")
    with pytest.raises(SettingsError, match=r"full-1\.json and seed 0 of 'full' .*lr"):
        read_records(tmp_path)


def test_what_cannot_be_written_leaves_nothing(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="taken"):
        write_whole(tmp_path / "taken", "one")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_a_file_is_written_whole(tmp_path):
    path = tmp_path / "new" / "file.txt"
    write_whole(path, "one")
    write_whole(path, "two")
    assert path.read_text() == "two"
    assert [one.name for one in path.parent.iterdir()] == ["file.txt"]


def test_differences_are_told_from_found_to_wanted():
    assert differences({"a": 1, "b": 2}, {"a": 1, "b": 2}) == ""
    told = differences({"a": 1, "b": 2}, {"a": 3, "c": 4})
    assert told == "a 3 -> 1, b absent -> 2, c 4 -> absent"


def test_the_environment_tells_what_ran():
    found = describe_environment(threads=1)
    assert {"revision", "dirty", "versions", "processor", "started"} <= found.keys()
    assert found["versions"]["python"].startswith("3.")
    assert (found["revision"] is None) == (found["dirty"] is None)


def test_numbers_keep_seven_digits():
    assert rounded({"epoch": 123_456_789, "loss": 0.123456789}) == {
        "epoch": 123_456_789,
        "loss": 0.1234568,
    }
