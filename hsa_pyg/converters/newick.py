"""Phylogenetic trees in Newick format to signals."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from hsa_pyg.converters.folder_files import read_file
from hsa_pyg.converters.formats import decode
from hsa_pyg.converters.labels import Label, label_tensor
from hsa_pyg.converters.trees import (
    Names,
    Node,
    TreeBuilder,
    Vocabulary,
)
from hsa_pyg.data import Feature, NestedSignal, Schema
from hsa_pyg.hierarchy import CHILD_OF

if TYPE_CHECKING:
    from Bio.Phylo.Newick import Tree

_SUFFIXES = (".nwk", ".newick", ".nw", ".tree", ".tre", ".treefile", ".txt")
CLADE, TAXON = "clade", "taxon"


def newick_schema(with_taxa: bool = False) -> Schema:
    """Types and attributes of every signal that :func:`from_newick` makes.

    Args:
        with_taxa: Whether the leaves have ids of their names for features.
    """
    node = {
        "length": Feature((), torch.float),
        "pos": Feature((1,), torch.float),
        "name": Feature(None, "list"),
    }
    x = Feature((), torch.long) if with_taxa else Feature((1,), torch.float)
    return Schema(
        nodes={
            CLADE: {"support": Feature((), torch.float), **node},
            TAXON: {"x": x, **node},
        },
        edges=[(CLADE, CHILD_OF, CLADE), (TAXON, CHILD_OF, CLADE)],
    )


def from_newick(
    text_or_path: str | os.PathLike[str],
    *,
    taxa: Names | None = None,
    y: Label | None = None,
) -> NestedSignal:
    r"""Convert a tree in Newick format: clade > ... > taxon.

    - ``taxon``, the leaves: ``x`` is the length of their branch, ``[n, 1]`` float (0
      where the text has none); with ``taxa`` it is the id of their name, ``[n]`` long;
    - ``clade``: ``support`` ``[n]`` float, the number that stands for its name (a
      bootstrap value), NaN where there is none;
    - both: ``length`` ``[n]`` float, NaN where the text has none; ``name``, a list,
      ``""`` where there is none; ``pos`` ``[n, 1]`` float, place among the siblings.

    Nodes of a type are numbered in the order of the text. Names may be quoted, with
    ``''`` for a quote inside; underscores stay. Comments (``[...]``) are left out, and
    the semicolon may be missing.

    Args:
        text_or_path: The text, or the path of a file with one tree. A string is a path
            if it has none of the characters ``( ; '`` and there is such a file.
        taxa: A list of the taxa's names, a mapping from names to ids, or the number of
            ids to hash into; see :class:`~hsa_pyg.converters.Vocabulary`.
        y: Label of the whole: an int becomes ``[1]`` long, a float ``[1]`` float.

    Raises:
        ImportError: If Biopython is not installed.
        FileNotFoundError: If there is no such file, also for a string without those
            characters that ends like a file's name (``"apes.nwk"``).
        ValueError: If this is not one tree in Newick format; it names the character. Or
            if a name is not among ``taxa``.

    Example:
        >>> signal = from_newick("((human:6.2,chimp:6.2)90:2.1,gorilla:8.3);")
        >>> signal["taxon"].name, signal["clade"].support.tolist()
        (['human', 'chimp', 'gorilla'], [nan, 90.0])
    """
    texts = list(_split(_read(text_or_path)))
    if len(texts) != 1:
        raise ValueError(
            f"There are {len(texts)} trees, not one; from_newick_file converts each "
            "tree of a file."
        )
    return _convert(texts[0], taxa, y)


def from_newick_file(
    path: str | os.PathLike[str], *, taxa: Names | None = None
) -> list[NestedSignal]:
    r"""Convert each tree of a file, as :func:`from_newick` does.

    Args:
        path: A file in UTF-8.
        taxa: As in :func:`from_newick`.

    Raises:
        ImportError: If Biopython is not installed.
        FileNotFoundError: If there is no such file.
        ValueError: If the file holds no tree, or one that is not in Newick format.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "two.nwk")
        >>> _ = path.write_text("(a,b);\n((a,b),c);\n")
        >>> [signal["taxon"].num_nodes for signal in from_newick_file(path)]
        [2, 3]
    """
    texts = list(_split(_read(Path(path))))
    if not texts:
        raise ValueError(f"File {Path(path).as_posix()!r} holds no tree.")
    return [_convert(text, taxa, None) for text in texts]


@dataclass
class _TreeText:
    """One tree, checked; its labels are replaced by their numbers."""

    start: int
    pieces: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)


# Bio.Phylo keeps its own stack and reads 10,000 levels in 0.06 s; dendropy 5.1 calls
# itself for each level and ends in a RecursionError. But Bio.Phylo skips characters
# that it does not know, keeps the last of two names, and tells no positions. So the
# text is checked first, and reaches it with a number for each name.
def _convert(text: _TreeText, taxa: Names | None, y: Label | None) -> NestedSignal:
    find = None if taxa is None else Vocabulary(taxa, "taxon", "taxa")
    builder = TreeBuilder(newick_schema(find is not None))
    stack: list[tuple[Any, Node | None, int]] = [(_parse(text).root, None, 0)]
    while stack:
        clade, parent, place = stack.pop()
        number = None if clade.name is None else int(clade.name[1:])
        name = "" if number is None else text.labels[number]
        length = math.nan if clade.branch_length is None else clade.branch_length
        values: dict[str, Any] = {"length": length, "pos": place}
        if clade.clades:
            support = _support(name)
            is_number = not math.isnan(support)
            values.update(support=support, name="" if is_number else name)
            node = builder.add(CLADE, parent, **values)
            below = [(child, node, at) for at, child in enumerate(clade.clades)]
            stack.extend(reversed(below))
            continue
        if find is None:
            values["x"] = (0.0 if math.isnan(length) else length,)
        else:
            offset = text.start if number is None else text.offsets[number]
            values["x"] = find(name, f"character {offset}")
        builder.add(TAXON, parent, name=name, **values)
    signal = builder.signal()
    if y is not None:
        signal.y = label_tensor(y)
    return signal


def _parse(text: _TreeText) -> Tree:
    try:
        from Bio.Phylo.NewickIO import NewickError, Parser
    except ImportError as error:
        raise ImportError(
            'Reading Newick trees needs Biopython: pip install "hsa-pyg[trees]".'
        ) from error
    try:
        return next(Parser(StringIO("".join(text.pieces) + ";")).parse())
    except NewickError as error:
        raise ValueError(
            f"The tree at character {text.start} is not in Newick format: {error}"
        ) from error


def _support(name: str) -> float:
    return float(name) if _NUMBER.fullmatch(name) else math.nan


def _read(text_or_path: str | os.PathLike[str]) -> str:
    if isinstance(text_or_path, str):
        is_tree = any(mark in text_or_path for mark in "(;'\n")
        if is_tree or not os.path.isfile(text_or_path):
            # A mistyped name must not become a tree of one taxon.
            if not is_tree and Path(text_or_path).suffix.lower() in _SUFFIXES:
                raise FileNotFoundError(
                    f"There is no file {text_or_path!r}. If this is a tree of one "
                    "taxon, end it with a semicolon."
                )
            return text_or_path
    path = Path(text_or_path)
    return decode(read_file(path, path.as_posix()), path.as_posix())


_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_TOKEN = re.compile(
    rf"""
    (?P<space>\s+)
  | (?P<comment>\[[^\[\]]*\])
  | (?P<mark>[(),;])
  | (?P<quoted>'(?:[^']|'')*')
  | :\s*(?P<length>{_NUMBER.pattern})(?=[\s(),;\[]|\Z)
  | (?P<bare>[^\s()\[\]':;,]+)
    """,
    re.VERBOSE,
)


def _split(text: str) -> Iterator[_TreeText]:
    """Yield the trees of a text, each checked."""
    if text.lstrip()[:6].upper() == "#NEXUS":
        raise ValueError(
            "The text is in NEXUS format; pass the Newick tree after 'TREE name ='."
        )
    tree = _TreeText(0)
    opened: list[int] = []
    last = ""
    offset = 0
    while offset < len(text):
        match = _TOKEN.match(text, offset)
        if match is None:
            raise ValueError(_stray(text, offset))
        kind, token = match.lastgroup or "", match.group()
        if kind not in ("space", "comment"):
            kind = token if kind == "mark" else "name" if kind != "length" else kind
            _check(kind, last, token, offset, opened)
            tree.start = tree.start if tree.pieces else offset
            if kind == ";":
                yield tree
                tree, last = _TreeText(offset + 1), ""
            else:
                _take(tree, kind, match, offset)
                last = kind
        offset = match.end()
    if opened:
        raise ValueError(
            f"The parenthesis at character {opened[-1]} is never closed: the text ends "
            f"after {len(text)} characters."
        )
    if tree.pieces:
        yield tree


def _take(tree: _TreeText, kind: str, match: re.Match[str], offset: int) -> None:
    if kind == "name":
        tree.pieces.append(f"n{len(tree.labels)}")
        quoted = match["quoted"]
        name = quoted[1:-1].replace("''", "'") if quoted else match["bare"]
        tree.labels.append(name)
        tree.offsets.append(offset)
    elif kind == "length":
        length = float(match["length"])
        if abs(length) > torch.finfo(torch.float).max:
            raise ValueError(
                f"The length {length} at character {offset} is too large for float32."
            )
        tree.pieces.append(f":{length!r}")
    else:
        tree.pieces.append(kind)


def _check(kind: str, last: str, token: str, offset: int, opened: list[int]) -> None:
    """Whether a token may stand where it does; keeps track of the parentheses."""
    where = f"{token[:20]!r} at character {offset}"
    if kind == "(":
        if last not in ("", "(", ","):
            raise ValueError(f"{where} follows a node; a comma is missing.")
        opened.append(offset)
    elif kind == ")":
        if not opened:
            raise ValueError(f"{where} closes no parenthesis.")
        opened.pop()
    elif kind == "," and not opened:
        raise ValueError(
            f"{where} is outside of all parentheses; put them around the whole tree."
        )
    elif kind == ";":
        if opened:
            raise ValueError(
                f"{where} ends a tree whose parenthesis at character {opened[-1]} is "
                "never closed."
            )
        if last == "":
            raise ValueError(f"{where} ends no tree.")
    elif kind in ("name", "length") and last in ("length", kind):
        raise ValueError(
            f"{where} follows a {last}; a comma is missing, or quotes around a name "
            "with spaces."
        )


def _stray(text: str, offset: int) -> str:
    where = f"{text[offset : offset + 20]!r} at character {offset}"
    if text[offset] == "'":
        return f"The quote {where} is never closed."
    if text[offset] == "[":
        return f"The comment {where} is never closed, or holds another comment."
    if text[offset] == ":":
        return f"{where} is no length: a number must follow the colon."
    return f"{where} does not belong there."
