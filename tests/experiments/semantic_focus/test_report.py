from dataclasses import replace

import pytest

from hsa_pyg.experiments.records import Record
from hsa_pyg.experiments.semantic_focus.report import write_report
from hsa_pyg.experiments.semantic_focus.settings import (
    FocusSettings,
    complete_settings,
)


def record(attention, seed, losses, stopped=False, processor=None):
    settings = complete_settings(FocusSettings(attention=attention, stop_after=1))
    history = [
        {"epoch": i, "train_loss": loss, "val_accuracy": 1.0 - loss}
        for i, loss in enumerate(losses)
    ]
    if processor is not None:
        history = [{**row, "processor_seconds": processor} for row in history]
    return Record(
        experiment="semantic-focus",
        setting=f"even-pairs-{attention}-stop-after1",
        seed=seed,
        configuration=vars(settings),
        environment={
            "revision": "0123456789abcdef",
            "dirty": False,
            "processor": "some processor",
            "versions": {"torch": "2.x"},
        },
        seconds=10.0 * len(losses),
        peak_memory=1,
        attention_flops=2 * 10**9 * len(losses),
        history=history,
        final=history[-1],
        facts={"classes": 2, "stopped_early": stopped},
    )


def tables(text):
    """The rows of all tables by their first cells."""
    rows = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        name = cells[0].removesuffix("-stop-after1")
        rows.setdefault(name, []).append(cells[1:])
    return rows


def test_the_report_by_hand(tmp_path):
    records = [record("full", seed, [0.7, 0.6, 0.5, 0.3]) for seed in (0, 1, 2)] + [
        record("topk", 0, [0.5, 0.2, 0.05, 0.0]),
        record("topk", 1, [0.6, 0.2, 0.0], stopped=True),
        record("topk", 2, [0.7, 0.7, 0.7, 0.7]),
    ]
    text = write_report(records, tmp_path, "semantic-focus")
    command = "hsa-pyg experiment semantic-focus --seeds 3 --set attention=full,topk"
    assert f"\n`{command} --set stop_after=1`\n" in text
    rows = tables(text)
    epochs, saved, final = rows["topk"]
    # Half of log 2 is 0.35, a tenth 0.069.
    assert epochs == [
        "3",
        "2 (2 to > 4), 2/3",
        "3 (3 to > 4), 2/3",
        "3 (3 to > 4), 2/3",
        "4 (3 to > 4), 2/3",
    ]
    assert rows["full"][0][1] == "4 (4 to 4), 3/3"
    # Half of it after 4 and 2 epochs; no run of full attention comes to a tenth.
    assert saved[0].startswith("2.00 (")
    assert saved[1] == "> all (> all to > all)"
    # Medians 0.6, 0.2, 0.05, 0: at epoch 1 one is at or below 0.6, half of two.
    assert saved[2].startswith("50.0 (")
    assert saved[3] == "1"
    assert saved[4].startswith("2.00 (")
    assert final[3] == "+0.067 ± 0.233 (n=3)"
    assert final[4] == "10.00"
    assert final[5] == "2.0"
    assert "1 runs ended early, after 1 epochs without an error" in text
    assert (
        "6 runs, 0.1 hours by the clock in all, a core each; revision 0123456789ab;"
        in text
    )
    assert (tmp_path / "semantic_focus_even-pairs.png").exists()


def test_the_ratio_of_epochs_to_a_level(tmp_path):
    records = [record("full", seed, [0.7] * 7 + [0.0]) for seed in (0, 1)]
    records += [record("topk", seed, [0.7, 0.0]) for seed in (0, 1)]
    records += [record("hsa", seed, [0.7, 0.5]) for seed in (0, 1)]
    rows = tables(write_report(records, tmp_path, "semantic-focus"))
    assert rows["topk"][1][:2] == ["4.00 (4.00 to 4.00)"] * 2
    assert rows["hsa"][1][:2] == ["0.00 (0.00 to 0.00)"] * 2
    records = [record("full", 0, [0.7]), record("topk", 0, [0.7])]
    rows = tables(write_report(records, tmp_path, "semantic-focus"))
    assert rows["topk"][1][:2] == ["neither arrives"] * 2


def test_times_are_the_processors_if_all_rows_have_them(tmp_path):
    # The wall clock says 10 s per epoch.
    new = [record("full", 0, [0.7, 0.6], processor=4.0)]
    new += [record("topk", seed, [0.7, 0.6], processor=seed) for seed in (1.0, 2.0)]
    rows = tables(write_report(new, tmp_path, "semantic-focus"))
    times = [row.index("processor s per epoch") for row in rows["attention"][-1:]]
    assert [rows[name][-1][times[0]] for name in ("full", "topk")] == ["4.00", "1.50"]
    # One file of an older version: the wall clock, for every setting.
    old = [*new, record("topk", 3, [0.7, 0.6])]
    rows = tables(write_report(old, tmp_path, "semantic-focus"))
    column = rows["attention"][-1].index("wall s per epoch")
    assert [rows[name][-1][column] for name in ("full", "topk")] == ["10.00", "10.00"]


def test_one_row_without_processor_seconds_makes_it_the_wall_clock(tmp_path):
    # Of a run that went on from a checkpoint of an older version.
    resumed = record("full", 0, [0.7, 0.6], processor=4.0)
    del resumed.history[0]["processor_seconds"]
    rows = tables(write_report([resumed], tmp_path, "semantic-focus"))
    column = rows["attention"][-1].index("wall s per epoch")
    assert rows["full"][-1][column] == "10.00"


def test_runs_that_log_scores_have_a_part_of_their_own(tmp_path):
    plain = [record("full", 0, [0.7, 0.6]), record("topk", 0, [0.7, 0.0])]
    logged = record("topk", 1, [0.7, 0.0])
    logged = replace(logged, setting="even-pairs-topk-stop-after1-log-scores")
    logged.configuration["log_scores"] = True
    for at, row in enumerate(logged.history):
        row["entropy_0"] = 3.0 - at
    text = write_report([*plain, logged], tmp_path, "semantic-focus")
    convergence, spread = text.split("How scores spread")
    # The other tables are those without it.
    alike = write_report(plain, tmp_path, "semantic-focus")
    assert alike.startswith(convergence)
    assert "--set stop_after=1 --set log_scores=true`" in spread
    assert "| topk | 1 | 3.00; 2.00 |" in spread.replace("-stop-after1-log-scores", "")
    assert "images/semantic_focus_even-pairs_scores.png" in spread
    assert (tmp_path / "semantic_focus_even-pairs_scores.png").exists()
    # By itself it has tables, too.
    alone = write_report([logged], tmp_path, "semantic-focus")
    assert "Epochs until the training loss" in alone


@pytest.mark.parametrize(
    ("attentions", "there"),
    [
        ([("full", 0)], False),
        ([("topk", 0), ("hsa", 0)], False),
        # No seed in common.
        ([("full", 0), ("topk", 1)], False),
        ([("full", 0), ("topk", 0), ("hsa", 1)], True),
    ],
)
def test_differences_from_full_are_told_where_there_are_any(
    tmp_path, attentions, there
):
    records = [record(attention, seed, [0.7, 0.6]) for attention, seed in attentions]
    text = write_report(records, tmp_path, "semantic-focus")
    assert ("accuracy less full's" in text) == there
    assert ("differences are paired by seed" in text) == there
    rows = tables(text)
    for attention, _ in attentions:
        assert len(rows[attention][-1]) == len(rows["attention"][-1])
    if there:
        column = rows["attention"][-1].index("accuracy less full's")
        found = [rows[name][-1][column] for name in ("full", "topk", "hsa")]
        assert found == ["", "+0.000 (n=1)", ""]
