"""Dropout whose masks cost little on a CPU."""

from __future__ import annotations

import torch
from torch import Tensor

#: Values of the 16 random bits that decide about one number.
_VALUES = 2**16
#: Below this probability, or this close to 1, 16 bits are too coarse.
_LEAST = 0.01


class Dropout(torch.nn.Dropout):
    r""":class:`torch.nn.Dropout`, several times faster on a CPU.

    PyTorch draws a random number of 32 bits for each element there, on one thread, and
    passes over the data five times. Here 16 bits decide: the probability is rounded to
    a multiple of :math:`2^{-16}`, and what is kept is scaled by the inverse of what the
    rounded one leaves, so that the expectation is kept exactly. On other devices, in
    compiled models and for probabilities within 0.01 of 0 or 1 it is PyTorch's own. As
    there, :func:`torch.manual_seed` decides about the draws.

    Shapes:
        - **input:** any
        - **output:** that of the input
    """

    def forward(self, x: Tensor) -> Tensor:
        """``x`` with some of its elements dropped and the others scaled up."""
        if not self._draws_here(x):
            return super().forward(x)
        factors = dropout_factors(x, self.p)
        return x.mul_(factors) if self.inplace else x * factors

    def _draws_here(self, x: Tensor) -> bool:
        return (
            self.training
            and _LEAST <= self.p <= 1 - _LEAST
            and x.device.type == "cpu"
            and x.is_floating_point()
            and not torch.compiler.is_compiling()
        )


def dropout_factors(like: Tensor, p: float) -> Tensor:
    """0 with a probability of about ``p``, and else the inverse of that of the rest.

    Args:
        like: Its shape and dtype are those of the result, on the CPU.
        p: Probability, which is rounded to a multiple of 1 / 65,536.
    """
    number = like.numel()
    words = torch.empty(-(-number // 4), dtype=torch.long)
    words.random_(-(2**63), None)  # all 64 bits, four elements' worth
    bits = words.view(torch.int16)[:number].view(like.shape)
    dropped = round(p * _VALUES)
    factors = torch.empty_like(like, memory_format=torch.contiguous_format)
    torch.ge(bits, dropped - _VALUES // 2, out=factors)
    return factors.mul_(_VALUES / (_VALUES - dropped))
