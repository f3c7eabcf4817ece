"""The sequences of a run as rows of one length, and their trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from hsa_pyg.cli import SettingsError
from hsa_pyg.datasets import FormalLanguage, ListOps
from hsa_pyg.datasets.sequence_task import SequenceTask
from hsa_pyg.datasets.sequences import Ints, Sequences, offsets
from hsa_pyg.experiments.semantic_focus.settings import FocusSettings
from hsa_pyg.hierarchy import SignalHierarchy


@dataclass(frozen=True)
class TokenRows:
    """Labelled sequences of one length.

    Args:
        tokens: ``[n, length]`` token ids.
        labels: ``[n]`` classes.
        trees: Parent of every node of each sequence, whose last nodes are its tokens;
            one entry if all have the same tree.
        vocab_size: Number of token ids.
        num_classes: Number of classes.
    """

    tokens: Tensor
    labels: Tensor
    trees: Sequence[Tensor]
    vocab_size: int
    num_classes: int

    @property
    def same_trees(self) -> bool:
        """Whether all sequences have one tree."""
        return len(self.trees) == 1

    def hierarchy(self, rows: Sequence[int]) -> SignalHierarchy:
        """The trees of some sequences, compiled; leaves are their tokens in order."""
        if self.same_trees:
            trees = [self.trees[0]] * len(rows)
        else:
            trees = [self.trees[row] for row in rows]
        sizes = torch.tensor([tree.numel() for tree in trees])
        first = (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
        parent = torch.cat(trees)
        return SignalHierarchy.from_parents(torch.where(parent < 0, -1, parent + first))


def load_rows(
    settings: FocusSettings, split: Literal["train", "val"], seed: int
) -> TokenRows:
    """Draw the sequences of a split, pad them, and build their trees.

    Args:
        settings: Complete ones.
        split: Training or holdout.
        seed: Of the run.
    """
    number = settings.train_size if split == "train" else settings.val_size
    task = _task(settings, split, 0 if settings.shared_data else seed)
    # The generator of the data set, without the signals that it would make of each.
    task.num_samples = number
    length = task.longest + -task.longest % (settings.pad_multiple or 1)
    parts = list(task.sequences())
    tokens = np.concatenate(
        [_padded(part, length, len(task.symbols)) for part in parts]
    )
    if settings.nesting == "tree":
        trees = [tree for part in parts for tree in _expression_trees(part, length)]
    else:
        trees = [torch.from_numpy(window_tree(length, settings.windows))]
    return TokenRows(
        torch.from_numpy(tokens),
        torch.from_numpy(np.concatenate([part.labels for part in parts])),
        trees,
        task.vocab_size,
        task.num_classes,
    )


def _task(
    settings: FocusSettings, split: Literal["train", "val"], seed: int
) -> SequenceTask:
    try:
        if settings.task == "list-ops":
            return ListOps(
                split,
                num_samples=1,
                length=(settings.min_length or 0, settings.max_length or 0),
                max_args=settings.max_args or 0,
                seed=seed,
                log=False,
            )
        name = settings.task.replace("-", "_")
        return FormalLanguage(
            name,  # type: ignore[arg-type]
            split,
            num_samples=1,
            length=settings.length or 0,
            seed=seed,
            log=False,
        )
    except ValueError as error:
        raise SettingsError(f"{settings.task}: {error}") from error


def _padded(part: Sequences, length: int, pad: int) -> Ints:
    """``[n, length]`` token ids, padded at the end."""
    rows = np.full((len(part), length), pad)
    rows[np.arange(length) < part.lengths[:, None]] = part.tokens
    return rows


def _expression_trees(part: Sequences, length: int) -> list[Tensor]:
    """Root, expressions and tokens of each sequence; padding hangs under the root."""
    trees = []
    first, first_inner = offsets(part.lengths), offsets(part.num_expressions)
    for start, size, inner, count in zip(
        first, part.lengths, first_inner, part.num_expressions, strict=True
    ):
        parent = np.zeros(1 + count + length, dtype=np.int64)
        parent[0] = -1
        parent[1 : 1 + count] = part.expression_parent[inner : inner + count] + 1
        tokens = part.token_parent[start : start + size]
        parent[1 + count : 1 + count + size] = tokens + 1
        trees.append(torch.from_numpy(parent))
    return trees


def window_tree(length: int, windows: Sequence[int]) -> Ints:
    """Parent of the root, of the windows from the top down, and of the tokens.

    Args:
        length: Number of tokens.
        windows: Widths from the bottom up; the last window of a level is ragged.
    """
    numbers = [length]
    for width in windows:
        numbers.append(-(-numbers[-1] // width))
    parents, above = [np.array([-1])], 0
    for level in range(len(windows), -1, -1):
        place = np.arange(numbers[level])
        if level < len(windows):
            place = place // windows[level]
        else:
            place = np.zeros_like(place)
        parents.append(above + place)
        above += 1 if level == len(windows) else numbers[level + 1]
    return np.concatenate(parents)
