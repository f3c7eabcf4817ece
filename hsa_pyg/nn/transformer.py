"""A transformer over the leaves of nested signals, and its twins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import LayerNorm
from torch_geometric.data import HeteroData
from torch_geometric.nn.aggr import Aggregation
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import reset

from hsa_pyg.hierarchy import SignalHierarchy
from hsa_pyg.nn.batch_hierarchy import batch_hierarchy
from hsa_pyg.nn.dropout import Dropout
from hsa_pyg.nn.encoder import LeafEncoder, LeafSchema
from hsa_pyg.nn.flat_attention import FlatConv
from hsa_pyg.nn.functional import check_positive
from hsa_pyg.nn.hsa_conv import HSAConv
from hsa_pyg.nn.positional import HierarchicalPosition
from hsa_pyg.nn.readout import LeafReadout
from hsa_pyg.ops.patterns import Pattern

Attention = Literal["hsa", "flat", "none"]
Block = Literal["pre_norm", "paper"]

_LAYERS: dict[str, type[HSAConv] | None] = {
    "hsa": HSAConv,
    "flat": FlatConv,
    "none": None,
}


class PreNormBlock(torch.nn.Module):
    r"""Attention and a point-wise MLP, each normalised before and added to its input.

    .. math::
        \mathbf{h} = \mathbf{x} + \mathrm{Attention}(\mathrm{LayerNorm}(\mathbf{x})),
        \qquad
        \mathbf{x}' = \mathbf{h} + \mathrm{MLP}(\mathrm{LayerNorm}(\mathbf{h}))

    Args:
        channels: Size of the leaf vectors.
        conv: The attention layer, or :obj:`None` for the MLP alone.
        expansion: Width of the MLP's hidden layer, in ``channels``.
        dropout: Dropout on the output of both branches.
        hidden_channels: Width of the MLP's hidden layer, instead of by ``expansion``.

    Shapes:
        - **input:** :math:`(N, F)`, hierarchy, what else the attention takes
        - **output:** :math:`(N, F)`
    """

    def __init__(
        self,
        channels: int,
        conv: HSAConv | None,
        expansion: int,
        dropout: float,
        hidden_channels: int | None = None,
    ) -> None:
        super().__init__()
        self.conv = conv
        self.norm_attention = LayerNorm(channels) if conv is not None else None
        self.norm_mlp = LayerNorm(channels)
        self.mlp = _mlp(channels, expansion, hidden_channels)
        self.dropout = Dropout(dropout)

    def forward(
        self, x: Tensor, hierarchy: SignalHierarchy, **position: Tensor
    ) -> Tensor:
        """One block over all leaves of a batch."""
        if self.conv is not None and self.norm_attention is not None:
            attended = self.conv(self.norm_attention(x), hierarchy, **position)
            x = x + self.dropout(attended)
        return x + self.dropout(self.mlp(self.norm_mlp(x)))


class PaperBlock(torch.nn.Module):
    r"""The paper's own block (docs/mathematics.md, section 8).

    .. math::
        \mathbf{h} = \mathrm{LayerNorm}(\mathrm{Attention}(\mathbf{x})), \qquad
        \mathbf{x}' = \mathbf{h} + \mathrm{MLP}(\mathbf{h})

    The attention normalises queries, keys and values and adds the queries to its
    output; there is no other residual around it.

    Args:
        channels: Size of the leaf vectors.
        conv: The attention layer, or :obj:`None` for the MLP alone.
        expansion: Width of the MLP's hidden layer, in ``channels``.
        dropout: Dropout on the output of both branches.
        hidden_channels: Width of the MLP's hidden layer, instead of by ``expansion``.

    Shapes:
        - **input:** :math:`(N, F)`, hierarchy, what else the attention takes
        - **output:** :math:`(N, F)`
    """

    def __init__(
        self,
        channels: int,
        conv: HSAConv | None,
        expansion: int,
        dropout: float,
        hidden_channels: int | None = None,
    ) -> None:
        super().__init__()
        self.conv = conv
        self.norm = LayerNorm(channels)
        self.mlp = _mlp(channels, expansion, hidden_channels)
        self.dropout = Dropout(dropout)

    def forward(
        self, x: Tensor, hierarchy: SignalHierarchy, **position: Tensor
    ) -> Tensor:
        """One block over all leaves of a batch."""
        if self.conv is not None:
            x = self.dropout(self.conv(x, hierarchy, **position))
        x = self.norm(x)
        return x + self.dropout(self.mlp(x))


def _mlp(channels: int, expansion: int, hidden: int | None) -> torch.nn.Sequential:
    if hidden is None:
        hidden = expansion * channels
    return torch.nn.Sequential(
        Linear(channels, hidden), torch.nn.GELU(), Linear(hidden, channels)
    )


class HSATransformer(torch.nn.Module):
    r"""Classifies or regresses nested signals: leaf encoders, blocks of hierarchical
    self-attention, a readout per tree and a linear head.

    Args:
        encoder: Encoder of the leaves, or a module per leaf type.
        out_channels: Size of the output per tree, for instance the number of classes.
        channels: Size of the leaf vectors. Not needed with a :class:`LeafEncoder`.
        num_layers: Number of blocks.
        heads: Number of attention heads.
        attention: ``"hsa"``; ``"flat"``, softmax attention over each tree's leaves with
            the same parameters (:class:`~hsa_pyg.nn.FlatConv`); or ``"none"``, no
            attention, which leaves a DeepSet.
        block: ``"pre_norm"`` (:class:`PreNormBlock`) or ``"paper"``
            (:class:`PaperBlock`).
        readout: What :class:`~hsa_pyg.nn.LeafReadout` takes.
        dropout: Dropout on encoded leaves, on branches and on tree vectors.
        attention_dropout: Dropout on attention weights.
        self_attention: Whether a leaf attends to itself.
        position: Positions in the domains of the hierarchy, or :obj:`None` for none.
        expansion: Width of the MLPs' hidden layers, in ``channels``.
        hidden_channels: Width of these layers, instead of by ``expansion``.
        tie_queries: Whether all leaves below a node meet its siblings with one query.
        causal: A node sees no sibling with a larger node id; for both see
            :class:`~hsa_pyg.nn.HSAConv`.
        top_k: Number of siblings that a node attends to, those with the largest scores
            (semantic focus); :obj:`None` for all.
        top_k_includes_self: Whether a leaf itself is one of these.
        pattern: What a node sees of its siblings by its place among them; for the three
            see :class:`~hsa_pyg.nn.HSAConv`.
        backend: See :func:`~hsa_pyg.nn.functional.hierarchical_attention`.

    Shapes:
        - **input:** a signal or a batch of T signals
        - **output:** :math:`(T, \text{out\_channels})`

    Raises:
        ValueError: for an unknown ``attention`` or ``block``, heads that do not divide
            ``channels``, no ``hidden_channels``, or what else
            :class:`~hsa_pyg.nn.HSAConv` refuses.
        NotImplementedError: for ``causal``, ``top_k`` or ``pattern`` with
            ``attention="flat"``.
    """

    def __init__(
        self,
        encoder: LeafEncoder | Mapping[str, torch.nn.Module],
        out_channels: int,
        channels: int | None = None,
        num_layers: int = 2,
        heads: int = 4,
        *,
        attention: Attention = "hsa",
        block: Block = "pre_norm",
        readout: str | Aggregation = "mean",
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        self_attention: bool = True,
        position: HierarchicalPosition | None = None,
        expansion: int = 2,
        hidden_channels: int | None = None,
        tie_queries: bool = True,
        causal: bool = False,
        backend: str = "auto",
        top_k: int | None = None,
        top_k_includes_self: bool = False,
        pattern: Pattern | None = None,
    ) -> None:
        super().__init__()
        if attention not in _LAYERS:
            raise ValueError(
                f"'attention' must be one of {list(_LAYERS)}, got {attention!r}"
            )
        if num_layers < 0:
            raise ValueError(f"'num_layers' must not be negative, got {num_layers}")
        if block not in ("pre_norm", "paper"):
            raise ValueError(f"'block' must be 'pre_norm' or 'paper', got {block!r}")
        if hidden_channels is not None:
            check_positive("hidden_channels", hidden_channels)
        if not isinstance(encoder, LeafEncoder):
            if channels is None:
                raise ValueError("'channels' is needed with a module per leaf type")
            encoder = LeafEncoder(channels, modules=encoder)
        channels = encoder.channels
        if attention != "none" and (heads < 1 or channels % heads != 0):
            raise ValueError(
                f"'channels' (got {channels}) must be divisible by the number of heads "
                f"(got {heads})"
            )
        paper = block == "paper"
        block_class = PaperBlock if paper else PreNormBlock
        options: dict[str, Any] = {
            "dropout": attention_dropout,
            "self_attention": self_attention,
            "qkv_norm": paper,
            "query_residual": paper,
            "tie_queries": tie_queries,
            "causal": causal,
            "backend": backend,
            "top_k": top_k,
            "top_k_includes_self": top_k_includes_self,
            "pattern": pattern,
        }
        if position is not None and attention != "none":
            options["position_dim"] = position.channels
            options["num_domains"] = position.num_domains
        else:
            position = None  # Nothing would read it.

        self.attention = attention
        self.encoder = encoder
        self.position = position
        self.dropout = Dropout(dropout)
        layer = _LAYERS[attention]
        # Queries, keys and values by modality, as in the paper.
        widths = dict.fromkeys(encoder.leaf_types, channels)
        self.blocks = torch.nn.ModuleList(
            block_class(
                channels,
                None if layer is None else layer(widths, channels, heads, **options),
                expansion,
                dropout,
                hidden_channels,
            )
            for _ in range(num_layers)
        )
        self.norm = torch.nn.Identity() if paper else LayerNorm(channels)
        self.readout = LeafReadout(readout, channels)
        self.head = Linear(channels, out_channels)

    @classmethod
    def from_schema(
        cls,
        schema: LeafSchema,
        out_channels: int,
        channels: int = 64,
        *,
        vocab_sizes: Mapping[str, int | Sequence[int]] | None = None,
        **kwargs: Any,
    ) -> HSATransformer:
        r"""A transformer for the signals of a data set.

        Args:
            schema: The data set's :class:`~hsa_pyg.data.Schema`.
            out_channels: Size of the output per tree.
            channels: Size of the leaf vectors.
            vocab_sizes: Vocabulary sizes of the leaf types that hold token ids; a list
                of sizes for rows of several ids, such as those of atoms.
            **kwargs: Further arguments of :class:`HSATransformer`.

        Raises:
            ValueError: if a leaf type of token ids has no vocabulary size.
        """
        encoder = LeafEncoder.from_schema(schema, channels, vocab_sizes)
        return cls(encoder, out_channels, **kwargs)

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        for module in self.children():
            reset(module)

    def forward(self, batch: HeteroData) -> Tensor:
        r"""One output per tree.

        Args:
            batch: A :class:`~hsa_pyg.NestedSignal`, or a batch of T of them.

        Returns:
            [T, out_channels].

        Raises:
            TypeError: if ``batch`` is neither.
            ValueError: if ``batch`` was cut by a neighbour sampler, or its features do
                not match the encoders.
        """
        x, hierarchy = self.embed(batch)
        return self.head(self.dropout(self.readout(x, hierarchy)))

    def embed(self, batch: HeteroData) -> tuple[Tensor, SignalHierarchy]:
        r"""The leaf vectors [N, channels] after the last block, and their hierarchy."""
        hierarchy = batch_hierarchy(batch)
        x = self.dropout(self.encoder(batch.x_dict, hierarchy))
        position: dict[str, Tensor] = {}
        if self.position is not None:
            position = self.position.distinct(batch, hierarchy)._asdict()
        for block in self.blocks:
            x = block(x, hierarchy, **position)
        return self.norm(x), hierarchy
