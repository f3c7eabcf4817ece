import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, HeteroData

from hsa_pyg.integrations.targets import (
    TargetScale,
    check_numbers,
    check_precision,
    check_rows,
    check_same_shape,
    mean_and_std,
    plain_numbers,
    read_labels,
    read_targets,
)


def batch(*targets):
    signals = []
    for y in targets:
        signal = HeteroData(y=torch.tensor(y))
        signal["word"].x = torch.zeros(2, 3)
        signals.append(signal)
    return Batch.from_data_list(signals)


@pytest.mark.parametrize(
    ("targets", "rows"),
    [
        ([1.0, 2.0], [[1.0], [2.0]]),
        ([[1.0], [2.0]], [[1.0], [2.0]]),
        ([[1.0, 3.0], [2.0, 4.0]], [[1.0, 3.0], [2.0, 4.0]]),
        ([[[1.0, 3.0]], [[2.0, 4.0]]], [[1.0, 3.0], [2.0, 4.0]]),
    ],
)
def test_every_signal_has_its_row(targets, rows):
    assert read_targets(batch(*targets)).tolist() == rows


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1, 0], "of type list, .* torch.tensor"),
        (np.array([1.0]), "of type ndarray"),
        ("a", "of type str"),
        (None, "no labels: set signal.y"),
    ],
)
def test_labels_that_are_no_tensor_are_refused(y, message):
    signals = [HeteroData() if y is None else HeteroData(y=y) for _ in range(2)]
    for signal in signals:
        signal["word"].x = torch.zeros(2, 3)
        # Labels of nodes are not those of the signal.
        signal["word"].y = torch.zeros(2)
    with pytest.raises(ValueError, match=message):
        read_labels(Batch.from_data_list(signals))


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        (None, None),
        (2, 2),
        (np.float32(0.5), 0.5),
        (np.array([1.0, 2.0]), [1.0, 2.0]),
        (torch.tensor(3.0), 3.0),
        ((1.0, 2.0), [1.0, 2.0]),
    ],
)
def test_numbers_are_kept_as_python_has_them(given, plain):
    found = plain_numbers(given)
    assert found == plain
    assert type(found) is type(plain)


def test_a_signal_without_a_batch_has_one_row():
    (signal,) = batch([1.0, 3.0]).to_data_list()
    signal.num_graphs = 1
    assert read_targets(signal).tolist() == [[1.0, 3.0]]


@pytest.mark.parametrize(
    "targets",
    [
        # Six numbers for three signals would make three pairs.
        [[1.0], [2.0, 3.0, 4.0], [5.0, 6.0]],
        [[1.0, 2.0], [3.0]],
        [[[1.0], [2.0]], [[3.0], [4.0]]],
        [[[[1.0]]], [[[2.0]]]],
    ],
)
def test_signals_that_differ_in_their_targets_are_refused(targets):
    with pytest.raises(ValueError, match=r"for \d signals: .* of shape \[k\]"):
        read_targets(batch(*targets))


def test_a_scale_turns_targets_to_units_and_back():
    targets = torch.tensor([[1.0, 100.0], [3.0, 300.0]])
    scale = TargetScale(*mean_and_std(targets))
    assert scale(targets).tolist() == [[-1.0, -1.0], [1.0, 1.0]]
    assert torch.equal(scale.invert(scale(targets)), targets)
    assert set(scale.state_dict()) == {"mean", "std"}
    # One number for all targets.
    assert TargetScale(1.0, 2.0)(targets).tolist() == [[0.0, 49.5], [1.0, 149.5]]


def test_without_numbers_a_scale_leaves_everything_alone():
    scale, targets = TargetScale(), torch.tensor([[1.0]])
    assert scale(targets) is targets
    assert scale.invert(targets) is targets
    assert scale.state_dict() == {}


@pytest.mark.parametrize(
    ("mean", "std", "message"),
    [
        (1.0, None, "both or neither"),
        (None, 1.0, "both or neither"),
        ([1.0, 2.0], [1.0], "mean has 2 numbers and std 1"),
        (0.0, 0.0, "std above 0"),
        ([0.0, 0.0], [1.0, -1.0], "std above 0"),
        (float("nan"), 1.0, "mean must be finite"),
        (0.0, float("inf"), "mean must be finite"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(mean, std, message):
    with pytest.raises(ValueError, match=message):
        TargetScale(mean, std)


def test_a_scale_of_other_targets_is_refused():
    with pytest.raises(ValueError, match=r"gave 1 numbers .* for 2 targets"):
        TargetScale([0.0, 0.0], [1.0, 1.0]).invert(torch.zeros(3, 1))


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (torch.zeros(3, 1, 2), r"\[signals, k\] or \[signals\], got \[3, 1, 2\]"),
        (torch.zeros(0), r"got \[0\]"),
        (torch.tensor([[1.0, 2.0], [3.0, 2.0]]), "in column 1: .* leave it out"),
        (torch.tensor([0.1, 0.1, 0.1]), "All 3 signals have the same target"),
        (torch.tensor([1, 2]), "int64, not floats"),
    ],
)
def test_targets_without_a_deviation_are_refused(targets, message):
    with pytest.raises(ValueError, match=message):
        mean_and_std(targets)


def test_what_is_no_finite_float_is_refused():
    check_numbers(torch.tensor([1.0, 2.0]))
    with pytest.raises(ValueError, match=r"bool, not floats: .* SignalClassifier"):
        check_numbers(torch.tensor([True]))
    with pytest.raises(ValueError, match=r"2 of 3 .* at \[1\] of \[3\]: leave signals"):
        check_numbers(torch.tensor([1.0, float("nan"), float("inf")]))


@pytest.mark.parametrize("shape", [(3,), (2, 1), (3, 1, 1)])
def test_output_without_a_row_per_signal_is_refused(shape):
    check_rows(torch.zeros(3, 2), 3)
    with pytest.raises(ValueError, match=r"for 3 signals: .* \[3, 1\] for a single"):
        check_rows(torch.zeros(shape), 3)


def test_output_for_another_number_of_targets_is_refused():
    check_same_shape(torch.zeros(3, 2), torch.zeros(3, 2))
    with pytest.raises(ValueError, match=r"gave 1 numbers .* out_channels=2"):
        check_same_shape(torch.zeros(3, 1), torch.zeros(3, 2))


def test_targets_that_single_precision_would_round_are_refused():
    # Seconds since 1970, ten of deviation.
    with pytest.raises(ValueError, match="subtract a whole number from them first"):
        TargetScale(1.7e9, 10.0)
    assert TargetScale(2019.3, 0.5).mean.tolist() == pytest.approx([2019.3])


def test_one_target_is_not_all_of_them():
    pooled = TargetScale(*mean_and_std(torch.tensor([1.0, 5.0, 3.0, 4.0])))
    with pytest.raises(ValueError, match=r"as \[signals, k\] by torch\.stack"):
        pooled.invert(torch.zeros(2, 2))
    assert TargetScale(1.0, 2.0).invert(torch.zeros(2, 2)).tolist() == [[1.0, 1.0]] * 2


@pytest.mark.parametrize("half", ["bf16", "16"])
def test_half_precision_of_the_whole_module_is_refused(half):
    with pytest.raises(ValueError, match=f"take precision='{half}-mixed'"):
        check_precision(f"{half}-true")
    check_precision(f"{half}-mixed")
