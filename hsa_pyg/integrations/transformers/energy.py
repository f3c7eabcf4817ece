"""Trees by the energy itself, which says how far attention is from softmax."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from hsa_pyg.hierarchy import SignalHierarchy
from hsa_pyg.integrations.transformers.search import check_share, layer_scores
from hsa_pyg.integrations.transformers.trees import Tokens, nested_forest

# Entries of the tables of scores that are held at one time.
_TABLE = 2**23


@dataclass(frozen=True)
class Energy:
    r"""Neighbours merged into families under the root where the energy rises least.

    N times the energy of the root is, up to a constant, the sum of all tokens' KL
    divergence from softmax attention (docs/mathematics.md, property 4), here summed
    over the heads, with tied queries. The rise that each merge brings is computed
    exactly, for each pair of nodes that it saves; merges that are the cheapest around,
    and among the cheaper half of their text's, are done at once, up to the ``share``,
    as in :class:`~hsa_pyg.integrations.transformers.search.Clusters`. Greedy as it is,
    it may end at a tree that is not the best.

    The search looks at all scores several times: it costs more than the attention that
    the tree saves. It is for trees that are kept, and to measure other trees by.

    Args:
        share: the part of softmax attention's FLOPs that attention may cost.
    """

    share: float = 0.1
    needs_scores = True

    def __post_init__(self) -> None:
        check_share(self.share)

    def __call__(self, tokens: Tokens) -> SignalHierarchy:
        """Build the forest."""
        q, k = layer_scores(tokens, "Energy")
        batch, length = tokens.kept.shape
        place = tokens.kept.cumsum(1)[tokens.kept] - 1
        text = tokens.text_of_leaf
        level = torch.full_like(text, -1)
        step = max(1, _TABLE // max(1, q.size(1) * length**2))
        for start in range(0, batch, step):
            here = ((text >= start) & (text < start + step)).nonzero()[:, 0]
            if here.numel() == 0:
                continue
            at = (text[here] - start, place[here])
            shape = (int(at[0].max()) + 1, int(at[1].max()) + 1)
            dense = [x.new_zeros(*shape, *x.shape[1:]) for x in (q, k)]
            for to, x in zip(dense, (q, k), strict=True):
                to[at] = x[here]
            kind = text.new_full(shape, -1)
            kind[at] = tokens.special_leaf[here].long()
            search = _Search(dense[0], dense[1], kind, self.share)
            level[here] = search.run()[at]
        return nested_forest(tokens, [level])


class _Search:
    """Greedy merges in some texts, padded to one length.

    Args:
        q: [B, L, H, D].
        k: [B, L, H, D].
        kind: [B, L] 0 for tokens, 1 for special ones, -1 for padding, at the end.
        share: see :class:`Energy`.
    """

    def __init__(self, q: Tensor, k: Tensor, kind: Tensor, share: float) -> None:
        self.q, self.k = q / q.size(3) ** 0.5, k
        self.kept = kind >= 0
        self.length = self.kept.sum(1)
        self.limit = share * self.length.double().square()
        score = torch.einsum("bihd,bjhd->bhij", self.q, k)
        score = score.masked_fill(~self.kept[:, None, None], float("-inf"))
        self.top = score.amax(3)
        self.weight = (score - self.top[..., None]).exp()
        # Of every token its group; of every group its size and whether it may merge.
        places = torch.arange(kind.size(1), device=kind.device)
        self.group = places.expand_as(kind).clone()
        self.size = self.kept.long()
        self.free = kind == 0

    def run(self) -> Tensor:
        """Group of every token [B, L], -1 for those in none."""
        while True:
            merged = self._choose(self.rise()) if self.size.size(1) > 1 else None
            if merged is None or not bool(merged.any()):
                break
            self._merge(merged)
        size = self.size.gather(1, self.group)
        return torch.where(size > 1, self.group, -1)

    def rise(self) -> Tensor:
        """[B, K - 1] what each merge of two neighbours adds to N phi, all heads."""
        group = torch.where(self.kept, self.group, 0)
        member = one_hot(group, self.size.size(1)).to(self.q) * self.kept[..., None]
        size = self.size.to(self.q)
        count = size.clamp(min=1)[:, :, None, None]
        mean_q = torch.einsum("blk,blhd->bkhd", member, self.q) / count
        mean_k = torch.einsum("blk,blhd->bkhd", member, self.k) / count
        score = torch.einsum("bihd,bjhd->bhij", mean_q, mean_k)
        log_size = size.log()[:, None]  # -inf where there is no group
        gain, gain_after, gain_before = self._gains(member, group)
        gain = gain / count[:, None, :, 0, 0]
        n_b, n_c = size[:, None, :-1], size[:, None, 1:]
        n_p = (n_b + n_c).clamp(min=1)
        share_b, share_c = n_b / n_p, n_c / n_p

        # What every group meets: its siblings, and on the diagonal itself.
        meets = score + log_size[:, :, None, :]
        meets.diagonal(dim1=2, dim2=3).copy_(gain)
        highest = meets.amax(3)
        mass = (meets - highest[..., None]).exp()
        total = mass.sum(3)
        log_total = total.log() + highest
        # Others, once the two are one sibling.
        joint = (
            share_b[:, :, None] * score[..., :-1] + share_c[:, :, None] * score[..., 1:]
        )
        joint = (joint + n_p.log()[:, :, None] - highest[..., None]).exp()
        after = total[..., None] - mass[..., :-1] - mass[..., 1:] + joint
        least = torch.finfo(after.dtype).tiny
        lost = (total[..., None] / after.clamp(min=least)).log()
        mine = self._pair_member(lost.size(2), lost.device)
        lost = lost.masked_fill(mine, 0) * size[:, None, :, None]
        # The merged group itself.
        joint = (
            share_b[..., None] * score[:, :, :-1] + share_c[..., None] * score[:, :, 1:]
        )
        joint = (joint + log_size[:, :, None]).masked_fill(mine.T, float("-inf"))
        inside = (gain_after[..., :-1] + gain_before[..., 1:]) / n_p
        own = n_p * torch.logaddexp(inside, joint.logsumexp(3))
        was = n_b * log_total[..., :-1] + n_c * log_total[..., 1:]
        rise = (was - own + lost.sum(2)).sum(1)
        fits = self.free[:, :-1] & self.free[:, 1:]
        return rise.masked_fill(~fits, float("inf"))

    def _gains(self, member: Tensor, group: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """[B, H, K] sums over each group's tokens of log-sum-exps of scores: within
        the group, with the one after it, with the one before it."""
        to = self.weight @ member[:, None]
        last = member.size(2) - 1
        found = []
        own = to.gather(3, group[:, None, :, None].expand(-1, to.size(1), -1, 1))
        for shift in (0, 1, -1):
            near = (group + shift).clamp(0, last)[:, None, :, None]
            near = to.gather(3, near.expand(-1, to.size(1), -1, 1))
            weight = own if shift == 0 else own + near
            log = (weight[..., 0].log() + self.top).masked_fill(~self.kept[:, None], 0)
            found.append((log[:, :, None] @ member[:, None])[:, :, 0])
        return found[0], found[1], found[2]

    @staticmethod
    def _pair_member(groups: int, device: torch.device) -> Tensor:
        """[K, K - 1] whether a group is one of the two of a pair."""
        index = torch.arange(groups, device=device)
        apart = index[:, None] - index[:-1]
        return (apart == 0) | (apart == 1)

    def _choose(self, rise: Tensor) -> Tensor:
        """[B, K - 1] bool: which pairs merge now, by their rise for each pair saved."""
        size = torch.where(self.size > 1, self.size, 0).square()
        joint = (self.size[:, 1:] + self.size[:, :-1]).square()
        more = joint - size[:, 1:] - size[:, :-1]
        root = (self.size > 0).sum(1, keepdim=True)
        saved = 2 * root - 1 - more
        price = (rise / saved.clamp(min=1)).masked_fill(saved <= 0, float("inf"))
        fits = price.isfinite()
        edge = price.new_full((price.size(0), 1), float("inf"))
        before = torch.cat([edge, price[:, :-1]], 1)
        after = torch.cat([price[:, 1:], edge], 1)
        median = price.masked_fill(~fits, float("nan")).nanmedian(1, keepdim=True)[0]
        chosen = fits & (price < before) & (price <= after) & (price <= median)
        # In the order of their price, as long as that is needed and makes it cheaper.
        order = price.masked_fill(~chosen, float("inf")).argsort(dim=1, stable=True)
        done = chosen.gather(1, order)
        more = more.gather(1, order).masked_fill(~done, 0)
        now = size.sum(1, keepdim=True)
        cost = now + more.cumsum(1) + (root - done.cumsum(1)).square()
        previous = torch.cat([now + root.square(), cost[:, :-1]], 1)
        needed = (previous > self.limit[:, None]) & (cost < previous)
        done &= needed.cumprod(1).bool()
        return torch.zeros_like(done).scatter_(1, order, done)

    def _merge(self, merged: Tensor) -> None:
        """Make one group of both groups of each pair."""
        gone = torch.cat([torch.zeros_like(merged[:, :1]), merged], 1)
        number = (~gone).cumsum(1) - 1
        shape = (gone.size(0), int(number.max()) + 1)
        size = self.size.new_zeros(shape).scatter_add_(1, number, self.size)
        free = torch.zeros_like(size).scatter_add_(1, number, self.free.long())
        self.group = number.gather(1, self.group)
        filled = int((size > 0).sum(1).max())
        self.size, self.free = size[:, :filled], free[:, :filled] > 0
        self.group = self.group.clamp(max=filled - 1)
