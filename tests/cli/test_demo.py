import json

import pytest
from rich.console import Console

from hsa_pyg.cli.demo import Contestant, results_table, run_demo

PAIR = (
    Contestant("tree", "tree", "hsa", None),
    Contestant("no tree", "flat", "flat", None),
)


def demo(out, contestants):
    return run_demo(
        out,
        out / "data",
        train_size=32,
        epochs=1,
        seed=0,
        dataset="fake",
        contestants=contestants,
    )


def test_the_demo_trains_each_model_and_draws_their_curves(tmp_path, capfd):
    stale = tmp_path / "tree" / "last.ckpt"
    stale.parent.mkdir()
    stale.write_text("of an earlier demo")
    results = demo(tmp_path, PAIR)
    assert list(results) == ["tree", "no tree"]
    # The models differ in their attention alone.
    assert results["tree"]["parameters"] == results["no tree"]["parameters"]
    for contestant in PAIR:
        folder = tmp_path / contestant.folder
        settings = json.loads((folder / "settings.json").read_text())
        assert settings["attention"] == contestant.attention
        assert settings["train_size"] == 32
        written = json.loads((folder / "result.json").read_text())
        assert results[contestant.title] == written
    printed = capfd.readouterr().out
    assert "seconds per epoch" in printed
    assert "curves.png" in printed
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_a_training_that_fails_is_named(tmp_path):
    broken = Contestant("cut", "cut", "none of these", None)
    with pytest.raises(ChildProcessError, match="'cut'"):
        demo(tmp_path, (broken,))


def test_the_table_shows_what_was_measured():
    result = {
        "test_accuracy": 0.8125,
        "seconds_per_epoch": 12.34,
        "peak_memory": 900 * 2**20,
        "base_memory": 400 * 2**20,
        "parameters": 1_234_567,
    }
    console = Console(width=80, record=True)
    console.print(results_table({"HSA, whole": result}))
    (row,) = (line for line in console.export_text().splitlines() if "HSA" in line)
    assert " ".join(row.split()) == "HSA, whole 0.812 12.3 900 MiB 500 MiB 1,234,567"
