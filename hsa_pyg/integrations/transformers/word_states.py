"""A pretrained encoder's vectors of the words of sentences, each in its sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from hsa_pyg.integrations.transformers.comparison import evaluating
from hsa_pyg.integrations.transformers.positions import text_positions
from hsa_pyg.integrations.transformers.text_vectors import check_fast, check_vocabulary


@torch.inference_mode()
def word_states(
    sentences: Sequence[Sequence[str]],
    model: Any,
    tokenizer: Any,
    *,
    batch_tokens: int = 512,
    log: bool = True,
) -> list[Tensor]:
    """The mean of the last hidden states of each word's tokens.

    As vectors of leaves they are for trees whose leaves are given words, such as parse
    trees (``signal["word"].text`` of :class:`~hsa_pyg.datasets.SSTTrees`).

    Args:
        sentences: The words of each sentence.
        model: An encoder of transformers, such as ``AutoModel`` loads.
        tokenizer: Its fast tokenizer.
        batch_tokens: Tokens of a batch, at most; a longer sentence is one by itself.
        log: Show a progress bar.

    Returns:
        For each sentence ``[num_words, channels]`` float32 on the CPU; zeros for a word
        of which the tokenizer makes nothing.

    Raises:
        TypeError: if the tokenizer is a slow one.
        ValueError: if it knows no words, or a sentence has more tokens than the model
            reads.
    """
    check_fast(tokenizer)
    check_vocabulary(tokenizer)
    encoded = [
        tokenizer(list(words), is_split_into_words=True, verbose=False)
        for words in sentences
    ]
    lengths = [len(one["input_ids"]) for one in encoded]
    known = (text_positions(model), tokenizer.model_max_length)
    limit = min(one for one in known if one is not None)
    for place, length in enumerate(lengths):
        if length > limit:
            raise ValueError(
                f"sentence {place} has {length} tokens, of which "
                f"{type(model).__name__} reads {limit}: split it"
            )
    channels = model.config.hidden_size
    found: list[Tensor] = [torch.zeros(len(words), channels) for words in sentences]
    with (
        evaluating(model),
        tqdm(total=len(found), desc="Encoding words", disable=not log) as progress,
    ):
        for batch in _batches(lengths, batch_tokens):
            inputs = tokenizer.pad(
                [encoded[i] for i in batch], padding_side="right", return_tensors="pt"
            ).to(model.device)
            states = model(**inputs).last_hidden_state.float().cpu()
            for row, i in enumerate(batch):
                found[i] = _means(states[row], encoded[i].word_ids(), found[i])
            progress.update(len(batch))
    return found


def _batches(lengths: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    """Places of sentences that are encoded together, the shortest first."""
    batch: list[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: (lengths[i], i)):
        if batch and (len(batch) + 1) * lengths[i] > batch_tokens:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def _means(states: Tensor, words: Sequence[int | None], out: Tensor) -> Tensor:
    """The mean state of each word; special tokens are of no word."""
    places = [i for i, word in enumerate(words) if word is not None]
    index = torch.tensor([word for word in words if word is not None])
    if not places:
        return out
    number = torch.bincount(index, minlength=len(out)).clamp(min=1)
    return out.index_add(0, index, states[places]) / number[:, None]
