"""Vectors for rows of several category ids, such as the features of an atom."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class CategoryEmbedding(torch.nn.Module):
    r"""The sum of a vector for each of several categories.

    .. math::
        \mathbf{x}^{\prime}_i = \sum_{k=1}^{K} \mathbf{W}_k[x_{ik}]

    Entries start at variance 1 / (K channels), so that sums have the norm of a
    :class:`~hsa_pyg.nn.TokenEmbedding`.

    Args:
        sizes: Number of ids of each of the K categories.
        channels: Size of the vectors.

    Shapes:
        - **input:** ids :math:`(n, K)`
        - **output:** vectors :math:`(n, F)`

    Raises:
        ValueError: if there is no category, or one without ids.

    .. code-block:: python

        >>> embedding = CategoryEmbedding([119, 9], 64)
        >>> embedding(torch.tensor([[6, 0], [8, 1], [6, 2]])).shape
        torch.Size([3, 64])
    """

    def __init__(self, sizes: Sequence[int], channels: int) -> None:
        super().__init__()
        if len(sizes) == 0 or min(sizes) < 1:
            raise ValueError(
                f"each category must have at least one id, got the sizes {list(sizes)}"
            )
        self.sizes = tuple(sizes)
        self.channels = channels
        # One table for all: the ids of a category start where the last one's end.
        self.embedding = torch.nn.Embedding(sum(sizes), channels)
        size = torch.tensor(self.sizes)
        self.register_buffer("size", size, persistent=False)
        self.register_buffer("first", size.cumsum(0) - size, persistent=False)
        self.size: Tensor
        self.first: Tensor
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        variance = 1 / (len(self.sizes) * self.channels)
        torch.nn.init.normal_(self.embedding.weight, std=variance**0.5)

    def forward(self, x: Tensor) -> Tensor:
        """Embed rows of ids.

        Raises:
            ValueError: if ``x`` does not hold K integers a row.
            IndexError: if an id is out of its category.
        """
        if x.dim() != 2 or x.size(1) != len(self.sizes) or x.is_floating_point():
            raise ValueError(
                f"rows of {len(self.sizes)} category ids are wanted, got "
                f"{str(x.dtype).removeprefix('torch.')} {list(x.shape)}"
            )
        self._check_range(x)
        return self.embedding(x + self.first).sum(1)

    def _check_range(self, x: Tensor) -> None:
        # Without it an id would borrow the next category's vectors. On an accelerator
        # or in a compiled model it would break the flow, and is left out.
        if x.device.type != "cpu" or torch.compiler.is_compiling():
            return
        outside = (x < 0) | (x >= self.size)
        if bool(outside.any()):
            row, column = outside.nonzero()[0].tolist()
            raise IndexError(
                f"row {row} has the id {int(x[row, column])} in column {column}, whose "
                f"ids are 0 to {self.sizes[column] - 1}"
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self.sizes)}, {self.channels})"
