"""The heterogeneous graph transformer on the edges of the tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor
from torch_geometric.data import HeteroData
from torch_geometric.nn import HGTConv
from torch_geometric.nn.aggr import Aggregation

from hsa_pyg.data import Schema
from hsa_pyg.experiments.models.node_model import NodeModel
from hsa_pyg.hierarchy import CHILD_OF, EdgeType, SignalHierarchy
from hsa_pyg.nn import HierarchicalPosition, LeafEncoder, PreNormBlock

#: The relation from a parent to its child, the reverse of ``child_of``.
PARENT_OF = "parent_of"


class TreeGNN(NodeModel):
    r"""PyG's :class:`~torch_geometric.nn.conv.HGTConv` up and down the tree.

    After Z. Hu et al., "Heterogeneous Graph Transformer", 2020
    (https://arxiv.org/abs/2003.01332). Each layer is a
    :class:`~hsa_pyg.nn.PreNormBlock` over the vectors of all nodes, and reaches one
    edge of the tree further: a leaf hears of its siblings in two layers.

    Args:
        encoder: Encoder of the leaves, or a module per leaf type.
        out_channels: Size of the output per tree.
        channels: Size of the vectors. Not needed with a :class:`LeafEncoder`.
        num_layers: Number of layers.
        heads: Number of attention heads.
        schema: The data set's schema: its node types and parent edges.
        expansion: Width of the MLPs' hidden layers, in ``channels``.
        readout: What :class:`~hsa_pyg.nn.LeafReadout` takes, or ``"root"``.
        dropout: Dropout on encoded leaves, on branches and on tree vectors.
        position: Positions in the domains of the hierarchy, or :obj:`None` for none.

    Raises:
        ValueError: if the schema has no parent edges, or the heads do not divide
            ``channels``.
    """

    def __init__(
        self,
        encoder: LeafEncoder | Mapping[str, torch.nn.Module],
        out_channels: int,
        channels: int | None = None,
        num_layers: int = 2,
        heads: int = 4,
        *,
        schema: Schema,
        expansion: int = 2,
        readout: str | Aggregation = "mean",
        dropout: float = 0.1,
        position: HierarchicalPosition | None = None,
    ) -> None:
        super().__init__(
            encoder,
            out_channels,
            channels,
            schema=schema,
            readout=readout,
            dropout=dropout,
            position=position,
        )
        if num_layers < 0 or heads < 1:
            raise ValueError(
                "'num_layers' must not be negative and 'heads' at least 1, got "
                f"{num_layers} and {heads}"
            )
        self.blocks = torch.nn.ModuleList(
            PreNormBlock(
                self.channels,
                cast(
                    Any,
                    TypedConv(self.node_types, self.parent_edges, self.channels, heads),
                ),
                expansion,
                dropout,
            )
            for _ in range(num_layers)
        )

    def node_body(self, batch: HeteroData, hierarchy: SignalHierarchy) -> Tensor:
        """The vectors [M, channels] of all nodes after the last layer."""
        x = self.encode_nodes(batch, hierarchy)
        edges = self._edges(batch, hierarchy)
        for block in self.blocks:
            x = block(x, hierarchy, edges=edges)
        return x

    def _edges(
        self, batch: HeteroData, hierarchy: SignalHierarchy
    ) -> dict[EdgeType, Tensor]:
        """The parent edges of every type of the schema, and their reverses."""
        found = {
            kind: store.edge_index
            for kind, store in batch.edge_items()
            if kind[1] == CHILD_OF
        }
        unknown = [
            kind
            for kind, edge in found.items()
            if kind not in self.parent_edges and edge.size(1) > 0
        ]
        if unknown:
            raise ValueError(
                f"the signals have edges of the types {unknown}, but the model was "
                f"made for {self.parent_edges}; make it by from_schema of the data "
                "set's schema"
            )
        edges = {}
        for kind in self.parent_edges:
            # Types that a batch lacks are there without edges: the convolution reads
            # off their order which weights are whose.
            edge = found.get(kind)
            if edge is None:
                edge = hierarchy.parent.new_empty(2, 0)
            edges[kind] = edge
            edges[_reverse(kind)] = edge.flip(0)
        return edges


class TypedConv(torch.nn.Module):
    r"""A :class:`~torch_geometric.nn.conv.HGTConv` over the nodes of all types at once.

    It gives nodes of types that no edge leads to zeros, and takes types without nodes.

    Args:
        node_types: All node types.
        parent_edges: The types of edges from a child to its parent.
        channels: Size of the vectors.
        heads: Number of attention heads.

    Shapes:
        - **input:** vectors :math:`(M, F)` by node id, their hierarchy, edges
          :math:`(2, E)` per edge type
        - **output:** :math:`(M, F)`
    """

    def __init__(
        self,
        node_types: list[str],
        parent_edges: list[EdgeType],
        channels: int,
        heads: int,
    ) -> None:
        super().__init__()
        edge_types = [kind for edge in parent_edges for kind in (edge, _reverse(edge))]
        self.node_types = node_types
        self.conv = HGTConv(channels, channels, (node_types, edge_types), heads)

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        self.conv.reset_parameters()

    def forward(
        self, x: Tensor, hierarchy: SignalHierarchy, edges: dict[EdgeType, Tensor]
    ) -> Tensor:
        """Pass messages along all edges, in both directions."""
        slices = hierarchy.node_slices
        x_dict = {
            kind: x[slice(*slices[kind])] if kind in slices else x[:0]
            for kind in self.node_types
        }
        out = self.conv(x_dict, edges)
        parts = []
        for kind in slices:
            got = out.get(kind)
            parts.append(torch.zeros_like(x_dict[kind]) if got is None else got)
        return torch.cat(parts)


def _reverse(kind: EdgeType) -> EdgeType:
    child_type, _, parent_type = kind
    return parent_type, PARENT_OF, child_type
