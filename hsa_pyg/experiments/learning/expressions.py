"""The task list-ops: nested operations on lists of digits, to be worked out."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import torch

from hsa_pyg.datasets import ListOps
from hsa_pyg.datasets.text_dataset import RawTexts
from hsa_pyg.experiments.learning.nesting import renest
from hsa_pyg.experiments.learning.settings import LearningSettings
from hsa_pyg.experiments.learning.task import Task

_SPLITS: tuple[Literal["train", "val", "test"], ...] = ("train", "val", "test")
#: Long Range Arena's own sizes, for a size of 0.
_SIZES = (96_000, 2_000, 2_000)


def list_ops(settings: LearningSettings, data: Path, cache: Path) -> Task:
    """Expressions with their own tree, or other ones over the same tokens."""
    least, most = settings.length
    wanted = (settings.train_size, settings.val_size, settings.test_size)
    sizes = [size or own for size, own in zip(wanted, _SIZES, strict=True)]
    parts: list[Any] = [
        ListOps(
            split,
            root=cache / "list_ops",
            num_samples=size,
            length=(least, most),
            hierarchy="tree",
            log=False,
        )
        for split, size in zip(_SPLITS, sizes, strict=True)
    ]
    found = [renest(part, parts[0].schema, settings) for part in parts]
    schema = found[0][1]

    def texts(part: ListOps) -> RawTexts:
        return RawTexts(
            [part.text(i) for i in range(len(part))],
            torch.cat([signal.y for signal in part]),
        )

    train, val, test = (part for part, _ in found)
    return Task(
        train,
        val,
        test,
        schema=schema,
        vocab_sizes={"token": parts[0].vocab_size},
        outputs=parts[0].num_classes,
        domains=dict.fromkeys(schema.internal_types, "sequence"),
        texts=lambda: (texts(parts[0]), texts(parts[1]), texts(parts[2])),
        facts=dict(zip(_SPLITS, sizes, strict=True)),
    )
