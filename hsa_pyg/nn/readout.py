"""From leaves to trees, and to the nodes between."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.parameter import is_lazy
from torch_geometric.nn import aggr as aggregations
from torch_geometric.nn.aggr import Aggregation, AttentionalAggregation
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import reset
from torch_geometric.nn.resolver import aggregation_resolver

from hsa_pyg.hierarchy import SignalHierarchy
from hsa_pyg.nn.leaf_features import LeafFeatures, check_hierarchy, join_leaves

_HALF = (torch.bfloat16, torch.float16)
#: Aggregations that take rows in any order; PyG's others may want them sorted by tree.
_OF_ANY_ORDER = (
    aggregations.SumAggregation,
    aggregations.MeanAggregation,
    aggregations.MaxAggregation,
    aggregations.MinAggregation,
    aggregations.MulAggregation,
    aggregations.VarAggregation,
    aggregations.StdAggregation,
    aggregations.SoftmaxAggregation,
    aggregations.PowerMeanAggregation,
    aggregations.AttentionalAggregation,
)


class LeafReadout(torch.nn.Module):
    r"""One vector per tree, aggregated over its leaves.

    The rows come from the hierarchy's metadata: there are ``hierarchy.num_trees`` of
    them, and those of trees without a leaf are what the aggregation gives an empty set
    (zeros for the mean and for attention), never NaN.

    Args:
        aggr: ``"mean"``, ``"attention"`` (a learned gate,
            :class:`~torch_geometric.nn.aggr.AttentionalAggregation`), another name
            that PyG resolves (``"max"``, ``"sum"``, ...), or an
            :class:`~torch_geometric.nn.aggr.Aggregation` of your own.
        channels: Size of the leaf features; only ``"attention"`` needs it.

    Raises:
        ValueError: for a name that is not known, or ``"attention"`` without channels.

    Shapes:
        - **input:** leaf features :math:`(N, F)`, or a dictionary of
          :math:`(n, F)` per leaf type, and their hierarchy
        - **output:** tree features :math:`(T, F)`

    .. code-block:: python

        >>> import torch
        >>> from hsa_pyg import SignalHierarchy
        >>> h = SignalHierarchy.from_parents(torch.tensor([-1, -1, 0, 0]))
        >>> x = torch.tensor([[9.0], [1.0], [3.0]])  # leaves 1, 2 and 3
        >>> LeafReadout("mean")(x, h)
        tensor([[2.],
                [9.]])
    """

    def __init__(
        self, aggr: str | Aggregation = "mean", channels: int | None = None
    ) -> None:
        super().__init__()
        if aggr == "attention":
            if channels is None:
                raise ValueError("the readout 'attention' needs 'channels'")
            aggr = AttentionalAggregation(Linear(channels, 1))
        try:
            self.aggr = aggregation_resolver(aggr)
        except ValueError as error:
            raise ValueError(
                f"no readout is called {aggr!r}: take 'mean', 'sum', 'max', "
                "'attention', another name that "
                "torch_geometric.nn.resolver.aggregation_resolver knows, or an "
                "Aggregation"
            ) from error

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        reset(self.aggr)

    def forward(self, x: LeafFeatures, hierarchy: SignalHierarchy) -> Tensor:
        r"""Aggregate leaf rows.

        Args:
            x: Leaf features [N, F], in the order of ``hierarchy.leaves``, or what a
                layer gave, [n, F] per leaf type.
            hierarchy: The compiled forest of T trees.

        Returns:
            [T, F], in the dtype of ``x``; summed in float32 at least.

        Raises:
            TypeError: if ``x`` holds no tensors, or ``hierarchy`` is none.
            ValueError: if ``x`` has another number of rows than there are leaves, or
                its types differ in width.
        """
        x = _leaf_rows(x, hierarchy)
        index, dtype = hierarchy.leaf_tree, x.dtype
        if type(self.aggr) not in _OF_ANY_ORDER:
            # Leaves run type by type, and others want theirs tree by tree.
            index, order = torch.sort(index, stable=True)
            x = x[order]
        sizes = {"index": index, "dim_size": hierarchy.num_trees, "dim": 0}
        if dtype not in _HALF:
            return self.aggr(x, **sizes)
        # A running sum in bfloat16 stops growing at 256 times its terms.
        held = dict(self.aggr.named_parameters()) | dict(self.aggr.named_buffers())
        half = {name: one for name, one in held.items() if one.dtype in _HALF}
        if not half or any(is_lazy(one) for one in half.values()):
            wide = x if half else x.float()
            return self.aggr(wide, **sizes).to(dtype)
        widened = {name: one.float() for name, one in half.items()}
        out = functional_call(self.aggr, widened, (x.float(),), sizes)
        for name, buffer in self.aggr.named_buffers():
            if name in half:
                # Running means, for instance, are of what was seen.
                buffer.copy_(widened[name])
        return out.to(dtype)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.aggr})"


def _leaf_rows(x: LeafFeatures, hierarchy: SignalHierarchy) -> Tensor:
    check_hierarchy(x, hierarchy)
    if isinstance(x, Tensor):
        return x
    return join_leaves(x, hierarchy, "map them to one width first, as HSAConv does")


def leaf_means(x: LeafFeatures, hierarchy: SignalHierarchy) -> Tensor:
    r"""The mean over the leaves below every node (docs/mathematics.md, section 8).

    Args:
        x: Leaf features [N, ...], in the order of ``hierarchy.leaves``, or what a
            layer gave, [n, F] per leaf type.
        hierarchy: The compiled forest of M nodes.

    Returns:
        [M, ...] by node id, in the dtype of ``x``, of integers in float32. A leaf has
        its own row, a node without leaves zeros.
    """
    if not isinstance(x, Tensor):
        x = _leaf_rows(x, hierarchy)
    dtype = torch.promote_types(x.dtype, torch.float32)
    total = x.new_zeros(hierarchy.num_nodes, *x.shape[1:], dtype=dtype)
    total = total.index_copy(0, hierarchy.leaves, x.to(dtype))
    deepest_first = torch.argsort(hierarchy.depth, descending=True, stable=True)
    per_level = torch.bincount(hierarchy.depth, minlength=hierarchy.max_depth + 1)
    # The last chunk holds the roots, which have nobody to add to.
    levels = deepest_first.split(per_level.flip(0).tolist())[:-1]
    for nodes in levels:
        total = total.index_add_(0, hierarchy.parent[nodes], total[nodes])
    count = hierarchy.leaf_counts.clamp(min=1).view(-1, *[1] * (x.dim() - 1))
    return (total / count).to(x.dtype if x.is_floating_point() else dtype)
