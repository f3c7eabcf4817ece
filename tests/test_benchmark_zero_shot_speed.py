"""Times of replaced layers: pieces are kept, and every row of the page is there."""

import json

import pytest
import torch

from benchmarks.report import Options
from benchmarks.zero_shot import speed
from benchmarks.zero_shot.records import Records

QUICK = Options(runs=1, quick=True, budget=1.0)


def test_a_quick_run_fills_all_tables(tmp_path, monkeypatch):
    records = Records(tmp_path / "speed.jsonl")
    made = speed.measured(records, QUICK)
    for name in (*speed.SHAPES, speed.MODEL):
        for queries in ("tied", "untied"):
            assert f"{name}, " in made.text
            assert f"{queries} queries:" in made.text
    bars = [line for line in made.text.splitlines() if "replaced / softmax" in line]
    assert len(bars) == 2 * 2 * len(speed.HIERARCHIES)
    curves = 1 + len(speed.HIERARCHIES)
    assert [len(panel.curves) for panel in made.panels] == [curves] * 3
    assert len(records.rows) == len(speed.keys(QUICK)) == 12
    assert all("machine" in row["answer"] for row in records.rows)
    # All is known now: nothing is measured again.
    monkeypatch.setattr(speed, "side_by_side", None)
    again = speed.measured(Records(tmp_path / "speed.jsonl"), QUICK)
    assert again.text == made.text
    # A row that is deleted is.
    kept = (tmp_path / "speed.jsonl").read_text().splitlines()[1:]
    assert all(json.loads(line)["answer"] for line in kept)
    (tmp_path / "speed.jsonl").write_text("\n".join(kept))
    with pytest.raises(TypeError):
        speed.measured(Records(tmp_path / "speed.jsonl"), QUICK)


@pytest.mark.parametrize("tied", [True, False])
def test_the_calls_attend_alike(tied):
    with torch.no_grad():
        calls = speed.layer_calls((2, 8), 30, tied, QUICK)
        whole = {name: call() for name, call in calls.items()}
        for name in speed.HIERARCHIES:
            given = whole[f"{name}, trees given"]
            torch.testing.assert_close(whole[name][0], given)
            assert not torch.allclose(whole[name], whole["softmax"])
        flat = speed._replaced("flat", *speed._projected(2, 8, 30), tied, QUICK)()
    torch.testing.assert_close(flat, whole["softmax"], atol=1e-5, rtol=1e-4)


def test_the_pages_lengths():
    keys = speed.keys(Options())
    assert {length for _, length, _ in keys} >= {64, 256, 512, 2048, 8192}
    assert len(keys) == len(set(keys))
