"""Trees that are built once for every text."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hsa_pyg.compilation import roots_and_depths
from hsa_pyg.hierarchy import SignalHierarchy
from hsa_pyg.integrations.transformers.forward_trees import checked_forest
from hsa_pyg.integrations.transformers.trees import Builder, Tokens, make_builder

# Layer, ids, which of them are special, and the text with the places of its tokens.
_Key = tuple[int | None, bytes, bytes, str | None, tuple[Any, ...]]


class _Tree(NamedTuple):
    """One text's tree, on the CPU; leaves in the order of its tokens."""

    parent: Tensor  #: [nodes] int32
    is_leaf: Tensor  #: [nodes] bool


_EMPTY = _Tree(torch.tensor([-1], dtype=torch.int32), torch.tensor([False]))


class Remembered:
    """A tree builder that asks another one once for every text, and remembers.

    A tree that is searched for, or a text that is cut in sentences, takes longer than
    attention over the tree. Over many passes (epochs, layers tried one after the other,
    prompts that return) each text is searched once; those that a batch brings anew are
    built together. Texts are told apart by the ids of their tokens that are no padding,
    by which of these are special, by what ``original_text`` gives, and, if the other
    builder needs scores, by the layer.

    A tree that was built by queries and keys stays as it is when these change: with the
    weights, with layers replaced below, or with dropout. It is valid all the same, but
    no longer the one that the builder would choose: call :meth:`clear` to choose anew.
    Two models need an instance each: they would take one another's trees.

    Args:
        builder: a builder, or its name as for :func:`make_builder`.
        size: number of trees that are kept, those of the latest texts; a layer's tree
            of a text counts as one. One of 512 tokens takes some 4 kB.
        tokenizer: the model's tokenizer, for ``"sentences"``.

    Attributes:
        hits: texts whose tree was there, since the last :meth:`clear`.
        misses: texts whose tree was built.

    Raises:
        TypeError: if ``size`` is no integer.
        ValueError: if it is not positive, or the name is not known.

    Example:
        >>> import torch
        >>> from transformers import BertConfig, BertModel
        >>> from hsa_pyg.integrations.transformers import replace_attention
        >>> bert = BertModel(BertConfig(num_hidden_layers=4, vocab_size=99)).eval()
        >>> trees = Remembered("clusters:0.1")
        >>> bert = replace_attention(bert, [1, 3], trees)
        >>> texts = {"input_ids": torch.randint(1, 99, (8, 30))}
        >>> for _ in range(3):
        ...     output = bert(**texts)
        >>> trees.misses, trees.hits  # 8 texts in 2 layers, then twice more
        (16, 32)
    """

    def __init__(
        self, builder: str | Builder, size: int = 16_384, tokenizer: Any = None
    ) -> None:
        if isinstance(size, bool) or not isinstance(size, int):
            raise TypeError(f"size must be an integer, got {size!r}")
        if size < 1:
            raise ValueError(f"size must be 1 or more trees, got {size}")
        self.builder, self.size = make_builder(builder, tokenizer), size
        self._trees: OrderedDict[_Key, _Tree] = OrderedDict()
        self.hits = self.misses = 0

    @property
    def needs_scores(self) -> bool:
        """Whether it is asked in every layer."""
        return bool(getattr(self.builder, "needs_scores", False))

    def clear(self) -> None:
        """Forget all trees, and count from 0."""
        self._trees.clear()
        self.hits = self.misses = 0

    def __len__(self) -> int:
        """Number of trees that are kept."""
        return len(self._trees)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.builder!r}, size={self.size})"

    def __call__(self, tokens: Tokens) -> SignalHierarchy:
        """Build the forest, of new trees and of those that are known.

        Raises:
            ValueError: if the model was given no ids, or the builder made a forest of
                other leaves.
            TypeError: if the builder made none.
        """
        keys = self._keys(tokens)
        trees: dict[_Key, _Tree] = {}
        new: dict[_Key, int] = {}
        for number, key in enumerate(keys):
            if not key[1]:
                trees[key] = _EMPTY
            elif key in self._trees:
                self._trees.move_to_end(key)
                trees[key] = self._trees[key]
                self.hits += 1
            elif key in new:
                self.hits += 1
            else:
                new[key] = number
                self.misses += 1
        if new:
            texts = list(new.values())
            forest_tokens = _of_texts(tokens, texts)
            forest = checked_forest(self.builder, forest_tokens)
            built = _apart(forest, forest_tokens)
            trees.update(zip(new, built, strict=True))
            # A batch may bring more texts than are kept.
            self._trees.update({key: trees[key] for key in new})
            while len(self._trees) > self.size:
                self._trees.popitem(last=False)
        return _joined([trees[key] for key in keys], tokens.kept.device)

    def _keys(self, tokens: Tokens) -> list[_Key]:
        if tokens.input_ids is None:
            what = "images" if tokens.grid is not None else "embeddings"
            raise ValueError(
                f"{type(self).__name__} knows texts by their tokens' ids, but the "
                f"model was given {what}, no input_ids; take the builder itself: "
                f"hierarchy={self.builder!r}"
            )
        layer = tokens.layer if self.needs_scores else None
        kept, special = tokens.kept.cpu(), tokens.special.cpu()
        ids = tokens.input_ids.cpu().long()
        keys: list[_Key] = []
        for number, here in enumerate(kept):
            text: str | None = None
            spans: tuple[Any, ...] = ()
            if tokens.text is not None and tokens.offsets is not None:
                text = tokens.text[number]
                spans = tuple(
                    tuple(tokens.offsets[number][at])
                    for at in here.nonzero()[:, 0].tolist()
                )
            own = ids[number][here].numpy().tobytes()
            keys.append(
                (layer, own, special[number][here].numpy().tobytes(), text, spans)
            )
        return keys


def _of_texts(tokens: Tokens, texts: Sequence[int]) -> Tokens:
    """The tokens of some texts of a batch, ascending."""
    if len(texts) == tokens.kept.size(0):
        return tokens
    index = torch.tensor(texts, device=tokens.kept.device)
    rows = torch.isin(tokens.text_of_leaf, index)
    ids, offsets, text = tokens.input_ids, tokens.offsets, tokens.text
    return replace(
        tokens,
        kept=tokens.kept[index],
        special=tokens.special[index],
        input_ids=None if ids is None else ids[index],
        offsets=None if offsets is None else [offsets[number] for number in texts],
        text=None if text is None else [text[number] for number in texts],
        q=None if tokens.q is None else tokens.q[rows],
        k=None if tokens.k is None else tokens.k[rows],
    )


def _apart(forest: SignalHierarchy, tokens: Tokens) -> list[_Tree]:
    """The nodes of every text, in the order of their ids."""
    parent, texts = forest.parent.cpu(), tokens.kept.size(0)
    root, _, _ = roots_and_depths(parent)
    is_leaf = torch.zeros_like(parent, dtype=torch.bool)
    is_leaf[forest.leaves.cpu()] = True
    # Trees without leaves belong to no text.
    text_of_root = torch.full_like(parent, texts)
    text_of_root[root[is_leaf]] = tokens.text_of_leaf.cpu()
    text = text_of_root[root]
    order = torch.argsort(text, stable=True)
    count = torch.bincount(text, minlength=texts + 1)
    first = count.cumsum(0) - count
    place = torch.empty_like(order)
    place[order] = torch.arange(order.numel()) - first[text[order]]
    parent = torch.where(parent < 0, parent, place[parent.clamp(min=0)]).int()
    parts = (x[order].split(count.tolist()) for x in (parent, is_leaf))
    # Each part as a copy: a view would keep the whole batch.
    pairs = zip(*parts, strict=True)
    return [_Tree(above.clone(), leaf.clone()) for above, leaf in pairs][:texts]


def _joined(trees: Sequence[_Tree], device: torch.device) -> SignalHierarchy:
    """The forest of some trees, one after the other."""
    if not trees:
        return SignalHierarchy.from_parents(torch.zeros(0, device=device).long())
    count = torch.tensor([tree.parent.numel() for tree in trees])
    first = (count.cumsum(0) - count).repeat_interleave(count)
    parent = torch.cat([tree.parent for tree in trees]).long()
    parent = torch.where(parent < 0, parent, parent + first)
    is_leaf = torch.cat([tree.is_leaf for tree in trees])
    return SignalHierarchy.from_parents(parent.to(device), is_leaf.to(device))
