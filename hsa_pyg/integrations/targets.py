"""Numbers to predict: how a batch holds them, and the units that a model learns in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import HeteroData

__all__ = [
    "TargetScale",
    "check_classes",
    "check_numbers",
    "check_precision",
    "check_rows",
    "check_same_shape",
    "mean_and_std",
    "plain_numbers",
    "read_labels",
    "read_targets",
    "unknown_class",
]

#: Rounding in single precision, in deviations, above which targets are refused.
_COARSE = 1e-3


class TargetScale(nn.Module):
    """Targets to mean 0 and deviation 1, and back; without numbers it does nothing.

    Args:
        mean: A mean of all targets, or one for each; None to leave them be.
        std: The standard deviations that go with it.

    Raises:
        ValueError: If mean and std do not fit together.
    """

    mean: Tensor | None
    std: Tensor | None

    def __init__(
        self,
        mean: float | Sequence[float] | None = None,
        std: float | Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        if (mean is None) != (std is None):
            raise ValueError("mean and std go together: give both or neither.")
        # Without numbers a state dict has no entries.
        for name, value in (("mean", mean), ("std", std)):
            numbers = None if value is None else torch.as_tensor(value).float().view(-1)
            self.register_buffer(name, numbers)
        if self.mean is None or self.std is None:
            return
        if len(self.mean) != len(self.std):
            raise ValueError(
                f"mean has {len(self.mean)} numbers and std {len(self.std)}: give one "
                "of both for all targets, or for each of them."
            )
        #: Whether one number is for all targets, and not for a single one.
        self.shared = isinstance(mean, int | float)
        finite = torch.isfinite(self.mean).all() and torch.isfinite(self.std).all()
        if not finite or not (self.std > 0).all():
            raise ValueError(
                f"mean must be finite and std above 0, got mean={mean}, std={std}: "
                "leave out a target that never changes."
            )
        far = (self.mean.abs() * torch.finfo(torch.float).eps / self.std).max()
        if far > _COARSE:
            raise ValueError(
                f"Targets of mean {mean} and deviation {std} cannot be told apart in "
                "single precision: subtract a whole number from them first, such as "
                "the day that times count from."
            )

    def forward(self, targets: Tensor) -> Tensor:
        """Targets ``[signals, k]`` as the model learns them."""
        if self.mean is None or self.std is None:
            return targets
        return (targets - self.mean) / self.std

    def invert(self, output: Tensor) -> Tensor:
        """What the model gives, ``[signals, k]``, in the targets' own units.

        Raises:
            ValueError: If mean and std are for another number of targets.
        """
        if self.mean is None or self.std is None:
            return output
        if len(self.mean) != output.size(1) and not self.shared:
            raise ValueError(
                f"The model gave {output.size(1)} numbers per signal, but mean and std "
                f"are for {len(self.mean)} targets: give one of both for each, or to "
                "from_targets the targets as [signals, k] by torch.stack."
            )
        return output * self.std + self.mean


def mean_and_std(targets: Tensor) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of each column of targets.

    Args:
        targets: Floats ``[signals, k]``, or ``[signals]`` for one target.

    Raises:
        ValueError: If a target is no finite float, or the same for all signals.
    """
    if targets.dim() not in (1, 2) or targets.numel() == 0:
        raise ValueError(
            f"targets must be [signals, k] or [signals], got {list(targets.shape)}."
        )
    check_numbers(targets)
    rows = targets.double().view(len(targets), -1)
    same = (rows == rows[:1]).all(0).nonzero().flatten().tolist()
    if same:
        raise ValueError(
            f"All {len(rows)} signals have the same target in column {same[0]}: there "
            "is nothing to learn, leave it out."
        )
    std, mean = torch.std_mean(rows, 0, correction=0)
    return mean.tolist(), std.tolist()


def plain_numbers(value: Any) -> float | list[float] | None:
    """A number or numbers, as Python's own: checkpoints hold no others.

    Args:
        value: A number, or several in a sequence, an array or a tensor; None stays.
    """
    return None if value is None else torch.as_tensor(value).tolist()


def read_labels(batch: HeteroData) -> Tensor:
    """``batch.y``.

    Raises:
        ValueError: If there is none, or it is no tensor; it says what to do.
    """
    y = getattr(batch, "y", None)
    if y is None:
        raise ValueError(
            "The signals have no labels: set signal.y, a tensor, of each of them."
        )
    if not isinstance(y, Tensor):
        found = type(y[0] if isinstance(y, list) and y else y).__name__
        raise ValueError(
            f"signal.y is of type {found}, which PyG does not join to a tensor: write "
            "signal.y = torch.tensor([...])."
        )
    return y


def check_classes(target: Tensor) -> None:
    """Refuse labels that are no class numbers.

    Raises:
        ValueError: It says what to do.
    """
    if target.dtype not in (torch.long, torch.uint8):
        or_numbers = ", or take SignalRegressor if they are numbers to predict"
        raise ValueError(
            f"The labels are {str(target.dtype).removeprefix('torch.')}, not class "
            "numbers: write signal.y = signal.y.long()"
            f"{or_numbers if target.is_floating_point() else ''}."
        )


def unknown_class(target: Tensor, num_classes: int) -> str:
    """What is said of labels of which one is no class of the model.

    Args:
        target: Labels ``[signals]``.
        num_classes: Number of classes.
    """
    # Cross entropy leaves -100 out.
    wrong = ((target < 0) & (target != -100)) | (target >= num_classes)
    row = int(wrong.nonzero()[0])
    return (
        f"The label of signal {row} of the batch is {int(target[row])}, but the model "
        f"gives logits of {num_classes} classes, 0 to {num_classes - 1}: count the "
        "labels from 0, or make the model with out_channels, and SignalClassifier with "
        "num_classes, of the data's number of classes."
    )


def read_targets(batch: HeteroData) -> Tensor:
    """The targets ``[signals, k]`` of a batch.

    Args:
        batch: Signals with ``signal.y`` of shape ``[k]``, which PyG joins to
            ``[signals * k]``, or ``[1, k]``.

    Raises:
        ValueError: If signals differ in their number.
    """
    y, signals = read_labels(batch), batch.num_graphs
    # Where each signal's begin, of a batch; numbers that differ may still add up.
    starts = vars(batch._global_store).get("_slice_dict", {}).get("y")
    alike = starts is None or len(set(starts.diff().tolist())) == 1
    if alike and y.dim() == 1 and y.numel() and y.numel() % signals == 0:
        return y.view(signals, -1)
    if alike and y.dim() == 2 and y.size(0) == signals:
        return y
    raise ValueError(
        f"batch.y has shape {list(y.shape)} for {signals} signals: give each signal as "
        "many targets as the others, in signal.y of shape [k]."
    )


def check_numbers(targets: Tensor) -> None:
    """Refuse targets that are no finite floats.

    Raises:
        ValueError: It says what to do.
    """
    if not targets.is_floating_point():
        raise ValueError(
            f"The targets are {str(targets.dtype).removeprefix('torch.')}, not floats: "
            "write signal.y = signal.y.float() if they are numbers to predict, or take "
            "SignalClassifier if they are classes."
        )
    wrong = (~targets.isfinite()).nonzero()
    if len(wrong):
        raise ValueError(
            f"{len(wrong)} of {targets.numel()} targets are nan or inf, the first at "
            f"{wrong[0].tolist()} of {list(targets.shape)}: leave signals without a "
            "finite target out of the data set."
        )


def check_rows(output: Tensor, signals: int) -> None:
    """Refuse what is not one row per signal and one column per target.

    Raises:
        ValueError: It names both.
    """
    if output.dim() != 2 or output.size(0) != signals:
        raise ValueError(
            f"The model gave numbers of shape {list(output.shape)} for {signals} "
            "signals: a readout must have one row per signal, and one column per "
            f"target, [{signals}, 1] for a single one."
        )


def check_same_shape(output: Tensor, targets: Tensor) -> None:
    """Refuse numbers ``[signals, k]`` for another number of targets.

    Raises:
        ValueError: It says what to do.
    """
    if output.shape != targets.shape:
        raise ValueError(
            f"The model gave {output.size(1)} numbers per signal for "
            f"{targets.size(1)} targets: make it with out_channels={targets.size(1)}, "
            f"or give each signal.y {output.size(1)} targets."
        )


def check_precision(precision: str) -> None:
    """Refuse a trainer that turns a whole module to half precision.

    Raises:
        ValueError: It names the precision to take instead.
    """
    half = precision.removesuffix("-true")
    if precision in ("bf16-true", "16-true"):
        raise ValueError(
            f"precision={precision!r} would round targets and scores to half "
            f"precision: take precision='{half}-mixed'."
        )
