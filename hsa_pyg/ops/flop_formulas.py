"""FLOPs of the operators' matrix products, for torch's ``FlopCounterMode``.

Importing this module registers them. A multiplication and an addition count as two; as
in torch's own formulas softmax, sums and means count nothing. Every family counts all
pairs of its members, each with itself included, whether or not a pair is hidden, is
dropped or is among the ``top_k``.

The torch backend counts what it computes, padding of families included: exactly what
the counter finds when the passes run under it. The others compute the same products
without padding; where they or their hardware round blocks up, that is not counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils.flop_counter import register_flop_formula

# These define the operators that the formulas are for.
import hsa_pyg.ops.library
import hsa_pyg.ops.untied_library  # noqa: F401
from hsa_pyg.compilation import BUCKET_FIELDS, FamilyLayout
from hsa_pyg.ops import backends
from hsa_pyg.ops.root_paths import RootPaths


@dataclass(frozen=True)
class Widths:
    """Channels of all heads together, and heads.

    Args:
        heads: H.
        queries: H D.
        values: H W.
        positions: of all heads of the positions together, 0 without positions.
        position_heads: heads of the positions: 1 where all share them.
    """

    heads: int
    queries: int
    values: int
    positions: int = 0
    position_heads: int = 0

    @classmethod
    def of(
        cls, q: Tensor, v: Tensor, position: Tensor | None, shared: bool = True
    ) -> Widths:
        """Read them off q [N, H, D], v [N, H, W] and position [M, 1 or H, P].

        ``shared`` says whether a backend multiplies shared positions once, not once per
        head.
        """
        heads = q.size(1)
        width = heads, heads * q.size(2), heads * v.size(2)
        if position is None:
            return cls(*width)
        position_heads = position.size(1) if shared else heads
        return cls(*width, position_heads * position.size(2), position_heads)


def tied_flops(
    layout: FamilyLayout, widths: Widths, *, backward: bool, padded: bool
) -> int:
    """FLOPs of one direction of hierarchical attention.

    Args:
        layout: the compiled forest.
        widths: of the inputs.
        backward: the backward pass, which computes the scores again, or the forward
            pass.
        padded: as the torch backend pads families, or without padding.
    """
    q, v, p = widths.queries, widths.values, widths.positions
    if not padded:
        pairs, summed = int(layout.family_size.square().sum()), 0
    else:
        pairs = summed = 0
        for row in layout.buckets.tolist():
            bucket = dict(zip(BUCKET_FIELDS, row, strict=True))
            members = bucket["families"] * bucket["width"]
            pairs += members * bucket["width"]
            if bucket["padded"] and not bucket["mixed"]:
                # Sums over the members of a padded family are products with a mask.
                summed += members
    if backward:
        return 2 * pairs * (3 * q + 2 * v + 3 * p)
    return 2 * pairs * (q + v + p) + 2 * summed * (widths.heads + 2 * q + v)


def untied_flops(
    layout: FamilyLayout,
    widths: Widths,
    *,
    backward: bool,
    padded: bool,
    energy: bool = False,
) -> int:
    """FLOPs of one direction of attention with untied queries.

    Args:
        layout: the compiled forest.
        widths: of the inputs.
        backward: as for :func:`tied_flops`.
        padded: as the torch backend pads families and runs of leaves. It also picks
            scores of positions by products with a mask, which count here alone.
        energy: whether the backward pass gets gradients of energies: it computes the
            scores once more then.
    """
    if padded:
        rows, squares, picked = _untied_tiles(layout)
    else:
        rows = int((layout.internal_count * layout.family_size).sum())
        squares, picked = int(layout.family_size.square().sum()), 0
    q, v, p = widths.queries, widths.values, widths.positions
    scores = rows * q + squares * p + picked * widths.position_heads
    if not backward:
        return 2 * (scores + rows * v)
    products = (2 if energy else 1) * scores + 2 * rows * (q + v)
    if p:
        products += squares * p + picked * widths.heads
    return 2 * products


def _untied_tiles(layout: FamilyLayout) -> tuple[int, int, int]:
    """Sums of r b, of b^2 and of r b^2 over runs of r leaves at b members."""
    paths = RootPaths(layout, layout.leaf_parent.numel())
    rows = squares = picked = 0
    for _, groups in paths.levels(upward=True):
        for _, width, run, families, at in groups:
            count = layout.internal_count[paths.grouped[at : at + families]]
            number = int(((count + run - 1) // run).sum())
            rows += number * run * width
            squares += number * width**2
            picked += number * run * width**2
    return rows, squares, picked


def _layout(hierarchy: list[Tensor]) -> FamilyLayout:
    if any(isinstance(x, FakeTensor) or x.is_meta for x in hierarchy):
        raise NotImplementedError(
            "the FLOPs of hierarchical attention depend on the trees, and a fake or "
            "meta tensor holds none; count with a hierarchy of real tensors, or by "
            "hsa_pyg.analysis.counted_flops"
        )
    return FamilyLayout(*hierarchy[1:]).trimmed()


def _tied(given: dict[str, Any], backward: bool) -> int:
    # The counter asks right after the operator ran: this is the backend that it took.
    padded = backends.last_backend() == "torch"
    widths = Widths.of(given["q"], given["v"], given["position"], shared=padded)
    layout = _layout(given["hierarchy"])
    return tied_flops(layout, widths, backward=backward, padded=padded)


def _untied(given: dict[str, Any], backward: bool) -> int:
    widths = Widths.of(given["q"], given["v"], given["position"])
    return untied_flops(
        _layout(given["hierarchy"]),
        widths,
        backward=backward,
        padded=True,
        energy=given.get("grad_phi") is not None,
    )


def _register(operator: str, flops: Callable[[dict[str, Any], bool], int]) -> None:
    """Count the calls of an operator of this package by its named arguments."""
    packet = getattr(torch.ops.hsa_pyg, operator)
    names = [argument.name for argument in packet.default._schema.arguments]
    backward = operator.endswith("_backward")

    def formula(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        return flops({**dict(zip(names, args, strict=False)), **kwargs}, backward)

    register_flop_formula(packet, get_raw=True)(formula)


for _direction in ("", "_backward"):
    _register(f"hierarchical_attention{_direction}", _tied)
    _register(f"untied_attention{_direction}", _untied)
