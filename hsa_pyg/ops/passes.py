"""Hierarchical self-attention in four passes (docs/mathematics.md, section 4).

Plain functions on plain tensors without autograd; :mod:`hsa_pyg.ops.library` makes one
differentiable operator of them. Nothing here waits for the device: all sizes come from
the compiled hierarchy.

Legend: N leaf rows, M nodes, F internal nodes, E entities (internal nodes, then the
leaves of mixed families), H heads, D and W channels of a query and of a value.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hsa_pyg.compilation import SPARE_ROWS, FamilyLayout, with_spare_rows
from hsa_pyg.ops import levels
from hsa_pyg.ops.family import FamilyAttention, dropout_factors
from hsa_pyg.ops.focus import Focus
from hsa_pyg.ops.patterns import Pattern


@dataclass(frozen=True)
class AttentionCall:
    """Everything but q, k and v.

    Args:
        layout: the compiled forest.
        leaves: [N] node ids of the leaves.
        position: [M, 1 or H, P] or None.
        scale: the factor c of the scores.
        self_attention: whether a leaf attends to itself.
        dropout: probability that an attention weight is dropped.
        seed: what dropout is drawn from.
        focus: what a query keeps of its siblings; None keeps all.
        pattern: what a node sees of its family by its place; None shows all.
    """

    layout: FamilyLayout
    leaves: Tensor
    position: Tensor | None
    scale: float
    self_attention: bool
    dropout: float
    seed: int
    focus: Focus | None = None
    pattern: Pattern | None = None

    @property
    def leaves_compete(self) -> bool:
        """Whether the leaves of mixed families may not be among those they keep."""
        return self.focus is not None and self.focus.includes_self

    def family_attention(
        self, mixed: bool, dtype: torch.dtype, own_score: Tensor | None = None
    ) -> FamilyAttention:
        """The pass over mixed families, or over leaf-only ones."""
        eps = None
        if self.position is not None:
            nodes = self.layout.entity_node if mixed else self.leaves
            eps = self.position.index_select(0, nodes)
        return FamilyAttention(
            layout=self.layout,
            mixed=mixed,
            own_column=self.self_attention and not mixed,
            scale=self.scale,
            eps=eps,
            dropout=self.dropout,
            seed=self.seed * 4 + int(mixed),
            dtype=dtype,
            focus=self.focus,
            own_score=own_score,
            own_kept=None if own_score is None else torch.empty_like(own_score),
            pattern=self.pattern,
        )

    def mixed_self_scores(self, joined: Tensor, channels: int) -> Tensor:
        """s(i, i) of the leaves of mixed families: [X, H].

        ``joined`` [X, H, 2 D + W] holds their q, k, v.
        """
        q, k, _ = parts_of(joined, channels)
        return self.self_scores(q, k, self.leaves[self.layout.mixed_leaf])

    def competing(self, score: Tensor) -> Tensor:
        """Scores [X, H] of leaves, as those of entities, else -inf: [E + 1, H, 1]."""
        rows = self.layout.entity_node.numel()
        own = score.new_full((rows, score.size(1), 1), float("-inf"))
        own[rows - 1 - score.size(0) : -1, :, 0] = score
        return own

    def kept_leaves(self, like: Tensor, number: int) -> Tensor:
        """Dropout's factors for the self weights of some leaves, like ``like``."""
        if self.dropout == 0.0:
            return torch.ones_like(like)
        return dropout_factors(like, self.dropout, self.seed * 4 + number)

    def self_scores(self, q: Tensor, k: Tensor, nodes: Tensor) -> Tensor:
        """s(i, i) of leaves, given their q, k [rows, H, D] and node ids: [rows, H]."""
        if not self.self_attention:
            return torch.full_like(q[..., 0], float("-inf"))
        score = (q * k).sum(-1) * self.scale
        if self.position is not None:
            score = score + self.position[nodes].to(q.dtype).square().sum(-1)
        return score


@dataclass(frozen=True)
class Saved:
    """What the forward pass leaves for the backward pass, besides y.

    Every backend leaves the same, so that each can differentiate the others' results.
    What a leaf gets within its family is not kept: of that the backward pass needs the
    product with the family's weight alone, which is y less the family's context.

    Like the operator's inputs, what is not as long as the leaves has S =
    :data:`~hsa_pyg.compilation.SPARE_ROWS` more rows than it needs.
    """

    mean: Tensor  #: [F + S, H, 2 D + W] mean q, k, v of the internal nodes
    leaf_mass: Tensor  #: [N + 1, H, 1] log-sum-exp in leaf-only families
    context: Tensor  #: [F + S, H, W] ctx of the internal nodes
    mass: Tensor  #: [E + 1 + S, H, 1] L
    brought: Tensor  #: [E + 1 + S, H, W] m
    gain: Tensor  #: [E + S, H] -phi
    log_weight: Tensor  #: [F + S, H] log w

    def trimmed(self) -> Saved:
        """Views without the spare rows."""
        return Saved(
            self.mean[:-SPARE_ROWS],
            self.leaf_mass,
            self.context[:-SPARE_ROWS],
            self.mass[:-SPARE_ROWS],
            self.brought[:-SPARE_ROWS],
            self.gain[:-SPARE_ROWS],
            self.log_weight[:-SPARE_ROWS],
        )


def forward(
    call: AttentionCall,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dtype: torch.dtype,
    tell_rest: bool,
) -> tuple[Tensor, Tensor | None, Saved]:
    """y [N, H, W] in ``v``'s dtype, what it lacks by rounding, in the same, and what
    else the backward pass needs, in ``dtype``.

    The second is None where that is nothing, or without ``tell_rest``.
    """
    saved = allocate(call.layout, q, v, dtype, zeros=True)
    state = saved.trimmed()
    # With a spare row for padding, and 0 where no bucket writes.
    leaf_context = v.new_empty(v.size(0) + 1, *v.shape[1:], dtype=dtype)
    _leaf_only_families(call, q, k, v, state, leaf_context)
    joined = torch.cat([x[call.layout.mixed_leaf].to(dtype) for x in (q, k, v)], -1)
    _means_upward(call.layout, joined, state)
    _mixed_families(call, joined, q.size(2), state)
    _along_tree(call, joined, v, state, leaf_context)
    wide = _leaves(call.layout, state, leaf_context[:-1])
    y = wide.to(v.dtype)
    rest = wide.sub_(y).to(v.dtype) if tell_rest and v.dtype != dtype else None
    return y, rest, saved


def allocate(
    layout: FamilyLayout, q: Tensor, v: Tensor, dtype: torch.dtype, zeros: bool
) -> Saved:
    """Room for what the forward pass leaves: zeros, or whatever the memory holds."""
    (leaves, heads, channels), width = q.shape, v.size(2)
    inner = layout.internal_node.numel() + SPARE_ROWS
    entities = layout.entity_node.numel() - 1 + SPARE_ROWS

    def room(rows: int, *shape: int) -> Tensor:
        make = q.new_zeros if zeros else q.new_empty
        return make(rows, heads, *shape, dtype=dtype)

    return Saved(
        mean=room(inner, 2 * channels + width),
        leaf_mass=room(leaves + 1, 1),
        context=room(inner, width),
        mass=room(entities + 1, 1),
        brought=room(entities + 1, width),
        gain=room(entities),
        log_weight=room(inner),
    )


def _leaf_only_families(
    call: AttentionCall,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    state: Saved,
    leaf_context: Tensor,
) -> None:
    """Contexts, masses, -phi and sums of q, k, v of the leaf-only families."""
    dtype, leaves, heads = state.gain.dtype, q.size(0), q.size(1)
    attention = call.family_attention(False, dtype)
    for tile in attention.tiles(leaves, heads, state.mean.size(2)):
        own = [tile.load(x, dtype) for x in (q, k, v)]
        context, mass = attention.forward(tile, *own)
        tile.store(leaf_context, context)
        tile.store(state.leaf_mass, mass)
        state.gain[tile.family] = tile.total(mass).squeeze(-1) / tile.sizes()
        state.mean[tile.family] = torch.cat([tile.total(x) for x in own], -1)


def _means_upward(layout: FamilyLayout, joined: Tensor, state: Saved) -> None:
    """Step 1: complete the sums by the leaves of mixed families, and divide."""
    state.mean.index_add_(0, layout.mixed_leaf_parent, joined)
    levels.sum_upward(layout, state.mean)
    state.mean.div_(layout.internal_count.to(joined.dtype)[:, None, None])


def _mixed_families(
    call: AttentionCall, joined: Tensor, channels: int, state: Saved
) -> None:
    """Step 2 in mixed families: L and m; ``joined`` has q, k, v of their leaves.

    Their leaves' -phi is written, too: it may depend on what else they keep.
    """
    dtype, (entities, heads) = joined.dtype, state.gain.shape
    entity = with_spare_rows(torch.cat([state.mean, joined]), 1)
    own_score = call.mixed_self_scores(joined, channels)
    competing = call.competing(own_score) if call.leaves_compete else None
    attention = call.family_attention(True, dtype, competing)
    for tile in attention.tiles(entities, heads, entity.size(2)):
        own = [tile.load(x, dtype) for x in parts_of(entity, channels)]
        context, mass = attention.forward(tile, *own)
        tile.store(state.brought, context)
        tile.store(state.mass, mass)
    count = state.log_weight.size(0)
    if attention.own_kept is not None:
        own_score = attention.own_kept[count:-1].squeeze(-1)
    state.gain[count:] = own_score


def _along_tree(
    call: AttentionCall, joined: Tensor, v: Tensor, state: Saved, leaf_context: Tensor
) -> None:
    """Steps 3 and 4 down to the internal nodes.

    The leaves of mixed families, and those that are trees, get their own contexts.
    """
    layout, count = call.layout, state.log_weight.size(0)
    mixed_v = joined[..., -v.size(2) :]
    mass = state.mass[:-1].squeeze(-1)
    levels.energy_upward(layout, state.gain, mass)
    log_mu, log_send = levels.split(state.gain, mass)
    log_weight, context = levels.contexts_downward(
        layout, log_mu, log_send, state.brought[:-1]
    )
    state.log_weight.copy_(log_weight)
    state.context.copy_(context)
    kept = log_mu[count:].exp() * call.kept_leaves(log_mu[count:], 2)
    sent = log_send[count:].exp()[..., None] * state.brought[count:-1]
    leaf_context[layout.mixed_leaf] = sent.addcmul_(kept[..., None], mixed_v)
    alone = v[layout.root_leaf].to(joined.dtype)
    leaf_context[layout.root_leaf] = root_leaves(call, alone)


def _leaves(layout: FamilyLayout, state: Saved, own: Tensor) -> Tensor:
    """y: what each leaf gets within its family, weighed, and what comes from above.

    ``own`` [N, H, W] is written over.
    """
    # A leaf that is a tree has weight 1 and no context from above.
    weight = with_spare_rows(state.log_weight, 1).exp()[..., None]
    context = with_spare_rows(state.context, 1)
    for rows in row_chunks(own.size(0), own.size(1) * own.size(2), own.is_cuda):
        parent = layout.leaf_parent[rows]
        outer = context.index_select(0, parent)
        share = weight.index_select(0, parent)
        torch.addcmul(outer, share, own[rows], out=own[rows])
    return own


def energies(call: AttentionCall, q: Tensor, k: Tensor, saved: Saved) -> Tensor:
    """phi of every node: [M, H]; infinite for leaves without self-attention."""
    count = call.layout.internal_node.numel()
    gain, dtype = saved.gain, saved.gain.dtype
    leaf = call.self_scores(q.to(dtype), k.to(dtype), call.leaves)
    rows = torch.cat([gain[:count], leaf, gain.new_zeros(1, gain.size(1))])
    return rows.neg_()[call.layout.node_energy]


def row_chunks(rows: int, channels: int, is_cuda: bool) -> list[slice]:
    """Runs of rows that stay in cache (all rows on an accelerator)."""
    step = rows if is_cuda else max(1, 2**18 // channels)
    return [slice(i, min(i + step, rows)) for i in range(0, rows, max(step, 1))]


def parts_of(x: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """q, k and v of rows that hold them side by side."""
    return x[..., :width], x[..., width : 2 * width], x[..., 2 * width :]


def root_leaves(call: AttentionCall, value: Tensor) -> Tensor:
    """A tree of one leaf gives its own value, or 0 where no leaf attends to itself."""
    if not call.self_attention:
        return torch.zeros_like(value)
    return value * call.kept_leaves(value[..., :1], 3)
