"""Positions in domains without a geometry: key-value records and sets."""

from __future__ import annotations

import torch
from torch import Tensor


class KeyValuePosition(torch.nn.Module):
    r"""A learned vector of norm about 1 per key: headline, body, image, ...

    Args:
        num_keys: Number of keys.
        channels: Size P of the positional embedding.

    Shapes:
        - **input:** key ids :math:`(n)`
        - **output:** :math:`(n, P)`
    """

    def __init__(self, num_keys: int, channels: int) -> None:
        super().__init__()
        self.num_keys = num_keys
        self.channels = channels
        self.embedding = torch.nn.Embedding(num_keys, channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        torch.nn.init.normal_(self.embedding.weight, std=self.channels**-0.5)

    def forward(self, key: Tensor) -> Tensor:
        """Embed keys.

        Raises:
            ValueError: if ``key`` holds no integers.
            IndexError: if a key is negative or not below ``num_keys``.
        """
        if key.dtype not in (torch.int32, torch.int64) or key.dim() != 1:
            raise ValueError(
                f"keys must be integers of shape [num_nodes], got {key.dtype} of shape "
                f"{tuple(key.shape)}"
            )
        try:
            return self.embedding(key)
        except IndexError as error:
            # Looked for only now, so that nothing waits for the device.
            row = int(((key < 0) | (key >= self.num_keys)).nonzero()[0])
            raise IndexError(
                f"key {int(key[row])} in row {row} is not among the {self.num_keys} "
                f"keys, 0 to {self.num_keys - 1}; correct it, or raise num_keys"
            ) from error

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.num_keys}, {self.channels})"


class SetPosition(torch.nn.Module):
    r"""The positions of a set's members: zeros, for a set has no order.

    Args:
        channels: Size P of the positional embedding.

    Shapes:
        - **input:** anything with one row per member :math:`(n, *)`
        - **output:** zeros :math:`(n, P)`
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels

    def forward(self, x: Tensor) -> Tensor:
        """Zeros for each row of ``x``, on its device."""
        return torch.zeros(x.size(0), self.channels, device=x.device)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.channels})"
