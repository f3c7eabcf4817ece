"""Splitting a paragraph into sentences, as character spans of the text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal

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
        return _checked(sentences)
    if sentences == "lines":
        return split_lines
    if sentences == "prose":
        return _prose_splitter(language)
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


def _prose_splitter(language: str) -> SentenceSplitter:
    # Why sentencex: it is maintained (Wikimedia), carries its rules inside the wheel
    # (NLTK's punkt downloads its model at run time), gives exact character spans whose
    # concatenation is the text (syntok loses white space, blingfire rewrites it), and
    # splits 200 reviews in 0.01 s where pysbd takes 3 s.
    try:
        from sentencex import get_sentence_boundaries
    except ImportError as error:
        raise ImportError(
            "Splitting prose into sentences needs sentencex: "
            'pip install "hsa-pyg[text]" (or pass sentences="lines").'
        ) from error

    def split(paragraph: str) -> list[tuple[int, int]]:
        spans = (
            (boundary["start_index"], boundary["end_index"])
            for boundary in get_sentence_boundaries(language, paragraph)
        )
        return list(_trimmed(paragraph, spans))

    return split


def _checked(split: SentenceSplitter) -> SentenceSplitter:
    """Wrap a user's splitter, so that a wrong span is an error and never lost text."""

    def checked(paragraph: str) -> list[tuple[int, int]]:
        spans = [(int(start), int(stop)) for start, stop in split(paragraph)]
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

    return checked


def _line_spans(text: str) -> Iterator[tuple[int, int]]:
    offset = 0
    for line in text.splitlines(keepends=True):
        yield offset, offset + len(line)
        offset += len(line)


def _trimmed(text: str, spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Take the white space off both ends of the spans; spans of nothing else go."""
    for start, stop in spans:
        piece = text[start:stop]
        visible = piece.strip()
        if visible:
            first = start + len(piece) - len(piece.lstrip())
            yield first, first + len(visible)
