"""The linear map of positions that each layer has per domain."""

from __future__ import annotations

import torch
from torch import Tensor

from hsa_pyg.nn.leaf_features import check_dtype


class DomainLinear(torch.nn.Module):
    r"""Maps positions linearly, each domain by its own matrix and without a bias.

    Zero stays zero, so roots and members of sets keep having no position. The entries
    start with variance 1 / head width: positions of norm 1, as the modules of this
    package give them, keep that norm per head.

    Args:
        in_channels: Size P of the positions.
        heads: Number of heads H.
        head_channels: Size D of a position per head.
        num_domains: Number of domains.

    Shapes:
        - **input:** positions :math:`(M, P)`, domain ids :math:`(M)`
        - **output:** :math:`(M, H, D)`

    Raises:
        ValueError: if there is no channel or no domain.
    """

    def __init__(
        self, in_channels: int, heads: int, head_channels: int, num_domains: int = 1
    ) -> None:
        super().__init__()
        for name, size in (("position_dim", in_channels), ("num_domains", num_domains)):
            if size < 1:
                raise ValueError(f"'{name}' must be at least 1, got {size}")
        self.in_channels = in_channels
        self.heads = heads
        self.head_channels = head_channels
        self.num_domains = num_domains
        self.weight = torch.nn.Parameter(
            torch.empty(num_domains, in_channels, heads * head_channels)
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        torch.nn.init.normal_(self.weight, std=self.head_channels**-0.5)

    def forward(self, position: Tensor, domain: Tensor | None = None) -> Tensor:
        r"""Map positions.

        Args:
            position: [M, P].
            domain: [M], between 0 and ``num_domains`` - 1. Not needed if there is one.

        Raises:
            TypeError: if ``domain`` is no tensor of integers.
            ValueError: for other shapes, another dtype or device than the parameters',
                or a domain out of range.
        """
        if position.dim() != 2 or position.size(1) != self.in_channels:
            raise ValueError(
                f"'position' must have shape [num_nodes, {self.in_channels}], got "
                f"{tuple(position.shape)}"
            )
        check_dtype(position, self.weight, "'position'")
        if self.num_domains > 1:
            # Each row moves to its domain's block of columns: one product for all
            # domains, without sorting and without waiting for their sizes.
            domain = self._check_domain(position, domain)
            blocks = torch.arange(self.num_domains, device=domain.device)
            own = (domain[:, None] == blocks).to(position.dtype)
            position = (own[:, :, None] * position[:, None]).flatten(1)
        eps = position @ self.weight.flatten(0, 1)
        return eps.view(-1, self.heads, self.head_channels)

    def _check_domain(self, position: Tensor, domain: Tensor | None) -> Tensor:
        if domain is not None and not isinstance(domain, Tensor):
            raise TypeError(f"'domain' must be a tensor, got {type(domain).__name__}")
        if domain is None or domain.shape != position.shape[:1]:
            raise ValueError(
                f"a layer with {self.num_domains} domains needs 'domain' of shape "
                f"{tuple(position.shape[:1])}, got "
                f"{None if domain is None else tuple(domain.shape)}"
            )
        if domain.is_floating_point() or domain.dtype == torch.bool:
            raise TypeError(f"'domain' must hold integers, got {domain.dtype}")
        if domain.device != position.device:
            raise ValueError(
                f"'domain' is on {domain.device} and 'position' on {position.device}; "
                "move one of them"
            )
        if torch.compiler.is_compiling():
            return domain  # values are not there yet; an unknown one gives zeros
        outside = (domain < 0) | (domain >= self.num_domains)
        if bool(outside.any()):
            raise ValueError(
                f"'domain' must lie between 0 and {self.num_domains - 1}, got "
                f"{int(domain[outside][0])}"
            )
        return domain
