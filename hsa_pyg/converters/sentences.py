"""Splitting a paragraph into sentences, as character spans of the text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal

# The time of sentencex grows with the square of a paragraph: a book without blank
# lines would take an hour. It looks this far ahead at once, ...
_WINDOW = 4096
# ... and its word is taken for what lies so far from the window's end.
_SETTLED = _WINDOW // 2

SentenceSplitter = Callable[[str], list[tuple[int, int]]]
"""Gives the ``(start, stop)`` character spans of the sentences of a paragraph."""


def sentence_splitter(
    sentences: Literal["prose", "lines"] | SentenceSplitter, language: str = "en"
) -> SentenceSplitter:
    """Return the splitter that the converters' ``sentences`` argument asks for.

    Args:
        sentences: ``"prose"`` finds sentences in running text, ``"lines"`` takes one
            sentence a line, and a callable is used as it is (it must give at least
            one span for a paragraph, in order, without overlaps).
        language: ISO 639 code for ``"prose"``.

    Raises:
        ValueError: If ``sentences`` is neither a known name nor callable.
        ImportError: If ``"prose"`` is asked for and sentencex is not installed.
    """
    if callable(sentences):
        return _CheckedSplitter(sentences)
    if sentences == "lines":
        return split_lines
    if sentences == "prose":
        return _ProseSplitter(language)
    raise ValueError(
        f"sentences={sentences!r} is not known: use 'prose', 'lines' or a callable "
        "that gives the (start, stop) spans of the sentences of a paragraph."
    )


def split_lines(paragraph: str) -> list[tuple[int, int]]:
    r"""Take each line that is not blank for a sentence, white space around it left out.

    Example:
        >>> split_lines("one .\r\n  two\n")
        [(0, 5), (9, 12)]
    """
    return list(_trimmed(paragraph, _line_spans(paragraph)))


# Classes rather than closures: converters travel to the workers of a DataLoader.
class _ProseSplitter:
    """Finds sentences in running text."""

    def __init__(self, language: str) -> None:
        # Why sentencex: it is maintained (Wikimedia), carries its rules inside the
        # wheel (NLTK's punkt downloads its model at run time), gives exact character
        # spans whose concatenation is the text (syntok loses white space, blingfire
        # rewrites it), and splits 200 reviews in 0.01 s where pysbd takes 3 s.
        try:
            import sentencex
        except ImportError as error:
            raise ImportError(
                "Splitting prose into sentences needs sentencex: "
                'pip install "hsa-pyg[text]", which html and epub include (or pass '
                'sentences="lines").'
            ) from error
        self.language = language
        self._boundaries = sentencex.get_sentence_boundaries

    def __call__(self, paragraph: str) -> list[tuple[int, int]]:
        return list(_trimmed(paragraph, self._spans(paragraph)))

    def _spans(self, paragraph: str) -> Iterator[tuple[int, int]]:
        start = opened = 0
        while len(paragraph) - opened > _WINDOW:
            ends = [
                opened + end
                for end in self._ends(paragraph[opened : opened + _WINDOW])
                if end <= _SETTLED
            ]
            for end in ends:
                yield start, end
                start = end
            opened = start if ends else _word_start(paragraph, opened + _SETTLED)
        for end in self._ends(paragraph[opened:]):
            yield start, opened + end
            start = opened + end

    def _ends(self, text: str) -> Iterator[int]:
        for boundary in self._boundaries(self.language, text):
            yield boundary["end_index"]

    def __reduce__(self) -> tuple[type[_ProseSplitter], tuple[str]]:
        return type(self), (self.language,)


class _CheckedSplitter:
    """A user's splitter, whose wrong spans are an error and never lost text."""

    def __init__(self, split: SentenceSplitter) -> None:
        self.split = split

    def __call__(self, paragraph: str) -> list[tuple[int, int]]:
        spans = [(int(start), int(stop)) for start, stop in self.split(paragraph)]
        covered = 0
        for start, stop in [*spans, (len(paragraph), len(paragraph))]:
            if not covered <= start <= stop <= len(paragraph):
                raise ValueError(
                    f"The sentence splitter gave the span ({start}, {stop}) after "
                    f"offset {covered} in a paragraph of {len(paragraph)} characters: "
                    "spans must be ordered, disjoint and inside the paragraph."
                )
            if paragraph[covered:start].strip():
                raise ValueError(
                    f"The sentence splitter left out the characters {covered} to "
                    f"{start} of a paragraph: {paragraph[covered:start][:40]!r}. "
                    "Every visible character must lie in a sentence."
                )
            covered = stop
        return spans


def _line_spans(text: str) -> Iterator[tuple[int, int]]:
    offset = 0
    for line in text.splitlines(keepends=True):
        yield offset, offset + len(line)
        offset += len(line)


def _word_start(text: str, offset: int) -> int:
    """Return where the word begins that holds a character, unless it is very long."""
    for place in range(offset, offset - _SETTLED // 2, -1):
        if text[place - 1].isspace():
            return place
    return offset


def _trimmed(text: str, spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Take the white space off both ends of the spans; spans of nothing else go."""
    for start, stop in spans:
        piece = text[start:stop]
        visible = piece.strip()
        if visible:
            first = start + len(piece) - len(piece.lstrip())
            yield first, first + len(visible)
