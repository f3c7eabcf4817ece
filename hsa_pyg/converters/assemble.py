"""From a tree of blocks to the tensors of a :class:`~hsa_pyg.NestedSignal`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from hsa_pyg.converters.blocks import Block
from hsa_pyg.converters.tokenization import EncodedText, TextEncoder
from hsa_pyg.data import NestedSignal, Schema
from hsa_pyg.hierarchy import CHILD_OF

TOKEN = "token"


@dataclass
class _NodeColumns:
    """What is known of the nodes of one type, one list entry a node."""

    spans: list[tuple[int, int]] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    # Parents by their type: the ids of the children and those of their parents.
    edges: dict[str, tuple[list[int], list[int]]] = field(
        default_factory=lambda: defaultdict(lambda: ([], []))
    )

    def add(self, span: tuple[int, int], position: int, parent: tuple[str, int]) -> int:
        node = len(self.spans)
        self.spans.append(span)
        self.positions.append(position)
        children, parents = self.edges[parent[0]]
        children.append(node)
        parents.append(parent[1])
        return node


def encode_blocks(
    document: Block,
    text: str,
    encode: TextEncoder,
    name: str,
    max_tokens: int | None = None,
) -> dict[Block, EncodedText]:
    """Tokenize the blocks of a document that have no blocks inside.

    Args:
        document: Root of the tree of blocks.
        text: The text that the blocks' offsets point into.
        encode: The tokenizer.
        name: Name of the document, for errors.
        max_tokens: Keep the first so many tokens of the document.

    Returns:
        The tokens of each such block in reading order, spans counted from the start of
        the document. Blocks after the last kept token are left out.

    Raises:
        TypeError: If an id is no integer.
        ValueError: If the tokenizer does not give one result a text, or ids and spans
            of different number, or a negative id, or a span outside of its text.
    """
    blocks = [block for block in _walk(document) if not block.children]
    if blocks == [document]:
        # Nothing but white space, of which some tokenizers would make tokens.
        return {}
    encoded = encode([text[block.start : block.stop] for block in blocks])
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
                f"characters {block.start} to {block.stop} of document {name!r}."
            )
        _check_tokens(ids, spans, block, name)
        if room is not None:
            if room == 0:
                break
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
        where = f"characters {block.start} to {block.stop} of document {name!r}"
        if isinstance(token, float | str):
            raise TypeError(
                f"The tokenizer gave the id {token!r} for {where}: ids are integers."
            )
        if token < 0:
            raise ValueError(
                f"The tokenizer gave the id {token} for {where}: ids count from 0."
            )
        if not 0 <= start <= stop <= length:
            raise ValueError(
                f"The tokenizer gave the span ({start}, {stop}) for {where}: spans lie "
                f"between 0 and the length of the text, {length}."
            )


def assemble(
    document: Block, tokens: dict[Block, EncodedText], schema: Schema
) -> NestedSignal:
    """Build the signal of a document: one node a block, one leaf a token.

    Nodes of a type are numbered in reading order. Every node but the root has its
    place among its siblings in ``pos`` (``[n, 1]``, counted from 0); all have their
    characters in ``span`` (``[n, 2]``). Blocks that start after the last block of
    ``tokens`` are left out.

    Args:
        document: Root of the tree of blocks.
        tokens: Tokens of the blocks without children, as of :func:`encode_blocks`.
        schema: Schema of the signal: it names every type that may occur.
    """
    columns = {node_type: _NodeColumns() for node_type in schema.nodes}
    token_ids: list[int] = []
    columns[document.kind].spans.append((document.start, document.stop))
    last_start = max(block.start for block in tokens)
    stack = [(document, 0)]
    # Depth first with a stack of our own: documents nest deeper than Python recurses.
    while stack:
        block, node = stack.pop()
        if block in tokens:
            ids, spans = tokens[block]
            token_ids.extend(ids)
            for position, span in enumerate(spans):
                columns[TOKEN].add(span, position, (block.kind, node))
            continue
        children = []
        for position, child in enumerate(block.children):
            if child.start <= last_start:
                span = (child.start, child.stop)
                child_node = columns[child.kind].add(span, position, (block.kind, node))
                children.append((child, child_node))
        stack.extend(reversed(children))
    return _signal(columns, token_ids, schema)


def _walk(document: Block) -> Iterator[Block]:
    """Yield the blocks depth first, in reading order."""
    stack = [document]
    while stack:
        block = stack.pop()
        yield block
        stack.extend(reversed(block.children))


def _signal(
    columns: dict[str, _NodeColumns], token_ids: list[int], schema: Schema
) -> NestedSignal:
    signal = NestedSignal(schema=schema)
    for node_type, nodes in columns.items():
        store = signal[node_type]
        if node_type == TOKEN:
            store.x = torch.tensor(token_ids, dtype=torch.long)
        else:
            store.num_nodes = len(nodes.spans)
        store.span = torch.tensor(nodes.spans, dtype=torch.long).view(-1, 2)
        if "pos" in schema.nodes[node_type]:
            store.pos = torch.tensor(nodes.positions, dtype=torch.float).view(-1, 1)
        for parent_type, edges in nodes.edges.items():
            signal[node_type, CHILD_OF, parent_type].edge_index = torch.tensor(
                edges, dtype=torch.long
            )
    return signal
