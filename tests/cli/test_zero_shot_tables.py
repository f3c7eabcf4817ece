"""How the results of ``hsa-pyg zero-shot`` look on a terminal of 80 columns."""

import json

import pytest
from rich.console import Console

from hsa_pyg.cli import SettingsError
from hsa_pyg.cli.forward_times import LengthTimes
from hsa_pyg.cli.zero_shot import Row, ZeroShotResult
from hsa_pyg.cli.zero_shot_tables import (
    check_out,
    print_result,
    shown_layers,
    write_result,
)
from hsa_pyg.integrations.transformers import Measurement

PATH = "/a/path/that/is/longer/than/what/is/left/of/a/line/of/a/terminal/model"


def result():
    def row(asked, hierarchy, layers, change):
        found = Measurement(
            layers, 2000, 0.8712, 0.8612, change, 0.0042, 0.954, 0.0313, 21.5e6, 1.9e6,
            0.088, 0.54, 10.0, 9.0,
        )  # fmt: skip
        return Row(asked, hierarchy, found, None)

    rows = [
        row("7,9,11", "windows:2,4,8,16", (7, 9, 11), -0.0123),
        row("select:3", "clusters:0.08", (7, 9, 10), 0.1),
        row("all", "window:4", tuple(range(12)), -0.512),
    ]
    memory = ("", "", "", "not enough memory")
    times = [
        LengthTimes(512, (5.12, 1.02, 0.3, 0.1), ("",) * 4),
        LengthTimes(8192, (81.9, 16.4, 4.8, None), memory),
    ]
    return ZeroShotResult({"model": PATH}, rows, times)


def test_nothing_is_cut_short():
    console = Console(width=80, record=True)
    print_result(result(), console)
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert "".join(text.split()).find(PATH) > 0
    for words in ("windows:2,4,8,16", "-51.20 ± 0.42", "select:3", "7,9,10", "0-11"):
        assert words in text
    assert "21.50 MFLOPs per layer and text" in text
    assert text.count("not run") == 2
    assert "At 8,192 tokens window:4 was not run: not enough memory" in text


def test_markdown_and_json(tmp_path):
    write_result(result(), tmp_path / "a.md")
    table = (tmp_path / "a.md").read_text()
    row = "| select:3 7,9,10 | clusters:0.08 | 86.12 | +10.00 ± 0.42 | 95.4 | 0.0313 |"
    assert row in table
    assert "| 0-11 | window:4 | 0.1 | not run |" in table
    write_result(result(), tmp_path / "a.json")
    found = json.loads((tmp_path / "a.json").read_text())
    assert found["rows"][1]["measurement"]["layers"] == [7, 9, 10]
    assert found["times"][1]["seconds"] == [81.9, 16.4, 4.8, None]
    with pytest.raises(SettingsError, match="must end in"):
        check_out(tmp_path / "a.txt")


def test_layers_in_a_row_are_a_range():
    assert shown_layers([0, 1, 3, 5, 6, 7, 11]) == "0,1,3,5-7,11"
