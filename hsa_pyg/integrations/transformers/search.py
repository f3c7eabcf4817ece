"""Trees that a layer's own keys suggest."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hsa_pyg.compilation import count_leaves
from hsa_pyg.hierarchy import SignalHierarchy
from hsa_pyg.integrations.transformers.merging import Merges, merge
from hsa_pyg.integrations.transformers.splitting import halve
from hsa_pyg.integrations.transformers.trees import Tokens, nested_forest, runs

# Merges for each token of a text that make the families within families.
_PAIRED = 0.4


@dataclass(frozen=True)
class Ward:
    """Neighbours merged where a layer's keys are most alike, level by level.

    On every level the nodes of a run (what lies between special tokens) merge by
    Ward's criterion into families of at most ``size`` members, until ``size`` nodes or
    fewer are left.

    Args:
        size: largest number of members of a family.
    """

    size: int
    needs_scores = True

    def __post_init__(self) -> None:
        if self.size < 2:
            raise ValueError(
                f"families must have 2 members or more, got {self.size}; write the "
                "size as in 'ward:8'"
            )

    def __call__(self, tokens: Tokens) -> SignalHierarchy:
        """Build the forest."""
        key = layer_scores(tokens, "Ward")[1].flatten(1)
        run = runs(tokens)[0]
        inner = (~tokens.special_leaf).nonzero()[:, 0]
        levels = []
        # Of every node its features, tokens and run; of every token its node.
        x, mass, group = key[inner], key.new_ones(inner.numel()), run[inner]
        node = torch.arange(inner.numel(), device=inner.device)
        while True:
            label = self._level(x, mass, group)
            if label is None:
                break
            below, number = torch.unique(label, return_inverse=True)
            if below.numel() == label.numel():
                break  # keys that are not finite have no distances: none merge
            size = torch.bincount(number)
            total = mass.new_zeros(below.numel()).index_add_(0, number, mass)
            x = x.new_zeros(below.numel(), x.size(1)).index_add_(
                0, number, x * mass[:, None]
            )
            x, mass = x / total[:, None], total
            group = group.new_zeros(below.numel()).scatter_(0, number, group)
            node = number[node]
            level = torch.full_like(run, -1)
            level[inner] = torch.where(size[node] > 1, node, -1)
            levels.append(level)
        return nested_forest(tokens, levels)

    def _level(self, x: Tensor, mass: Tensor, group: Tensor) -> Tensor | None:
        """First node of the family of each node in order, or None to stop."""
        count = torch.bincount(group) if group.numel() else group
        if group.numel() == 0 or int(count.max()) <= self.size:
            return None
        one = torch.ones_like(group)
        limit = torch.full_like(count, self.size)
        merges = merge(x, mass, group, one, adjacent=True, most=limit)
        # Families are full by two thirds, so that what stands out can stay alone.
        wanted = torch.minimum(-(-3 * count // (2 * self.size)), count - 1)
        most = torch.where(count > self.size, count - wanted, 0)
        of_merge = merges.group[merges.num_nodes :]
        order, rank = merges.ranks(of_merge)
        kept = torch.zeros_like(order, dtype=torch.bool)
        kept[order] = rank < most[of_merge[order]]
        label = merges.cut(kept)
        # Numbered by first nodes, so that families stay in order.
        index = torch.arange(label.numel(), device=label.device)
        first = torch.full_like(merges.above, label.numel())
        return first.scatter_reduce_(0, label, index, "amin")[label]


@dataclass(frozen=True)
class Clusters:
    r"""Tokens with like keys in one family, and the families under the root.

    Many small families right under the root follow softmax attention far closer than
    families nested in families do: what is far away is seen through blocks of some
    tokens rather than of half the text. Tokens merge by Ward's criterion on their keys'
    mean over the heads. Merging stops as soon as attention over the tree costs the
    ``share`` of softmax attention in FLOPs
    (:func:`~hsa_pyg.analysis.attention_flops`). What has merged with nothing by then is
    a child of the root. Where families right under the root cannot cost so little (N
    tokens at least :math:`1.9 N^{4/3}` pairs), the first merges, 0.4 for each token,
    make small families within them. Where that does not do, either, the least cost is
    taken: short texts cannot be had for little.

    With ``adjacent`` the search is linear in the tokens. Without, it compares all pairs
    of a text (or of a block of it), :math:`2 D / (4 C + H)` of the FLOPs of softmax
    attention.

    Args:
        share: the part of softmax attention's FLOPs that attention may cost.
        adjacent: only neighbours merge, and none across a special token.
        weighted: tokens weigh by the attention that special tokens pay them, so that
            those much attended to stay alone.
        block: where not only neighbours merge, texts of more tokens are first halved
            across the direction in which they vary most, until no part has more.
    """

    share: float = 0.1
    adjacent: bool = False
    weighted: bool = True
    block: int = 256
    needs_scores = True

    def __post_init__(self) -> None:
        check_share(self.share)
        if self.block < 2:
            raise ValueError(f"block must be 2 tokens or more, got {self.block}")

    def __call__(self, tokens: Tokens) -> SignalHierarchy:
        """Build the forest."""
        q, k = layer_scores(tokens, "Clusters")
        special, text = tokens.special_leaf, tokens.text_of_leaf
        inner = (~special).nonzero()[:, 0]
        mass = k.new_ones(text.numel())
        if self.weighted:
            mass = _attended(q, k, special, text)
        x, mass = k.mean(1)[inner], mass[inner]
        if self.adjacent:
            order, part = inner, runs(tokens)[0][inner]
        else:
            part = halve(x, text[inner], self.block)
            by_part = torch.argsort(part, stable=True)
            order, part = inner[by_part], part[by_part]
            x, mass = x[by_part], mass[by_part]
        one = torch.ones_like(part)
        merges = merge(x, mass, part, one, adjacent=self.adjacent)
        length = tokens.kept.sum(1)
        levels = []
        for kept in _kept_merges(merges, part, text[order], length, self.share):
            label = merges.cut(kept)
            level = torch.full_like(text, -1)
            level[order] = torch.where(label >= merges.num_nodes, label, -1)
            levels.append(level)
        return nested_forest(tokens, _without_only_children(levels))


def _without_only_children(levels: list[Tensor]) -> list[Tensor]:
    """Leave out groups of the first level that are whole groups of the second."""
    if len(levels) < 2:
        return levels
    below, above = levels
    first = below.masked_fill(below == above, -1)
    return [first, above]


def _kept_merges(
    merges: Merges, part: Tensor, text: Tensor, length: Tensor, share: float
) -> list[Tensor]:
    """Which merges [m] are made for each level, cheapest first.

    Args:
        merges: of all nodes.
        part: [n] the group that every node lies in.
        text: [n] the text that it lies in.
        length: [B] tokens of every text, special ones included.
        share: see :class:`Clusters`.
    """
    n = merges.num_nodes
    if merges.left.numel() == 0:
        return []
    text_of_part = torch.zeros_like(torch.bincount(part)).scatter_(0, part, text)
    of_merge = text_of_part[merges.group[n:]]
    order, rank = merges.ranks(of_merge)
    target = share * length.double().square()
    if share == 1:
        return []

    def prefix(last: Tensor) -> Tensor:
        kept = torch.zeros_like(order, dtype=torch.bool)
        kept[order] = rank <= last[of_merge[order]]
        return kept

    cost = _costs(merges, order, rank, of_merge, length, None)
    last, least = _first_enough(cost, rank, of_merge[order], target)
    short = least > target
    if not bool(short.any()):
        return [prefix(last)]
    # Small families within the families.
    count = torch.bincount(text, minlength=length.numel())
    some = torch.where(short, (_PAIRED * count).long(), 0) - 1
    bottom = prefix(some)
    cost = _costs(merges, order, rank, of_merge, length, bottom)
    cost = cost.masked_fill(bottom[order], float("inf"))
    deeper, least = _first_enough(cost, rank, of_merge[order], target)
    last = torch.where(short & least.isfinite(), deeper, last)
    return [bottom, prefix(last)]


def _costs(
    merges: Merges,
    order: Tensor,
    rank: Tensor,
    of_merge: Tensor,
    length: Tensor,
    bottom: Tensor | None,
) -> Tensor:
    """[m] pairs of a text after each merge in order, those of ``bottom`` below it."""
    n, size = merges.num_nodes, merges.size
    base = torch.zeros_like(length)
    if bottom is not None:
        below = torch.cat([bottom.new_zeros(n), bottom])
        top = merges.above == torch.arange(size.numel(), device=size.device)
        size = size - count_leaves(merges.above.masked_fill(top, -1), below)
        pairs = torch.where(merges.size > 1, merges.size.square(), 0)
        more = pairs[n:] - pairs[merges.left] - pairs[merges.right]
        base = base.index_add(0, of_merge[bottom], more[bottom])
    pairs = torch.where(size > 1, size.square(), 0)
    more = (pairs[n:] - pairs[merges.left] - pairs[merges.right])[order]
    # Sums within texts; then the root's family, which each merge makes smaller.
    total, start, text = more.cumsum(0), rank == 0, of_merge[order]
    before = torch.zeros_like(length)
    before[text[start]] = (total - more)[start]
    root = (length[text] - 1 - rank).square()
    return (total - before[text] + root + base[text]).double()


def _first_enough(
    cost: Tensor, rank: Tensor, text: Tensor, target: Tensor
) -> tuple[Tensor, Tensor]:
    """[B] the first merge that reaches the target or else the least cost; that cost."""
    least = torch.full_like(target, float("inf")).scatter_reduce_(0, text, cost, "amin")
    there = cost <= torch.maximum(least, target)[text]
    last = torch.full_like(target, torch.iinfo(torch.int32).max).long()
    last.scatter_reduce_(0, text[there], rank[there], "amin")
    return last, least


def check_share(share: float) -> None:
    """Raise a ValueError unless 0 < share <= 1."""
    if not 0 < share <= 1:
        raise ValueError(
            f"share must be more than 0 and at most 1, got {share}; it is the part of "
            "softmax attention's FLOPs that may be spent, such as 0.1"
        )


def layer_scores(tokens: Tokens, name: str) -> tuple[Tensor, Tensor]:
    """Queries and keys [N, H, D], in float32 or wider."""
    if tokens.q is None or tokens.k is None:
        raise ValueError(
            f"{name} reads a layer's queries and keys: give Tokens with q and k, or "
            "pass it to replace_attention(hierarchy=...), which does"
        )
    dtype = torch.promote_types(tokens.k.dtype, torch.float32)
    return tokens.q.to(dtype), tokens.k.to(dtype)


def _attended(q: Tensor, k: Tensor, special: Tensor, text: Tensor) -> Tensor:
    """[N] one more than the attention that the special tokens' mean query pays.

    The attention counts 1 where it is even. Special tokens are often what is read in
    the end; in a text without any, all tokens ask.
    """
    texts = int(text.max()) + 1 if text.numel() else 0
    count = torch.bincount(text, minlength=texts)
    some = torch.bincount(text[special], minlength=texts)
    asking = special | (some == 0)[text]
    query = q.new_zeros(texts, *q.shape[1:]).index_add_(0, text[asking], q[asking])
    asked = torch.where(some == 0, count, some).clamp(min=1)
    query = query / asked[:, None, None]
    score = (query[text] * k).sum(2) / k.size(2) ** 0.5
    row = text[:, None].expand_as(score)
    top = torch.full_like(query[..., 0], float("-inf"))
    top.scatter_reduce_(0, row, score, "amax")
    weight = (score - top[text]).exp()
    total = torch.zeros_like(top).index_add_(0, text, weight)
    return 1 + (weight / total[text]).mean(1) * count[text]
