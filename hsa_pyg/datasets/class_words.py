"""Words that would tell the label of an item, and taking them out."""

from __future__ import annotations

import re
from collections.abc import Iterable

_WORD = re.compile(r"[^\W\d_]+")
_FILLERS = frozenset({"and", "or", "of", "the"})


def singular(word: str) -> str:
    """A word without regard to case and to the plural's ending, as a key.

    Example:
        >>> [singular(word) for word in ("Flags", "flag", "BODIES", "Glass", "dishes")]
        ['flag', 'flag', 'body', 'glass', 'dish']
    """
    word = word.casefold()
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "xes", "sses")):
        return word[:-2]
    if word.endswith("s") and not word.endswith("ss") and len(word) > 3:
        return word[:-1]
    return word


def class_words(names: Iterable[str]) -> frozenset[str]:
    """The words in the names of classes, for :func:`strip_words`.

    Example:
        >>> sorted(class_words(["signs_and_symbols", "Food & Drink"]))
        ['drink', 'food', 'sign', 'symbol']
    """
    found = (singular(word) for name in names for word in _WORD.findall(name))
    return frozenset(word for word in found if word not in _FILLERS)


def strip_words(text: str, words: frozenset[str]) -> str:
    """Take words out of a text, in singular and plural and any case.

    Lines stay lines, unless nothing but ``and`` and the like is left of one.

    Args:
        text: The text, a phrase a line.
        words: What :func:`class_words` gives.

    Example:
        >>> strip_words(
        ...     "a Flag of Chad\\nflags\\nflag-td\\nfood and drink",
        ...     class_words(["Flags", "Food & Drink"]),
        ... )
        'a of Chad\\n-td'
    """
    lines = []
    for line in text.split("\n"):
        kept = _WORD.sub(
            lambda word: "" if singular(word[0]) in words else word[0], line
        )
        if kept == line:
            lines.append(line)
            continue
        left = re.findall(r"[^\W_]+", kept)
        if any(word.casefold() not in _FILLERS for word in left):
            lines.append(" ".join(kept.split()))
    return "\n".join(lines)


def tells_class(text: str, name: str) -> bool:
    """Whether a text has a word of the name of a class.

    Example:
        >>> tells_class("Flag of Chad", "Flags"), tells_class("Chad", "Flags")
        (True, False)
    """
    words = class_words([name])
    return any(singular(word) in words for word in _WORD.findall(text))
