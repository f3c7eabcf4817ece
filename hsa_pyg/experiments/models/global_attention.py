"""Message passing along edges between leaves, beside attention among all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import LayerNorm
from torch_geometric.data import HeteroData
from torch_geometric.nn import GCNConv, GINEConv
from torch_geometric.nn.aggr import Aggregation

from hsa_pyg.data import Schema
from hsa_pyg.experiments.models.gps_tree import MaskedPerformer
from hsa_pyg.experiments.models.signal_model import SignalModel
from hsa_pyg.hierarchy import EdgeType, SignalHierarchy
from hsa_pyg.nn import CategoryEmbedding, FlatConv, HSAConv, LeafEncoder
from hsa_pyg.nn.dropout import Dropout
from hsa_pyg.nn.flat_attention import bucket_trees

Local = Literal["gine", "gcn", "none"]
Global = Literal["hsa", "multihead", "performer", "none"]

LOCAL = ("gine", "gcn", "none")
GLOBAL = ("hsa", "multihead", "performer", "none")


class GlobalAttentionBlock(torch.nn.Module):
    r"""Local messages and global attention side by side, then an MLP.

    .. math::
        \mathbf{h} = \mathrm{LayerNorm}(\mathbf{x} + \mathrm{Local}(\mathbf{x}))
        + \mathrm{LayerNorm}(\mathbf{x} + \mathrm{Attention}(\mathbf{x})), \qquad
        \mathbf{x}' = \mathrm{LayerNorm}(\mathbf{h} + \mathrm{MLP}(\mathbf{h}))

    It is the block of L. Rampášek et al., "Recipe for a General, Powerful, Scalable
    Graph Transformer", 2022 (https://arxiv.org/abs/2205.12454), with norms of single
    leaves: those of a batch would make a graph depend on the others.

    Args:
        channels: Size of the vectors.
        heads: Number of attention heads.
        local: ``"gine"`` (:class:`~torch_geometric.nn.conv.GINEConv`, which reads edge
            attributes), ``"gcn"`` (:class:`~torch_geometric.nn.conv.GCNConv`, which
            does not), or ``"none"``.
        attention: ``"hsa"`` over the tree (:class:`~hsa_pyg.HSAConv`); ``"multihead"``,
            softmax attention with the same parameters; ``"performer"``, its linear
            approximation; or ``"none"``.
        expansion: Width of the MLP's hidden layer, in ``channels``.
        dropout: Dropout on the output of all branches.
        attention_dropout: Dropout on attention weights, or on what performer attention
            gives, which has none.

    Raises:
        ValueError: for an unknown ``local`` or ``attention``, for neither of both, or
            heads that do not divide ``channels``.
    """

    def __init__(
        self,
        channels: int,
        heads: int,
        local: Local,
        attention: Global,
        expansion: int = 2,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if local not in LOCAL or attention not in GLOBAL:
            raise ValueError(
                f"'local' is one of {LOCAL} and 'attention' one of {GLOBAL}, got "
                f"{local!r} and {attention!r}"
            )
        if local == attention == "none":
            raise ValueError("a block needs 'local' or 'attention', got 'none' twice")
        if heads < 1 or channels % heads != 0:
            raise ValueError(
                f"'channels' (got {channels}) must be divisible by the number of heads "
                f"(got {heads})"
            )
        self.local = _local(local, channels)
        self.attention = _attention(attention, channels, heads, attention_dropout)
        self.norm_local = LayerNorm(channels) if self.local is not None else None
        self.norm_attention = (
            LayerNorm(channels) if self.attention is not None else None
        )
        self.mlp = _mlp(channels, expansion * channels)
        self.norm = LayerNorm(channels)
        self.dropout = Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        hierarchy: SignalHierarchy,
        edge_index: Tensor,
        edge_attr: Tensor | None,
    ) -> Tensor:
        """One block over all leaves [N, channels] of a batch."""
        branches = []
        if self.local is not None and self.norm_local is not None:
            sent = self.local(x, edge_index, edge_attr)
            branches.append(self.norm_local(x + self.dropout(sent)))
        if self.attention is not None and self.norm_attention is not None:
            attended = self.attention(x, hierarchy)
            branches.append(self.norm_attention(x + self.dropout(attended)))
        h = branches[0] if len(branches) == 1 else branches[0] + branches[1]
        return self.norm(h + self.dropout(self.mlp(h)))


class GlobalAttentionGNN(SignalModel):
    r"""Leaf encoders, :class:`GlobalAttentionBlock`\ s, and a head per graph or vertex.

    Args:
        encoder: Encoder of the leaves, or a module per leaf type.
        out_channels: Size of the output.
        channels: Size of the vectors. Not needed with a :class:`LeafEncoder`.
        num_layers: Number of blocks.
        heads: Number of attention heads.
        edges: Type of the edges that messages pass along, from a leaf type to itself.
        edge_sizes: Number of ids in each column of their ``edge_attr``, which
            ``local="gine"`` needs and nothing else reads.
        level: ``"graph"`` for an output per graph, ``"vertex"`` for one per leaf.
        local: See :class:`GlobalAttentionBlock`, as for the arguments below.
        attention: What the leaves of a graph attend by.
        expansion: Width of the MLPs' hidden layers, in ``channels``.
        readout: What :class:`~hsa_pyg.nn.LeafReadout` takes.
        dropout: Dropout on encoded leaves, on branches and before the head.
        attention_dropout: Dropout on attention weights.
        position: None: attention has no positions here.

    Shapes:
        - **input:** a signal or a batch of T signals with N leaves
        - **output:** :math:`(T, \text{out\_channels})`, or
          :math:`(N, \text{out\_channels})` for ``level="vertex"``

    Raises:
        ValueError: for an unknown level, edges between two types, ``local="gine"``
            without ``edge_sizes``, positions, or what a block refuses.
    """

    def __init__(
        self,
        encoder: LeafEncoder | Mapping[str, torch.nn.Module],
        out_channels: int,
        channels: int | None = None,
        num_layers: int = 2,
        heads: int = 4,
        *,
        edges: EdgeType,
        edge_sizes: Sequence[int] | None = None,
        level: Literal["graph", "vertex"] = "graph",
        local: Local = "gcn",
        attention: Global = "hsa",
        expansion: int = 2,
        readout: str | Aggregation = "mean",
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        position: None = None,
    ) -> None:
        super().__init__(
            encoder, out_channels, channels, readout=readout, dropout=dropout
        )
        if level not in ("graph", "vertex"):
            raise ValueError(f"'level' must be 'graph' or 'vertex', got {level!r}")
        if edges[0] != edges[2]:
            raise ValueError(
                f"messages pass between leaves of one type, but 'edges' is {edges}"
            )
        if position is not None:
            raise ValueError(
                "graphs have no positions: pass position=None, and leave their "
                "domains out"
            )
        if local == "gine" and edge_sizes is None:
            raise ValueError(
                "local='gine' reads edge attributes: give 'edge_sizes', the number of "
                "ids in each column of edge_attr, or take local='gcn'"
            )
        self.edges = edges
        self.level = level
        self.edge_encoder = (
            CategoryEmbedding(list(edge_sizes or ()), self.channels)
            if local == "gine"
            else None
        )
        self.blocks = torch.nn.ModuleList(
            GlobalAttentionBlock(
                self.channels,
                heads,
                local,
                attention,
                expansion,
                dropout,
                attention_dropout,
            )
            for _ in range(num_layers)
        )

    @classmethod
    def _options_of(cls, schema: Schema) -> dict[str, Any]:
        found = [kind for kind in schema.sibling_edges if kind[0] in schema.leaf_types]
        if len(found) != 1:
            raise ValueError(
                "messages pass along one type of edges between leaves, but the schema "
                f"has {found}"
            )
        return {"edges": found[0]}

    def forward(self, batch: HeteroData) -> Tensor:
        r"""One output per graph, [T, out_channels], or per leaf, [N, out_channels].

        Raises:
            ValueError: if a signal is not one tree, or its features do not match the
                encoders.
        """
        if self.level == "graph":
            return super().forward(batch)
        x, _ = self.embed(batch)
        return self.head(self.dropout(x))

    def body(self, batch: HeteroData, hierarchy: SignalHierarchy) -> Tensor:
        """The leaf vectors [N, channels] after the last block."""
        x = self.encode(batch, hierarchy)
        store = batch[self.edges]
        # Edges count the vertices of their type, whose rows follow one another.
        first, _ = hierarchy.leaf_slices[self.edges[0]]
        edge_index = store.edge_index + first
        edge_attr = None
        if self.edge_encoder is not None:
            edge_attr = self.edge_encoder(store.edge_attr)
        for block in self.blocks:
            x = block(x, hierarchy, edge_index, edge_attr)
        return x


class _Gine(torch.nn.Module):
    """Messages that carry the attributes of their edges."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = GINEConv(_mlp(channels, channels))

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        return self.conv(x, edge_index, edge_attr)


class _Gcn(torch.nn.Module):
    """Messages that carry the vectors of neighbours alone."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = GCNConv(channels, channels)

    def forward(self, x: Tensor, edge_index: Tensor, _: Tensor | None) -> Tensor:
        return self.conv(x, edge_index)


class _Performer(torch.nn.Module):
    """Performer attention among the leaves of each tree, like ones padded together."""

    def __init__(self, channels: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.attention = MaskedPerformer(
            channels,
            heads,
            head_channels=channels // heads,
            qkv_bias=True,
            dropout=dropout,
        )

    def forward(self, x: Tensor, hierarchy: SignalHierarchy) -> Tensor:
        out = torch.zeros_like(x)
        for bucket in bucket_trees(hierarchy):
            y = self.attention(x[bucket.rows], bucket.real)
            real = bucket.real
            rows = bucket.rows.flatten() if real is None else bucket.rows[real]
            out = out.index_copy(0, rows, y.flatten(0, 1) if real is None else y[real])
        return out


def _local(name: str, channels: int) -> torch.nn.Module | None:
    makers: dict[str, Callable[[int], torch.nn.Module]] = {"gine": _Gine, "gcn": _Gcn}
    return makers[name](channels) if name in makers else None


def _attention(
    name: str, channels: int, heads: int, dropout: float
) -> torch.nn.Module | None:
    if name == "hsa":
        return HSAConv(channels, channels, heads, dropout=dropout)
    if name == "multihead":
        return FlatConv(channels, channels, heads, dropout=dropout)
    if name == "performer":
        if channels // heads < 2:
            raise ValueError(
                "performer attention has no random features for heads of one channel; "
                f"take fewer heads than {heads}"
            )
        return _Performer(channels, heads, dropout)
    return None


def _mlp(channels: int, hidden: int) -> torch.nn.Sequential:
    return torch.nn.Sequential(
        torch.nn.Linear(channels, hidden),
        torch.nn.GELU(),
        torch.nn.Linear(hidden, channels),
    )
