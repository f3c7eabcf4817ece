"""The tree of a text's own paragraphs and sentences."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from hsa_pyg.hierarchy import SignalHierarchy
from hsa_pyg.integrations.transformers.trees import Span, Tokens, nested_forest, runs

Splitter = Callable[[str], list[Span]]

_PARAGRAPH = re.compile(r"\n+")
_SENTENCE_START = re.compile(r"(?<=[.!?] )[a-z]")
# Marks that stand at the word before them.
_CLOSING = frozenset(".,!?;:)]}%'…")


class Sentences:
    """Tokens in sentences, sentences in paragraphs, paragraphs in the text.

    The text is what :func:`~hsa_pyg.integrations.transformers.original_text` gives, or
    else what the ids stand for: most tokenizers of encoders drop line breaks and some
    case, and with them paragraphs and some sentences. A run of tokens (between special
    tokens) of one paragraph has its sentences as children of the root, and one of a
    single sentence its tokens.

    Args:
        tokenizer: the model's tokenizer. It may be left out if ``original_text`` is
            used in every call.
        split: from a paragraph to the (start, stop) characters of its sentences; by
            default as the converters split prose.
        language: ISO 639 code, for the default.
    """

    needs_scores = False

    def __init__(
        self,
        tokenizer: Any = None,
        split: Splitter | None = None,
        language: str = "en",
    ) -> None:
        from hsa_pyg.converters.sentences import sentence_splitter

        self.tokenizer = tokenizer
        self.split = sentence_splitter("prose" if split is None else split, language)
        self._pieces: dict[int, str] = {}
        self._style = "" if tokenizer is None else _style(tokenizer)

    def __call__(self, tokens: Tokens) -> SignalHierarchy:
        """Build the forest.

        Raises:
            ValueError: if there is neither text nor a tokenizer, or they do not fit.
        """
        starts, texts = self._texts(tokens)
        sentence, paragraph = [], []
        for text, start in zip(texts, starts, strict=True):
            first, number = self._sentence_starts(text)
            at = torch.searchsorted(first, start, right=True) - 1
            at = at.clamp(min=0)
            sentence.append(at)
            paragraph.append(number[at])
        device = tokens.kept.device
        levels = [
            _unless_single(tokens, torch.cat(level).to(device))
            for level in (sentence, paragraph)
        ]
        return nested_forest(tokens, levels)

    def _texts(self, tokens: Tokens) -> tuple[list[Tensor], list[str]]:
        """First character of each kept token, text by text, and the texts."""
        kept = tokens.kept.cpu()
        if tokens.text is not None and tokens.offsets is not None:
            spans = torch.tensor(tokens.offsets)
            if spans.shape != (*kept.shape, 2):
                raise ValueError(
                    f"offsets have shape {tuple(spans.shape)}, but the model attends "
                    f"over {tuple(kept.shape)} tokens; give the offset_mapping of the "
                    "same call of the tokenizer, padding included"
                )
            starts = [row[here, 0] for row, here in zip(spans, kept, strict=True)]
            return starts, list(tokens.text)
        if self.tokenizer is None or tokens.input_ids is None:
            raise ValueError(
                "sentences are found in text: give Sentences(tokenizer) and call the "
                "model with input_ids, or use original_text(model, texts, offsets)"
            )
        starts, texts = [], []
        for row, here, special in zip(
            tokens.input_ids.cpu(), kept, tokens.special.cpu(), strict=True
        ):
            start, text = self._decode(row[here].tolist(), special[here].tolist())
            starts.append(torch.tensor(start, dtype=torch.long))
            texts.append(text)
        return starts, texts

    def _decode(self, ids: list[int], special: list[bool]) -> tuple[list[int], str]:
        """Where each token starts in the text that the ids stand for, and the text."""
        new = sorted({number for number in ids if number not in self._pieces})
        words = self.tokenizer.convert_ids_to_tokens(new)
        for number, word in zip(new, words, strict=True):
            self._pieces[number] = self._piece(number, word)
        starts: list[int] = []
        parts: list[str] = []
        length = 0
        for number, apart in zip(ids, special, strict=True):
            piece = "\n" if apart else self._pieces[number]
            if _within_number(parts, piece):
                piece = piece[1:]
            starts.append(length + len(piece) - len(piece.lstrip()))
            parts.append(piece)
            length += len(piece)
        text = "".join(parts)
        if text == text.lower():
            # Splitters look for capitals, which such a tokenizer has taken away.
            text = _SENTENCE_START.sub(lambda found: found.group().upper(), text)
        return starts, text

    def _piece(self, number: int, word: str) -> str:
        if self._style == "bytes":
            return str(self.tokenizer.decode([number]))
        if self._style == "metaspace":
            return word.replace("▁", " ")
        if self._style == "suffix":
            return word.replace("</w>", " ")
        if word.startswith("##"):
            return word[2:]
        return word if word in _CLOSING else " " + word

    def _sentence_starts(self, text: str) -> tuple[Tensor, Tensor]:
        """[S] first character of every sentence, and [S] number of its paragraph."""
        starts, paragraphs = [0], [0]
        opened = 0
        breaks = [found.span() for found in _PARAGRAPH.finditer(text)]
        for number, (stop, resume) in enumerate([*breaks, (len(text), len(text))]):
            for start, _ in self.split(text[opened:stop]) if stop > opened else []:
                starts.append(opened + start)
                paragraphs.append(number)
            opened = resume
        return torch.tensor(starts), torch.tensor(paragraphs)

    def __repr__(self) -> str:
        name = type(self.tokenizer).__name__ if self.tokenizer is not None else ""
        return f"{type(self).__name__}({name})"


def _within_number(parts: Sequence[str], piece: str) -> bool:
    """Whether a piece goes on a number: word pieces part "3.5" at its point."""
    if len(parts) < 2 or not piece.startswith(" ") or parts[-1] not in (".", ","):
        return False
    return parts[-2].strip().isdigit() and piece.strip().isdigit()


def _unless_single(tokens: Tokens, group: Tensor) -> Tensor:
    """Groups told apart by run, and -1 in runs that have only one."""
    run, _, _ = runs(tokens)
    if group.numel() == 0:
        return group
    label = run * (int(group.max()) + 1) + group
    least = torch.full_like(run, int(label.max())).scatter_reduce(0, run, label, "amin")
    most = torch.zeros_like(run).scatter_reduce(0, run, label, "amax")
    return label.masked_fill((least == most)[run], -1)


def _style(tokenizer: Any) -> str:
    """How a vocabulary writes that a word begins or ends."""
    words = tokenizer.get_vocab()
    if any(word.startswith("Ġ") for word in words):
        return "bytes"
    if any(word.startswith("▁") for word in words):
        return "metaspace"
    if any(word.endswith("</w>") for word in words):
        return "suffix"
    return "wordpiece"
