"""How long a forward pass takes, before and after replacing, by the text's length."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from tqdm import tqdm

from hsa_pyg.cli import SettingsError
from hsa_pyg.cli.text_model import TextModel
from hsa_pyg.integrations.transformers.comparison import replaced, run_batch

#: Rounds of a measurement, and seconds after which none begins.
ROUNDS, BUDGET = 5, 20.0


@dataclass(frozen=True)
class LengthTimes:
    """Seconds of forward passes of one text.

    Args:
        length: Tokens of the text.
        seconds: Of the original model, then of each replacement; None for one that was
            not run.
        reasons: Why not, for each of them; "" where it was.
    """

    length: int
    seconds: tuple[float | None, ...]
    reasons: tuple[str, ...]


def forward_times(
    encoder: TextModel,
    replacements: Sequence[Mapping[str, Any]],
    lengths: Sequence[int],
    text: str,
) -> list[LengthTimes]:
    """Median seconds of forward passes, run in turn; building trees is included.

    Where the model's positions end, those of a copy are stretched. What cannot be run
    is reported with the reason.

    Args:
        encoder: The model; its attention must not be replaced.
        replacements: Keyword arguments of ``replace_attention``, for each.
        lengths: Tokens of the texts.
        text: What they are made of, again and again.
    """
    number = 1 + len(replacements)
    try:
        longer, reason = encoder.with_positions(max(lengths, default=0)), ""
    except (SettingsError, RuntimeError) as error:  # too little memory is the latter
        longer, reason = encoder, str(error)
    times = []
    for length in tqdm(lengths, "lengths", leave=False):
        most = encoder.positions
        if reason and most is not None and length > most:
            times.append(LengthTimes(length, (None,) * number, (reason,) * number))
            continue
        batch = _text_of(longer, text, length)
        times.append(_times(longer.model, batch, replacements, length))
    return times


def _times(
    model: Any,
    batch: Mapping[str, Any],
    replacements: Sequence[Mapping[str, Any]],
    length: int,
) -> LengthTimes:
    def original() -> float:
        return _seconds(model, batch)

    def with_replaced(options: Mapping[str, Any]) -> Callable[[], float]:
        def run() -> float:
            rest = {
                k: x for k, x in options.items() if k not in ("layers", "hierarchy")
            }
            with replaced(model, options["layers"], options["hierarchy"], rest):
                return _seconds(model, batch)

        return run

    calls: list[Callable[[], float]] = [original, *map(with_replaced, replacements)]
    reasons = [""] * len(calls)
    taken: list[list[float]] = [[] for _ in calls]
    begin = time.perf_counter()
    for _ in range(1 + ROUNDS):
        for place, call in enumerate(calls):
            if reasons[place]:
                continue
            try:
                seconds = call()
            # What is not implemented, and too little memory, are RuntimeErrors.
            except (RuntimeError, MemoryError, ValueError) as error:
                reasons[place] = (str(error) or "memory").splitlines()[0]
                continue
            taken[place].append(seconds)
        if time.perf_counter() - begin > BUDGET:
            break
    # The first round warms up, unless it is so long that it is the only one.
    found = (
        median(rounds[1:] or rounds) if rounds and not reason else None
        for rounds, reason in zip(taken, reasons, strict=True)
    )
    return LengthTimes(length, tuple(found), tuple(reasons))


def _seconds(model: Any, batch: Mapping[str, Any]) -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    begin = time.perf_counter()
    run_batch(model, batch)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - begin


def check_lengths(encoder: TextModel, lengths: Sequence[int], text: str) -> None:
    """Raise a SettingsError, before all else, if no text can be as short."""
    one, empty = _tokens(encoder, text), _tokens(encoder, "")
    if lengths and (min(lengths) <= empty or one == empty):
        raise _impossible(min(lengths), one, empty)


def _tokens(encoder: TextModel, text: str) -> int:
    return len(encoder.tokenizer(text, verbose=False)["input_ids"])


def _impossible(length: int, one: int, empty: int) -> SettingsError:
    return SettingsError(
        f"A text of {length} tokens cannot be made: special tokens alone are {empty}, "
        f"and the first texts of the data have {one - empty} of their own; choose "
        "other --lengths."
    )


def _text_of(encoder: TextModel, text: str, length: int) -> Mapping[str, Any]:
    """A batch of one text of exactly so many tokens."""
    one, empty = _tokens(encoder, text), _tokens(encoder, "")
    again = 2 + length // max(1, one - empty)
    (batch,), _, _ = encoder.batches([" ".join([text] * again)], length)
    if batch["input_ids"].size(1) != length:
        raise _impossible(length, one, empty)
    return batch
