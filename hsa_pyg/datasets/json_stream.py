"""Reading a large JSON file object by object."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_CHUNK = 1 << 20
# No object of a data set is larger: what cannot be read up to here is broken.
_LONGEST = 64 << 20


def iterate_array(path: Path) -> Iterator[Any]:
    """Yield the elements of the array in a JSON file, one at a time.

    Args:
        path: The file, in UTF-8.

    Raises:
        ValueError: If it is no array, broken, or a part of one; names the element.
    """
    decoder = json.JSONDecoder()
    number = 0
    with path.open(encoding="utf-8-sig") as file:
        rest = _more(file, "", path)
        if not rest.startswith("["):
            raise ValueError(
                f"{path.as_posix()!r} is no JSON array: it starts with {rest[:20]!r}."
            )
        rest = rest[1:]
        while True:
            rest = rest.lstrip() or _more(file, "", path)
            if rest.startswith("]"):
                return
            if number > 0:
                if not rest.startswith(","):
                    raise _broken(path, number, "a comma or ] is missing")
                rest = rest[1:]
            element, rest = _element(decoder, file, rest, path, number)
            number += 1
            yield element


def _element(
    decoder: json.JSONDecoder, file: Any, rest: str, path: Path, number: int
) -> tuple[Any, str]:
    """The next element, and what is read of the file behind it."""
    while True:
        rest = rest.lstrip()
        try:
            element, stop = decoder.raw_decode(rest)
            # A number at the end of what is read may go on behind it.
            if stop < len(rest):
                return element, rest[stop:]
            reason = "the file ends"
        except json.JSONDecodeError as error:
            reason = error.msg
        except RecursionError:
            raise _broken(path, number, "it is nested too deep") from None
        wanted = max(_CHUNK, len(rest))
        chunk = _read(file, wanted, path) if len(rest) < _LONGEST else ""
        if not chunk:
            raise _broken(path, number, reason)
        rest += chunk


def _read(file: Any, size: int, path: Path) -> str:
    try:
        return file.read(size)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path.as_posix()!r} is not in UTF-8, or broken ({error.reason}). Fetch "
            "it again."
        ) from error


def _more(file: Any, rest: str, path: Path) -> str:
    """Read on until something that is no white space comes."""
    while not rest:
        chunk = _read(file, _CHUNK, path)
        if not chunk:
            raise ValueError(
                f"{path.as_posix()!r} ends before its JSON array does: it is a part of "
                "a file. Fetch it again."
            )
        rest = chunk.lstrip()
    return rest


def _broken(path: Path, number: int, reason: str) -> ValueError:
    return ValueError(
        f"{path.as_posix()!r}: element {number} is broken JSON, or the file is only a "
        f"part ({reason}). Fetch it again."
    )
