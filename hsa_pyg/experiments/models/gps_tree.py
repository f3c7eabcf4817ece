"""A graph transformer of local messages and global attention over the tree's nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from torch import Tensor
from torch_geometric.data import HeteroData
from torch_geometric.nn import GATConv, GINEConv, GPSConv
from torch_geometric.nn.aggr import Aggregation
from torch_geometric.nn.attention import PerformerAttention
from torch_geometric.nn.attention.performer import (
    generalized_kernel,
    linear_attention,
)
from torch_geometric.nn.conv import MessagePassing

from hsa_pyg.data import Schema
from hsa_pyg.experiments.models.node_model import NodeModel, tree_of_nodes
from hsa_pyg.experiments.models.segments import Groups
from hsa_pyg.hierarchy import SignalHierarchy
from hsa_pyg.nn import HierarchicalPosition, LeafEncoder
from hsa_pyg.nn.flat_attention import bucket_trees

Local = Literal["gine", "gat"]
Global = Literal["multihead", "performer"]


class GPSTree(NodeModel):
    r"""PyG's :class:`~torch_geometric.nn.conv.GPSConv` on the tree as a plain graph.

    After L. Rampášek et al., "Recipe for a General, Powerful, Scalable Graph
    Transformer", 2022 (https://arxiv.org/abs/2205.12454): message passing along the
    edges of the tree, which tell up from down, beside attention among all of its nodes,
    then an MLP. The layer keeps its own block, with norms after the branches, and an
    MLP as wide as the transformer's; the norms are those of single nodes, not of a
    batch or a graph.

    Trees are put together with others of like size: the layer pads all trees that it is
    given to the largest.

    Args:
        encoder: Encoder of the leaves, or a module per leaf type.
        out_channels: Size of the output per tree.
        channels: Size of the vectors. Not needed with a :class:`LeafEncoder`.
        num_layers: Number of layers.
        heads: Number of attention heads.
        schema: The data set's schema: its node types and parent edges.
        local: Message passing by :class:`~torch_geometric.nn.conv.GINEConv` or
            :class:`~torch_geometric.nn.conv.GATConv`.
        attention: ``"multihead"``, softmax attention, or ``"performer"``, its linear
            approximation.
        attention_dropout: Dropout on attention weights (``"multihead"``) or on what
            the attention gives (``"performer"``, which has no weights).
        readout: What :class:`~hsa_pyg.nn.LeafReadout` takes, or ``"root"``.
        dropout: Dropout on encoded leaves, on branches and on tree vectors.
        position: Positions in the domains of the hierarchy, or :obj:`None` for none.

    Raises:
        ValueError: for an unknown ``local`` or ``attention``, heads that do not divide
            ``channels``, or heads too narrow for performer attention.
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
        local: Local = "gine",
        attention: Global = "multihead",
        attention_dropout: float = 0.0,
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
        if local not in ("gine", "gat"):
            raise ValueError(f"'local' must be 'gine' or 'gat', got {local!r}")
        if attention not in ("multihead", "performer"):
            raise ValueError(
                f"'attention' must be 'multihead' or 'performer', got {attention!r}"
            )
        if num_layers < 0:
            raise ValueError(f"'num_layers' must not be negative, got {num_layers}")
        if heads < 1 or self.channels % heads != 0:
            raise ValueError(
                f"'channels' (got {self.channels}) must be divisible by the number of "
                f"heads (got {heads})"
            )
        if attention == "performer" and self.channels // heads < 2:
            raise ValueError(
                "performer attention has no random features for heads of one channel; "
                f"take fewer heads than {heads}"
            )
        #: What tells the edge from a child to its parent from the edge back.
        self.directions = torch.nn.Embedding(2, self.channels)
        self.layers = torch.nn.ModuleList(
            _layer(self.channels, heads, local, attention, dropout, attention_dropout)
            for _ in range(num_layers)
        )

    def node_body(self, batch: HeteroData, hierarchy: SignalHierarchy) -> Tensor:
        """The vectors [M, channels] of all nodes after the last layer."""
        x = self.encode_nodes(batch, hierarchy)
        parts, places = [], []
        trees = tree_of_nodes(batch, hierarchy)
        for part in _parts(hierarchy, trees, int(batch.num_graphs)):
            edge_attr = self.directions(part.direction)
            h = x[part.nodes]
            for layer in self.layers:
                h = layer(h, part.edge_index, part.tree, edge_attr=edge_attr)
            parts.append(h)
            places.append(part.nodes)
        if not parts:
            return x
        place = torch.cat(places)
        back = torch.empty_like(place)
        back[place] = torch.arange(place.numel(), device=place.device)
        return torch.cat(parts)[back]


@dataclass(frozen=True)
class _Part:
    """Trees of like size as a graph.

    Args:
        nodes: [m] node ids, tree after tree.
        tree: [m] place of each node's tree among these, ascending.
        edge_index: [2, e] in rows of ``nodes``, both directions.
        direction: [e] 0 towards the parent, 1 towards the child.
    """

    nodes: Tensor
    tree: Tensor
    edge_index: Tensor
    direction: Tensor


def _parts(hierarchy: SignalHierarchy, tree: Tensor, num_trees: int) -> list[_Part]:
    parts = []
    row = torch.empty_like(tree)
    # Of a hierarchy it reads the two attributes that groups have.
    for bucket in bucket_trees(cast(SignalHierarchy, Groups(tree, num_trees))):
        here = torch.arange(bucket.rows.size(0), device=tree.device)
        of = here[:, None].expand_as(bucket.rows)
        if bucket.real is None:
            nodes, of = bucket.rows.flatten(), of.flatten()
        else:
            nodes, of = bucket.rows[bucket.real], of[bucket.real]
        row[nodes] = torch.arange(nodes.numel(), device=tree.device)
        parent = hierarchy.parent[nodes]
        child = (parent >= 0).nonzero().view(-1)
        up = torch.stack([child, row[parent[child]]])
        direction = torch.zeros_like(child)
        parts.append(
            _Part(
                nodes,
                of,
                torch.cat([up, up.flip(0)], dim=1),
                torch.cat([direction, direction + 1]),
            )
        )
    return parts


def _layer(
    channels: int,
    heads: int,
    local: Local,
    attention: Global,
    dropout: float,
    attention_dropout: float,
) -> GPSConv:
    conv: MessagePassing
    if local == "gine":
        mlp = torch.nn.Sequential(
            torch.nn.Linear(channels, channels),
            torch.nn.GELU(),
            torch.nn.Linear(channels, channels),
        )
        conv = GINEConv(mlp)
    else:
        conv = GATConv(channels, channels // heads, heads, edge_dim=channels)
    # Batch norm, the default, would make a tree depend on the others of its batch; so
    # would layer norm over all nodes of a graph on how it was cut.
    norm: dict[str, Any] = {"norm": "layer_norm", "norm_kwargs": {"mode": "node"}}
    layer = GPSConv(
        channels,
        conv,
        heads,
        dropout,
        act="gelu",
        attn_type="multihead",
        attn_kwargs={"dropout": attention_dropout},
        **norm,
    )
    if attention == "performer":
        layer.attn = MaskedPerformer(
            channels,
            heads,
            # Heads are 64 channels wide by default, whatever the channels.
            head_channels=channels // heads,
            qkv_bias=True,
            dropout=attention_dropout,
        )
        layer.attn_type = attention
    return layer


class MaskedPerformer(PerformerAttention):
    r"""PyG's performer attention, without what is padded.

    The original masks the values of padded rows but not their keys, which count in the
    normaliser: a tree would depend on how far its batch pads it.
    """

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Attend within each of B rows of L nodes, [B, L, F]; ``mask`` [B, L]."""
        number, length, _ = x.shape
        shape = (number, length, self.heads, self.head_channels)
        q, k, v = (
            lin(x).view(shape).transpose(1, 2) for lin in (self.q, self.k, self.v)
        )
        features = self.fast_attn
        q, k = (
            generalized_kernel(y, features.projection_matrix, features.kernel)
            for y in (q, k)
        )
        if mask is not None:
            k = k.masked_fill(~mask[:, None, :, None], 0.0)
        out = linear_attention(q, k, v).transpose(1, 2).flatten(2)
        return self.dropout(self.attn_out(out))
