from hsa_pyg.experiments.records import Record
from hsa_pyg.experiments.semantic_focus.report import write_report
from hsa_pyg.experiments.semantic_focus.settings import (
    FocusSettings,
    complete_settings,
)


def record(attention, seed, losses, stopped=False):
    settings = complete_settings(FocusSettings(attention=attention, stop_after=1))
    history = [
        {"epoch": i, "train_loss": loss, "val_accuracy": 1.0 - loss}
        for i, loss in enumerate(losses)
    ]
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


def test_the_report_by_hand(tmp_path):
    records = [record("full", seed, [0.7, 0.6, 0.5, 0.3]) for seed in (0, 1, 2)] + [
        record("topk", 0, [0.5, 0.2, 0.05, 0.0]),
        record("topk", 1, [0.6, 0.2, 0.0], stopped=True),
        record("topk", 2, [0.7, 0.7, 0.7, 0.7]),
    ]
    text = write_report(records, tmp_path)
    rows = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        rows.setdefault(cells[0], []).append(cells[1:])
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
    # Medians 0.6, 0.2, 0.05, 0: at epoch 1 one is at or below 0.6, half of two.
    assert saved[0].startswith("50.0 (")
    assert saved[1] == "1"
    assert saved[2].startswith("2.00 (")
    assert final[3] == "+0.067 ± 0.233 (n=3)"
    assert final[4] == "10.00"
    assert final[5] == "2.0"
    assert "1 runs ended early, after 1 epochs without an error" in text
    assert "6 runs, 0.1 hours on one core in all; revision 0123456789ab;" in text
    assert (tmp_path / "semantic_focus_even-pairs.png").exists()
