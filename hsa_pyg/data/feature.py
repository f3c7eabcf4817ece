"""What one row of an attribute looks like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Feature:
    """What one row of an attribute looks like.

    Args:
        shape: shape of a row: ``(16,)`` for a tensor [n, 16], ``()`` for a tensor [n]
            such as token ids, ``None`` for a value without rows (a scalar or a Python
            object).
        dtype: dtype of a tensor, or the name of a Python type.

    .. code-block:: python

        >>> import torch
        >>> Feature((16,)).empty().shape
        torch.Size([0, 16])
        >>> str(Feature.of(torch.tensor([4, 2])))
        '[n] of int64'
    """

    shape: tuple[int, ...] | None = ()
    dtype: torch.dtype | str = torch.float32

    @classmethod
    def of(cls, value: Any, cat_dim: int | tuple[int, ...] | None = 0) -> Feature:
        """The feature that ``value`` is made of.

        Args:
            value: a tensor, or any Python object.
            cat_dim: the dimension of ``value`` that counts its rows; several if it is
                an adjacency matrix, which grows along its diagonal.
        """
        if not isinstance(value, Tensor):
            return cls(None, type(value).__name__)
        if value.dim() == 0 or not isinstance(cat_dim, int):
            return cls(None, value.dtype)
        shape = list(value.shape)
        del shape[cat_dim]
        return cls(tuple(shape), value.dtype)

    @property
    def can_be_empty(self) -> bool:
        """Whether there is a value with no rows: a tensor or a list."""
        return self.shape is not None or self.dtype == "list"

    def empty(self, rows_last: bool = False) -> Any:
        """The value with no rows.

        Args:
            rows_last: whether the last dimension counts the rows, as that of
                ``edge_index`` does.

        Raises:
            ValueError: for scalars and Python objects, which have none.
        """
        if self.dtype == "list":
            return []
        if self.shape is None or isinstance(self.dtype, str):
            raise ValueError(f"{self} has no rows and so no empty value")
        size = (*self.shape, 0) if rows_last else (0, *self.shape)
        return torch.empty(size, dtype=self.dtype)

    def __str__(self) -> str:
        return self.describe()

    def describe(self, rows_last: bool = False) -> str:
        """In words.

        Args:
            rows_last: whether the last dimension counts the rows, as that of
                ``edge_index`` does.
        """
        name = str(self.dtype).removeprefix("torch.")
        if self.shape is None:
            return f"{'an' if name[0] in 'aeio' else 'a'} {name}"
        shape = list(map(str, self.shape))
        shape = [*shape, "n"] if rows_last else ["n", *shape]
        return f"[{', '.join(shape)}] of {name}"
