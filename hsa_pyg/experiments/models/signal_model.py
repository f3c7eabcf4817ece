"""What the models that HSA is compared with have in common with it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import LayerNorm
from torch_geometric.data import HeteroData
from torch_geometric.nn.aggr import Aggregation
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import reset

from hsa_pyg.data import Schema
from hsa_pyg.hierarchy import SignalHierarchy
from hsa_pyg.nn import HierarchicalPosition, LeafEncoder, LeafReadout
from hsa_pyg.nn.batch_hierarchy import batch_hierarchy
from hsa_pyg.nn.dropout import Dropout

Model = TypeVar("Model", bound="SignalModel")


class SignalModel(torch.nn.Module):
    r"""Leaf encoders, a body, a norm, a readout and a linear head.

    All but the body stands where :class:`~hsa_pyg.nn.HSATransformer` has it, with the
    same dropout, so that models of this class differ from it in their bodies alone.

    Args:
        encoder: Encoder of the leaves, or a module per leaf type.
        out_channels: Size of the output per tree.
        channels: Size of the leaf vectors. Not needed with a :class:`LeafEncoder`.
        readout: What :class:`~hsa_pyg.nn.LeafReadout` takes.
        dropout: Dropout on encoded leaves, on branches and on tree vectors.
        position: Positions in the domains of the hierarchy, or :obj:`None` for none.

    Shapes:
        - **input:** a signal or a batch of T signals
        - **output:** :math:`(T, \text{out\_channels})`
    """

    def __init__(
        self,
        encoder: LeafEncoder | Mapping[str, torch.nn.Module],
        out_channels: int,
        channels: int | None = None,
        *,
        readout: str | Aggregation = "mean",
        dropout: float = 0.1,
        position: HierarchicalPosition | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(encoder, LeafEncoder):
            if channels is None:
                raise ValueError("'channels' is needed with a module per leaf type")
            encoder = LeafEncoder(channels, modules=encoder)
        if channels not in (None, encoder.channels):
            raise ValueError(
                f"'channels' is {channels}, but the encoder gives vectors of size "
                f"{encoder.channels}"
            )
        self.channels = encoder.channels
        self.encoder = encoder
        self.position = position
        self.dropout = Dropout(dropout)
        self.norm = LayerNorm(self.channels)
        self.readout = LeafReadout(readout, self.channels)
        self.head = Linear(self.channels, out_channels)

    @classmethod
    def from_schema(
        cls: type[Model],
        schema: Schema,
        out_channels: int,
        channels: int = 64,
        *,
        vocab_sizes: Mapping[str, int | Sequence[int]] | None = None,
        encoder: LeafEncoder | None = None,
        **kwargs: Any,
    ) -> Model:
        r"""A model for the signals of a data set.

        Args:
            schema: The data set's schema.
            out_channels: Size of the output per tree.
            channels: Size of the leaf vectors.
            vocab_sizes: Vocabulary sizes of the leaf types that hold token ids.
            encoder: Encoder of the leaves, instead of one made for the schema.
            **kwargs: Further arguments of the class.

        Raises:
            ValueError: if both ``encoder`` and ``vocab_sizes`` are given, the encoder
                has another size, or a leaf type of token ids has no vocabulary size.
        """
        if encoder is None:
            encoder = LeafEncoder.from_schema(schema, channels, vocab_sizes)
        elif vocab_sizes is not None:
            raise ValueError("give either 'encoder' or 'vocab_sizes', not both")
        return cls(encoder, out_channels, channels, **cls._options_of(schema), **kwargs)

    @classmethod
    def _options_of(cls, schema: Schema) -> dict[str, Any]:
        """Arguments of the class that a schema determines."""
        return {}

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        for module in self.children():
            reset(module)

    def forward(self, batch: HeteroData) -> Tensor:
        r"""One output per tree, [T, out_channels].

        Raises:
            TypeError: if ``batch`` is no signal and no batch of them.
            ValueError: if a signal is not one tree, or its features do not match the
                encoders.
        """
        x, hierarchy = self.embed(batch)
        return self.head(self.dropout(self.readout(x, hierarchy)))

    def embed(self, batch: HeteroData) -> tuple[Tensor, SignalHierarchy]:
        r"""The leaf vectors [N, channels] after the body, and their hierarchy."""
        hierarchy = batch_hierarchy(batch)
        return self.norm(self.body(batch, hierarchy)), hierarchy

    def encode(self, batch: HeteroData, hierarchy: SignalHierarchy) -> Tensor:
        """The encoded leaves [N, channels], with dropout."""
        return self.dropout(self.encoder(batch.x_dict, hierarchy))

    @abstractmethod
    def body(self, batch: HeteroData, hierarchy: SignalHierarchy) -> Tensor:
        """The leaf vectors [N, channels] before the last norm."""
