"""What message passing on the tree's own edges needs: vectors of all nodes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import HeteroData
from torch_geometric.nn.aggr import Aggregation

from hsa_pyg.data import Schema
from hsa_pyg.experiments.models.signal_model import SignalModel
from hsa_pyg.hierarchy import CHILD_OF, SignalHierarchy
from hsa_pyg.nn import HierarchicalPosition, LeafEncoder
from hsa_pyg.nn.batch_hierarchy import batch_hierarchy
from hsa_pyg.nn.positional.domain_linear import DomainLinear


class NodeModel(SignalModel):
    r"""A model whose body has a vector for every node of the tree.

    A leaf starts with its encoded features and an internal node with the learned vector
    of its type; positions, if any, are mapped per domain and added.

    Args:
        encoder: Encoder of the leaves, or a module per leaf type.
        out_channels: Size of the output per tree.
        channels: Size of the vectors. Not needed with a :class:`LeafEncoder`.
        schema: The data set's schema: its node types and parent edges.
        readout: What :class:`~hsa_pyg.nn.LeafReadout` takes, or ``"root"`` for the
            vector of the root, which needs as many layers as the tree is deep.
        dropout: Dropout on encoded leaves, on branches and on tree vectors.
        position: Positions in the domains of the hierarchy, or :obj:`None` for none.

    Raises:
        ValueError: if the schema has no parent edges.
    """

    def __init__(
        self,
        encoder: LeafEncoder | Mapping[str, torch.nn.Module],
        out_channels: int,
        channels: int | None = None,
        *,
        schema: Schema,
        readout: str | Aggregation = "mean",
        dropout: float = 0.1,
        position: HierarchicalPosition | None = None,
    ) -> None:
        root = isinstance(readout, str) and readout == "root"
        super().__init__(
            encoder,
            out_channels,
            channels,
            readout="mean" if root else readout,
            dropout=dropout,
            position=position,
        )
        if not schema.parent_edges:
            raise ValueError(
                f"the schema has no edge type (child_type, {CHILD_OF!r}, parent_type), "
                "so there is nothing to pass messages along"
            )
        self.reads_root = root
        self.node_types = list(schema.nodes)
        self.parent_edges = list(schema.parent_edges)
        #: One learned vector per internal type, in the order of ``internal_types``.
        self.internal_types = list(schema.internal_types)
        self.type_vectors = torch.nn.Parameter(
            torch.empty(len(self.internal_types), self.channels)
        )
        self.lin_position = (
            None
            if position is None
            else DomainLinear(position.channels, 1, self.channels, position.num_domains)
        )
        self._reset_type_vectors()

    @classmethod
    def _options_of(cls, schema: Schema) -> dict[str, Any]:
        return {"schema": schema}

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        super().reset_parameters()
        self._reset_type_vectors()

    def _reset_type_vectors(self) -> None:
        torch.nn.init.normal_(self.type_vectors, std=self.channels**-0.5)

    def forward(self, batch: HeteroData) -> Tensor:
        r"""One output per tree, [T, out_channels].

        Raises:
            ValueError: if a signal is not one tree, has types that the schema lacks, or
                its features do not match the encoders.
        """
        if not self.reads_root:
            return super().forward(batch)
        hierarchy = batch_hierarchy(batch)
        x = self.norm(self.node_body(batch, hierarchy))
        roots = hierarchy.roots
        # Roots run type after type, which need not be the order of the samples.
        of_tree = torch.empty_like(roots)
        of_tree[tree_of_nodes(batch, hierarchy)[roots]] = roots
        return self.head(self.dropout(x[of_tree]))

    def body(self, batch: HeteroData, hierarchy: SignalHierarchy) -> Tensor:
        """The leaf vectors [N, channels] before the last norm."""
        return self.node_body(batch, hierarchy)[hierarchy.leaves]

    @abstractmethod
    def node_body(self, batch: HeteroData, hierarchy: SignalHierarchy) -> Tensor:
        """The vectors [M, channels] of all nodes before the last norm."""

    def encode_nodes(self, batch: HeteroData, hierarchy: SignalHierarchy) -> Tensor:
        """The vectors [M, channels] that all nodes start with."""
        kinds = hierarchy.node_slices
        unknown = [kind for kind in kinds if kind not in self.node_types]
        if unknown:
            raise ValueError(
                f"the signals have nodes of the types {unknown}, but the model was "
                f"made for {self.node_types}; make it by from_schema of the data set's "
                "schema"
            )
        leaves = self.encode(batch, hierarchy)
        number = [
            self.internal_types.index(kind) if kind in self.internal_types else -1
            for kind in kinds
        ]
        sizes = [stop - start for start, stop in kinds.values()]
        kind_of = torch.tensor(number, device=hierarchy.device).repeat_interleave(
            torch.tensor(sizes, device=hierarchy.device)
        )
        inner = (kind_of >= 0).nonzero().view(-1)
        vectors = self.dropout(self.type_vectors.to(leaves.dtype)[kind_of[inner]])
        x = leaves.new_zeros(hierarchy.num_nodes, self.channels)
        x = x.index_copy(0, hierarchy.leaves, leaves).index_copy(0, inner, vectors)
        if self.position is not None and self.lin_position is not None:
            eps = self.lin_position(*self.position.distinct(batch, hierarchy))
            x = x + eps.squeeze(1).to(x.dtype)
        return x


def tree_of_nodes(batch: HeteroData, hierarchy: SignalHierarchy) -> Tensor:
    """The sample [M] of every node of a batch, by node id; zeros for one signal."""
    parts = []
    for kind, (start, stop) in hierarchy.node_slices.items():
        sample = batch[kind].get("batch") if stop > start else None
        if sample is None:
            sample = hierarchy.parent.new_zeros(stop - start)
        parts.append(sample)
    return torch.cat(parts) if parts else hierarchy.parent
