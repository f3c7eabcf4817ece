"""A vector for each page, and message passing along the links between pages."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import LayerNorm
from torch_geometric.nn import GATConv, SAGEConv
from torch_geometric.nn.conv import MessagePassing

from hsa_pyg.nn.dropout import Dropout

Links = Literal["sage", "gat", "none"]
LINKS = ("sage", "gat", "none")


class LinkedPages(torch.nn.Module):
    r"""Classifies pages from what is on them and on those that they are linked with.

    .. math::
        \mathbf{x} \leftarrow \mathbf{x} + \mathrm{GELU}(\mathrm{Conv}(
        \mathrm{LayerNorm}(\mathbf{x}), \mathrm{links}))

    in each layer, then a linear head. Links are followed in both directions.

    The encoder and the layers are called apart, :meth:`encode` for some pages and
    :meth:`classify` for all vectors, since the pages of a website rarely fit into one
    step.

    Args:
        pages: Maps a batch of P pages to vectors [P, channels], such as a
            :class:`~hsa_pyg.nn.HSATransformer` with ``out_channels=channels``.
        channels: Size of the vectors.
        out_channels: Number of classes.
        links: ``"sage"`` (:class:`~torch_geometric.nn.conv.SAGEConv`), ``"gat"``
            (:class:`~torch_geometric.nn.conv.GATConv`), or ``"none"``, which leaves
            every page alone.
        num_layers: Number of layers along the links.
        heads: Heads of ``"gat"``.
        dropout: Dropout on the branches and before the head.

    Raises:
        ValueError: for unknown ``links``, or heads that do not divide ``channels``.
    """

    def __init__(
        self,
        pages: torch.nn.Module,
        channels: int,
        out_channels: int,
        *,
        links: Links = "sage",
        num_layers: int = 2,
        heads: int = 4,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        if links not in LINKS:
            raise ValueError(f"'links' must be one of {LINKS}, got {links!r}")
        if heads < 1 or channels % heads != 0:
            raise ValueError(
                f"'channels' (got {channels}) must be divisible by the number of heads "
                f"(got {heads})"
            )
        self.pages = pages
        self.channels = channels
        layers = 0 if links == "none" else num_layers
        self.convs = torch.nn.ModuleList(
            _conv(links, channels, heads) for _ in range(layers)
        )
        self.norms = torch.nn.ModuleList(LayerNorm(channels) for _ in range(layers))
        self.norm = LayerNorm(channels)
        self.dropout = Dropout(dropout)
        self.head = torch.nn.Linear(channels, out_channels)

    def encode(self, batch: object) -> Tensor:
        """The vectors [P, channels] of a batch of P pages, each for itself."""
        return self.pages(batch)

    def classify(self, x: Tensor, links: Tensor) -> Tensor:
        """Logits [P, out_channels] of all pages.

        Args:
            x: [P, channels] vectors of the pages.
            links: [2, L] pages that link and those that they lead to.
        """
        both = torch.cat([links, links.flip(0)], dim=1)
        for norm, conv in zip(self.norms, self.convs, strict=True):
            sent = torch.nn.functional.gelu(conv(norm(x), both))
            x = x + self.dropout(sent)
        return self.head(self.dropout(self.norm(x)))

    def forward(self, batch: object, links: Tensor) -> Tensor:
        """Logits [P, out_channels] of a batch that holds all pages."""
        return self.classify(self.encode(batch), links)


def _conv(links: str, channels: int, heads: int) -> MessagePassing:
    if links == "gat":
        return GATConv(channels, channels // heads, heads)
    return SAGEConv(channels, channels)
