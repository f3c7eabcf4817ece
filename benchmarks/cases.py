"""Attention calls by description, so that any process can make the same one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.trees import Tree
from hsa_pyg import SignalHierarchy, hierarchical_attention

HEADS, CHANNELS = 8, 64
#: Bytes of a number: all cases are in float32.
FLOAT = 4


@dataclass(frozen=True)
class Case:
    """One attention over the leaves of a tree.

    Attributes:
        tree: the tree.
        attention: HSA, or softmax attention over all of the leaves, whose tensors lie
            head by head as suits it best.
        gradient: also the gradients of q, k and v.
        backend: the backend of HSA.
        heads: heads.
        channels: channels of a head.
    """

    tree: Tree
    attention: Literal["hsa", "softmax"] = "hsa"
    gradient: bool = False
    backend: str = "auto"
    heads: int = HEADS
    channels: int = CHANNELS

    @property
    def bytes(self) -> int:
        """Bytes of q, k and v together."""
        leaves = self.tree.leaves * self.tree.number
        return 3 * leaves * self.heads * self.channels * FLOAT

    def tensors(self, shape: tuple[int, ...]) -> list[Tensor]:
        """q, k, v, and a cotangent of the output if there are gradients."""
        torch.manual_seed(0)
        made = [torch.randn(shape, requires_grad=self.gradient) for _ in range(3)]
        return [*made, torch.randn(shape)] if self.gradient else made

    def call(self) -> Callable[[], object]:
        """The attention, over inputs that are made here."""
        if self.attention == "softmax":
            leaves = self.tree.leaves
            shape = (1, self.heads, leaves, self.channels)
            return attend(scaled_dot_product_attention, self.tensors(shape))
        return self.over(self.tree.hierarchy())

    def over(self, hierarchy: SignalHierarchy) -> Callable[[], object]:
        """HSA over a hierarchy that is at hand."""
        shape = (hierarchy.num_leaves, self.heads, self.channels)

        def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return hierarchical_attention(q, k, v, hierarchy, backend=self.backend)

        return attend(attention, self.tensors(shape))

    def small(self) -> Case:
        """The same call on a tree that costs next to nothing."""
        return replace(self, tree=Tree(64))

    def to_json(self) -> str:
        """The description, for another process."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Case:
        """What :meth:`to_json` wrote."""
        fields = json.loads(text)
        return Case(**{**fields, "tree": Tree(**fields["tree"])})


def attend(
    attention: Callable[[Tensor, Tensor, Tensor], Tensor], tensors: list[Tensor]
) -> Callable[[], object]:
    """A call that runs ``attention``, and its backward pass if there is a cotangent."""
    q, k, v, *cotangent = tensors
    if not cotangent:
        return lambda: attention(q, k, v)
    return lambda: torch.autograd.grad(attention(q, k, v), (q, k, v), cotangent)
