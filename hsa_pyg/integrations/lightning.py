"""PyTorch Lightning around any model that maps a batch of signals to numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from torch_geometric.loader import DataLoader

from hsa_pyg.integrations.batching import LengthGroupedSampler
from hsa_pyg.integrations.schedule import warmup_schedule
from hsa_pyg.integrations.targets import (
    TargetScale,
    check_classes,
    check_numbers,
    check_precision,
    check_rows,
    check_same_shape,
    mean_and_std,
    plain_numbers,
    read_labels,
    read_targets,
    unknown_class,
)

try:
    import lightning.pytorch as pl
    from lightning.fabric.utilities.exceptions import MisconfigurationException
    from lightning.pytorch.utilities.types import OptimizerLRSchedulerConfig
    from torchmetrics import MeanAbsoluteError, MeanSquaredError, MetricCollection
    from torchmetrics.classification import MulticlassAccuracy, MulticlassF1Score
except ImportError as error:
    raise ImportError(
        "Training needs Lightning and torchmetrics, which are not installed: "
        'pip install "hsa-pyg[train]".'
    ) from error

__all__ = [
    "MisconfigurationException",
    "SignalClassifier",
    "SignalDataModule",
    "SignalModule",
    "SignalRegressor",
    "pl",
]

Stage = Literal["train", "val", "test"]


class SignalModule(pl.LightningModule):
    """Trains a model of signals; a subclass has the loss and the scores.

    The optimiser is AdamW (weight decay on matrices alone), the learning rate rises
    linearly over the first ``warmup`` of all steps and falls to zero along a cosine or
    a line. Loss and scores are logged per epoch, weighted by the number of signals:
    Lightning would otherwise take the number of nodes for the batch size.

    A subclass calls :meth:`keep_scores` and has :meth:`compute_loss`, :meth:`targets`.

    Args:
        model: Maps a batch of signals to one row per signal.
        lr: Highest learning rate.
        weight_decay: Decay of parameters with two or more dimensions.
        warmup: Part of all training steps over which the learning rate rises.
        schedule: How the learning rate falls afterwards.
    """

    def __init__(
        self,
        model: nn.Module,
        lr: float = 1e-3,
        weight_decay: float = 0.01,
        warmup: float = 0.1,
        schedule: Literal["cosine", "linear"] = "cosine",
    ) -> None:
        super().__init__()
        if not 0.0 <= warmup < 1.0:
            raise ValueError(f"warmup is a part of all steps in [0, 1), got {warmup}.")
        if schedule not in ("cosine", "linear"):
            raise ValueError(f"schedule is 'cosine' or 'linear', got {schedule!r}.")
        self.model = model
        self.lr = lr
        self.weight_decay = weight_decay
        self.warmup = warmup
        self.schedule = schedule

    def keep_scores(self, scores: MetricCollection) -> None:
        """Compute these scores of every epoch, for each stage by itself."""
        self.train_scores = scores.clone(prefix="train/")
        self.val_scores = scores.clone(prefix="val/")
        self.test_scores = scores.clone(prefix="test/")

    def compute_loss(self, batch: HeteroData, stage: Stage) -> tuple[Tensor, Tensor]:
        """The loss of a batch, and what its scores are computed of.

        Args:
            batch: Signals with labels.
            stage: What the batch is for.

        Returns:
            A number, and what is compared with :meth:`targets`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no compute_loss.")

    def targets(self, batch: HeteroData) -> Tensor:
        """What the scores compare the model's output with."""
        raise NotImplementedError(f"{type(self).__name__} has no targets.")

    def training_step(self, batch: HeteroData, batch_idx: int) -> Tensor:
        """Loss of one batch.

        Raises:
            FloatingPointError: If the loss is not finite; the sentence names the step.
            ValueError: If what the model gives does not fit the labels.
        """
        loss = self._evaluate(batch, "train")
        if not torch.isfinite(loss):
            raise FloatingPointError(
                f"The training loss is {loss.item()} at step {self.global_step} "
                f"(epoch {self.current_epoch}, batch {batch_idx}). Lower the learning "
                f"rate, or look for non-finite features in that batch."
            )
        return loss

    def validation_step(self, batch: HeteroData, batch_idx: int) -> None:
        """Log loss and scores of a validation batch."""
        self._evaluate(batch, "val")

    def test_step(self, batch: HeteroData, batch_idx: int) -> None:
        """Log loss and scores of a test batch."""
        self._evaluate(batch, "test")

    def _evaluate(self, batch: HeteroData, stage: Stage) -> Tensor:
        loss, output = self.compute_loss(batch, stage)
        scores: MetricCollection = getattr(self, f"{stage}_scores")
        scores.update(output, self.targets(batch))
        size = batch.num_graphs
        epoch = {"on_step": False, "on_epoch": True, "batch_size": size}
        # The scores are summed over all processes by themselves.
        self.log(f"{stage}/loss", loss, sync_dist=True, **epoch)
        self.log_dict(scores, prog_bar=stage == "val", **epoch)
        return loss

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        """AdamW with warm-up over all steps that the trainer will make."""
        matrices = [p for p in self.parameters() if p.ndim >= 2]
        vectors = [p for p in self.parameters() if p.ndim < 2]
        precision = str(self.trainer.precision)
        optimizer = torch.optim.AdamW(
            [
                {"params": matrices, "weight_decay": self.weight_decay},
                {"params": vectors, "weight_decay": 0.0},
            ],
            lr=self.lr,
            # One pass over the parameters; with mixed precision Lightning refuses to
            # clip what a fused optimiser scales back itself.
            fused=matrices[0].device.type == "cpu" and "mixed" not in precision,
        )
        steps = max(int(self.trainer.estimated_stepping_batches), 1)
        scheduler = warmup_schedule(optimizer, steps, self.warmup, self.schedule)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }


class SignalClassifier(SignalModule):
    """Trains a model that gives one row of logits per signal.

    The loss is cross entropy; accuracy and macro F1 are logged as ``train/accuracy``,
    ``val/macro_f1`` and so on. Optimiser and learning rate: :class:`SignalModule`.

    Args:
        model: Maps a batch of signals to logits ``[num_trees, num_classes]``.
        num_classes: Number of classes.
        lr: Highest learning rate.
        weight_decay: Decay of parameters with two or more dimensions.
        warmup: Part of all training steps over which the learning rate rises.
        schedule: How the learning rate falls afterwards.

    Shapes:
        - **input:** a batch with labels ``batch.y`` of shape ``[num_trees]``
        - **output:** logits ``[num_trees, num_classes]``
    """

    def __init__(
        self,
        model: nn.Module,
        num_classes: int,
        lr: float = 1e-3,
        weight_decay: float = 0.01,
        warmup: float = 0.1,
        schedule: Literal["cosine", "linear"] = "cosine",
    ) -> None:
        super().__init__(model, lr, weight_decay, warmup, schedule)
        self.save_hyperparameters(ignore=["model"])
        self.keep_scores(self.make_scores(num_classes))

    def make_scores(self, num_classes: int) -> MetricCollection:
        """The scores of an epoch; a subclass may have others."""
        return MetricCollection(
            {
                "accuracy": MulticlassAccuracy(num_classes, average="micro"),
                "macro_f1": MulticlassF1Score(num_classes, average="macro"),
            }
        )

    def forward(self, batch: HeteroData) -> Tensor:
        """Logits ``[num_trees, num_classes]`` of a batch."""
        return self.model(batch)

    def compute_loss(self, batch: HeteroData, stage: Stage) -> tuple[Tensor, Tensor]:
        """The cross entropy, and the logits ``[num_trees, num_classes]``."""
        logits, target = self(batch), self.targets(batch)
        if logits.dim() != 2 or logits.size(0) != target.numel():
            raise ValueError(
                f"The model gave logits of shape {list(logits.shape)} for "
                f"{target.numel()} labels: a readout must have one row per signal."
            )
        check_classes(target)
        try:
            return F.cross_entropy(logits, target), logits
        except IndexError as error:  # of the CPU; looked at only now, to not wait
            raise IndexError(unknown_class(target, logits.size(1))) from error

    def targets(self, batch: HeteroData) -> Tensor:
        """The class of each signal, ``[num_trees]``."""
        return read_labels(batch).view(-1)


class SignalRegressor(SignalModule):
    """Trains a model that gives one or several numbers per signal.

    The loss is the mean squared error; its root and the mean absolute error, over all
    targets together, are logged as ``val/rmse``, ``val/mae`` and so on. Optimiser and
    learning rate: :class:`SignalModule`.

    With ``mean`` and ``std`` the model learns targets of mean 0 and deviation 1, and
    the loss is of those; scores, ``forward`` and predictions are in the targets' own
    units. The state dict has both; :meth:`from_targets` computes them.

    Args:
        model: Maps a batch of signals to ``[num_trees, k]`` for k targets.
        mean: A mean of the targets, or one for each of them; None to leave them be.
        std: The standard deviations that go with it.
        lr: Highest learning rate.
        weight_decay: Decay of parameters with two or more dimensions.
        warmup: Part of all training steps over which the learning rate rises.
        schedule: How the learning rate falls afterwards.

    Shapes:
        - **input:** a batch with floats ``batch.y`` of shape ``[num_trees, k]``, or
          ``[num_trees * k]`` as PyG joins ``signal.y`` of shape ``[k]``
        - **output:** numbers ``[num_trees, k]``

    Raises:
        ValueError: If mean and std do not fit together.
    """

    def __init__(
        self,
        model: nn.Module,
        mean: float | Sequence[float] | None = None,
        std: float | Sequence[float] | None = None,
        lr: float = 1e-3,
        weight_decay: float = 0.01,
        warmup: float = 0.1,
        schedule: Literal["cosine", "linear"] = "cosine",
    ) -> None:
        super().__init__(model, lr, weight_decay, warmup, schedule)
        mean, std = plain_numbers(mean), plain_numbers(std)
        self.save_hyperparameters(ignore=["model"])
        self.scale = TargetScale(mean, std)
        self.keep_scores(self.make_scores())

    @classmethod
    def from_targets(
        cls, model: nn.Module, targets: Tensor, **kwargs: Any
    ) -> SignalRegressor:
        """The same, with the mean and the deviation of the training targets.

        Args:
            model: Maps a batch of signals to ``[num_trees, k]``.
            targets: Floats ``[signals, k]``, or ``[signals]`` for one target.
            **kwargs: As for the class itself.

        Raises:
            ValueError: If a target is no finite float, or the same for all signals.
        """
        return cls(model, *mean_and_std(targets), **kwargs)

    def make_scores(self) -> MetricCollection:
        """The scores of an epoch; a subclass may have others."""
        return MetricCollection(
            {"rmse": MeanSquaredError(squared=False), "mae": MeanAbsoluteError()}
        )

    def setup(self, stage: str) -> None:
        """Refuse a precision that would round the targets."""
        check_precision(str(self.trainer.precision))

    def forward(self, batch: HeteroData) -> Tensor:
        """Numbers ``[num_trees, k]`` of a batch, in the targets' own units."""
        return self.scale.invert(self._run_model(batch))

    def compute_loss(self, batch: HeteroData, stage: Stage) -> tuple[Tensor, Tensor]:
        """The mean squared error, and the numbers in the targets' own units.

        Raises:
            ValueError: If a target is no finite float, or has no number of the model.
        """
        output, target = self._run_model(batch), self.targets(batch)
        check_numbers(target)
        check_same_shape(output, target)
        numbers = self.scale.invert(output)
        return F.mse_loss(output, self.scale(target.to(output.dtype))), numbers

    def targets(self, batch: HeteroData) -> Tensor:
        """The targets ``[num_trees, k]``, in their own units."""
        return read_targets(batch)

    def _run_model(self, batch: HeteroData) -> Tensor:
        output = self.model(batch)
        check_rows(output, batch.num_graphs)
        # Half precision would round the targets.
        return output.to(torch.promote_types(output.dtype, torch.float))


class SignalDataModule(pl.LightningDataModule):
    """Loaders of the three parts of a data set.

    Training batches hold signals of like size (:class:`LengthGroupedSampler`), in
    another order each epoch; the other parts are read in their own order.

    Args:
        train: Training signals.
        val: Validation signals.
        test: Test signals.
        batch_size: Signals per batch.
        seed: Seed of the training order.
        num_workers: Processes that collate batches.
        loader: Class of the loaders. Signals that differ in their node types and carry
            no schema need ``hsa_pyg.loader.DataLoader``, which also compiles the
            hierarchy of each batch in the workers.
    """

    def __init__(
        self,
        train: Sequence[HeteroData],
        val: Sequence[HeteroData],
        test: Sequence[HeteroData],
        batch_size: int = 16,
        seed: int = 0,
        num_workers: int = 0,
        loader: Callable[..., Iterable[HeteroData]] = DataLoader,
    ) -> None:
        super().__init__()
        self.train = train
        self.val = val
        self.test = test
        self.batch_size = batch_size
        self.num_workers = num_workers
        self.loader = loader
        sizes = [_num_leaves(signal) for signal in train]
        self.sampler = LengthGroupedSampler(sizes, batch_size, seed=seed)

    def train_dataloader(self) -> Iterable[HeteroData]:
        """Batches of like size in random order."""
        return self._load(self.train, sampler=self.sampler)

    def val_dataloader(self) -> Iterable[HeteroData]:
        """Validation batches in order."""
        return self._load(self.val)

    def test_dataloader(self) -> Iterable[HeteroData]:
        """Test batches in order."""
        return self._load(self.test)

    def _load(
        self, signals: Sequence[HeteroData], **kwargs: Any
    ) -> Iterable[HeteroData]:
        return self.loader(
            signals,
            batch_size=self.batch_size,
            num_workers=self.num_workers,
            persistent_workers=self.num_workers > 0,
            **kwargs,
        )


def _num_leaves(signal: HeteroData) -> int:
    return sum(store.x.size(0) for store in signal.node_stores if "x" in store)
