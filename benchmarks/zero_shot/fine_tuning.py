"""MiniLM trained with softmax attention to tell good reviews of IMDB from bad ones."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

from benchmarks.zero_shot.inputs import padded_batches
from benchmarks.zero_shot.texts import Reviews, imdb, minilm

#: Where checkpoints are kept; the folder is no part of the repository.
RUNS = Path(__file__).parents[2] / "runs" / "zero_shot"
_SETTINGS = "fine_tuning.json"


@dataclass(frozen=True)
class FineTuning:
    """How a classifier is trained: one epoch of AdamW, the rate rising and falling.

    Args:
        reviews: of IMDB's training split, the first of them in our order.
        length: tokens that are left of a review.
        batch: reviews of a step, of like lengths.
        rate: the largest learning rate, in the middle of the ascent and descent.
        warm_up: part of the steps in which the rate rises from 0; then it falls to 0.
        decay: of the weights.
        seed: of the classifier's weights, of dropout and of the order of batches.
        bfloat16: products in bfloat16 rather than float32.
    """

    reviews: int = 5000
    length: int = 256
    batch: int = 16
    rate: float = 1e-4
    warm_up: float = 0.1
    decay: float = 0.01
    seed: int = 0
    bfloat16: bool = True

    def factor(self, step: int, steps: int) -> float:
        """The rate of a step, of the largest one."""
        rising = (step + 1) / max(1.0, self.warm_up * steps)
        falling = (steps - step) / max(1.0, (1 - self.warm_up) * steps)
        return min(1.0, rising, falling)


def training_batches(
    ids: list[list[int]], labels: list[int], pad: int, form: FineTuning
) -> Iterator[tuple[dict[str, Tensor], Tensor]]:
    """Batches of like lengths in a random order, with their labels.

    Reviews are shuffled first, so that those of one length fall together by chance.
    """
    generator = torch.Generator().manual_seed(form.seed)
    shuffled = torch.randperm(len(ids), generator=generator).tolist()
    by_length = sorted(shuffled, key=lambda number: len(ids[number]))
    groups = [by_length[at : at + form.batch] for at in range(0, len(ids), form.batch)]
    for at in torch.randperm(len(groups), generator=generator).tolist():
        group = groups[at]
        longest = max(len(ids[number]) for number in group)
        (batch,), order = padded_batches(
            [ids[number] for number in group], pad, longest * len(group)
        )
        yield batch, torch.tensor([labels[group[place]] for place in order])


def train(
    model: nn.Module, tokenizer: Any, reviews: Reviews, form: FineTuning
) -> list[float]:
    """Train a classifier in place.

    Args:
        model: gives ``logits`` [B, 2].
        tokenizer: of the model.
        reviews: all that it is trained on.
        form: how.

    Returns:
        The losses of the steps.
    """
    torch.manual_seed(form.seed)
    ids = tokenizer(reviews.texts, truncation=True, max_length=form.length)["input_ids"]
    steps = -(-len(ids) // form.batch)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=form.rate, weight_decay=form.decay, fused=True
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: form.factor(step, steps)
    )
    losses: list[float] = []
    model.train()
    batches = training_batches(ids, reviews.labels, tokenizer.pad_token_id, form)
    bar = tqdm(batches, "fine-tuning", total=steps)
    for batch, labels in bar:
        with torch.autocast("cpu", torch.bfloat16, enabled=form.bfloat16):
            logits = model(**batch).logits
        loss = nn.functional.cross_entropy(logits.float(), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(float(loss.detach()))
        recent = losses[-50:]
        bar.set_postfix(loss=f"{sum(recent) / len(recent):.3f}")
    model.eval()
    return losses


def classifier(folder: Path, seed: int = 0) -> tuple[Any, Any]:
    """A pretrained encoder with a head of two classes, and its tokenizer."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    torch.manual_seed(seed)
    # That the head is new is what is meant here.
    logger = logging.getLogger("transformers.modeling_utils")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=2)
    finally:
        logger.setLevel(level)
    return model, AutoTokenizer.from_pretrained(folder)


def fine_tuned(
    data: Path | None, form: FineTuning | None = None, runs: Path | None = None
) -> Path:
    """The folder of the trained classifier, which is trained if it is not there yet.

    Args:
        data: the folder of all data.
        form: how it is trained.
        runs: the folder of checkpoints, None for the usual one.
    """
    form = FineTuning() if form is None else form
    folder = (RUNS if runs is None else runs) / "minilm_imdb"
    settings = folder / _SETTINGS
    if settings.exists() and json.loads(settings.read_text()) == asdict(form):
        return folder
    model, tokenizer = classifier(minilm(), form.seed)
    train(model, tokenizer, imdb(data)["train"][: form.reviews], form)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    settings.write_text(json.dumps(asdict(form)) + "\n")
    return folder
