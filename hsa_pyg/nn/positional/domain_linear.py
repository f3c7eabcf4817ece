"""The linear map of positions that each layer has per domain."""

from __future__ import annotations

import torch
from torch import Tensor

from hsa_pyg.nn.functional import check_positive
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
        - **input:** positions :math:`(M, P)`, domain ids :math:`(M)`; or distinct ones
          :math:`(U, P)`, :math:`(U)` and the row of each node :math:`(M)`
        - **output:** :math:`(M, H, D)`

    Raises:
        ValueError: if there is no channel or no domain.
    """

    def __init__(
        self, in_channels: int, heads: int, head_channels: int, num_domains: int = 1
    ) -> None:
        super().__init__()
        for name, size in (("position_dim", in_channels), ("num_domains", num_domains)):
            check_positive(name, size)
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

    def forward(
        self,
        position: Tensor,
        domain: Tensor | None = None,
        position_index: Tensor | None = None,
    ) -> Tensor:
        r"""Map positions.

        Args:
            position: [M, P], or [U, P] with a ``position_index``.
            domain: Of each row of ``position``, between 0 and ``num_domains`` - 1. Not
                needed if there is one.
            position_index: Row of ``position`` for each node, [M]. Without it every
                node has a row of its own.

        Raises:
            TypeError: if ``domain`` or ``position_index`` is no tensor of integers.
            ValueError: for other shapes, another dtype or device than the parameters',
                or a domain or row out of range.
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
        if position_index is not None:
            _check_rows("position_index", position_index, position, position.size(0))
            # A row's gradient is a sum over all nodes that have it: not in half
            # precision.
            wide = torch.promote_types(eps.dtype, torch.float32)
            eps = eps.to(wide).index_select(0, position_index).to(eps.dtype)
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
        _check_rows("domain", domain, position, self.num_domains)
        return domain


def embed_nodes(
    lin: DomainLinear | None,
    position: Tensor | None,
    domain: Tensor | None,
    index: Tensor | None,
    num_nodes: int,
) -> Tensor | None:
    """Positional embeddings of all nodes in a layer, [M, H, D], if it has them.

    Args:
        lin: The layer's map, or None if it was made without.
        position: [M, P], or [U, P] with an ``index``.
        domain: [M] or [U].
        index: Row of ``position`` for each node, [M].
        num_nodes: M.

    Raises:
        TypeError: if one of them is no tensor of the right kind.
        ValueError: if the layer has no positions and some are given, or the other way
            round, or shapes do not match.
    """
    if (position is None) != (lin is None):
        if lin is not None:
            raise ValueError(
                f"the layer has position_dim={lin.in_channels}, but 'position' was not "
                f"given; pass position=[num_nodes, {lin.in_channels}]"
            )
        raise ValueError(
            "the layer has position_dim=None, but 'position' was given; make it with "
            "the width of the positions as position_dim"
        )
    if position is None or lin is None:
        if index is not None:
            raise ValueError("'position_index' was given, but no 'position'")
        return None
    if not isinstance(position, Tensor):
        raise TypeError(f"'position' must be a tensor, got {type(position).__name__}")
    name, rows = "position", position
    if index is not None:
        name, rows = "position_index", index
        if not isinstance(index, Tensor):
            raise TypeError(f"{name!r} must be a tensor, got {type(index).__name__}")
        if index.dim() != 1:
            raise ValueError(
                f"{name!r} must have shape [{num_nodes}], got {tuple(index.shape)}"
            )
    if rows.dim() == 0 or rows.size(0) != num_nodes:
        raise ValueError(
            f"{name!r} must have one row for each of the {num_nodes} nodes of the "
            f"hierarchy, got shape {tuple(rows.shape)}"
        )
    return lin(position, domain, index)


def _check_rows(name: str, rows: Tensor, position: Tensor, number: int) -> None:
    """Integers between 0 and ``number`` - 1, where the positions are."""
    if rows.is_floating_point() or rows.dtype == torch.bool:
        raise TypeError(f"{name!r} must hold integers, got {rows.dtype}")
    if rows.device != position.device:
        raise ValueError(
            f"{name!r} is on {rows.device} and 'position' on {position.device}; "
            "move one of them"
        )
    if torch.compiler.is_compiling():
        return  # values are not there yet; an unknown domain gives zeros
    outside = (rows < 0) | (rows >= number)
    if bool(outside.any()):
        raise ValueError(
            f"{name!r} must lie between 0 and {number - 1}, got {int(rows[outside][0])}"
        )
