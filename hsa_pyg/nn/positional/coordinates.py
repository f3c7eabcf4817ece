"""Positions on a line and on a grid: Fourier features of a coordinate."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor
from torch.nn import Parameter

Kind = Literal["sinusoidal", "fourier"]


class CoordinatePosition(torch.nn.Module):
    r"""Cosine and sine features of a coordinate of any magnitude, with norm 1.

    .. math::
        r(t) = \sqrt{2 / P} \, [\cos(\Omega t), \sin(\Omega t)]

    ``"fourier"`` learns the frequencies :math:`\Omega`, drawn from a normal
    distribution of width ``1 / length_scale`` (learnable random Fourier features, as in
    the paper): :math:`r(s)^\top r(t)` starts as a Gaussian kernel of that width.
    ``"sinusoidal"`` keeps the fixed geometric series of the transformer, each axis with
    its share of the features.

    Args:
        channels: Size P of the positional embedding, a multiple of twice the number of
            coordinates.
        num_coordinates: Coordinates of a position.
        kind: ``"sinusoidal"`` or ``"fourier"``.
        length_scale: Distance at which random features decorrelate, in units of the
            coordinate.
        max_period: Longest period of the sinusoids, in units of the coordinate.

    Shapes:
        - **input:** coordinates :math:`(n, \text{num\_coordinates})`, or :math:`(n)` if
          there is one
        - **output:** :math:`(n, P)`
    """

    def __init__(
        self,
        channels: int,
        num_coordinates: int,
        kind: Kind = "sinusoidal",
        length_scale: float = 10.0,
        max_period: float = 10_000.0,
    ) -> None:
        super().__init__()
        if channels < 1 or channels % (2 * num_coordinates) != 0:
            raise ValueError(
                f"'channels' must be a positive multiple of {2 * num_coordinates} "
                f"(cosine and sine of {num_coordinates} coordinates), got {channels}"
            )
        if kind not in ("sinusoidal", "fourier"):
            raise ValueError(f"'kind' must be 'sinusoidal' or 'fourier', got {kind!r}")
        self.channels = channels
        self.num_coordinates = num_coordinates
        self.kind = kind
        self.length_scale = length_scale
        self.max_period = max_period
        frequency = torch.empty(num_coordinates, channels // 2)
        if kind == "fourier":
            self.frequency = Parameter(frequency)
        else:
            self.register_buffer("frequency", frequency, persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        if self.kind == "fourier":
            torch.nn.init.normal_(self.frequency, std=1.0 / self.length_scale)
            return
        with torch.no_grad():
            self.frequency.copy_(self._series(self.frequency.dtype))

    def _series(self, dtype: torch.dtype) -> Tensor:
        """Frequencies of sinusoids: [number of coordinates, channels / 2]."""
        each = self.frequency.size(1) // self.num_coordinates
        device = self.frequency.device
        step = torch.arange(each, device=device, dtype=dtype) / max(each - 1, 1)
        series = torch.exp(-math.log(self.max_period) * step)
        return torch.block_diag(*[series[None]] * self.num_coordinates)

    def forward(self, pos: Tensor) -> Tensor:
        """Embed coordinates.

        Raises:
            ValueError: if ``pos`` has not one column per coordinate.
        """
        if pos.dim() == 1 and self.num_coordinates == 1:
            pos = pos[:, None]
        if pos.dim() != 2 or pos.size(1) != self.num_coordinates:
            raise ValueError(
                f"coordinates must have shape [num_nodes, {self.num_coordinates}], got "
                f"{tuple(pos.shape)}"
            )
        # In float32 at least, also under autocast: a phase of thousands of radians has
        # no correct digit left in half precision.
        with torch.autocast(pos.device.type, enabled=False):
            wide = torch.promote_types(self.frequency.dtype, torch.float32)
            # A module that was cast has rounded them, and the fixed ones can be had.
            fixed = self.kind == "sinusoidal"
            frequency = self._series(wide) if fixed else self.frequency.to(wide)
            angle = pos.to(wide) @ frequency
            features = torch.cat([angle.cos(), angle.sin()], dim=-1)
        return (features * (2.0 / self.channels) ** 0.5).to(self.frequency.dtype)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.channels}, kind={self.kind!r})"


class SequencePosition(CoordinatePosition):
    r"""Position in a sequence of any length: see :class:`CoordinatePosition`.

    Shapes:
        - **input:** places :math:`(n)` or :math:`(n, 1)`
        - **output:** :math:`(n, P)`

    .. code-block:: python

        >>> import torch
        >>> eps = SequencePosition(16)(torch.arange(3.0))
        >>> torch.allclose(eps.norm(dim=1), torch.ones(3))
        True
    """

    def __init__(
        self,
        channels: int,
        kind: Kind = "sinusoidal",
        length_scale: float = 10.0,
        max_period: float = 10_000.0,
    ) -> None:
        super().__init__(channels, 1, kind, length_scale, max_period)


class GridPosition(CoordinatePosition):
    r"""Position in a two-dimensional grid: see :class:`CoordinatePosition`.

    Shapes:
        - **input:** rows and columns :math:`(n, 2)`
        - **output:** :math:`(n, P)`
    """

    def __init__(
        self,
        channels: int,
        kind: Kind = "fourier",
        length_scale: float = 4.0,
        max_period: float = 1_000.0,
    ) -> None:
        super().__init__(channels, 2, kind, length_scale, max_period)
