r"""Bracketed parse trees, such as ``(3 (2 It) (4 works))``, with a label on every node.

One bracket is one node: ``(label word)`` a leaf, ``(label (...) (...))`` a phrase.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from hsa_pyg.converters.labels import Label, label_tensor
from hsa_pyg.converters.trees import (
    Names,
    Node,
    TreeBuilder,
    Vocabulary,
)
from hsa_pyg.data import Feature, NestedSignal, Schema
from hsa_pyg.hierarchy import CHILD_OF

PHRASE, WORD = "phrase", "word"
_NODE = {"y": Feature((), torch.long), "pos": Feature((1,), torch.float)}
_TEXT = Feature(None, "list")

BRACKETS_SCHEMA = Schema(
    nodes={
        PHRASE: _NODE,
        WORD: {
            "x": Feature((), torch.long),
            **_NODE,
            "text": _TEXT,
            "written": _TEXT,
        },
    },
    edges=[(PHRASE, CHILD_OF, PHRASE), (WORD, CHILD_OF, PHRASE)],
)
"""Types and attributes of every signal that this module makes."""

# The Treebank writes brackets by these names.
_BRACKET_NAMES = {
    "-LRB-": "(",
    "-RRB-": ")",
    "-LSB-": "[",
    "-RSB-": "]",
    "-LCB-": "{",
    "-RCB-": "}",
}
_SPACE = " \t\r\n"
_SPACES = re.compile(f"[{_SPACE}]+")
_PIECE = re.compile(r"[()]|[^()]+")


@dataclass
class _Bracket:
    """A bracket that is open, as far as it was read."""

    offset: int
    label: str = ""
    word: str | None = None
    is_phrase: bool = False


class _Open(NamedTuple):
    """A bracket opens: a phrase, or a leaf if it holds a word."""

    offset: int
    label: str
    word: str | None


def from_brackets(
    text: str,
    *,
    vocabulary: Names | Vocabulary = 32_768,
    lowercase: bool = True,
    labels: Names | Vocabulary | None = None,
    y: Label | None = None,
) -> NestedSignal:
    r"""Convert a bracketed parse tree: phrase > ... > word.

    - ``word``, the leaves: ``x`` ids ``[n]`` long, ``y`` labels ``[n]`` long, ``text``
      the words, ``written`` the words as they stand in the brackets;
    - ``phrase``, brackets that hold brackets: ``y`` ``[n]`` long;
    - ``pos`` of both, ``[n, 1]`` float: place among the siblings, 0 for the root.

    Nodes of a type are numbered in reading order. In ``text`` a bracket, slash or
    asterisk stands for its escaped form (``-LRB-``, ``\/``, ``\*``), as the Penn
    Treebank escapes them; the vocabulary is asked for this text. A word may hold
    spaces. The Treebank's bracket without label around a sentence is taken off.

    Args:
        text: One tree.
        vocabulary: Ids of the words: a list, a mapping, or the number of ids to hash
            into; see :class:`~hsa_pyg.converters.Vocabulary` (one of which is
            made once for many trees).
        lowercase: Whether to ask the vocabulary for words in lower case.
        labels: Ids of the labels, as for ``vocabulary``; None if the labels are
            integers. :func:`collect_labels` lists those of a corpus.
        y: Label of the whole: an int becomes ``[1]`` long, a float ``[1]`` float.

    Raises:
        TypeError: If ``text`` is no string.
        ValueError: If it is not one tree; the message has the character.

    Example:
        >>> signal = from_brackets("(3 (2 It) (4 (2 really) (3 works)))")
        >>> signal["word"].text, signal["word"].y.tolist(), signal["phrase"].y.tolist()
        (['It', 'really', 'works'], [2, 2, 3], [3, 4])
        >>> to_brackets(signal)
        '(3 (2 It) (4 (2 really) (3 works)))'
    """
    find_word = Vocabulary.of(vocabulary, "word", "vocabulary")
    find_label = None if labels is None else Vocabulary.of(labels, "label", "labels")
    builder = TreeBuilder(BRACKETS_SCHEMA)
    # Open phrases, innermost last, each with the number of its children so far.
    path: list[Node] = []
    places = [0]
    for piece in _parse(text):
        if piece is None:
            path.pop()
            places.pop()
            continue
        parent = path[-1] if path else None
        where = f"character {piece.offset}"
        values: dict[str, Any] = {
            "y": find_label(piece.label, where) if find_label else _number(piece),
            "pos": places[-1],
        }
        places[-1] += 1
        if piece.word is None:
            path.append(builder.add(PHRASE, parent, **values))
            places.append(0)
        else:
            plain = unescape(piece.word)
            word_id = find_word(plain.lower() if lowercase else plain, where)
            builder.add(
                WORD, parent, x=word_id, text=plain, written=piece.word, **values
            )
    signal = builder.signal()
    if y is not None:
        signal.y = label_tensor(y)
    return signal


def to_brackets(signal: NestedSignal, labels: Iterable[str] | None = None) -> str:
    """Write a signal of :func:`from_brackets` as brackets again.

    Args:
        signal: The signal.
        labels: Names of the label ids; None writes the ids.

    Raises:
        ValueError: If the signal lacks the types or attributes, or is no single tree.

    Example:
        >>> to_brackets(from_brackets("(S (NP I) (VP ran))", labels=["S", "NP", "VP"]))
        '(0 (1 I) (2 ran))'
    """
    for kind, name in ((PHRASE, "y"), (WORD, "y"), (WORD, "written")):
        if kind not in signal.node_types or name not in signal[kind]:
            raise ValueError(
                f"The signal has no {name!r} of type {kind!r}: to_brackets writes "
                "signals that from_brackets made."
            )
    hierarchy = signal.hierarchy
    if hierarchy.num_roots != 1:
        raise ValueError(
            f"The signal has {hierarchy.num_roots} roots; write the trees of a batch "
            "one by one, from batch.to_data_list()."
        )
    names = None if labels is None else list(labels)
    written, places = [""] * hierarchy.num_nodes, [0.0] * hierarchy.num_nodes
    for kind, (start, stop) in hierarchy.node_slices.items():
        tags = signal[kind].y.tolist()
        places[start:stop] = signal[kind].pos.view(-1).tolist()
        words = [f" {word}" for word in signal[WORD].written] if kind == WORD else None
        for row, tag in enumerate(tags):
            label = str(tag) if names is None else names[tag]
            written[start + row] = f"({label}" + (words[row] if words else "")
    children: list[list[int]] = [[] for _ in written]
    for node, parent in enumerate(hierarchy.parent.tolist()):
        if parent >= 0:
            children[parent].append(node)
    pieces: list[str] = []
    stack: list[int | None] = [int(hierarchy.roots[0])]
    while stack:
        top = stack.pop()
        if top is None:
            pieces.append(")")
            continue
        pieces.append(written[top] if not pieces else f" {written[top]}")
        ordered = sorted(children[top], key=lambda child: places[child])
        stack.append(None)
        stack.extend(reversed(ordered))
    return "".join(pieces)


def collect_labels(texts: Iterable[str]) -> list[str]:
    """The labels of many bracketed trees, sorted: ``labels`` of :func:`from_brackets`.

    Args:
        texts: One tree each, those of the training split.

    Example:
        >>> collect_labels(["(S (NP I) (VP ran))", "(S (VP go))"])
        ['NP', 'S', 'VP']
    """
    found = {piece.label for text in texts for piece in _parse(text) if piece}
    return sorted(found)


def bracket_words(text: str) -> list[str]:
    """The words of a bracketed tree, unescaped, to count a vocabulary.

    Args:
        text: One tree.

    Example:
        >>> bracket_words("(3 (2 It) (4 works))")
        ['It', 'works']
    """
    pieces = (piece for piece in _parse(text) if piece is not None)
    return [unescape(piece.word) for piece in pieces if piece.word is not None]


def unescape(word: str) -> str:
    r"""The word that the Treebank's escaped form stands for.

    Example:
        >>> unescape(r"1\/2"), unescape("-LRB-"), unescape("--")
        ('1/2', '(', '--')
    """
    return _BRACKET_NAMES.get(word, word.replace(r"\/", "/").replace(r"\*", "*"))


def _number(piece: _Open) -> int:
    # Python's int() would also take "1_0", and more digits than a tensor can hold.
    if re.fullmatch(r"[+-]?[0-9]{1,18}", piece.label):
        return int(piece.label)
    raise ValueError(
        f"The label {piece.label!r} at character {piece.offset} is no integer (or one "
        "of more than 18 digits); pass labels=, such as collect_labels(texts)."
    )


def _parse(text: str) -> Iterator[_Open | None]:
    """Yield each bracket as it opens, and None as a phrase closes."""
    if not isinstance(text, str):
        raise TypeError(f"A bracketed tree is a string, got a {type(text).__name__}.")
    path: list[_Bracket] = []
    finished = False
    for match in _PIECE.finditer(text):
        piece, offset = match.group(), match.start()
        if finished and piece.strip(_SPACE):
            raise ValueError(
                f"The tree ends before character {offset}, where {piece[:20]!r} "
                "follows; pass one tree at a time."
            )
        if piece == "(":
            yield from _open(path)
            path.append(_Bracket(offset))
        elif piece == ")":
            if not path:
                raise ValueError(f"')' at character {offset} closes no bracket.")
            yield from _close(path.pop())
            finished = not path
        elif piece.strip(_SPACE):
            _read(piece, offset, path)
    if path:
        raise ValueError(
            f"The bracket at character {path[-1].offset} is never closed: the text ends"
            f" after {len(text)} characters."
        )
    if not finished:
        raise ValueError("The text holds no bracket, and so no tree.")


def _open(path: list[_Bracket]) -> Iterator[_Open]:
    """The innermost bracket turns out to hold another one."""
    if not path:
        return
    top = path[-1]
    if top.word is not None:
        raise ValueError(
            f"The bracket at character {top.offset} holds the word {top.word!r} and a "
            "bracket; give the word a bracket of its own."
        )
    if top.is_phrase and top.label == "":
        raise ValueError(
            f"The bracket at character {top.offset} has no label but several brackets "
            "inside; only a bracket around one whole tree may lack a label."
        )
    if not top.is_phrase:
        top.is_phrase = True
        if top.label:
            yield _Open(top.offset, top.label, None)
        elif len(path) > 1:
            raise ValueError(f"The bracket at character {top.offset} has no label.")


def _close(top: _Bracket) -> Iterator[_Open | None]:
    if top.is_phrase:
        if top.label:
            yield None
        return
    if top.word is None:
        raise ValueError(
            f"The bracket at character {top.offset} holds neither a word nor a bracket;"
            " a leaf is written (label word)."
        )
    yield _Open(top.offset, top.label, top.word)


def _read(piece: str, offset: int, path: list[_Bracket]) -> None:
    """Take the label of the innermost bracket, and its word if it has one."""
    if not path or path[-1].is_phrase:
        at = offset + len(piece) - len(piece.lstrip(_SPACE))
        where = "outside of" if not path else "after a bracket in"
        raise ValueError(
            f"{piece.strip(_SPACE)[:20]!r} at character {at} stands {where} a bracket; "
            "every word has a bracket of its own."
        )
    words = _SPACES.split(piece.strip(_SPACE), maxsplit=1)
    path[-1].label = words[0]
    path[-1].word = words[1] if len(words) > 1 else None
