"""What the nodes of a signal are called when they are shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor

from hsa_pyg.data import NestedSignal

#: Attributes that name nodes, one string each: the first that a type has is taken.
NAMES = ("name", "title", "path", "key_name", "word")
#: What the ids of constants mean that :func:`~hsa_pyg.converters.from_nested` makes.
_CONSTANTS = ("null", "false", "true")


class NodeLabels:
    r"""Names nodes by what they are called, by their text, or by their value.

    Args:
        signal: a signal.
        roles: names of the numbers in ``role``, by node type.

    Example:
        >>> import torch
        >>> signal = NestedSignal()
        >>> signal["line"].num_nodes, signal["line"].text = 1, ["Rain, rain."]
        >>> signal["word"].x = torch.tensor([4, 4])
        >>> signal["word"].span = torch.tensor([[0, 4], [6, 10]])
        >>> signal["word", "child_of", "line"].edge_index = torch.tensor(
        ...     [[0, 1], [0, 0]]
        ... )
        >>> labels = NodeLabels(signal)
        >>> labels.type_name(2), labels(2), labels(0)
        ('word', 'rain', 'Rain, rain.')
    """

    def __init__(
        self,
        signal: NestedSignal,
        roles: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._signal = signal
        self._hierarchy = signal.hierarchy
        self._parent = self._hierarchy.parent.tolist()
        self._roles = roles or {}
        self._slices = list(self._hierarchy.node_slices.items())
        self._named = {
            name: dict(named_nodes(signal[name], stop - start))
            for name, (start, stop) in self._slices
        }

    def place(self, node: int) -> tuple[str, int]:
        """Type of a node, and its number among the nodes of that type."""
        for name, (start, stop) in self._slices:
            if start <= node < stop:
                return name, node - start
        raise IndexError(f"there is no node {node}")

    def type_name(self, node: int) -> str:
        """Type of a node; of a block or paragraph its role, if it says more."""
        name, number = self.place(node)
        role, names = self._signal[name].get("role"), self._roles.get(name, ())
        if isinstance(role, Tensor) and 0 <= int(role[number]) < len(names):
            return names[int(role[number])]
        return name

    def __call__(self, node: int, length: int = 60) -> str:
        """What a node is called, in at most ``length`` characters of one line."""
        name, number = self.place(node)
        text = self._named[name].get(number, "")
        if "x" in self._signal[name] or not text:
            text = self._text(node, 4 * length) or text
        # Control characters and changes of the writing direction would spoil a line.
        shown = "".join(c if c.isprintable() else " " for c in text)
        shown = " ".join(shown.split())
        return shown if len(shown) <= length else shown[: length - 1] + "…"

    def _text(self, node: int, length: int) -> str:
        name, number = self.place(node)
        span = self._signal[name].get("span")
        start, stop = 0, length
        above = node
        if isinstance(span, Tensor) and span.dim() == 2:
            start, stop = span[number].tolist()
        elif not isinstance(self._signal[name].get("text"), list):
            return ""
        while above >= 0:
            name, number = self.place(above)
            texts = self._signal[name].get("text")
            if isinstance(texts, list) and number < len(texts):
                return str(texts[number])[start : min(stop, start + length)]
            above = self._parent[above]
        return ""


def named_nodes(store: Any, count: int) -> Iterator[tuple[int, str]]:
    """Number and name of the nodes of a type that have a name, or a value as one."""
    found, names = "", [""] * count
    for attribute in NAMES:
        listed = store.get(attribute)
        if isinstance(listed, list) and len(listed) == count:
            found, names = attribute, [str(name) for name in listed]
            break
    x = store.get("x")
    values = [""] * count
    if isinstance(x, Tensor) and x.numel() == x.size(0) == count:
        mark = "" if x.is_floating_point() else "#"
        numbers = x.detach().cpu().flatten().tolist()
        values = [f"{mark}{float(number):g}" for number in numbers]
        # Of what has keys, only constants have whole numbers: their ids.
        if mark and found == "key_name" and set(numbers) <= {*range(len(_CONSTANTS))}:
            values = [_CONSTANTS[number] for number in numbers]
    for number, (name, value) in enumerate(zip(names, values, strict=True)):
        if name and value and found == "key_name":
            yield number, f"{name} = {value}"
        elif name or value:
            yield number, name or value
