"""What lies at a path, and the converter that reads it."""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hsa_pyg.cli import SettingsError
from hsa_pyg.converters import (
    DocumentConverter,
    PictureReader,
    Website,
    from_graph,
    from_image,
    from_nested,
    from_networkx,
    from_newick_file,
    from_website,
)
from hsa_pyg.converters.blocks import Block, ParsedDocument, Picture
from hsa_pyg.converters.formats import FORMATS, PICTURES, SUFFIXES, decode
from hsa_pyg.converters.reading import Reader
from hsa_pyg.converters.sentences import split_lines
from hsa_pyg.data import NestedSignal

NETWORKS = ("graphml", "gml", "gexf", "edgelist")
KIND_OF_SUFFIX = {
    **SUFFIXES,
    **dict.fromkeys(PICTURES, "image"),
    ".json": "json",
    **dict.fromkeys((".nwk", ".newick", ".tree"), "newick"),
    **{f".{name}": name for name in NETWORKS},
    ".pt": "signals",
}
KINDS = (*FORMATS, "image", "json", "newick", *NETWORKS, "signals", "website")
"""What ``--format`` takes."""

_MAGIC = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM")


def check_kind(kind: str | None, *more: str) -> None:
    """Refuse a format that there is not, before anything is read.

    Args:
        kind: What was asked for; None for what the files tell.
        more: What there is besides :data:`KINDS`.

    Raises:
        SettingsError: if it is neither.
    """
    known = (*KINDS, *more)
    if kind is not None and kind not in known:
        raise SettingsError(
            f"--format {kind} is not known: use one of {', '.join(known)}."
        )


@dataclass(frozen=True)
class ReadSettings:
    """How paths are read: arguments of the converters.

    Args:
        tokenizer: See :class:`~hsa_pyg.converters.DocumentConverter`, as for the
            arguments below.
        images: Whether to read the pictures of documents.
        max_tokens: Keep the first so many tokens of a document.
        main_content: Leave out the boilerplate of web pages.
        keep_text: Keep the texts in the signals.
    """

    tokenizer: Any = None
    images: bool = True
    max_tokens: int | None = None
    main_content: bool = False
    keep_text: bool = True


class PathReader:
    """Reads whatever lies at a path, all with the same settings.

    Args:
        settings: The settings.
        as_documents: Make pictures documents of one figure, so that they go together
            with documents that have pictures.
    """

    def __init__(self, settings: ReadSettings, as_documents: bool = False) -> None:
        self.settings = settings
        self.as_documents = as_documents

    def read_path(
        self,
        path: Path,
        kind: str | None = None,
        y: int | None = None,
        root: Path | None = None,
    ) -> list[NestedSignal]:
        """Convert a file, or a folder of linked pages.

        Files of Newick trees and of saved signals may give several signals, all others
        give one.

        Args:
            path: The file or folder.
            kind: One of :data:`KINDS`; by default told from suffix and content.
            y: Label of the signal.
            root: Folder outside of which no picture of a document is read.

        Raises:
            OSError: If the path cannot be read.
            ImportError: If the kind needs an extra that is not installed.
            ValueError: If it cannot be converted; says why.
        """
        check_kind(kind)
        kind = kind or detect_kind(path)
        if kind in FORMATS:
            return [self._documents.file(path, kind, y, root)]
        try:
            signals = self._read_other(path, kind)
        except ValueError as error:
            if path.as_posix() in str(error):
                raise
            raise ValueError(f"{path.as_posix()!r}: {error}") from error
        for signal in signals:
            if y is not None:
                signal.y = torch.tensor([y])
            _describe(signal, path)
        return signals

    def text_of(self, path: Path, kind: str, root: Path | None = None) -> Iterator[str]:
        """Yield the texts that a path has, to count their words."""
        if kind in FORMATS:
            yield self._texts.parse_file(path, kind, path.as_posix(), root).text
        elif kind == "json":
            yield from _strings(_load_json(path))
        elif kind == "website":
            site = Website(
                path,
                images=False,
                main_content=self.settings.main_content,
                progress=False,
            )
            for page in site:
                yield from page["page"].text

    @cached_property
    def _documents(self) -> DocumentConverter:
        settings = self.settings
        return DocumentConverter(
            settings.tokenizer,
            images=settings.images,
            max_tokens=settings.max_tokens,
            main_content=settings.main_content,
            keep_text=settings.keep_text,
        )

    @cached_property
    def _texts(self) -> Reader:
        return Reader(split_lines, main_content=self.settings.main_content)

    def _read_other(self, path: Path, kind: str) -> list[NestedSignal]:
        if kind == "website":
            return [self._website(path)]
        if kind == "image":
            return [self._picture(path)]
        if kind == "signals":
            return load_signals(path)
        if kind == "newick":
            return from_newick_file(path)
        if kind == "json":
            return [from_nested(_load_json(path), tokenizer=self.settings.tokenizer)]
        return [_read_network(path, kind)]

    def _website(self, folder: Path) -> NestedSignal:
        return from_website(
            folder,
            tokenizer=self.settings.tokenizer,
            images=self.settings.images,
            max_tokens=self.settings.max_tokens,
            main_content=self.settings.main_content,
            keep_text=self.settings.keep_text,
        )

    def _picture(self, path: Path) -> NestedSignal:
        if not self.as_documents:
            return from_image(path, channels=3, max_size=PictureReader().max_size)
        content = path.read_bytes()
        patches = PictureReader().read(content, path.as_posix())
        picture = Picture(hashlib.sha256(content).hexdigest(), patches)
        figure = Block("block", 0, 0, role="figure", picture=picture)
        parsed = ParsedDocument(Block("document", 0, 0, [figure]), "")
        return self._documents.parsed(parsed, "html", path.as_posix())


def detect_kind(path: Path) -> str:
    """Tell what lies at a path from its suffix, or else from its first bytes.

    Raises:
        FileNotFoundError: If nothing lies there.
        SettingsError: If it cannot be told.
    """
    if path.is_dir():
        return "website"
    if not path.exists():
        raise FileNotFoundError(f"There is no file or folder {path.as_posix()!r}.")
    kind = KIND_OF_SUFFIX.get(path.suffix.lower()) if path.suffix else None
    kind = kind or sniff_kind(path)
    if kind is None:
        raise SettingsError(
            f"{path.as_posix()!r} is of no kind that is known, by its suffix or its "
            f"content: say which by --format, one of {', '.join(KINDS)}."
        )
    return kind


def sniff_kind(path: Path) -> str | None:
    """Tell the kind of a file from its first bytes; None if they do not tell it."""
    with path.open("rb") as file:
        head = file.read(4096)
    lower = head.lstrip().lower()
    if head.startswith(_MAGIC) or (head[:4] == b"RIFF" and head[8:12] == b"WEBP"):
        return "image"
    if head.startswith(b"PK") and b"application/epub+zip" in head:
        return "epub"
    if lower.startswith((b"<!doctype html", b"<html")):
        return "html"
    if b"<svg" in lower:
        return "image"
    try:
        # A character may be cut in two at the end.
        text = head.decode("utf-8", errors="strict" if len(head) < 4096 else "ignore")
    except UnicodeDecodeError:
        return None
    whole = len(text.encode()) > len(head) - 4
    return "text" if whole and "\0" not in text else None


def load_signals(path: Path) -> list[NestedSignal]:
    """Load a file of one signal or of a list of them.

    Raises:
        SettingsError: If it holds anything else, or is no file of torch.save.
    """
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise SettingsError(
            f"{path.as_posix()!r} cannot be loaded as signals ({reason[0]}): write it "
            "by hsa-pyg convert, or by torch.save(signals, path)."
        ) from error
    signals = [loaded] if isinstance(loaded, NestedSignal) else loaded
    wrong = (
        next((s for s in signals if not isinstance(s, NestedSignal)), None)
        if (isinstance(signals, list))
        else signals
    )
    if wrong is not None or not signals:
        found = "no signal" if wrong is None else f"a {type(wrong).__name__}"
        raise SettingsError(
            f"{path.as_posix()!r} holds {found}, but a NestedSignal or a list of them "
            "is wanted."
        )
    for number, signal in enumerate(signals):
        _check_saved(signal, f"signal {number} of {path.as_posix()!r}")
    return signals


def _check_saved(signal: NestedSignal, name: str) -> None:
    """Raise a SettingsError unless a signal of foreign origin is what it looks like."""
    store = signal._global_store
    try:
        signal.validate()
        for reason, count in store.get("dropped") or []:
            if not (isinstance(reason, str) and isinstance(count, int)):
                raise TypeError("'dropped' holds (reason, count) pairs")
        for node_type in signal.node_types:
            _check_text_columns(signal[node_type], node_type)
    except MemoryError:
        raise
    except Exception as error:  # files may hold whatever somebody put into them
        raise SettingsError(f"{name} is broken: {error}.") from error


def _check_text_columns(store: Any, node_type: str) -> None:
    for key, width in (("span", (2,)), ("role", ())):
        value = store.get(key)
        if value is None:
            continue
        shape = (store.num_nodes, *width)
        whole = isinstance(value, Tensor) and not value.is_floating_point()
        if not whole or tuple(value.shape) != shape:
            raise ValueError(
                f"{node_type}.{key} must be a tensor of integers of shape {list(shape)}"
            )


def _read_network(path: Path, kind: str) -> NestedSignal:
    try:
        import networkx
    except ImportError as error:
        raise ImportError(
            'Reading graphs needs networkx: pip install "hsa-pyg[graph]".'
        ) from error
    try:
        network = getattr(networkx, f"read_{kind}")(path)
    except OSError:
        raise
    except Exception as error:  # networkx and the parsers below it raise all sorts
        raise ValueError(
            f"{path.as_posix()!r} cannot be read as {kind}: "
            f"{type(error).__name__}: {error}"
        ) from error
    for notion in ("node_default", "edge_default"):  # of the file format, not the graph
        network.graph.pop(notion, None)
    if not network.is_directed() or not networkx.is_arborescence(network):
        return from_graph(network)
    leaves = [node for node, below in network.out_degree() if below == 0]
    if any("x" in network.nodes[leaf] for leaf in leaves):
        return from_networkx(network)
    # A tree of names alone: its shape can be looked at all the same.
    return from_networkx(network, features=lambda node, attributes: 1.0)


def _load_json(path: Path) -> Any:
    text = decode(path.read_bytes(), path.as_posix())
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path.as_posix()!r} is no JSON: {error}.") from error
    except RecursionError as error:
        raise ValueError(
            f"{path.as_posix()!r} nests deeper than Python's json reads."
        ) from error


def _strings(value: Any) -> Iterator[str]:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)


def _describe(signal: NestedSignal, path: Path) -> None:
    """Give a signal the attributes that those of documents have."""
    store = signal._global_store
    if not isinstance(store.get("source"), (str, Tensor)) or store["source"] == "":
        signal.source = path.as_posix()
    if "dropped" not in store:
        signal.dropped = []
