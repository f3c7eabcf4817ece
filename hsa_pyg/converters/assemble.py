"""From a tree of blocks to the tensors of a :class:`~hsa_pyg.NestedSignal`."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from hsa_pyg.converters.blocks import ROLES, Block, Picture
from hsa_pyg.converters.document_schema import IMAGE_SIZES, SHOWS
from hsa_pyg.converters.images import patch_tree
from hsa_pyg.converters.tokenization import EncodedText, TextEncoder, encode_all
from hsa_pyg.data import NestedSignal, Schema
from hsa_pyg.hierarchy import CHILD_OF

SENTENCE = "sentence"
TOKEN = "token"
BEYOND = "tokens beyond max_tokens"
TreeOfPatches = Literal["grid", "quadtree"]


def _edge_columns() -> tuple[array, array]:
    return array("q"), array("q")


# Arrays: lists of Python's integers would take five times the memory of the tensors.
@dataclass
class _NodeColumns:
    """What is known of the nodes of one type, flat arrays with the rows behind another.

    ``edges`` has the ids of the children and those of their parents by parent type.
    """

    number: int = 0
    spans: array = field(default_factory=lambda: array("q"))
    positions: array = field(default_factory=lambda: array("f"))
    roles: array = field(default_factory=lambda: array("q"))
    levels: array = field(default_factory=lambda: array("q"))
    edges: dict[str, tuple[array, array]] = field(
        default_factory=lambda: defaultdict(_edge_columns)
    )

    def link(self, node: int, parent: tuple[str, int]) -> None:
        children, parents = self.edges[parent[0]]
        children.append(node)
        parents.append(parent[1])


def encode_blocks(
    document: Block,
    text: str,
    encode: TextEncoder,
    name: str,
    max_tokens: int | None = None,
    dropped: Counter[str] | None = None,
) -> dict[Block, EncodedText]:
    """Tokenize the sentences of a document.

    Args:
        document: Root of the tree of blocks.
        text: The text that the blocks' offsets point into.
        encode: The tokenizer.
        name: Name of the document, for errors.
        max_tokens: Keep the first so many tokens of the document.
        dropped: Told how many tokens were not kept.

    Returns:
        The tokens of each sentence in reading order, spans counted from the start of
        the document. Sentences after the last kept token are left out.

    Raises:
        TypeError: If the tokenizer gives something else, or an id is no integer.
        ValueError: If the tokenizer does not give one result a text, or ids and spans
            of different number, or a negative id, or a span outside of its text.
    """
    blocks = [block for block in walk(document) if block.kind == SENTENCE]
    encoded = encode_all(encode, [text[block.start : block.stop] for block in blocks])
    if len(encoded) != len(blocks):
        raise ValueError(
            f"The tokenizer gave {len(encoded)} results for {len(blocks)} texts of "
            f"document {name!r}: it must give one EncodedText for each text."
        )
    tokens: dict[Block, EncodedText] = {}
    room = max_tokens
    for block, (ids, spans) in zip(blocks, encoded, strict=True):
        if len(ids) != len(spans):
            raise ValueError(
                f"The tokenizer gave {len(ids)} ids but {len(spans)} spans for "
                f"{_where(block, name)}."
            )
        _check_tokens(ids, spans, block, name)
        if room is not None:
            if dropped is not None and len(ids) > room:
                dropped[BEYOND] += len(ids) - room
            if room == 0:
                continue
            ids, spans = ids[:room], spans[:room]
            room -= len(ids)
        shifted = [(block.start + start, block.start + stop) for start, stop in spans]
        tokens[block] = EncodedText(ids, shifted)
    return tokens


def _check_tokens(
    ids: Sequence[int], spans: Sequence[tuple[int, int]], block: Block, name: str
) -> None:
    length = block.stop - block.start
    for token, (start, stop) in zip(ids, spans, strict=True):
        if isinstance(token, float | str):
            raise TypeError(
                f"The tokenizer gave the id {token!r} for {_where(block, name)}: ids "
                "are integers."
            )
        if token < 0:
            raise ValueError(
                f"The tokenizer gave the id {token} for {_where(block, name)}: ids "
                "count from 0."
            )
        if not 0 <= start <= stop <= length:
            raise ValueError(
                f"The tokenizer gave the span ({start}, {stop}) for "
                f"{_where(block, name)}: spans lie between 0 and the length of the "
                f"text, {length}."
            )


def _where(block: Block, name: str) -> str:
    return f"characters {block.start} to {block.stop} of document {name!r}"


class SignalBuilder:
    """Builds a signal from the trees of blocks of one document or of many.

    One node a block, one leaf a token and a patch. Nodes of a type are numbered in
    reading order; pictures come in the order in which they are first shown. Every node
    has its place among its siblings in ``pos`` (``[n, 1]``, counted from 0; patches and
    quadrants ``[n, 2]``), if the schema gives its type one.

    A picture is stored once: below the figure that shows it, below the first of them
    if several figures of one document show it, and below the root of a website if
    several pages do. Edges ``("block", "shows", "image")`` lead from each figure to its
    picture.

    Args:
        schema: Schema of the signal: it names every type that may occur.
        tree: How the patches of a picture are nested.
    """

    def __init__(self, schema: Schema, tree: TreeOfPatches = "grid") -> None:
        self._schema = schema
        self._tree = tree
        self._columns = {node_type: _NodeColumns() for node_type in schema.nodes}
        self._token_ids = array("q")
        self._pictures: dict[str, Picture] = {}
        # Digest of a picture -> the document and the figure of every place.
        self._places: dict[str, list[tuple[int, int]]] = defaultdict(list)

    def add_root(self, node_type: str) -> int:
        """Add a node that has no parent and no text; returns its number."""
        columns = self._columns[node_type]
        columns.number += 1
        return columns.number - 1

    def add_document(
        self,
        document: Block,
        tokens: dict[Block, EncodedText],
        parent: tuple[str, int] | None = None,
        cut: bool = False,
    ) -> int:
        """Add a document's blocks, tokens and pictures.

        Args:
            document: Root of the tree of blocks.
            tokens: Tokens of its sentences, as of :func:`encode_blocks`.
            parent: Type and number of the node that the root belongs to.
            cut: Whether not all tokens were kept: what starts after the last kept
                sentence is then left out, pictures too. It goes without saying if
                sentences are missing.

        Returns:
            The number of the root among the nodes of its type.
        """
        cut = cut or sum(block.kind == SENTENCE for block in walk(document)) > len(
            tokens
        )
        last_start = max((block.start for block in tokens), default=-1)
        root = self._columns[document.kind].number
        stack: list[tuple[Block, int, tuple[str, int] | None]]
        stack = [(document, 0, parent)]
        # Depth first with a stack of our own: documents nest deeper than Python does.
        while stack:
            block, position, above = stack.pop()
            node = self._add(block, position, above)
            if block in tokens:
                self._add_tokens(tokens[block], (block.kind, node))
                continue
            if block.picture is not None:
                self._pictures.setdefault(block.picture.key, block.picture)
                self._places[block.picture.key].append((root, node))
            # The picture, which is added last of all, is the first child of its figure.
            first = int(block.picture is not None)
            children = [
                (child, place, (block.kind, node))
                for place, child in enumerate(block.children, first)
                if not cut or child.start <= last_start
            ]
            stack.extend(reversed(children))
        return root

    def signal(self) -> NestedSignal:
        """The signal of all that was added."""
        patches = self._add_pictures()
        signal = NestedSignal(schema=self._schema)
        for node_type, columns in self._columns.items():
            attributes = self._schema.nodes[node_type]
            store = signal[node_type]
            if node_type == TOKEN:
                store.x = _tensor(self._token_ids)
            elif node_type == "patch":
                store.x = patches.get("x", store.x)
            else:
                store.num_nodes = columns.number
            for name, column in (("role", columns.roles), ("level", columns.levels)):
                if name in attributes:
                    store[name] = _tensor(column)
            if "span" in attributes:
                store.span = _tensor(columns.spans).view(-1, 2)
            if "pos" in attributes:
                width = attributes["pos"].shape or (1,)
                store.pos = _tensor(columns.positions).view(-1, *width)
            if node_type == "image":
                for name in IMAGE_SIZES:
                    store[name] = patches.get(name, store[name])
            for parent_type, edges in columns.edges.items():
                signal[node_type, CHILD_OF, parent_type].edge_index = torch.stack(
                    [_tensor(end) for end in edges]
                )
        if "shows" in patches:
            signal["block", SHOWS, "image"].edge_index = patches["shows"]
        return signal

    def _add(self, block: Block, position: int, parent: tuple[str, int] | None) -> int:
        columns = self._columns[block.kind]
        attributes = self._schema.nodes[block.kind]
        node = columns.number
        columns.number += 1
        columns.spans.append(block.start)
        columns.spans.append(block.stop)
        if "pos" in attributes:
            columns.positions.append(position)
        if "role" in attributes:
            columns.roles.append(ROLES.index(block.role))
        if "level" in attributes:
            columns.levels.append(block.level)
        if parent is not None:
            columns.link(node, parent)
        return node

    def _add_tokens(self, encoded: EncodedText, parent: tuple[str, int]) -> None:
        columns = self._columns[TOKEN]
        number = len(encoded.ids)
        self._token_ids.extend(encoded.ids)
        for span in encoded.spans:
            columns.spans.extend(span)
        columns.positions.extend(range(number))
        children, parents = columns.edges[parent[0]]
        children.extend(range(columns.number, columns.number + number))
        parents.extend([parent[1]] * number)
        columns.number += number

    def _add_pictures(self) -> dict[str, Tensor]:
        """Add the images, quadrants and patches; return what is no column of theirs."""
        if not self._pictures:
            return {}
        x: list[Tensor] = []
        sizes: dict[str, list[tuple[int, ...]]] = {name: [] for name in IMAGE_SIZES}
        figures: list[int] = []
        images: list[int] = []
        for key, picture in self._pictures.items():
            places = self._places[key]
            image = self._columns["image"].number
            self._columns["image"].number += 1
            self._columns["image"].positions.append(0)
            shared = len({document for document, _ in places}) > 1
            above = ("website", 0) if shared else ("block", places[0][1])
            self._columns["image"].link(image, above)
            self._add_patches(image, picture)
            x.append(picture.patches.x)
            sizes["size"].append((picture.patches.height, picture.patches.width))
            sizes["scaled"].append(picture.patches.scaled)
            sizes["patch_shape"].append(picture.patches.patch_shape)
            figures.extend(figure for _, figure in places)
            images.extend([image] * len(places))
        return {
            "x": torch.cat(x),
            **{name: torch.tensor(rows) for name, rows in sizes.items()},
            "shows": torch.tensor([figures, images], dtype=torch.long),
        }

    def _add_patches(self, image: int, picture: Picture) -> None:
        nested = patch_tree(picture.patches.rows, picture.patches.cols, self._tree)
        first_quadrant = 0
        if "quadrant" in self._columns:
            first_quadrant = self._columns["quadrant"].number
        for node_type, parents, positions in (
            ("quadrant", nested.quadrant_parent, nested.quadrant_pos),
            ("patch", nested.patch_parent, nested.patch_pos),
        ):
            if parents.numel() == 0:
                continue
            columns = self._columns[node_type]
            for quadrant in parents.tolist():
                above = ("quadrant", first_quadrant + quadrant)
                columns.link(
                    columns.number, ("image", image) if quadrant < 0 else above
                )
                columns.number += 1
            columns.positions.extend(positions.flatten().tolist())


def assemble(
    document: Block,
    tokens: dict[Block, EncodedText],
    schema: Schema,
    tree: TreeOfPatches = "grid",
    cut: bool = False,
) -> NestedSignal:
    """Build the signal of one document: see :class:`SignalBuilder`.

    Args:
        document: Root of the tree of blocks.
        tokens: Tokens of its sentences, as of :func:`encode_blocks`.
        schema: Schema of the signal: it names every type that may occur.
        tree: How the patches of a picture are nested.
        cut: Whether not all tokens were kept.
    """
    builder = SignalBuilder(schema, tree)
    builder.add_document(document, tokens, cut=cut)
    return builder.signal()


def walk(document: Block) -> Iterator[Block]:
    """Yield the blocks depth first, in reading order."""
    stack = [document]
    while stack:
        block = stack.pop()
        yield block
        stack.extend(reversed(block.children))


def _tensor(column: array) -> Tensor:
    dtype = torch.float if column.typecode == "f" else torch.long
    if not column:
        return torch.empty(0, dtype=dtype)
    # A copy: the array frees its memory when it goes.
    return torch.frombuffer(column, dtype=dtype).clone()
