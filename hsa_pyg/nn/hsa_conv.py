"""The hierarchical self-attention layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import LayerNorm
from torch_geometric.nn.conv import MessagePassing
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import reset

from hsa_pyg.hierarchy import EdgeType, SignalHierarchy
from hsa_pyg.nn.functional import (
    check_pattern,
    check_positive,
    hierarchical_attention,
    make_focus,
    queries_are_tied,
)
from hsa_pyg.nn.leaf_features import (
    LeafFeatures,
    check_hierarchy,
    compile_edges,
    split_leaves,
)
from hsa_pyg.nn.leaf_projection import LeafProjection
from hsa_pyg.nn.positional.domain_linear import DomainLinear, embed_nodes
from hsa_pyg.nn.readout import leaf_means
from hsa_pyg.ops import family_weights
from hsa_pyg.ops.backends import check_name
from hsa_pyg.ops.patterns import Pattern


class HSAConv(MessagePassing):
    r"""The hierarchical self-attention operator from the `"Hierarchical
    Self-Attention: Generalizing Neural Attention Mechanics to Multi-Scale Problems"
    <https://arxiv.org/abs/2509.15448>`_ paper.

    .. math::
        \mathbf{x}^{\prime}_i = \mathbf{W}_o \sum_{j} \theta_{ij} \mathbf{W}_v
        \mathbf{x}_j

    over all leaves :math:`j` of the tree of leaf :math:`i`. Per head,
    :math:`\theta_{ij}` is constant over :math:`\ell(B) \times \ell(C)` for any two
    siblings :math:`B, C`, with the score

    .. math::
        s(B, C) = \frac{1}{\sqrt{d}} \, \bar{\mathbf{q}}_B^{\top} \bar{\mathbf{k}}_C
        + \epsilon_B^{\top} \epsilon_C

    of the mean query and key of the leaves below them and their positions in their
    parent's domain, and it is the closest such matrix (in Kullback-Leibler divergence)
    to softmax attention over the leaves. On a flat tree it is softmax attention.

    The layer does not call :meth:`message`: families attend in a fused operator.
    ``explain`` is therefore :obj:`False`, and PyG's explainers leave it alone; use
    ``return_attention_weights`` or :func:`hsa_pyg.analysis.attention_matrix`. Nor does
    it take the arguments of :class:`~torch_geometric.nn.conv.MessagePassing`
    (``aggr``, ``flow``, ...), which could have no effect.

    A family spans node types and needs all of its members. The layer is heterogeneous
    by itself: do not convert it by :func:`torch_geometric.nn.to_hetero` (it refuses),
    and do not feed it trees that were cut by
    :class:`~torch_geometric.loader.NeighborLoader` or
    :func:`~torch_geometric.utils.trim_to_layer`; load whole signals by
    :class:`hsa_pyg.loader.DataLoader`.

    Args:
        in_channels: Size of the leaf features, or -1 to derive it from the first
            input: one projection shared by all leaves. A dictionary gives each leaf
            type its size (or -1) and its own projection.
        out_channels: Size of the output. With ``concat`` the heads share it, each
            ``out_channels // heads`` wide.
        heads: Number of attention heads.
        concat: If :obj:`False`, every head is ``out_channels`` wide and the heads are
            averaged instead of concatenated.
        dropout: Probability that an attention weight is dropped in training.
        bias: If :obj:`False`, the projections have no additive bias.
        self_attention: Whether a leaf attends to itself, as softmax attention does;
            :obj:`False` is the paper's form (its Eq. 8).
        position_dim: Size P of the positional embeddings, or :obj:`None` for none. The
            layer maps them linearly to as many channels as a head has.
        num_domains: Number of domains, each with its own map of positions.
        qkv_norm: Layer normalisation of queries, keys and values, per head.
        query_residual: Add the queries to what the heads attend to. Both are parts of
            the paper's own block, see :class:`~hsa_pyg.nn.HSATransformer`.
        top_k: Number of siblings that a node attends to, per head, chosen by their
            scores (semantic focus); :obj:`None` for all.
        top_k_includes_self: Whether a leaf itself is one of these. For both see
            :func:`~hsa_pyg.nn.functional.hierarchical_attention`.
        tie_queries: Whether all leaves below a node meet its siblings with one query,
            their mean. :obj:`False`: each with its own, which comes closer to softmax
            attention, takes longer on deep trees and needs no other parameters.
        causal: A node sees no sibling with a larger node id (in a heterogeneous forest
            node ids run type by type, as the hierarchy numbers them). Queries are then
            untied, whatever ``tie_queries`` says.
        backend: See :func:`~hsa_pyg.nn.functional.hierarchical_attention`.
        pattern: What a node sees of its siblings by its place among them,
            :func:`~hsa_pyg.nn.banded` or :func:`~hsa_pyg.nn.blocklocal`; :obj:`None`
            for all.

    Shapes:
        - **input:** leaf features :math:`(N, F_{in})` with a hierarchy of N leaves and
          M nodes, or a dictionary of :math:`(n, F)` per leaf type with a hierarchy or
          with edges :math:`(2, E)` per edge type; positions :math:`(M, P)`
        - **output:** leaf features :math:`(N, F_{out})` or a dictionary of
          :math:`(n, F_{out})` with every leaf type, also those without nodes. With
          ``return_attention_weights``: :math:`((N, F_{out}), ((2, E), (E, H)))`

    Raises:
        ValueError: if ``out_channels`` is not divisible by ``heads``, a size or
            probability is out of range, for a ``pattern`` with ``top_k`` or one that
            may leave a leaf without a key.
        NotImplementedError: for untied queries with ``top_k`` or ``pattern``; for them
            or ``pattern`` with a backend that has none.

    .. code-block:: python

        >>> import torch
        >>> from hsa_pyg import HSAConv, SignalHierarchy
        >>> h = SignalHierarchy.from_parents(torch.tensor([-1, 0, 0, 1, 1]))
        >>> conv = HSAConv(16, 64, heads=8)
        >>> conv
        HSAConv(16, 64, heads=8)
        >>> conv(torch.randn(h.num_leaves, 16), h).shape
        torch.Size([3, 64])
    """

    def __init__(
        self,
        in_channels: int | Mapping[str, int],
        out_channels: int,
        heads: int = 1,
        concat: bool = True,
        dropout: float = 0.0,
        bias: bool = True,
        *,
        self_attention: bool = True,
        position_dim: int | None = None,
        num_domains: int = 1,
        qkv_norm: bool = False,
        query_residual: bool = False,
        top_k: int | None = None,
        top_k_includes_self: bool = False,
        tie_queries: bool = True,
        causal: bool = False,
        backend: str = "auto",
        pattern: Pattern | None = None,
    ) -> None:
        if not isinstance(in_channels, int | Mapping):
            raise TypeError(
                "'in_channels' must be a number, or a dictionary of one for each leaf "
                f"type, got {type(in_channels).__name__}; queries and keys belong to "
                "the same leaves, so there is no pair of sizes"
            )
        check_name(backend)
        check_positive("out_channels", out_channels)
        check_positive("heads", heads)
        if concat and out_channels % heads != 0:
            raise ValueError(
                f"'out_channels' (got {out_channels}) must be divisible by the number "
                f"of heads (got {heads})"
            )
        if not 0.0 <= dropout <= 1.0:
            raise ValueError(f"'dropout' must lie in [0, 1], got {dropout}")
        make_focus(top_k, top_k_includes_self, self_attention)
        tie_queries = queries_are_tied(tie_queries, causal, top_k, pattern)
        check_pattern(pattern, top_k, self_attention)
        lacking = "tie_queries=False" if pattern is None else "pattern"
        if backend in ("cpp", "triton") and not (tie_queries and pattern is None):
            raise NotImplementedError(
                f"backend {backend!r} has no {lacking}; choose backend='auto' or "
                "'torch'"
            )
        super().__init__(aggr="sum", node_dim=0)
        self.explain = False  # message() is never called, see the class docstring.

        self.in_channels: int | dict[str, int] = (
            in_channels if isinstance(in_channels, int) else dict(in_channels)
        )
        self.out_channels = out_channels
        self.heads = heads
        self.concat = concat
        self.dropout = dropout
        self.self_attention = self_attention
        self.position_dim = position_dim
        self.num_domains = num_domains
        self.query_residual = query_residual
        self.top_k = top_k
        self.top_k_includes_self = top_k_includes_self
        self.tie_queries = tie_queries
        self.causal = causal
        self.backend = backend
        self.pattern = pattern
        self.head_channels = out_channels // heads if concat else out_channels

        # One matrix for queries, keys and values: one pass over the leaves.
        self.lin_qkv = LeafProjection(
            self.in_channels, 3 * heads * self.head_channels, bias
        )
        self.lin_out = Linear(
            out_channels,
            out_channels,
            bias=bias,
            weight_initializer="glorot",
            bias_initializer="zeros",
        )
        norms = [LayerNorm(self.head_channels) for _ in range(3)] if qkv_norm else []
        self.norms = torch.nn.ModuleList(norms)
        self.lin_position = (
            None
            if position_dim is None
            else DomainLinear(position_dim, heads, self.head_channels, num_domains)
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        super().reset_parameters()
        self.lin_qkv.reset_parameters()
        self.lin_out.reset_parameters()
        reset(self.norms)
        if self.lin_position is not None:
            self.lin_position.reset_parameters()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse symbolic tracing, by which ``to_hetero`` takes models apart."""
        for argument in (*args, *kwargs.values()):
            if isinstance(argument, torch.fx.Proxy):
                raise TypeError(
                    f"{type(self).__name__} cannot be traced by torch.fx: a family "
                    "spans node types, which to_hetero would tear apart. The layer "
                    "takes x_dict and edge_index_dict as it is"
                )
        return super().__call__(*args, **kwargs)

    def forward(
        self,
        x: LeafFeatures,
        hierarchy: SignalHierarchy | Mapping[EdgeType, Tensor],
        position: Tensor | None = None,
        domain: Tensor | None = None,
        return_attention_weights: bool | None = None,
        return_internal: bool = False,
        position_index: Tensor | None = None,
    ) -> Any:
        r"""Runs the forward pass of the module.

        Args:
            x: Leaf features [N, F], or a dictionary [n, F] per leaf type.
            hierarchy: The compiled forest (cheapest: compile it once for all layers),
                or a dictionary of ``(child_type, "child_of", parent_type)`` edges
                [2, E]; other relations are not looked at. An internal type has as many
                nodes then as the edges name.
            position: Positional embedding of every node in its parent's domain [M, P],
                zero where there is none, see
                :class:`~hsa_pyg.nn.HierarchicalPosition`.
            domain: Domain of every node's position, [M], between 0 and
                ``num_domains - 1``; not needed if there is one domain.
            return_attention_weights: Additionally return ``(edge_index, alpha)``, as
                PyG's attention layers do, by node ids of the hierarchy. An edge C -> B
                between siblings has the weight [H] that each leaf under B puts on all
                leaves under C together, so that
                :math:`\theta_{ij} = \alpha_{CB} / n_C`; the self-loops of the leaves,
                in the order of ``hierarchy.leaves``, come last. Dropout is left out.
                (A dictionary of edges numbers the leaf types first, as in ``x``, then
                the others as the edges name them; ``batch.hierarchy`` numbers the types
                as ``batch.node_types`` does.) Untied queries have no weights of
                siblings.
            return_internal: Also return internal nodes: the mean of the output over
                the leaves below (zero if there are none). A tensor then has one row
                per node, [M, F_out], by node id; a dictionary has every node type.
            position_index: Row of ``position`` that belongs to each node, [M]. Then
                ``position`` [U, P] and ``domain`` [U] hold what differs, each mapped
                once: see :meth:`HierarchicalPosition.distinct`.

        Raises:
            TypeError: for an argument of the wrong kind.
            ValueError: for rows, widths, types, devices or dtypes that do not match,
                for edges of which none is ``child_of``, and for positions with edges.
            NotImplementedError: for attention weights of untied queries.
        """
        if return_attention_weights and not self.tie_queries:
            raise NotImplementedError(
                "with untied queries the leaves below a node have weights of their "
                "own, so there are none between siblings; see "
                "hsa_pyg.analysis.attention_matrix"
            )
        q, k, v, eps, hierarchy = self.project(
            x, hierarchy, position, domain, position_index
        )
        out = self._attend(q, k, v, hierarchy, eps)
        if self.query_residual:
            out = out + q
        out = out.flatten(1) if self.concat else out.mean(dim=1)
        out = self.lin_out(out)

        result: Any = out
        if return_internal:
            result = leaf_means(out, hierarchy)
        if isinstance(x, Mapping):
            result = (
                {name: result[a:b] for name, (a, b) in hierarchy.node_slices.items()}
                if return_internal
                else split_leaves(out, hierarchy)
            )
        if return_attention_weights:
            return result, self._attention_weights(q, k, hierarchy, eps)
        return result

    def project(
        self,
        x: LeafFeatures,
        hierarchy: SignalHierarchy | Mapping[EdgeType, Tensor],
        position: Tensor | None = None,
        domain: Tensor | None = None,
        position_index: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None, SignalHierarchy]:
        """What attention is given for some input (arguments are those of ``forward``).

        Queries, keys and values [N, H, D], positions [M, H, D], the compiled forest.
        """
        if isinstance(hierarchy, Mapping):
            if position is not None:
                raise ValueError(
                    "'position' has a row per node of a hierarchy, but a dictionary of "
                    "edges does not say in which order: pass batch.hierarchy"
                )
            types = self.in_channels if isinstance(self.in_channels, dict) else ()
            hierarchy = compile_edges(x, hierarchy, types)
        check_hierarchy(x, hierarchy)
        qkv = self.lin_qkv(x, hierarchy)
        qkv = qkv.view(-1, 3, self.heads, self.head_channels)
        q, k, v = qkv.unbind(1)
        if len(self.norms) > 0:
            q, k, v = (norm(x) for norm, x in zip(self.norms, (q, k, v), strict=True))
        eps = embed_nodes(
            self.lin_position, position, domain, position_index, hierarchy.num_nodes
        )
        return q, k, v, eps, hierarchy

    def _attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        hierarchy: SignalHierarchy,
        eps: Tensor | None,
    ) -> Tensor:
        return hierarchical_attention(
            q,
            k,
            v,
            hierarchy,
            self_attention=self.self_attention,
            position=eps,
            dropout=self.dropout if self.training else 0.0,
            top_k=self.top_k,
            top_k_includes_self=self.top_k_includes_self,
            tie_queries=self.tie_queries,
            causal=self.causal,
            backend=self.backend,
            pattern=self.pattern,
        )

    def _attention_weights(
        self, q: Tensor, k: Tensor, hierarchy: SignalHierarchy, eps: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        pair_index, pair_weight, self_weight = family_weights(
            q,
            k,
            hierarchy,
            self_attention=self.self_attention,
            position=eps,
            scale=self.head_channels**-0.5,
            focus=make_focus(self.top_k, self.top_k_includes_self, self.self_attention),
            pattern=self.pattern,
        )
        loops = hierarchy.leaves.expand(2, -1)
        return (
            torch.cat([pair_index, loops], dim=1),
            torch.cat([pair_weight, self_weight]),
        )

    def __repr__(self) -> str:
        form = "" if self.tie_queries else ", tie_queries=False"
        form += ", causal=True" if self.causal else ""
        form += "" if self.pattern is None else f", pattern={self.pattern}"
        return (
            f"{self.__class__.__name__}({self.in_channels}, {self.out_channels}, "
            f"heads={self.heads}{form})"
        )
