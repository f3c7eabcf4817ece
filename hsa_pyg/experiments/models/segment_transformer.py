"""A transformer within segments and across them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

import torch
from torch import Tensor
from torch_geometric.data import HeteroData
from torch_geometric.nn.aggr import Aggregation
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import reset

from hsa_pyg.experiments.models.segments import (
    Segments,
    grouped_attention,
    segments_by_depth,
    segments_by_type,
    segments_by_window,
)
from hsa_pyg.experiments.models.signal_model import SignalModel
from hsa_pyg.hierarchy import SignalHierarchy
from hsa_pyg.nn import HierarchicalPosition, LeafEncoder, PreNormBlock
from hsa_pyg.nn.flat_attention import path_sum
from hsa_pyg.nn.leaf_projection import LeafProjection
from hsa_pyg.nn.positional.domain_linear import DomainLinear

Layout = Literal["interleaved", "late"]


class SegmentTransformer(SignalModel):
    r"""A hierarchical attention transformer: segments, then their vectors.

    After I. Chalkidis et al., "An Exploration of Hierarchical Attention Transformers
    for Efficient Long Document Classification", 2022
    (https://arxiv.org/abs/2210.05529). Each segment of leaves has a vector, at first
    the same learned one. A segment-wise layer is softmax attention among the leaves of
    a segment and its vector; a cross-segment layer is softmax attention among the
    vectors of a tree, which the next segment-wise layer then brings to the leaves. What
    the last layers left in a segment's vector is added to its leaves before they are
    read out.

    Either is a :class:`~hsa_pyg.nn.PreNormBlock` with the projections of a
    :class:`~hsa_pyg.nn.FlatConv`, so a model has as many parameters as the flat
    transformer with as many layers, but for the segment vector and its projections. A
    leaf's position is the sum of those on its path from the root, as in
    :func:`~hsa_pyg.nn.flat_attention`, and a segment's the mean over its leaves.

    Args:
        encoder: Encoder of the leaves, or a module per leaf type.
        out_channels: Size of the output per tree.
        channels: Size of the leaf vectors. Not needed with a :class:`LeafEncoder`.
        num_layers: Number of layers of both kinds together, at least 2.
        heads: Number of attention heads.
        segment: The depth of the nodes that are segments, or their type.
        window: Instead of ``segment``, the leaves of a window that is a segment.
        layout: ``"interleaved"``: the two kinds of layers take turns, the segment-wise
            first; ``"late"``: the second half of the layers is cross-segment.
        attention_dropout: Dropout on attention weights.
        expansion: Width of the MLPs' hidden layers, in ``channels``.
        readout: What :class:`~hsa_pyg.nn.LeafReadout` takes.
        dropout: Dropout on encoded leaves, on branches and on tree vectors.
        position: Positions in the domains of the hierarchy, or :obj:`None` for none.

    Raises:
        ValueError: unless one of ``segment`` and ``window`` is given, and for less than
            two layers, an unknown layout, or heads that do not divide ``channels``.
    """

    def __init__(
        self,
        encoder: LeafEncoder | Mapping[str, torch.nn.Module],
        out_channels: int,
        channels: int | None = None,
        num_layers: int = 2,
        heads: int = 4,
        *,
        segment: int | str | None = None,
        window: int | None = None,
        layout: Layout = "interleaved",
        attention_dropout: float = 0.0,
        expansion: int = 2,
        readout: str | Aggregation = "mean",
        dropout: float = 0.1,
        position: HierarchicalPosition | None = None,
    ) -> None:
        super().__init__(
            encoder,
            out_channels,
            channels,
            readout=readout,
            dropout=dropout,
            position=position,
        )
        if (segment is None) == (window is None):
            raise ValueError(
                "give either 'segment' (a depth or a node type) or 'window' (a number "
                "of leaves), to say what the segments are"
            )
        if num_layers < 2:
            raise ValueError(
                f"'num_layers' must be at least 2, one within segments and one across "
                f"them, got {num_layers}"
            )
        if layout not in ("interleaved", "late"):
            raise ValueError(
                f"'layout' must be 'interleaved' or 'late', got {layout!r}"
            )
        self.segment = segment
        self.window = window
        first_late = (num_layers + 1) // 2
        #: Of each layer, whether it is a cross-segment one.
        self.across = [
            layer % 2 == 1 if layout == "interleaved" else layer >= first_late
            for layer in range(num_layers)
        ]
        types = self.encoder.leaf_types
        self.blocks = torch.nn.ModuleList(
            PreNormBlock(
                self.channels,
                cast(
                    Any,
                    SegmentAttention(
                        [] if across else types,
                        self.channels,
                        heads,
                        attention_dropout,
                        position,
                    ),
                ),
                expansion,
                dropout,
            )
            for across in self.across
        )
        self.vector = torch.nn.Parameter(torch.empty(self.channels))
        self._reset_vector()

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        super().reset_parameters()
        self._reset_vector()

    def _reset_vector(self) -> None:
        torch.nn.init.normal_(self.vector, std=self.channels**-0.5)

    def segments(self, hierarchy: SignalHierarchy) -> Segments:
        """The segments of the leaves of a batch."""
        if self.window is not None:
            return segments_by_window(hierarchy, self.window)
        if isinstance(self.segment, str):
            return segments_by_type(hierarchy, self.segment)
        return segments_by_depth(hierarchy, cast(int, self.segment))

    def body(self, batch: HeteroData, hierarchy: SignalHierarchy) -> Tensor:
        """The leaf vectors after the last layer, each with its segment's added."""
        leaves = self.encode(batch, hierarchy)
        segments = self.segments(hierarchy)
        places: dict[str, Any] = {"segments": segments}
        if self.position is not None:
            places |= self.position.distinct(batch, hierarchy)._asdict()
        vectors = self.vector.to(leaves.dtype).expand(segments.number, -1)
        vectors = self.dropout(vectors)
        for across, block in zip(self.across, self.blocks, strict=True):
            if across:
                vectors = block(vectors, hierarchy, **places)
            else:
                both = block(torch.cat([leaves, vectors]), hierarchy, **places)
                leaves, vectors = both.split([hierarchy.num_leaves, segments.number])
        return leaves + vectors[segments.of_leaf]


class SegmentAttention(torch.nn.Module):
    r"""Softmax attention within segments or across them.

    Args:
        leaf_types: Leaf types, each with its own projection to queries, keys and
            values; none for attention across segments.
        channels: Size of the vectors.
        heads: Number of heads.
        dropout: Dropout on attention weights.
        position: Positions of the nodes, of which this reads the sizes.

    Shapes:
        - **input:** leaf vectors, then segment vectors :math:`(N + S, F)`, or segment
          vectors alone :math:`(S, F)` without leaf types; hierarchy; segments;
          distinct positions :math:`(U, P)`, their domains :math:`(U)` and the row of
          each node :math:`(M)`
        - **output:** that of the input
    """

    def __init__(
        self,
        leaf_types: list[str],
        channels: int,
        heads: int,
        dropout: float,
        position: HierarchicalPosition | None,
    ) -> None:
        super().__init__()
        if heads < 1 or channels % heads != 0:
            raise ValueError(
                f"'channels' (got {channels}) must be divisible by the number of heads "
                f"(got {heads})"
            )
        self.heads = heads
        self.head_channels = channels // heads
        self.dropout = dropout
        self.lin_leaf = (
            LeafProjection(dict.fromkeys(leaf_types, channels), 3 * channels)
            if leaf_types
            else None
        )
        self.lin_segment = _linear(channels, 3 * channels)
        self.lin_out = _linear(channels, channels)
        self.lin_position = (
            None
            if position is None
            else DomainLinear(
                position.channels, heads, self.head_channels, position.num_domains
            )
        )

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        for module in self.children():
            reset(module)

    def forward(
        self,
        x: Tensor,
        hierarchy: SignalHierarchy,
        segments: Segments,
        position: Tensor | None = None,
        domain: Tensor | None = None,
        position_index: Tensor | None = None,
    ) -> Tensor:
        """Attend among leaves and vectors of a segment, or vectors of a tree."""
        within = self.lin_leaf is not None
        leaves, vectors = x.split([x.size(0) - segments.number, segments.number])
        qkv = self.lin_segment(vectors)
        if self.lin_leaf is not None:
            qkv = torch.cat([self.lin_leaf(leaves, hierarchy), qkv])
        q, k, v = qkv.view(-1, 3, self.heads, self.head_channels).unbind(1)
        place = None
        if self.lin_position is not None:
            eps = self.lin_position(position, domain, position_index)
            eps = path_sum(eps, hierarchy)
            place = segments.mean(eps)
            place = torch.cat([eps, place]) if within else place
        out = grouped_attention(
            q,
            k,
            v,
            segments.within if within else segments.across,
            position=place,
            dropout=self.dropout if self.training else 0.0,
        )
        return self.lin_out(out.flatten(1))


def _linear(in_channels: int, out_channels: int) -> Linear:
    return Linear(
        in_channels,
        out_channels,
        weight_initializer="glorot",
        bias_initializer="zeros",
    )
