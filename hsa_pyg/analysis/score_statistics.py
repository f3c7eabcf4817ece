"""How attention scores spread within families, and what is kept of them.

These are the quantities by which Ram et al., "Transformers Learn Faster with Semantic
Focus" (NeurIPS 2025), explain why attention to the largest scores learns faster.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hsa_pyg.analysis.block_weights import (
    attention_layers,
    check_size,
    evaluate,
    watch_layers,
)
from hsa_pyg.hierarchy import SignalHierarchy, check_is_hierarchy
from hsa_pyg.nn import HSAConv
from hsa_pyg.nn.functional import check_pattern, make_focus
from hsa_pyg.ops.numbers import compute_dtype
from hsa_pyg.ops.patterns import Pattern
from hsa_pyg.ops.weights import SiblingScores, sibling_scores

#: The quantities of :class:`ScoreStatistics`.
QUANTITIES = ("entropy", "dispersion", "kept_dispersion", "separation", "times_kept")


class Summary(NamedTuple):
    """What a quantity is on the whole, head by head."""

    members: Tensor  #: [H] how many members have it
    mean: Tensor  #: [H]
    quantiles: Tensor  #: [number of quantiles, H]


@dataclass(frozen=True)
class ScoreStatistics:
    """Scores and weights of every member of every family, as a query and as a key.

    The scores of a query B are s(B, C) + log n_C of its siblings C, and s(i, i) of a
    leaf that attends to itself. What an internal node gives to its inside follows from
    energies, not from a score, and plays no part. A number that does not exist is NaN:
    where a query keeps nothing (alone in its block), or, for ``separation``, where it
    drops nothing.
    """

    node: Tensor  #: [Q] node ids of the members
    entropy: Tensor  #: [Q, H] of the softmax over what a query keeps, in nats
    dispersion: Tensor  #: [Q, H] largest less least score
    kept_dispersion: Tensor  #: [Q, H] the same over what is kept
    #: [Q, H] least kept less largest dropped of the scores that compete: without a
    #: leaf's own where ``top_k`` keeps it in any case. Negative at will for patterns.
    separation: Tensor
    times_kept: Tensor  #: [Q, H] queries that keep this member, itself included

    def summary(
        self, quantiles: Sequence[float] = (0.25, 0.5, 0.75)
    ) -> dict[str, Summary]:
        """Mean and quantiles of each quantity over the members that have it.

        Args:
            quantiles: between 0 and 1.
        """
        found = {}
        for name in QUANTITIES:
            value = getattr(self, name).double()
            at = torch.tensor(quantiles, dtype=value.dtype, device=value.device)
            found[name] = Summary(
                (~value.isnan()).sum(0),
                value.nanmean(0),
                _quantiles(value, at),
            )
        return found


def score_statistics(
    q: Tensor,
    k: Tensor,
    hierarchy: SignalHierarchy,
    position: Tensor | None = None,
    self_attention: bool = True,
    scale: float | None = None,
    top_k: int | None = None,
    top_k_includes_self: bool = False,
    pattern: Pattern | None = None,
) -> ScoreStatistics:
    r"""How scores spread within families, and what is kept of them.

    Memory grows with the number of pairs of siblings. No gradients.

    Args:
        q: queries of the leaves, [N, H, D].
        k: keys of the leaves, [N, H, D].
        hierarchy: the forest of M nodes and N leaves.
        position: positional embeddings of the nodes, [M, P] or [M, H, P].
        self_attention: as in :func:`~hsa_pyg.hierarchical_attention`.
        scale: the factor of the scores; by default :math:`1 / \sqrt D`.
        top_k: as in :func:`~hsa_pyg.hierarchical_attention`.
        top_k_includes_self: likewise.
        pattern: likewise.

    Raises:
        TypeError: for a ``hierarchy`` or a ``pattern`` that is none.
        ValueError: for shapes that do not fit, forms that do not go together, or too
            many pairs of siblings.

    Example:
        >>> import torch
        >>> from hsa_pyg import SignalHierarchy
        >>> h = SignalHierarchy.from_parents(torch.tensor([-1, 0, 0, 0, 0]))
        >>> q = torch.ones(4, 1, 1)
        >>> k = torch.tensor([0.0, 1.0, 2.0, 4.0]).view(4, 1, 1)
        >>> found = score_statistics(q, k, h, top_k=2, top_k_includes_self=True)
        >>> found.separation[:, 0].tolist(), found.times_kept[:, 0].tolist()
        ([1.0, 1.0, 1.0, 1.0], [0, 0, 4, 4])
    """
    check_is_hierarchy(hierarchy)
    focus = make_focus(top_k, top_k_includes_self, self_attention)
    check_pattern(pattern, top_k, self_attention)
    if q.dim() == 3:
        check_size(hierarchy, q.size(1))
    if position is not None and position.dim() == 2:
        position = position.unsqueeze(1)
    with torch.no_grad():
        dtype = compute_dtype(q, k)
        scores = sibling_scores(
            q.to(dtype),
            k.to(dtype),
            hierarchy,
            self_attention=self_attention,
            position=None if position is None else position.to(dtype),
            scale=1 / math.sqrt(q.size(-1)) if scale is None else scale,
            pattern=pattern,
        )
        kept = scores.kept(focus)
        # A leaf that keeps itself in any case is neither chosen nor dropped.
        competes = focus is None or focus.includes_self
        return _measure(scores, *kept, own_competes=competes)


def collect_score_statistics(
    model: torch.nn.Module, *args: Any, **kwargs: Any
) -> list[ScoreStatistics]:
    """Call a model and gather the statistics of all its layers.

    The model runs as in evaluation, without dropout and gradients, and stays as it was.

    Args:
        model: a model with :class:`~hsa_pyg.nn.HSAConv` layers.
        args: what it is called with, on its device.
        kwargs: likewise.

    Returns:
        One for each layer, in the order in which they ran, on the CPU.

    Raises:
        ValueError: if no such layer runs, or there are too many pairs of siblings.
        NotImplementedError: for layers with untied queries, whose leaves meet the
            siblings of a node with scores of their own.
    """
    layers = attention_layers(model)
    if not all(layer.tie_queries for layer in layers):
        raise NotImplementedError(
            "with tie_queries=False every leaf below a node has scores of its own; "
            "there are statistics for tied queries alone"
        )
    collected: list[ScoreStatistics] = []

    def keep(layer: HSAConv, given: tuple, named: dict[str, Any], output: Any) -> None:
        inputs = {x: y for x, y in named.items() if not x.startswith("return_")}
        q, k, _, eps, hierarchy = layer.project(*given[:4], **inputs)
        found = score_statistics(
            q,
            k,
            hierarchy,
            position=eps,
            self_attention=layer.self_attention,
            top_k=layer.top_k,
            top_k_includes_self=layer.top_k_includes_self,
            pattern=layer.pattern,
        )
        collected.append(ScoreStatistics(*(x.cpu() for x in vars(found).values())))

    watch_layers(layers, keep, lambda: evaluate(model, *args, **kwargs))
    return collected


def _measure(
    scores: SiblingScores, pair: Tensor, own: Tensor, own_competes: bool
) -> ScoreStatistics:
    """The statistics, given the scores that are kept (-infinity for others)."""
    members, leaves = scores.parent.numel(), own.size(0)
    # Leaves of families, as queries and keys of themselves.
    leaf = (scores.parent[members - leaves :] >= 0).nonzero().view(-1)
    row = leaf + members - leaves
    target = torch.cat([scores.target, row])
    source = torch.cat([scores.source, row])
    score = torch.cat([scores.pair, scores.own[leaf]])
    kept = torch.cat([pair, own[leaf]]).isfinite()
    # Leaves that do not attend to themselves have no such score.
    exists = score.isfinite()
    competes = exists.clone()
    competes[scores.target.numel() :] &= own_competes

    def largest(value: Tensor, where: Tensor) -> Tensor:
        """The largest of each query, -infinity where there is none."""
        out = value.new_full((members, value.size(1)), float("-inf"))
        index = target[:, None].expand_as(value)
        value = value.masked_fill(~where, float("-inf"))
        return out.scatter_reduce(0, index, value, "amax")

    def spread(where: Tensor) -> Tensor:
        return largest(score, where) + largest(-score, where)

    top = largest(score, kept)
    shifted = (score - top[target]).masked_fill(~kept, 0)
    weight = shifted.exp().masked_fill(~kept, 0)
    nothing = torch.zeros_like(top)
    total = nothing.index_add(0, target, weight)
    entropy = total.log() - nothing.index_add(0, target, weight * shifted) / total
    gap = -largest(-score, kept & competes) - largest(score, ~kept & competes)
    times = nothing.long().index_add(0, source, kept.long())

    query = (scores.parent >= 0).nonzero().view(-1)
    return ScoreStatistics(
        node=scores.node[query],
        entropy=_real(entropy[query]),
        dispersion=_real(spread(exists)[query]),
        kept_dispersion=_real(spread(kept)[query]),
        separation=_real(gap[query]),
        times_kept=times[query],
    )


def _real(value: Tensor) -> Tensor:
    """NaN in place of what came of nothing."""
    return value.masked_fill(~value.isfinite(), float("nan"))


def _quantiles(value: Tensor, at: Tensor) -> Tensor:
    """Linear quantiles of each column without NaN, as ``torch.nanquantile``.

    That takes at most 2^24 numbers.
    """
    count = (~value.isnan()).sum(0)
    if value.size(0) == 0:
        return value.new_full((at.numel(), value.size(1)), float("nan"))
    # NaN is sorted to the end.
    ordered = value.sort(0).values
    place = at[:, None] * (count - 1).clamp(min=0)
    low, high = place.floor().long(), place.ceil().long()
    below, above = ordered.gather(0, low), ordered.gather(0, high)
    return below + (above - below) * (place - low)
