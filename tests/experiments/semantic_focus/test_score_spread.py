import math

from hsa_pyg.experiments.semantic_focus.score_spread import (
    mean_over_blocks,
    plot_spread,
    spread_table,
)


def row(entropy, separation=None):
    """An epoch of two blocks, the second with twice the numbers of the first."""
    found = {"entropy_0": entropy, "entropy_1": 2 * entropy, "train_loss": 1.0}
    found |= {"dispersion_0": 1.0, "dispersion_1": 2.0, "kept_dispersion_0": 9.0}
    if separation is not None:
        found |= {"separation_0": separation}
    return found


def test_means_are_over_the_blocks_that_have_a_number():
    runs = [[row(1.0), row(3.0, separation=5.0)]]
    assert mean_over_blocks(runs, "entropy") == [[{"entropy": 1.5}, {"entropy": 4.5}]]
    assert mean_over_blocks(runs, "dispersion")[0][0] == {"dispersion": 1.5}
    assert mean_over_blocks(runs, "kept_dispersion")[0][0] == {"kept_dispersion": 9.0}
    first, second = mean_over_blocks(runs, "separation")[0]
    assert math.isnan(first["separation"])
    assert second == {"separation": 5.0}


def test_the_table_has_the_first_and_the_last_epoch():
    runs = [[row(1.0), row(2.0)], [row(3.0), row(4.0), row(6.0)]]
    text = spread_table({"full": runs, "topk": [[row(1.0, separation=0.5)]]})
    full, topk = (line.split(" | ") for line in text.splitlines()[2:])
    # The first run keeps its last number: (1.5 + 4.5) / 2; (3 + 9) / 2.
    assert full[:4] == ["| full", "2", "3.00; 6.00", "1.50; 1.50"]
    assert full[5] == ""
    assert topk[5] == "0.50; 0.50"


def test_the_picture_is_the_same_for_the_same_runs(tmp_path):
    histories = {"full": [[row(1.0), row(2.0)]], "topk": [[row(1.0)], [row(2.0)]]}
    one, again = tmp_path / "one.png", tmp_path / "again.png"
    plot_spread(histories, one)
    plot_spread(histories, again)
    assert one.read_bytes().startswith(b"\x89PNG")
    assert one.read_bytes() == again.read_bytes()
