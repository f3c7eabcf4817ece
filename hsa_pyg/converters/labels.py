"""Labels of samples, as users give them."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

Label = int | float | Tensor
"""What converters take for ``y``: a number, or a tensor that is kept as it is."""

Labels = Literal["folder"] | Callable[[Path], Label] | None
"""What gives the files of a folder their labels, see :func:`labels_of_files`."""


def label_tensor(y: Label, sample: str = "") -> Tensor:
    """The label of a sample: a number becomes ``[1]``, a tensor stays as it is.

    Args:
        y: The label.
        sample: What the label is of, for errors, such as ``"document 'a.txt'"``.

    Raises:
        TypeError: If it is neither.

    Example:
        >>> label_tensor(3), label_tensor(0.5)
        (tensor([3]), tensor([0.5000]))
    """
    if isinstance(y, Tensor):
        return y
    if isinstance(y, numbers.Real):
        return torch.tensor([y])
    subject = f"The label y of {sample}" if sample else "The label y"
    raise TypeError(
        f"{subject} is {y!r}: give a number, such as the place of its class in a list, "
        "or a tensor."
    )


def labels_of_files(
    labels: Labels, paths: Sequence[Path]
) -> Callable[[Path], Label | None]:
    """Return what gives each of some files its label.

    Args:
        labels: ``"folder"`` labels a file with the place of its folder's name among the
            sorted names of all their folders; a callable gives the label of a path;
            None gives none.
        paths: The files.

    Raises:
        ValueError: If ``labels`` is none of these.

    Example:
        >>> paths = [Path("pos/a.txt"), Path("neg/b.txt")]
        >>> label_of = labels_of_files("folder", paths)
        >>> [label_of(path) for path in paths]
        [1, 0]
    """
    if labels is None:
        return lambda path: None
    if callable(labels):
        return labels
    if labels != "folder":
        raise ValueError(
            f"labels={labels!r} is not known: use 'folder' or a callable that gives "
            "the label of a path."
        )
    classes = sorted({path.parent.name for path in paths})
    return lambda path: classes.index(path.parent.name)
