"""Layers of other libraries, set up for a fair comparison, and ours in their frame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import Identity
from torch_geometric.nn import GPSConv, HGTConv, TransformerConv
from torch_geometric.nn.aggr import SetTransformerAggregation

from benchmarks.cases import CHANNELS, HEADS
from hsa_pyg import HSAConv, SignalHierarchy
from hsa_pyg.nn.transformer import PreNormBlock

WIDTH = HEADS * CHANNELS
MISSING = 'This comparison needs {}: pip install "hsa-pyg[benchmarks]".'
#: GPSConv without a local layer looks at no edge.
#: What the layers that are not of PyG come from.
EXTRA_MODULES = (
    "h_transformer_1d",
    "local_attention",
    "linear_attention_transformer",
)
NO_EDGES = torch.empty(2, 0, dtype=torch.long)


def gps(attention: str) -> GPSConv:
    """GPSConv without a local layer, with layer norms over the channels of a node."""
    return GPSConv(
        WIDTH,
        conv=None,
        heads=HEADS,
        norm="layer_norm",
        norm_kwargs={"mode": "node"},
        attn_type=attention,
    )


class Projections(torch.nn.Module):
    """What HSAConv has besides its attention."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.out = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, hierarchy: SignalHierarchy) -> Tensor:
        """Queries, instead of what they would attend to, go on."""
        return self.out(self.qkv(x)[:, :WIDTH])


def make_conv(backend: str) -> HSAConv:
    """HSAConv of the size of all peers."""
    return HSAConv(WIDTH, WIDTH, HEADS, backend=backend)


class HSAInGPS(torch.nn.Module):
    """GPSConv's block with :class:`~hsa_pyg.HSAConv` for its global attention.

    Residuals, norms and MLP are GPSConv's own; without ``backend`` there are the
    projections, but no attention.
    """

    def __init__(self, backend: str | None) -> None:
        super().__init__()
        frame = gps("multihead")
        self.norm2, self.norm3, self.mlp = frame.norm2, frame.norm3, frame.mlp
        self.conv: torch.nn.Module = (
            Projections() if backend is None else make_conv(backend)
        )

    def forward(self, x: Tensor, hierarchy: SignalHierarchy) -> Tensor:
        """[N, WIDTH] to [N, WIDTH]."""
        h = self.norm2(self.conv(x, hierarchy) + x)
        return self.norm3(h + self.mlp(h))


class Products(torch.nn.Module):
    """The matrix products of a block, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        sizes = ((WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, 2 * WIDTH))
        self.inner = torch.nn.ModuleList(torch.nn.Linear(*size) for size in sizes)
        self.last = torch.nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> list[Tensor]:
        """All outputs, of queries, keys and values, of the attention, of the MLP."""
        outs = [linear(x) for linear in self.inner]
        return [*outs, self.last(outs[-1])]


def own_block(backend: str) -> PreNormBlock:
    """The block of HSATransformer, its MLP as wide as GPSConv's."""
    return PreNormBlock(WIDTH, make_conv(backend), expansion=2, dropout=0.0)


class HSAInSetTransformer(torch.nn.Module):
    """SetTransformerAggregation with HSA for the attention of its encoder."""

    def __init__(self, aggregation: SetTransformerAggregation, backend: str) -> None:
        super().__init__()
        (encoder,) = aggregation.encoders
        self.block, self.pool = encoder.mab, aggregation.pma
        self.conv = make_conv(backend)

    def forward(self, x: Tensor, hierarchy: SignalHierarchy) -> Tensor:
        """[N, WIDTH] to [1, WIDTH], a vector for the one tree."""
        h = self.block.layer_norm1(self.conv(x, hierarchy) + x)
        h = self.block.layer_norm2(h + self.block.lin(h).relu())
        return self.pool(h[None])[:, 0]


def set_transformer() -> SetTransformerAggregation:
    """One encoder block and the pooling, no decoder."""
    return SetTransformerAggregation(
        WIDTH,
        num_encoder_blocks=1,
        num_decoder_blocks=0,
        heads=HEADS,
        layer_norm=True,
    )


def complete_graph(num_nodes: int) -> tuple[TransformerConv, Tensor]:
    """TransformerConv, and all pairs of nodes for its edges."""
    node = torch.arange(num_nodes)
    edges = torch.stack([node.repeat(num_nodes), node.repeat_interleave(num_nodes)])
    return TransformerConv(WIDTH, CHANNELS, heads=HEADS), edges


def tree_edges(hierarchy: SignalHierarchy) -> dict[tuple[str, str, str], Tensor]:
    """Edges between children and parents, both ways, for leaves and internal nodes."""
    parent = hierarchy.parent
    is_leaf = torch.zeros(hierarchy.num_nodes, dtype=torch.bool)
    is_leaf[hierarchy.leaves] = True
    number = torch.where(is_leaf, is_leaf.cumsum(0), (~is_leaf).cumsum(0)) - 1
    edges = {}
    for kind, mask in (("leaf", is_leaf), ("node", ~is_leaf)):
        child = (mask & (parent >= 0)).nonzero()[:, 0]
        up = torch.stack([number[child], number[parent[child]]])
        edges[kind, "child_of", "node"] = up
        edges["node", "parent_of", kind] = up.flip(0)
    return edges


def heterogeneous(hierarchy: SignalHierarchy) -> tuple[HGTConv, dict[Any, Tensor]]:
    """HGTConv, and the edges of the tree."""
    edges = tree_edges(hierarchy)
    metadata = (["leaf", "node"], list(edges))
    return HGTConv(WIDTH, WIDTH, metadata, heads=HEADS), edges


def h_transformer(block_size: int) -> torch.nn.Module:
    """The layer of h-transformer-1d: softmax in blocks, coarser ones further off.

    Raises:
        ImportError: if h-transformer-1d is not installed.
    """
    try:
        from h_transformer_1d.h_transformer_1d import HAttention1D
    except ImportError as error:
        raise ImportError(MISSING.format("h-transformer-1d")) from error
    return HAttention1D(WIDTH, heads=HEADS, dim_head=CHANNELS, block_size=block_size)


def h_transformer_core(block_size: int) -> Callable[[Tensor], Tensor]:
    """The same less its projections: [1, N, 3 WIDTH] to [1, N, WIDTH]."""
    layer = h_transformer(block_size)
    layer.to_qkv, layer.to_out = Identity(), Identity()
    return layer


def local_attention(window: int, neighbours: int) -> Callable[..., Tensor]:
    """local-attention: softmax in a window and in so many beside it on either side.

    Raises:
        ImportError: if local-attention is not installed.
    """
    try:
        from local_attention import LocalAttention
    except ImportError as error:
        raise ImportError(MISSING.format("local-attention")) from error
    return LocalAttention(
        window,
        causal=False,
        look_backward=neighbours,
        look_forward=neighbours,
        use_rotary_pos_emb=False,
    )


def linear_transformer() -> torch.nn.Module:
    """The attention layer of linear-attention-transformer, all heads global.

    Raises:
        ImportError: if linear-attention-transformer is not installed.
    """
    try:
        from linear_attention_transformer.linear_attention_transformer import (
            SelfAttention,
        )
    except ImportError as error:
        raise ImportError(MISSING.format("linear-attention-transformer")) from error
    return SelfAttention(WIDTH, HEADS)


def linear_core() -> Callable[..., Tensor]:
    """Its attention alone: [1, H, N, D] each."""
    attention: Any = linear_transformer().global_attn_fn
    return attention
