"""Trees over the tokens of a batch, built in bulk: windows, one family, quadrants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from hsa_pyg.hierarchy import SignalHierarchy

Span = tuple[int, int]
#: Of the trees by name the one that changed outputs least at a tenth of the FLOPs
#: (docs/benchmarks/zero_shot_reactions.md); the share counts no search.
DEFAULT_TREES = "segments:0.1"


@dataclass(frozen=True)
class Tokens:
    """What a tree builder sees of a batch, or of one layer's call.

    B texts (or images) of L places; N places are kept. Leaf rows are the kept places,
    text after text.

    Args:
        kept: bool [B, L], the places that are no padding: each is a leaf.
        special: bool [B, L], kept places that do not belong to the text itself (class
            token, separators) and shall be children of the root of their own. None of
            them is set under ``specials="inside"``.
        grid: rows and columns of the patches of a vision model; the places that are
            not special are the patches, row by row.
        input_ids: [B, L], where the model was given ids.
        offsets: for every text the (start, stop) characters of each of its L places,
            where they were given (:func:`original_text`).
        text: the texts themselves, likewise.
        layer: number of the layer, from 0.
        q: [N, H, D] the layer's queries, for builders with ``needs_scores``.
        k: [N, H, D] its keys, likewise.
    """

    kept: Tensor
    special: Tensor
    grid: tuple[int, int] | None = None
    input_ids: Tensor | None = None
    offsets: Sequence[Sequence[Span]] | None = None
    text: Sequence[str] | None = None
    layer: int = 0
    q: Tensor | None = None
    k: Tensor | None = None

    @property
    def text_of_leaf(self) -> Tensor:
        """[N] long, the text of every leaf row."""
        return self.kept.nonzero()[:, 0]

    @property
    def special_leaf(self) -> Tensor:
        """[N] bool, the leaf rows of special tokens."""
        return self.special[self.kept]


class TreeBuilder(Protocol):
    """A function from tokens to a forest: one tree a text, leaves in token order.

    ``needs_scores`` says whether it reads ``tokens.q`` and ``tokens.k``: then it is
    asked in every replaced layer, else once for all layers of a forward pass. A
    function without this attribute is taken not to need them.
    """

    needs_scores: bool

    def __call__(self, tokens: Tokens, /) -> SignalHierarchy:
        """Build the forest, on the device of ``tokens.kept``."""
        ...


def runs(tokens: Tokens) -> tuple[Tensor, Tensor, Tensor]:
    """Stretches of tokens between special tokens: a window never reaches across one.

    Returns:
        [N] long each, of every leaf row: the number of its run (special tokens bear the
        number of a run near them), its place in the run, and the run's length.
    """
    text, special = tokens.text_of_leaf, tokens.special_leaf
    if text.numel() == 0:
        return text, text, text
    opens = torch.ones_like(special)
    opens[1:] = (text[1:] != text[:-1]) | special[1:] | special[:-1]
    run = opens.cumsum(0) - 1
    start = opens.nonzero()[:, 0]
    place = torch.arange(text.numel(), device=text.device) - start[run]
    return run, place, torch.bincount(run)[run]


def nested_forest(tokens: Tokens, levels: Sequence[Tensor]) -> SignalHierarchy:
    """The forest of nested groups of tokens, under one root a text.

    Special tokens are children of the root. What no level groups hangs from the root.

    Args:
        tokens: the batch.
        levels: from the bottom up, [N] long each: number of the group of every leaf
            row, distinct within its text, or -1 for none. Groups of one level lie
            within groups of the next. Rows of special tokens are not read.

    Returns:
        The hierarchy: nodes 0 to N - 1 are the leaf rows, the last B nodes the roots.

    Raises:
        ValueError: if a level is no tensor [N], or cuts through a group of a lower one.
    """
    text, special = tokens.text_of_leaf, tokens.special_leaf
    count = text.numel()
    # Nodes that have no parent yet, each with one leaf below it.
    child = leaf = content = (~special).nonzero()[:, 0]
    # Which of these nodes every leaf that is not special lies below.
    place = torch.arange(content.numel(), device=text.device)
    parent = torch.full_like(text, -1)
    for number_of_level, level in enumerate(levels):
        _check_level(number_of_level, level, text)
        label = level[leaf]
        if bool((level[content] != label[place]).any()):
            raise ValueError(
                f"groups of level {number_of_level} cut through groups of a level "
                "below: levels go from the bottom up, the smallest groups first, and "
                "each group lies within one group of the next level"
            )
        grouped = label >= 0
        span = int(label.max()) + 1 if label.numel() else 1
        key = (text[leaf] * span + label)[grouped]
        groups, number = torch.unique(key, return_inverse=True)
        parent[child[grouped]] = count + number
        below = torch.full_like(groups, text.numel())
        below.scatter_reduce_(0, number, leaf[grouped], "amin")
        moved = (~grouped).cumsum(0) - 1
        moved[grouped] = number + (child.numel() - number.numel())
        place = moved[place]
        new = torch.arange(count, count + groups.numel(), device=text.device)
        parent = torch.cat([parent, torch.full_like(new, -1)])
        child = torch.cat([child[~grouped], new])
        leaf = torch.cat([leaf[~grouped], below])
        count += groups.numel()
    parent[child] = count + text[leaf]
    parent[: text.numel()][special] = count + text[special]
    roots = parent.new_full((tokens.kept.size(0),), -1)
    parent = torch.cat([parent, roots])
    node = torch.arange(parent.numel(), device=parent.device)
    return SignalHierarchy.from_parents(parent, node < text.numel())


def _check_level(number: int, level: Any, text: Tensor) -> None:
    if not isinstance(level, Tensor) or level.shape != text.shape:
        got = tuple(level.shape) if isinstance(level, Tensor) else type(level).__name__
        raise ValueError(
            f"level {number} must be a tensor [{text.numel()}], a group's number for "
            f"every token that is no padding, got {got}"
        )


@dataclass(frozen=True)
class Windows:
    """Neighbouring nodes joined in windows, level by level from the tokens up.

    No window reaches across a special token or out of its text; the last one may be
    shorter.

    Args:
        sizes: nodes a window joins, from the bottom up.
        repeat: join by the last size on and on, until that many nodes or fewer are left
            of a run: these are children of the root. Else the nodes of the last level
            are, however many.
    """

    sizes: tuple[int, ...]
    repeat: bool = False
    needs_scores = False

    def __post_init__(self) -> None:
        if not self.sizes or min(self.sizes) < 2:
            raise ValueError(
                f"windows must join 2 nodes or more, got {self.sizes}; give sizes as "
                "in 'window:4' or 'windows:2,4,8,16'"
            )

    def __call__(self, tokens: Tokens) -> SignalHierarchy:
        """Build the forest."""
        run, place, length = runs(tokens)
        longest = tokens.kept.size(1)
        levels, width, sizes = [], 1, list(self.sizes)
        while sizes:
            size = sizes.pop(0)
            left = (length + width - 1) // width
            # Beyond the longest text a wider window is the same window.
            width = min(width * size, longest + 1)
            label = run * (longest + 1) + place // width
            levels.append(label.masked_fill(left <= size, -1) if self.repeat else label)
            if self.repeat and not sizes and width < longest:
                sizes = [size]
        return nested_forest(tokens, levels)


@dataclass(frozen=True)
class Flat:
    """All tokens of a text in one family: softmax attention."""

    needs_scores = False

    def __call__(self, tokens: Tokens) -> SignalHierarchy:
        """Build the forest."""
        return nested_forest(tokens, [])


@dataclass(frozen=True)
class Quadtree:
    """Quadrants within quadrants of an image, down to 2 x 2 patches."""

    needs_scores = False

    def __call__(self, tokens: Tokens) -> SignalHierarchy:
        """Build the forest.

        Raises:
            ValueError: if the tokens are no grid of patches, or if the class token
                shall lie inside the tree.
        """
        from hsa_pyg.converters.patch_tree import patch_tree

        if tokens.grid is None:
            raise ValueError(
                "hierarchy='quadtree' needs a model over patches of images, whose "
                "forward takes pixel_values; for text use 'window:4' or "
                "Sentences(tokenizer)"
            )
        rows, columns = tokens.grid
        places = (tokens.kept & ~tokens.special).sum(1)
        if not bool((places == rows * columns).all()):
            raise ValueError(
                f"hierarchy='quadtree' needs the {rows} x {columns} patches of every "
                f"image, unmasked, besides special tokens; got {places.tolist()} of "
                f"them. specials='inside' does not go with it"
            )
        tree = patch_tree(rows, columns, "quadtree")
        levels = _levels(tree.patch_parent, tree.quadrant_parent)
        content = ~tokens.special_leaf
        forest = []
        for level in levels:
            label = torch.zeros_like(content, dtype=torch.long)
            label[content] = level.to(label.device).repeat(tokens.kept.size(0))
            forest.append(label)
        return nested_forest(tokens, forest)


def _levels(leaf_parent: Tensor, parent: Tensor) -> list[Tensor]:
    """Ancestor of every leaf, deepest level first, -1 where a leaf has none so deep."""
    depth = torch.zeros_like(parent)
    for node, above in enumerate(parent.tolist()):
        if above >= 0:
            depth[node] = depth[above] + 1
    levels, current = [], leaf_parent
    for wanted in range(int(depth.max()) if parent.numel() else -1, -1, -1):
        here = (current >= 0) & (depth[current] == wanted)
        levels.append(current.masked_fill(~here, -1))
        current = torch.where(here, parent[current], current)
    return levels


Builder = TreeBuilder | Callable[[Tokens], SignalHierarchy]


def make_builder(spec: str | Builder, tokenizer: Any = None) -> Builder:
    """The builder that ``replace_attention(hierarchy=...)`` asks for.

    Args:
        spec: ``"window:b"``, windows of b nodes at every level; ``"windows:b,c,..."``,
            windows of these sizes from the bottom up and then the root (the paper's are
            ``"windows:2,4,8,16"``); ``"flat"``, one family; ``"sentences"``, with a
            tokenizer; ``"quadtree"``, for images; ``"clusters:x"``, tokens whose keys
            in the layer are alike, at a share x of softmax attention's operations;
            ``"segments:x"``, the same of adjacent tokens alone; ``"energy:x"``,
            adjacent tokens merged where the energy rises least; ``"ward:b"``, adjacent
            tokens merged where the keys are most alike, in families of b at every
            level; ``"remembered:..."``, one of these names, with every text's tree
            built once (:class:`Remembered`); or a function from :class:`Tokens` to a
            :class:`~hsa_pyg.SignalHierarchy`.
        tokenizer: the model's tokenizer, for ``"sentences"``.

    Raises:
        TypeError: if it is neither a text nor callable.
        ValueError: if the name is not known or its numbers do not fit.
    """
    if isinstance(spec, type):
        raise TypeError(
            "hierarchy must be a tree builder, not its class: give "
            f"{spec.__name__}(...)"
        )
    if callable(spec):
        return spec
    if not isinstance(spec, str):
        raise TypeError(
            f"hierarchy must be a name or a function, got {type(spec).__name__}"
        )
    name, colon, argument = spec.partition(":")
    if name == "window" and colon:
        return Windows((_number(spec, argument),), repeat=True)
    if name == "windows" and colon:
        return Windows(tuple(_number(spec, part) for part in argument.split(",")))
    if spec == "flat":
        return Flat()
    if spec == "quadtree":
        return Quadtree()
    if spec == "sentences":
        if tokenizer is None:
            raise ValueError(
                "hierarchy='sentences' needs the model's tokenizer: pass "
                "tokenizer=..., or hierarchy=Sentences(tokenizer)"
            )
        from hsa_pyg.integrations.transformers.sentences import Sentences

        return Sentences(tokenizer)
    if name == "remembered" and colon:
        from hsa_pyg.integrations.transformers.remembered import Remembered

        return Remembered(make_builder(argument, tokenizer))
    if name == "ward" and colon:
        from hsa_pyg.integrations.transformers.search import Ward

        return Ward(_number(spec, argument))
    if name in ("clusters", "segments") and colon:
        from hsa_pyg.integrations.transformers.search import Clusters

        return Clusters(_share(spec, argument), adjacent=name == "segments")
    if name == "energy" and colon:
        from hsa_pyg.integrations.transformers.energy import Energy

        return Energy(_share(spec, argument))
    raise ValueError(
        f"hierarchy={spec!r} is not known; use 'window:4', 'windows:2,4,8,16', 'flat', "
        "'sentences', 'quadtree', 'clusters:0.1', 'segments:0.1', 'energy:0.1', "
        "'ward:8', 'remembered:clusters:0.1' or a function from Tokens to a "
        "SignalHierarchy"
    )


def _share(spec: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(
            f"hierarchy={spec!r}: {text!r} is no share of softmax attention's "
            "operations; write for example 'clusters:0.1'"
        ) from None


def _number(spec: str, text: str) -> int:
    try:
        number = int(text)
        if number >= 2**31:
            raise ValueError
        return number
    except ValueError:
        raise ValueError(
            f"hierarchy={spec!r} holds {text!r} where a number of nodes should stand, "
            "as in 'window:4' or 'windows:2,4,8,16'"
        ) from None


def in_reading_order(hierarchy: SignalHierarchy) -> SignalHierarchy:
    """The same forest with nodes numbered by their first leaf, parents first.

    Causal attention takes node ids for the order of siblings.

    Raises:
        ValueError: if the leaves below a node do not follow one another.
    """
    parent, row = hierarchy.parent, torch.full_like(hierarchy.parent, -1)
    row[hierarchy.leaves] = torch.arange(hierarchy.num_leaves, device=row.device)
    last, first = row.clone(), row.masked_fill(row < 0, hierarchy.num_leaves)
    for depth in range(hierarchy.max_depth, 0, -1):
        node = (hierarchy.depth == depth).nonzero()[:, 0]
        first.scatter_reduce_(0, parent[node], first[node], "amin")
        last.scatter_reduce_(0, parent[node], last[node], "amax")
    held = hierarchy.leaf_counts > 0
    if bool((last - first + 1 != hierarchy.leaf_counts)[held].any()):
        raise ValueError(
            "causal attention needs trees whose nodes hold tokens that follow one "
            "another; use windows or sentences"
        )
    key = first * (hierarchy.max_depth + 1) + hierarchy.depth
    order = torch.argsort(key, stable=True)
    number = torch.empty_like(order)
    number[order] = torch.arange(order.numel(), device=order.device)
    old = parent[order]
    renamed = torch.where(old >= 0, number[old], old)
    return SignalHierarchy.from_parents(renamed, (row >= 0)[order])
