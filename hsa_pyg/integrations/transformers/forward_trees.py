"""The trees of one forward pass of a model, shared by its replaced layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from hsa_pyg.hierarchy import SignalHierarchy
from hsa_pyg.integrations.transformers.masks import kept_places
from hsa_pyg.integrations.transformers.trees import (
    Builder,
    Span,
    Tokens,
    in_reading_order,
)


@dataclass
class Form:
    """How the replaced layers attend: the settings of ``replace_attention``.

    Args:
        builder: from tokens to trees.
        self_attention: whether a token attends to itself.
        tie_queries: whether tokens below one node share their mean query.
        causal: whether the model is causal (untied queries alone).
        specials: ``"root"`` or ``"inside"``.
        special_ids: ids of special tokens; None takes the ends of each text.
        backend: as in :func:`~hsa_pyg.hierarchical_attention`.
    """

    builder: Builder
    self_attention: bool
    tie_queries: bool
    causal: bool
    specials: str
    special_ids: tuple[int, ...] | None
    backend: str


@dataclass(frozen=True)
class Plan:
    """The forest that one layer attends over.

    Args:
        hierarchy: one tree a text.
        kept: bool [B, L].
        rows: [N] places of the leaves among all B L, or None if all are kept.
    """

    hierarchy: SignalHierarchy
    kept: Tensor
    rows: Tensor | None


@dataclass
class ForwardTrees:
    """The trees of one forward pass, built when the first layer asks.

    Args:
        form: how the layers attend.
        input_ids: [B, L], if the model was given ids.
        grid: rows and columns of patches of a vision model.
        text: the texts, if :func:`original_text` gave them.
        offsets: characters of their tokens, likewise.
        weights: whether the layers shall return their weights.
    """

    form: Form
    input_ids: Tensor | None = None
    grid: tuple[int, int] | None = None
    text: Sequence[str] | None = None
    offsets: Sequence[Sequence[Span]] | None = None
    weights: bool = False
    # The mask last seen, kept so that its identity stays its own.
    _masks: list[Tensor | None] = field(default_factory=list)
    _tokens: Tokens | None = None
    _plan: Plan | None = None

    @torch.compiler.disable
    @torch.no_grad()
    def plan(self, layer: int, query: Tensor, key: Tensor, mask: Tensor | None) -> Plan:
        """The forest for one layer: the pass's own, unless it depends on scores.

        Args:
            layer: number of the layer.
            query: [B, H, L, D].
            key: [B, H, L, D].
            mask: as the model hands it to its attention, or None.
        """
        tokens = self._described(query, mask)
        scores = getattr(self.form.builder, "needs_scores", False)
        if self._plan is not None and not scores:
            return self._plan
        rows = None
        if not bool(tokens.kept.all()):
            rows = tokens.kept.view(-1).nonzero()[:, 0]
        tokens = replace(tokens, layer=layer)
        if scores:
            q, k = leaf_rows(query, rows), leaf_rows(key, rows)
            tokens = replace(tokens, q=q.detach(), k=k.detach())
        self._plan = Plan(self._build(tokens), tokens.kept, rows)
        return self._plan

    def _described(self, query: Tensor, mask: Tensor | None) -> Tokens:
        """What is known of the batch; the masks of all layers are mostly one object."""
        known, device = self._tokens, query.device
        here = known is not None and known.kept.device == device
        if known is not None and here and self._masks and self._masks[0] is mask:
            return known
        batch, _, length, _ = query.shape
        kept = kept_places(mask, batch, length, self.form.causal, device)
        self._masks = [mask]
        if known is None or not here or not known.kept.equal(kept):
            known, self._plan = self._describe(kept), None
        self._tokens = known
        return known

    def _describe(self, kept: Tensor) -> Tokens:
        ids = None if self.input_ids is None else self.input_ids.to(kept.device)
        if ids is not None and ids.shape != kept.shape:
            # Some models flatten choices, or add tokens of their own.
            fits = ids.numel() == kept.numel() and ids.size(-1) == kept.size(1)
            ids = ids.reshape(kept.shape) if fits else None
        if self.form.specials == "inside":
            special = torch.zeros_like(kept)
        else:
            special = self._special(kept, ids)
        if self.grid is not None:
            return Tokens(kept, special, self.grid, ids)
        self._check_text(kept)
        return Tokens(kept, special, None, ids, self.offsets, self.text)

    def _check_text(self, kept: Tensor) -> None:
        """Raise a ValueError if the texts cannot be those of this batch."""
        if self.text is None or self.offsets is None:
            return
        lengths = {len(spans) for spans in self.offsets}
        if len(self.text) != kept.size(0) or lengths - {kept.size(1)}:
            raise ValueError(
                f"original_text was given {len(self.text)} texts, with offsets of "
                f"{sorted(lengths)} tokens, but the model is called with "
                f"{tuple(kept.shape)} [texts, tokens]; give the texts and the "
                "offset_mapping of the very batch, padding included"
            )

    def _special(self, kept: Tensor, ids: Tensor | None) -> Tensor:
        if self.grid is not None:
            place = torch.arange(kept.size(1), device=kept.device)
            before = kept.size(1) - self.grid[0] * self.grid[1]
            if before < 0:
                raise ValueError(
                    f"the model attends over {kept.size(1)} places, fewer than the "
                    f"{self.grid[0]} x {self.grid[1]} patches of its images: it merges "
                    "patches, and replace_attention cannot tell where they lie"
                )
            return kept & (place < before)
        known = self.form.special_ids
        if known is not None and ids is not None:
            return kept & torch.isin(ids, ids.new_tensor(known))
        after, before_ = kept.cumsum(1), kept.flip(1).cumsum(1).flip(1)
        return kept & ((after == 1) | (before_ == 1))

    def _build(self, tokens: Tokens) -> SignalHierarchy:
        hierarchy = checked_forest(self.form.builder, tokens)
        return in_reading_order(hierarchy) if self.form.causal else hierarchy


def checked_forest(builder: Builder, tokens: Tokens) -> SignalHierarchy:
    """The forest that a builder makes of tokens, on their device.

    Raises:
        TypeError: if it is no hierarchy.
        ValueError: if its leaves are not the kept tokens, or a tree holds tokens of
            several texts.
    """
    hierarchy = builder(tokens)
    if not isinstance(hierarchy, SignalHierarchy):
        raise TypeError(
            f"the tree builder {builder!r} must return a SignalHierarchy, got "
            f"{type(hierarchy).__name__}"
        )
    text = tokens.text_of_leaf
    if hierarchy.num_leaves != text.numel():
        raise ValueError(
            f"the tree builder {builder!r} gave {hierarchy.num_leaves} leaves for "
            f"{text.numel()} tokens that are no padding; every such token is a leaf, "
            "in the order of tokens.kept"
        )
    hierarchy = hierarchy.to(tokens.kept.device)
    tree = hierarchy.leaf_tree
    if text.numel():
        ends = [torch.full((hierarchy.num_trees,), -1, device=text.device)] * 2
        most, least = (end.scatter(0, tree, 0) for end in ends)
        most = most.scatter_reduce(0, tree, text, "amax", include_self=False)
        least = least.scatter_reduce(0, tree, text, "amin", include_self=False)
        if bool((most != least).any()):
            raise ValueError(
                f"the tree builder {builder!r} joined tokens of different texts in one "
                "tree; texts of a batch do not attend to one another"
            )
    return hierarchy


def leaf_rows(x: Tensor, rows: Tensor | None) -> Tensor:
    """[B, H, L, D] to the rows of the leaves, [N, H, D]: a view if all are kept."""
    x = x.transpose(1, 2).flatten(0, 1)
    return x if rows is None else x.index_select(0, rows)
