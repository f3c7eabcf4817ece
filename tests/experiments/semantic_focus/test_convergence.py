import math

import numpy as np
import pytest

from hsa_pyg.experiments.semantic_focus.convergence import (
    bootstrap,
    curves,
    epochs_ratio,
    epochs_saved,
    epochs_to,
    middle,
    quartiles,
)


def history(losses):
    return [{"train_loss": loss, "val_accuracy": 1 - loss} for loss in losses]


def test_the_percentage_of_epochs_saved_by_hand():
    full = np.array([0.7, 0.7, 0.6, 0.5, 0.4])
    other = np.array([0.8, 0.5, 0.3, 0.2, 0.1])
    # Epoch 0: nothing before. 1: 0.8 is above 0.7. 2: 0.5 of two is at or below 0.6:
    # 1/3. 3: 0.5 and 0.3 at or below 0.5: 2/4. 4: 0.3 and 0.2 below 0.4: 2/5.
    found = epochs_saved(other, full)
    assert found.percentage == pytest.approx(50.0)
    assert found.epoch == 3
    assert found.ratio == pytest.approx(2.0)


def test_nothing_is_saved_by_what_is_slower():
    found = epochs_saved(np.array([0.9, 0.9, 0.9]), np.array([0.7, 0.6, 0.5]))
    assert (found.percentage, found.epoch, found.ratio) == (0.0, 0, 1.0)


def test_equal_losses_count_as_reached():
    found = epochs_saved(np.full(4, 0.5), np.full(4, 0.5))
    assert found.percentage == pytest.approx(75.0)
    assert found.ratio == pytest.approx(4.0)


def test_epochs_to_a_level():
    rows = history([0.9, 0.5, 0.6, 0.2])
    assert epochs_to(rows, "train_loss", 0.5, rising=False) == 2
    assert epochs_to(rows, "train_loss", 0.3, rising=False) == 4
    assert epochs_to(rows, "val_accuracy", 0.5, rising=True) == 2
    assert epochs_to(rows, "val_accuracy", 0.95, rising=True) == math.inf


def test_runs_that_never_arrive_stay_longer_than_any():
    found = middle([5, math.inf, 13])
    assert [float(one) for one in found] == [5, 13, math.inf]
    assert float(middle([3, math.inf, math.inf]).median) == math.inf
    assert float(middle([1, 2, 3, 4]).median) == 2


def test_a_run_that_was_stopped_keeps_its_last_number():
    found = curves([history([0.5, 0.1]), history([0.9, 0.8, 0.7])], "train_loss")
    assert found.tolist() == [[0.5, 0.1, 0.1], [0.9, 0.8, 0.7]]
    longer = curves([history([0.5, 0.1])], "train_loss", epochs=4)
    assert longer.tolist() == [[0.5, 0.1, 0.1, 0.1]]
    shorter = curves([history([0.5, 0.1])], "train_loss", epochs=1)
    assert shorter.tolist() == [[0.5]]


def test_quartiles_by_hand():
    found = quartiles(np.array([[0.0, 4.0], [1.0, 3.0], [2.0, 2.0]]))
    assert found.low.tolist() == [0.5, 2.5]
    assert found.median.tolist() == [1.0, 3.0]
    assert found.high.tolist() == [1.5, 3.5]


def test_the_bootstrap_spreads_as_far_as_the_runs_do():
    full = np.array([[0.7, 0.6, 0.5, 0.4]] * 3)
    same = np.array([[0.8, 0.3, 0.2, 0.1]] * 3)
    exact = epochs_saved(same[0], full[0]).percentage
    spread = bootstrap(same, full, lambda saving: saving.percentage, samples=50)
    assert spread == (exact, exact)
    mixed = np.array([[0.8, 0.3, 0.2, 0.1], [0.9, 0.9, 0.9, 0.9], [0.9] * 4])
    spread = bootstrap(mixed, full, lambda saving: saving.percentage, samples=200)
    assert spread.low == 0.0
    assert spread.high == exact
    again = bootstrap(mixed, full, lambda saving: saving.percentage, samples=200)
    assert again == spread


def test_the_bootstrap_takes_medians_of_what_it_draws():
    full = np.array([[0.7, 0.6, 0.5, 0.4]])
    good, bad = [0.8, 0.3, 0.2, 0.1], [99.0] * 4
    found = []

    def measure(saving):
        found.append(saving.percentage)
        return saving.percentage

    bootstrap(np.array([good, good, bad]), full, measure, samples=200)
    # Two good ones of three decide: 20 of 27 draws; three good ones are 8 of 27.
    assert found.count(max(found)) > 100


def test_the_ratio_of_epochs_is_that_of_medians():
    found = epochs_ratio([5, 8, 10], [40, 80, 60])
    assert found.value == 60 / 8
    # A draw of three has a median of 5 or 10 in 7 of 27 each: both ends are drawn.
    assert found.spread.low == 40 / 10
    assert found.spread.high == 80 / 5
    assert epochs_ratio([5, 8, 10], [40, 80, 60]) == found
    single = epochs_ratio([5], [40])
    assert (single.value, *single.spread) == (8.0, 8.0, 8.0)


def test_ratios_of_runs_that_never_arrive():
    never = math.inf
    found = epochs_ratio([5, 5, 5], [never, never, never])
    assert (found.value, *found.spread) == (never, never, never)
    found = epochs_ratio([never, never], [40, 40])
    assert (found.value, *found.spread) == (0.0, 0.0, 0.0)
    found = epochs_ratio([never], [never])
    assert math.isnan(found.value)
    assert all(map(math.isnan, found.spread))
    # One of three: now and then two of them are drawn.
    found = epochs_ratio([5, 5, never], [40, 40, 40])
    assert (found.value, *found.spread) == (8.0, 0.0, 8.0)
