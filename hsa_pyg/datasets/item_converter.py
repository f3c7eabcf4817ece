"""From texts and a picture to one signal: what data sets of items share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal

import torch

from hsa_pyg.converters import (
    DocumentConverter,
    EmptyDocumentError,
    concat,
    from_image,
)
from hsa_pyg.converters.labels import Label
from hsa_pyg.data import NestedSignal, Schema


class ItemConverter:
    r"""Composes items: a root over texts and a picture, told apart by their ``key``.

    The root ``item`` is a record: its children ``document`` and ``image`` have a
    ``key``, the place of their name in ``names``. A picture with a caption can be one
    child, ``figure``, a record of both.

    Args:
        tokenizer: Tokenizer of the texts.
        names: Names of all parts that an item may have.
        phrases: Those of them that hold a phrase a line, instead of prose.
        figure: Names of the parts below a node ``figure``; none for no such node.
        patch: Side of a patch in pixels.
        tree: How patches are nested.
        channels: Channels of a picture.
        max_size: Scale pictures down to a longer side of at most so many pixels.
        max_tokens: Keep the first so many tokens of each text.
        keep_text: Keep the texts in the signals.
    """

    def __init__(
        self,
        tokenizer: Any,
        names: tuple[str, ...],
        *,
        phrases: tuple[str, ...] = (),
        figure: tuple[str, ...] = (),
        patch: int = 8,
        tree: Literal["grid", "quadtree"] = "quadtree",
        channels: Literal[1, 3, 4] = 3,
        max_size: int | None = 64,
        max_tokens: int | None = None,
        keep_text: bool = True,
    ) -> None:
        self.names = names
        self.keys = (*names, "figure") if figure else names
        self.phrases = phrases
        self.figure = figure
        self.patch = patch
        self.tree: Literal["grid", "quadtree"] = tree
        self.channels: Literal[1, 3, 4] = channels
        self.max_size = max_size
        ways: tuple[Literal["prose", "lines"], ...] = ("prose", "lines")
        self._texts = {
            way: DocumentConverter(
                tokenizer,
                sentences=way,
                max_tokens=max_tokens,
                keep_text=keep_text,
                images=False,
            )
            for way in ways
        }

    @cached_property
    def schema(self) -> Schema:
        """Schema of every item: that of one which has all parts."""
        grey = torch.zeros(self.patch, self.patch)
        # An unknown word is a token with every tokenizer but those of no use.
        parts = {
            name: self.picture(grey) if name == "image" else self.text("a.", name)
            for name in self.names
        }
        return Schema.of(self._compose(parts))

    def text(self, text: str, part: str) -> NestedSignal | None:
        """Convert a text; None if it has no token."""
        convert = self._texts["lines" if part in self.phrases else "prose"]
        try:
            signal = convert.text(text, part)
        except EmptyDocumentError:
            return None
        del signal.source, signal.dropped
        return signal

    def picture(self, picture: Any) -> NestedSignal:
        """Convert a picture: bytes of a file, or an array.

        Raises:
            BadImageError: If it cannot be decoded.
        """
        signal = from_image(
            picture,
            self.patch,
            self.tree,
            channels=self.channels,
            max_size=self.max_size,
        )
        del signal.source
        return signal

    def item(
        self,
        parts: Mapping[str, NestedSignal | None],
        source: str,
        y: Label,
    ) -> NestedSignal:
        """Compose an item.

        Args:
            parts: Signals of :meth:`text` and :meth:`picture` by their names; None for
                those that are not there.
            source: Name of the item.
            y: Its label.

        Raises:
            EmptyDocumentError: If it has no part (a ValueError).
        """
        if not any(part is not None for part in parts.values()):
            raise EmptyDocumentError(f"Item {source!r} has neither text nor picture.")
        signal = self._compose(parts, self.schema)
        signal.source = source
        signal.y = torch.tensor([y])
        return signal

    def _compose(
        self, parts: Mapping[str, NestedSignal | None], schema: Schema | None = None
    ) -> NestedSignal:
        found = {name: part for name, part in parts.items() if part is not None}
        inside = {name: found.pop(name) for name in self.figure if name in found}
        if inside:
            found["figure"] = concat(
                inside, "key_value", parent="figure", keys=list(self.keys)
            )
            del found["figure"].parts
        signal = concat(found, "key_value", keys=list(self.keys), schema=schema)
        for name in [name for name in signal._global_store if name != "y"]:
            del signal[name]
        return signal


def part_texts(signal: NestedSignal, names: tuple[str, ...]) -> dict[str, str]:
    """The texts that an item keeps, by the names of their parts."""
    keys = signal["document"].key.tolist()
    return {
        names[key]: text
        for key, text in zip(keys, signal["document"].text, strict=True)
    }
