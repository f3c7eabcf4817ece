"""Settings of a semantic focus run, and what the protocol says of each task."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from hsa_pyg.cli import SettingsError
from hsa_pyg.experiments.checks import check_least, check_name
from hsa_pyg.experiments.semantic_focus.block import ACTIVATIONS


class TaskProtocol(NamedTuple):
    """What Ram et al. do for a task.

    Args:
        blocks: Blocks of the model.
        epochs: Epochs of training.
        lr: Learning rate of the first epoch.
        decay: Factor of the learning rate from epoch to epoch.
        has_tree: Whether the sequences are expressions.
        shared_data: Whether all seeds train on one data set.
    """

    blocks: int
    epochs: int
    lr: float
    decay: float
    has_tree: bool = False
    shared_data: bool = False


PROTOCOL = {
    "list-ops": TaskProtocol(10, 200, 1.0, 0.99, True, True),
    "even-pairs": TaskProtocol(5, 100, 0.1, 0.9995),
    "parity": TaskProtocol(5, 1000, 0.1, 0.9995),
    "missing-duplicates": TaskProtocol(5, 250, 0.1, 0.9995),
    "cycle-navigation": TaskProtocol(5, 750, 0.1, 0.9995),
    "stack-manipulation": TaskProtocol(5, 200, 0.1, 0.9995),
    "modular-arithmetic": TaskProtocol(5, 600, 0.1, 0.9995, True),
    "solve-equation": TaskProtocol(5, 600, 0.1, 0.9995, True),
}
"""The tasks by their names."""

ATTENTIONS = ("full", "topk", "banded", "blocklocal", "hsa", "hsa-topk")
NESTINGS = ("tree", "windows")
OPTIMIZERS = ("sgd", "adam")


@dataclass
class FocusSettings:
    """What decides the outcome of a run; None is what the protocol says of the task.

    Args:
        task: One of :data:`PROTOCOL`.
        attention: One of :data:`ATTENTIONS`: over the whole sequence all keys, the
            ``k`` largest scores, a window, a block; or hierarchical, of all siblings or
            of the ``k`` with the largest scores.
        k: Keys that are kept, the query's own among them.
        width: Of a window or a block.
        num_global: Tokens, the last ones, that see all and are seen by all.
        nesting: Trees of ``hsa``: ``"tree"``, the expression's own, where the task has
            one, or ``"windows"``.
        windows: Widths of the windows, from the bottom up.
        length: Tokens of a sequence, but of list-ops.
        min_length: Lengths of list-ops lie above it.
        max_length: And below this. Sequences are padded to the longest.
        max_args: Most arguments of an operator of list-ops.
        pad_multiple: Pad to a multiple of this; by default ``k`` or ``width`` where
            attention over the whole sequence is masked, so that blocks are full.
        train_size: Training sequences.
        val_size: Holdout sequences.
        shared_data: Whether all seeds have one data set, that of seed 0.
        blocks: Number of blocks.
        heads: Heads, of 64 channels each.
        channels: Width of the model.
        hidden: Width of the MLPs.
        activation: ``"relu"``, ``"gelu"`` or ``"mish"``.
        dropout: Probability of what is dropped in training.
        optimizer: ``"sgd"``, without momentum or decay of weights, or ``"adam"``.
        lr: Learning rate of the first epoch.
        decay: Its factor from epoch to epoch.
        clip: Largest norm of a gradient.
        batch_size: Sequences of a batch.
        epochs: Epochs.
        stop_after: End when the holdout has been classified without an error for so
            many epochs running, and the training loss is below ``stop_loss``. None
            trains for all epochs.
        stop_loss: See ``stop_after``; below all levels that are reported.
        log_scores: Log how the attention scores spread, on one batch of the holdout.
    """

    task: str = "even-pairs"
    attention: str = "full"
    k: int | None = 5
    width: int | None = 5
    num_global: int | None = 0
    nesting: str | None = None
    windows: list[int] = field(default_factory=lambda: [5])
    length: int | None = 40
    min_length: int | None = 500
    max_length: int | None = 600
    max_args: int | None = 10
    pad_multiple: int | None = None
    train_size: int = 5_000
    val_size: int = 2_000
    shared_data: bool | None = None
    blocks: int | None = None
    heads: int = 1
    channels: int = 64
    hidden: int = 64
    activation: str = "relu"
    dropout: float = 0.01
    optimizer: str = "sgd"
    lr: float | None = None
    decay: float | None = None
    clip: float = 0.5
    batch_size: int = 25
    epochs: int | None = None
    stop_after: int | None = None
    stop_loss: float | None = 0.001
    log_scores: bool = False


def complete_settings(settings: FocusSettings) -> FocusSettings:
    """Check the settings, fill in the protocol's, and clear what plays no part.

    Raises:
        SettingsError: if a name is not known or a number out of range, or they do not
            go together.
    """
    task = settings.task.lower().replace("_", "-")
    task = "list-ops" if task == "listops" else task
    check_name("task", task, PROTOCOL)
    check_name("attention", settings.attention, ATTENTIONS)
    check_name("optimizer", settings.optimizer, OPTIMIZERS)
    check_name("activation", settings.activation, ACTIVATIONS)
    _check_numbers(settings)
    protocol = PROTOCOL[task]
    usual = {
        name: getattr(protocol, name)
        for name in ("blocks", "epochs", "lr", "decay", "shared_data")
        if getattr(settings, name) is None
    }
    settings = replace(settings, task=task, **usual)
    chosen = settings.attention in ("topk", "hsa-topk")
    masked = settings.attention in ("banded", "blocklocal")
    hierarchical = settings.attention in ("hsa", "hsa-topk")
    multiple = settings.pad_multiple
    if multiple is None:
        multiple = 1
        if settings.attention == "topk":
            multiple = settings.k
        elif masked:
            multiple = settings.width
    nesting = None
    if hierarchical:
        nesting = settings.nesting or ("tree" if protocol.has_tree else "windows")
        check_name("nesting", nesting, NESTINGS)
        if nesting == "tree" and not protocol.has_tree:
            raise SettingsError(
                f"Sequences of {task!r} have no tree: use nesting=windows."
            )
    lists = task == "list-ops"
    return replace(
        settings,
        k=settings.k if chosen else None,
        width=settings.width if masked else None,
        num_global=settings.num_global if masked else None,
        nesting=nesting,
        windows=settings.windows if nesting == "windows" else [],
        length=None if lists else settings.length,
        min_length=settings.min_length if lists else None,
        max_length=settings.max_length if lists else None,
        max_args=settings.max_args if lists else None,
        pad_multiple=multiple,
        stop_loss=None if settings.stop_after is None else settings.stop_loss,
    )


def _check_numbers(settings: FocusSettings) -> None:
    least = {
        "k": 2,
        "width": 1,
        "num_global": 0,
        "pad_multiple": 1,
        "train_size": 1,
        "val_size": 1,
        "blocks": 1,
        "heads": 1,
        "batch_size": 1,
        "epochs": 1,
        "stop_after": 1,
    }
    check_least(settings, least)
    if not 0.0 <= settings.dropout < 1.0:
        raise SettingsError(f"dropout must be in [0, 1), got {settings.dropout}.")
    if any(width < 2 for width in settings.windows):
        raise SettingsError(f"windows must be at least 2 wide, got {settings.windows}.")
