"""Softmax attention inside families, bucket by bucket, tile by tile.

A tile is a run of families of one bucket, small enough that its queries, keys, values
and scores stay in cache; a family too large for that is cut into runs of queries. A
tile is the only place where scores exist: memory grows with leaves, not with pairs.

Legend of shapes: T families in a tile, b their width, r of their b queries at a time,
H heads, D and W channels of a query and of a value, P of a position (with 1 or H
heads).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from hsa_pyg.compilation import FamilyLayout
from hsa_pyg.ops.focus import Focus, keep_largest
from hsa_pyg.ops.patterns import Pattern

#: Numbers in the working set of a tile: 2 MiB of float32, which caches hold.
_CPU_TILE = 2**19
#: On an accelerator launches cost more than cache misses.
_CUDA_TILE = 2**25
#: Scores of one run of queries of a family that is larger than a tile.
_SCORES = 2**21


@dataclass(frozen=True)
class Tile:
    """A run of families of one bucket, and where their members are."""

    number: int  #: serial number within a call, so that dropout can be repeated
    family: Tensor  #: [T] internal numbers
    width: int  #: b
    start: int  #: first member if all are consecutive, else -1
    member: Tensor  #: [T * b] members to read; padding repeats the family's first
    target: Tensor  #: [T * b] members to write; padding goes to the spare last row
    real: Tensor | None  #: [T, b] which members are no padding; None if all are
    #: where the heads of the members lie, by number of heads, lines a row, and use
    lines: dict[tuple[int, int, bool], Tensor] = field(default_factory=dict)

    def load(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """Rows of ``x`` [rows, H, D] as a contiguous copy [T, H, b, D]."""
        count, heads = self.family.numel(), x.size(1)
        if self.start >= 0:
            rows = x[self.start : self.start + count * self.width]
        elif (lines := _lines(x)) is not None:
            index = self._line_index(self.member, heads, x.stride(0) // x.stride(1))
            rows = lines.index_select(0, index)
            return rows.view(count, heads, self.width, -1).to(dtype)
        else:
            rows = x.index_select(0, self.member)
        rows = rows.unflatten(0, (count, self.width)).transpose(1, 2)
        return rows.to(dtype).contiguous()

    def store(self, out: Tensor, value: Tensor) -> None:
        """Write ``value`` [T, H, b, D] to rows of ``out``, contiguous [rows, H, D]."""
        count, heads = value.shape[:2]
        if self.start >= 0:
            rows = out[self.start : self.start + count * self.width]
            rows.unflatten(0, (count, self.width)).copy_(value.transpose(1, 2))
        else:
            index = self._line_index(self.target, heads, heads)
            value = value.to(out.dtype).view(-1, value.size(3))
            out.view(-1, out.size(2)).index_copy_(0, index, value)

    def _line_index(self, rows: Tensor, heads: int, step: int) -> Tensor:
        """Where the heads of some rows lie in a matrix with one line per head."""
        key = (heads, step, rows is self.target)
        if key not in self.lines:
            head = torch.arange(heads, device=rows.device)[:, None]
            self.lines[key] = (rows.view(-1, 1, self.width) * step + head).view(-1)
        return self.lines[key]

    def sizes(self) -> int | Tensor:
        """Members of each family: a number, or [T, 1] where padded."""
        return self.width if self.real is None else self.real.sum(1, keepdim=True)

    def total(self, value: Tensor) -> Tensor:
        """Sum over the members of each family: [T, H, b, D] to [T, H, D]."""
        if self.real is None:
            return value.sum(2)
        return torch.matmul(self.real[:, None, None].to(value.dtype), value).squeeze(2)


def dropout_factors(like: Tensor, dropout: float, seed: int) -> Tensor:
    """0 with probability ``dropout``, else 1 / (1 - dropout); a seed repeats them."""
    generator = torch.Generator(like.device).manual_seed(seed)
    kept = torch.empty_like(like).bernoulli_(1 - dropout, generator=generator)
    return kept.div_(1 - dropout) if dropout < 1 else kept


def _lines(x: Tensor) -> Tensor | None:
    """The heads of ``x`` [rows, H, D] as lines of a matrix, if that needs no copy."""
    rows, heads, channels = x.shape
    per_row, per_head, per_channel = x.stride()
    if rows == 0 or per_channel != 1 or per_head < channels or per_row % per_head:
        return None
    lines = (rows - 1) * (per_row // per_head) + heads
    return x.as_strided((lines, channels), (per_head, 1))


def tiles(
    layout: FamilyLayout, mixed: bool, spare: int, channels: int
) -> Iterator[Tile]:
    """The tiles of all buckets of one kind, in a fixed order.

    Args:
        layout: the compiled forest.
        mixed: families with internal members, or leaf-only families.
        spare: the row that padding is written to, one behind the last.
        channels: numbers that a tile holds per member, pairs aside.
    """
    budget = _CUDA_TILE if layout.bucket_member.is_cuda else _CPU_TILE
    number = 0
    for kind, width, families, member, family, start, padded in layout.buckets.tolist():
        if bool(kind) != mixed:
            continue
        step = max(1, budget // (width * channels))
        for first in range(0, families, step):
            count = min(step, families - first)
            at = member + first * width
            target = layout.bucket_member[at : at + count * width]
            read, real = target, None
            if padded:
                grid = target.view(count, width)
                real = grid != spare
                read = torch.where(real, grid, grid[:, :1]).view(-1)
            yield Tile(
                number=number,
                family=layout.bucket_family[family + first : family + first + count],
                width=width,
                start=start + first * width if start >= 0 else -1,
                member=read,
                target=target,
                real=real,
            )
            number += 1


@dataclass(frozen=True)
class FamilyAttention:
    """What all tiles of one pass share.

    Args:
        layout: the compiled forest.
        mixed: whether the pass is over mixed families or leaf-only ones.
        own_column: whether a member sees itself (leaf-only families alone).
        scale: the factor c of the scores.
        eps: [rows, 1 or H, P] positional embeddings of the members, or None.
        dropout: probability that a weight is dropped.
        seed: seed of this pass, if there is dropout.
        dtype: what is computed in.
        focus: what a query keeps of its siblings; None keeps all.
        own_score: [rows, H, 1] scores of leaves with themselves where they compete
            with their siblings in mixed families, -infinity for other members.
        own_kept: like ``own_score``: the same where a leaf keeps itself, -infinity
            where it does not; written by the forward pass.
        pattern: what a query sees of its family by its place; None shows all.
    """

    layout: FamilyLayout
    mixed: bool
    own_column: bool
    scale: float
    eps: Tensor | None
    dropout: float
    seed: int
    dtype: torch.dtype
    focus: Focus | None = None
    own_score: Tensor | None = None
    own_kept: Tensor | None = None
    pattern: Pattern | None = None

    def tiles(self, spare: int, heads: int, channels: int) -> Iterator[Tile]:
        """The tiles of this pass; ``channels`` are those of q, k and v together."""
        position = 0 if self.eps is None else self.eps.size(1) * self.eps.size(2)
        return tiles(self.layout, self.mixed, spare, heads * channels + position)

    def runs(self, tile: Tile, heads: int) -> Iterator[slice]:
        """Runs of queries: all of them unless one family exceeds a tile."""
        width = tile.width
        run = max(32, _SCORES // (heads * width * tile.family.numel()))
        return (slice(i, min(i + run, width)) for i in range(0, width, run))

    def key_bias(self, tile: Tile) -> Tensor | None:
        """log n_C of every key, -inf for padding: [T, 1, 1, b], or None if all 0."""
        shape = (tile.family.numel(), 1, 1, tile.width)
        if self.mixed:
            bias = self.layout.entity_log_count[tile.target].view(shape)
            return bias.to(self.dtype)
        if tile.real is None:
            return None
        bias = torch.zeros(shape, dtype=self.dtype, device=tile.real.device)
        return bias.masked_fill_(~tile.real.view(shape), float("-inf"))

    def scores(
        self, q: Tensor, k: Tensor, eps: Tensor | None, bias: Tensor | None, run: slice
    ) -> Tensor:
        """s(B, C) + log n_C for a run of queries: [T, H, r, b]."""
        s = torch.matmul(q[:, :, run] * self.scale, k.transpose(2, 3))
        if eps is not None:
            s += torch.matmul(eps[:, :, run], eps.transpose(2, 3))
        if bias is not None:
            s += bias
        if not self.own_column:
            s.diagonal(run.start, 2, 3).fill_(float("-inf"))
        return s

    def hide_unseen(self, s: Tensor, tile: Tile, run: slice) -> None:
        """Put -inf in place of what the queries of a run do not see of [T, H, r, b]."""
        if self.pattern is None:
            return
        place = torch.arange(tile.width, device=s.device)
        size = tile.sizes()
        if isinstance(size, int):
            size = torch.full_like(place[:1], size)
        seen = self.pattern.mask(place[run, None], place, size.view(-1, 1, 1))
        # Adding is several times as fast as filling by a mask that is broadcast.
        hidden = torch.zeros(seen.shape, dtype=s.dtype, device=s.device)
        s += hidden.masked_fill_(~seen, float("-inf")).unsqueeze(1)

    def focus_on_largest(
        self, s: Tensor, run: slice, own: Tensor | None
    ) -> Tensor | None:
        """Put -inf in place of the scores of a run that are not kept.

        Args:
            s: the scores, [T, H, r, b].
            run: the queries.
            own: scores of leaves with themselves that compete, [T, H, b, 1], or None.

        Returns:
            ``own`` of the run, -inf where a leaf does not keep itself, or None.
        """
        if self.focus is None:
            return None
        own_column = s.diagonal(run.start, 2, 3)
        beside = own_column.clone()
        competes = self.own_column and self.focus.includes_self
        if own is not None:
            own_column.copy_(own[:, :, run].squeeze(-1))
        elif not competes:
            own_column.fill_(float("-inf"))
        if self.focus.top_k < s.size(3):
            s.masked_fill_(~keep_largest(s, self.focus.top_k), float("-inf"))
        kept = None if own is None else own_column.clone().unsqueeze(-1)
        if not competes:
            own_column.copy_(beside)
        return kept

    def own_scores(self, tile: Tile) -> Tensor | None:
        """Scores of leaves with themselves where they compete: [T, H, b, 1]."""
        return None if self.own_score is None else tile.load(self.own_score, self.dtype)

    def kept(self, tile: Tile, run: slice, like: Tensor) -> Tensor | None:
        """Dropout's factors for a run of queries, the same at every call."""
        if self.dropout == 0.0:
            return None
        seed = self.seed + (tile.number << 24) + run.start
        return dropout_factors(like, self.dropout, seed)

    def forward(
        self, tile: Tile, q: Tensor, k: Tensor, v: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Context [T, H, b, W] and log-sum-exp [T, H, b, 1] of loaded q, k, v."""
        eps = None if self.eps is None else tile.load(self.eps, self.dtype)
        bias, own = self.key_bias(tile), self.own_scores(tile)
        contexts, masses, owns = [], [], []
        for run in self.runs(tile, q.size(1)):
            s = self.scores(q, k, eps, bias, run)
            self.hide_unseen(s, tile, run)
            if (kept_own := self.focus_on_largest(s, run, own)) is not None:
                owns.append(kept_own)
            top = s.amax(-1, keepdim=True)
            if self.pattern is not None:
                # Who sees no sibling has the mass log 0, and gets nothing from them.
                top.clamp_(min=torch.finfo(top.dtype).min)
            mass = s.sub_(top).exp_().sum(-1, keepdim=True)
            if (kept := self.kept(tile, run, s)) is not None:
                s *= kept
            share = mass if self.pattern is None else mass.clamp(min=1)
            contexts.append(torch.matmul(s, v).div_(share))
            masses.append(mass.log_().add_(top))
        if self.own_kept is not None:
            tile.store(self.own_kept, torch.cat(owns, 2))
        if len(contexts) == 1:
            return contexts[0], masses[0]
        return torch.cat(contexts, 2), torch.cat(masses, 2)

    def backward(
        self,
        tile: Tile,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mass: Tensor,
        grad_context: Tensor,
        offset: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Gradients of loaded q, k, v and eps; the weights are computed again.

        Args:
            tile: the families.
            q: [T, H, b, D], as k; v [T, H, b, W].
            k: see q.
            v: see q.
            mass: log-sum-exp of the forward pass, [T, H, b, 1].
            grad_context: [T, H, b, W]; 0 in padded members.
            offset: gradient of the log-sum-exp less <context, grad_context>,
                [T, H, b, 1]; 0 in padded members.
        """
        eps = None if self.eps is None else tile.load(self.eps, self.dtype)
        bias, own = self.key_bias(tile), self.own_scores(tile)
        if self.pattern is not None:
            # No weight on any sibling, where exp(-inf + inf) would be NaN.
            mass = mass.masked_fill(torch.isneginf(mass), float("inf"))
        grads_q: list[Tensor] = []
        grad_k, grad_v = None, None
        grad_eps = None if eps is None else torch.zeros_like(eps)
        for run in self.runs(tile, q.size(1)):
            weight = self.scores(q, k, eps, bias, run)
            self.hide_unseen(weight, tile, run)
            self.focus_on_largest(weight, run, own)
            weight = weight.sub_(mass[:, :, run]).exp_()
            grad = grad_context[:, :, run]
            grad_s = torch.matmul(grad, v.transpose(2, 3))
            spread = weight
            if (kept := self.kept(tile, run, weight)) is not None:
                grad_s *= kept
                spread = weight * kept
            grad_v = _accumulate(grad_v, spread.transpose(2, 3), grad)
            grad_s = grad_s.add_(offset[:, :, run]).mul_(weight)
            if eps is not None and grad_eps is not None:
                pairs = grad_s if eps.size(1) > 1 else grad_s.sum(1, keepdim=True)
                grad_eps[:, :, run] += torch.matmul(pairs, eps)
                grad_eps += torch.matmul(pairs.transpose(2, 3), eps[:, :, run])
            grad_s *= self.scale
            grads_q.append(torch.matmul(grad_s, k))
            grad_k = _accumulate(grad_k, grad_s.transpose(2, 3), q[:, :, run])
        grad_q = grads_q[0] if len(grads_q) == 1 else torch.cat(grads_q, 2)
        return grad_q, grad_k, grad_v, grad_eps  # type: ignore[return-value]


def _accumulate(total: Tensor | None, left: Tensor, right: Tensor) -> Tensor:
    """``total`` + ``left`` @ ``right``, in place after the first run."""
    if total is None:
        return torch.matmul(left, right)
    flat = (x.flatten(0, 1) for x in (left, right))
    total.flatten(0, 1).baddbmm_(*flat)
    return total
