"""A linear map of leaf features, shared or per leaf type."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.module_dict import ModuleDict

from hsa_pyg.hierarchy import SignalHierarchy
from hsa_pyg.nn.leaf_features import (
    LeafFeatures,
    check_dtype,
    join_leaves,
    split_leaves,
)


class LeafProjection(torch.nn.Module):
    r"""Maps the leaves of all types to vectors of one size, in the order of leaf rows.

    Unlike :class:`~torch_geometric.nn.dense.HeteroDictLinear`, it takes types without
    rows, and types that a first lazy batch lacks.

    Args:
        in_channels: Size of the features, or -1 to derive it from the first input: one
            map shared by all leaves. A dictionary gives each leaf type its size (or
            -1) and its own map.
        out_channels: Size of the output.
        bias: Whether there is an additive bias.

    Shapes:
        - **input:** :math:`(N, F_{in})` or a dictionary of :math:`(n, F_{in})`
        - **output:** :math:`(N, F_{out})`

    Raises:
        ValueError: if a size is neither positive nor -1, or there is none.
    """

    def __init__(
        self,
        in_channels: int | Mapping[str, int],
        out_channels: int,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.out_channels = out_channels

        def linear(size: int, of: str = "") -> Linear:
            if size < 1 and size != -1:
                raise ValueError(
                    f"'in_channels'{of} must be at least 1, or -1 to derive it from "
                    f"the first input, got {size}"
                )
            return Linear(
                size,
                out_channels,
                bias=bias,
                weight_initializer="glorot",
                bias_initializer="zeros",
            )

        self.shared: Linear | None = None
        self.by_type: ModuleDict | None = None
        if isinstance(in_channels, int):
            self.shared = linear(in_channels)
        elif not in_channels:
            raise ValueError(
                "'in_channels' is an empty dictionary; give each leaf type its size, "
                "or one number to all of them"
            )
        else:
            self.by_type = ModuleDict(
                {k: linear(n, f" of leaf type {k!r}") for k, n in in_channels.items()}
            )

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        if self.shared is not None:
            self.shared.reset_parameters()
        if self.by_type is not None:
            for lin in self.by_type.values():
                lin.reset_parameters()

    def forward(self, x: LeafFeatures, hierarchy: SignalHierarchy) -> Tensor:
        r"""Map the leaves.

        Args:
            x: Leaf features that belong to ``hierarchy``.
            hierarchy: The compiled forest of N leaves.

        Raises:
            ValueError: for a leaf type without a map, unlike widths under a shared one,
                or a dtype or device other than the parameters'.
        """
        if self.by_type is None:
            if isinstance(x, Mapping):
                x = join_leaves(x, hierarchy, "pass in_channels={type: width, ...}")
            return _apply(self.shared, x, "x")
        if isinstance(x, Tensor):
            if not hierarchy.leaf_slices:
                raise ValueError(
                    f"there are projections per leaf type ({self.types}), but the "
                    "hierarchy knows no types; build it by from_edge_index, or give a "
                    "single 'in_channels'"
                )
            x = split_leaves(x, hierarchy)
        return self._map_by_type(self.by_type, x, hierarchy)

    @property
    def types(self) -> list[str]:
        """The leaf types that have a map of their own."""
        return [] if self.by_type is None else list(self.by_type.keys())

    def _map_by_type(
        self, lins: ModuleDict, x: Mapping[str, Tensor], hierarchy: SignalHierarchy
    ) -> Tensor:
        parts = []
        for name in hierarchy.leaf_slices:
            if name in self.types and name in x:
                parts.append(_apply(lins[name], x[name], f"x[{name!r}]"))
            elif name in x and x[name].size(0) > 0:
                raise ValueError(
                    f"unknown leaf type {name!r}: 'in_channels' names only "
                    f"{self.types}; add it there"
                )
        if not parts:
            weight = next(self.parameters())
            return torch.zeros(
                0, self.out_channels, dtype=weight.dtype, device=weight.device
            )
        return parts[0] if len(parts) == 1 else torch.cat(parts)


def _apply(lin: Linear, x: Tensor, name: str) -> Tensor:
    check_dtype(x, lin.weight, name)
    if lin.in_channels > 0 and lin.in_channels != x.size(-1):
        raise ValueError(
            f"{name} has {x.size(-1)} channels, but the layer was made for "
            f"{lin.in_channels}; make it with in_channels={x.size(-1)} for this input"
        )
    return lin(x)
