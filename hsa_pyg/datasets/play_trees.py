"""Signals of plays: play > act > scene > speech > line > token."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

import torch

from hsa_pyg.converters.tokenization import EncodedText, as_text_encoder
from hsa_pyg.converters.trees import Node, TreeBuilder, encode_texts
from hsa_pyg.data import Feature, NestedSignal, Schema
from hsa_pyg.datasets.plays import Speech
from hsa_pyg.datasets.splits import TRAIN_VAL_TEST
from hsa_pyg.hierarchy import CHILD_OF

LEVELS = ("play", "act", "scene", "speech", "line", "token")
UNLABELLED = -100
"""``y`` of speeches without a class: what ``cross_entropy`` ignores."""


def play_schema(level: str = "speech") -> Schema:
    """Types and attributes of the signals of plays with this root."""
    kinds = LEVELS[LEVELS.index(level) :]
    nodes: dict[str, dict[str, Feature]] = {}
    for kind in kinds:
        nodes[kind] = {"span": Feature((2,), torch.long)}
        if kind == level:
            nodes[kind]["text"] = Feature(None, "list")
        else:
            nodes[kind]["pos"] = Feature((1,), torch.float)
        if kind == "token":
            nodes[kind]["x"] = Feature((), torch.long)
        elif kind == "speech" and kind != level:
            nodes[kind]["y"] = Feature((), torch.long)
            nodes[kind]["speaker"] = Feature(None, "list")
            for part in TRAIN_VAL_TEST:
                nodes[kind][f"{part}_mask"] = Feature((), torch.bool)
    edges = [(kinds[i + 1], CHILD_OF, kinds[i]) for i in range(len(kinds) - 1)]
    return Schema(nodes, edges)


class PlayConverter:
    """Makes the signals of speeches, all with the same settings.

    Args:
        level: Type of the root: ``"speech"``, ``"scene"`` or ``"play"``.
        tokenizer: The tokenizer.
        classes: The speakers in the order of their labels.
        parts: Part of the split of each scene.
    """

    def __init__(
        self,
        level: str,
        tokenizer: Any,
        classes: Sequence[str],
        parts: Mapping[str, str],
    ) -> None:
        self.kinds = LEVELS[LEVELS.index(level) :]
        self.schema = play_schema(level)
        self.encode = as_text_encoder(tokenizer)
        self.label = {speaker: number for number, speaker in enumerate(classes)}
        self.parts = parts

    def __call__(self, source: str, speeches: list[Speech]) -> NestedSignal | None:
        """Convert the speeches of one sample; None if they have no token."""
        lines = [line for speech in speeches for line in speech.lines]
        encoded = encode_texts(self.encode, lines, lambda row: f"{source}: line {row}")
        if not any(ids for ids, _ in encoded):
            return None
        builder = TreeBuilder(self.schema)
        tree = _tree(speeches, lines, encoded)
        # Parents by depth, and how many children each of them has so far.
        path: list[tuple[Node, int]] = []
        for kind, span, extra in tree:
            if kind not in self.kinds:
                continue
            del path[self.kinds.index(kind) :]
            values: dict[str, Any] = {"span": span, **extra}
            if not path:
                values["text"] = "\n".join(lines)
            else:
                parent, number = path[-1]
                path[-1] = (parent, number + 1)
                values["pos"] = number
            if kind == "speech":
                values.update(self._labels(values.pop("speech")))
            path.append((builder.add(kind, path[-1][0] if path else None, **values), 0))
        signal = builder.signal()
        if self.kinds[0] == "speech":
            signal.y = torch.tensor([self.label[speeches[0].speaker or ""]])
        signal.source = source
        return signal

    def _labels(self, speech: Speech) -> dict[str, Any]:
        part = self.parts[speech.place]
        return {
            "y": self.label.get(speech.speaker or "", UNLABELLED),
            "speaker": " and ".join(speech.speakers),
            **{f"{name}_mask": name == part for name in TRAIN_VAL_TEST},
        }


def _tree(
    speeches: list[Speech], lines: list[str], encoded: list[EncodedText]
) -> Iterator[tuple[str, tuple[int, int], dict[str, Any]]]:
    """Yield type, span and attributes of every node, depth first from the play."""
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    firsts = list(accumulate((len(speech.lines) for speech in speeches), initial=0))
    above: dict[str, list[Any]] = {
        "play": [speech.play for speech in speeches],
        "act": [(speech.play, speech.act) for speech in speeches],
        "scene": [speech.place for speech in speeches],
    }
    stops = {kind: _run_stops(keys) for kind, keys in above.items()}
    for number, speech in enumerate(speeches):
        first = firsts[number]
        for kind, keys in above.items():
            if number == 0 or keys[number - 1] != keys[number]:
                yield kind, (starts[first], starts[firsts[stops[kind][number]]] - 1), {}
        last = firsts[number + 1]
        yield "speech", (starts[first], starts[last] - 1), {"speech": speech}
        for row in range(first, last):
            yield "line", (starts[row], starts[row + 1] - 1), {}
            ids, spans = encoded[row]
            for token, (start, stop) in zip(ids, spans, strict=True):
                place = (starts[row] + start, starts[row] + stop)
                yield "token", place, {"x": token}


def _run_stops(keys: list[Any]) -> list[int]:
    """The place after the run of equal keys that each key is in."""
    stops = [len(keys)] * len(keys)
    for number in range(len(keys) - 2, -1, -1):
        same = keys[number] == keys[number + 1]
        stops[number] = stops[number + 1] if same else number + 1
    return stops
