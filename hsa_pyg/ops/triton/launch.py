"""Launches of kernels: blocks, modes and runs of levels, and the tensors of a call.

Everything comes from sizes of tensors and from what the compiled hierarchy keeps on the
CPU, so that nothing waits for the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
import triton.language as tl
from torch import Tensor
from triton.runtime.jit import JITFunction

from hsa_pyg.compilation import FamilyLayout
from hsa_pyg.ops.passes import AttentionCall, Saved
from hsa_pyg.ops.triton import numerics
from hsa_pyg.ops.triton.arguments import (
    Forest,
    Gradients,
    Mode,
    Rows,
    Shape,
    State,
    Strided,
)
from hsa_pyg.slots import TILE_SLOTS

#: Whether these kernels run in Triton's interpreter, on the CPU.
INTERPRETED = not isinstance(numerics.total, JITFunction)
#: Nodes of a level that goes into one launch with its neighbours.
SMALL_LEVEL = 32
#: Programs of a launch over the nodes of a level; each takes several if need be.
PROGRAMS = 16384
#: Slots, nodes or leaves at a time where a program only sums or copies rows.
ROWS = 16

_DTYPES = {
    torch.float16: tl.float16,
    torch.bfloat16: tl.bfloat16,
    torch.float32: tl.float32,
    torch.float64: tl.float64,
}


@dataclass(frozen=True)
class Kind:
    """Leaf-only or mixed families: how many, and how kernels take them."""

    numbers: Tensor  #: internal numbers of the families
    first_tile: int
    tiles: int
    wide: Tensor  #: numbers of families among which are all that no program holds
    mode: Mode
    warps: int


def strided(x: Tensor) -> Strided:
    """[rows, heads or 1, channels] as kernels take it; one head is every head's."""
    return Strided(x, x.stride(0), x.stride(1) if x.size(1) > 1 else 0, x.stride(2))


def forest_of(call: AttentionCall) -> Forest:
    """The tensors of a call's layout."""
    layout = call.layout
    return Forest(
        slot_member=layout.slot_member,
        slot_family=layout.slot_family,
        family_first=layout.family_first,
        family_size=layout.family_size,
        family_order=layout.family_order,
        tile_start=layout.tile_start,
        level_first=_level_first(layout),
        mixed_leaf=layout.mixed_leaf,
        mixed_leaf_parent=layout.mixed_leaf_parent,
        root_leaf=layout.root_leaf,
        internal_parent=layout.internal_parent,
        internal_count=layout.internal_count,
        entity_log_count=layout.entity_log_count,
        entity_node=layout.entity_node,
        leaf_node=call.leaves,
    )


def _level_first(layout: FamilyLayout) -> Tensor:
    """``level_ptr`` on the device, without a copy from the host that a graph refuses."""
    there: Tensor | None = getattr(layout, "level_first", None)
    if there is not None:
        return there
    device = layout.slot_member.device
    if device.type == "cpu":
        return layout.level_ptr
    there = torch.empty_like(layout.level_ptr, device=device)
    for level, first in enumerate(layout.level_ptr.tolist()):
        there[level].fill_(first)
    return there


def shape_of(q: Tensor, v: Tensor, position: Tensor | None) -> Shape:
    """Channels, and the blocks that hold them; matrix products want 16 at least."""
    channels = q.size(2), v.size(2), 0 if position is None else position.size(2)
    blocks = [max(16, 1 << max(x - 1, 0).bit_length()) for x in channels]
    return Shape(*channels, 2 * channels[0] + channels[1], *blocks)


def kind_of(
    call: AttentionCall,
    rows: tuple[Tensor, ...],
    shape: Shape,
    mixed: bool,
    backward: bool,
    outside: bool,
) -> Kind:
    """How kernels take the families of one kind.

    Args:
        call: the call.
        rows: tensors of leaves, whose dtypes count.
        shape: channels and blocks.
        mixed: mixed families, or leaf-only ones.
        backward: the backward pass, or the forward pass.
        outside: whether energies have a gradient of their own.
    """
    layout = call.layout
    families, _, tiles = layout.kind_sizes[int(mixed)].tolist()
    dtypes = {x.dtype for x in rows}
    compute = torch.float64 if torch.float64 in dtypes else torch.float32
    is_half = len(dtypes) == 1 and next(iter(dtypes)).itemsize == 2
    operand = next(iter(dtypes)) if is_half and not mixed else compute
    if INTERPRETED and operand == torch.bfloat16:
        operand = compute  # the interpreter has no product of bfloat16
    # Products of float32 on tensor cores, in three parts: as exact as without them, and
    # a compiler has registers for it. Triton's plain products of blocks spill.
    exact = "tf32x3" if compute == torch.float32 else "ieee"
    tensor_float = compute == torch.float32 and (is_half or _allows_tf32())
    precision = "tf32" if tensor_float else exact
    width = max(shape.BLOCK_D, shape.BLOCK_W) * operand.itemsize
    block = max(16, min(TILE_SLOTS, TILE_SLOTS * 256 // width))
    if backward and precision == "tf32x3":
        block = min(block, 32)  # with more slots registers spill
    start = 0 if not mixed else int(layout.kind_sizes[0, 0])
    numbers = layout.family_order[start : start + families]
    largest, wide = _wide_families(layout, mixed, block, numbers)
    mode = Mode(
        MIXED=mixed,
        BLOCK=block,
        PIECES=TILE_SLOTS // block,
        LOOP=block < TILE_SLOTS or largest > block,
        SELF=call.self_attention,
        OUTSIDE=outside,
        SCALE=float(call.scale),
        DROPOUT=float(call.dropout),
        OPERAND=_DTYPES[operand],
        COMPUTE=_DTYPES[compute],
        PRECISION=precision,
        EPS_PRECISION=precision,
        EXACT=exact,
    )
    first_tile = int(layout.kind_sizes[0, 2]) if mixed else 0
    warps = 8 if width >= 256 or call.dropout > 0 else 4
    return Kind(numbers, first_tile, tiles, wide, mode, warps)


def _wide_families(
    layout: FamilyLayout, mixed: bool, block: int, numbers: Tensor
) -> tuple[int, Tensor]:
    """Largest family of a kind, and numbers among which are all that no block holds.

    A tile may mix families: with fewer slots than a tile, no block holds one for sure.
    """
    buckets = [row for row in layout.buckets.tolist() if row[0] == int(mixed)]
    largest = max((row[1] for row in buckets), default=0)
    if block < TILE_SLOTS:
        return largest, numbers
    wide = [row for row in buckets if row[1] > block]
    if not wide:
        return largest, layout.bucket_family[:0]
    # Buckets are sorted by their widths.
    first = min(row[4] for row in wide)
    return largest, layout.bucket_family[first : max(row[4] + row[2] for row in wide)]


def _allows_tf32() -> bool:
    """Whether PyTorch may round operands of float32 to TensorFloat-32."""
    matmul = torch.backends.cuda.matmul
    setting = getattr(matmul, "fp32_precision", None)
    return setting == "tf32" if setting is not None else matmul.allow_tf32


def runs_of_levels(layout: FamilyLayout) -> list[tuple[int, int, int]]:
    """What goes into one launch, roots first: first level, how many, nodes in one.

    Small levels next to each other go together, with one program for each head; their
    number of nodes is given as 1.
    """
    runs: list[tuple[int, int, int]] = []
    for level, (first, last) in enumerate(pairwise(layout.level_ptr.tolist())):
        small = last - first <= SMALL_LEVEL
        if small and runs and runs[-1][2] == 1:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1, 1)
        else:
            runs.append((level, 1, 1 if small else last - first))
    return runs


def programs_for(nodes: int, heads: int, block: int = 1) -> int:
    """Programs over so many nodes, ``block`` of them at a time, for all heads."""
    return heads * max(1, min(-(-nodes // block), PROGRAMS // heads))


class Launcher:
    """The tensors of one call, and launches of kernels on them."""

    def __init__(
        self,
        call: AttentionCall,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        y: Tensor,
        saved: Saved,
        grad_y: Tensor | None = None,
        grad_phi: Tensor | None = None,
    ) -> None:
        layout = call.layout
        self.call, self.like = call, saved.gain
        self.heads, self.inner = q.size(1), layout.internal_node.numel()
        self.leaf_slots = int(layout.kind_sizes[0, 1])
        self.mixed_leaves = layout.mixed_leaf.numel()
        self.root_leaves = layout.root_leaf.numel()
        self.roots = int(layout.level_ptr[1]) if self.inner > 0 else 0
        self.forest, self.runs = forest_of(call), runs_of_levels(layout)
        self.shape = shape_of(q, v, call.position)
        is_backward, outside = grad_y is not None, grad_phi is not None
        self.leaf_only, self.mixed = (
            kind_of(call, (q, k, v), self.shape, mixed, is_backward, outside)
            for mixed in (False, True)
        )
        self.rows = Rows(
            q=strided(q),
            k=strided(k),
            v=strided(v),
            position=strided(q if call.position is None else call.position),
            grad_y=strided(v if grad_y is None else grad_y),
            mean=saved.mean,
            grad_context=self._empty(self.inner, v.size(2)) if is_backward else None,
        )
        self.state = State(
            y=y,
            leaf_mass=saved.leaf_mass,
            context=saved.context,
            mass=saved.mass,
            brought=saved.brought,
            gain=saved.gain,
            log_weight=saved.log_weight,
            **self._between(grad_phi, q.size(0), is_backward),
        )
        self.out = self._outputs(q, k, v) if is_backward else None

    def _empty(self, rows: int, *shape: int) -> Tensor:
        return self.like.new_empty(rows, self.heads, *shape)

    def _between(
        self, grad_phi: Tensor | None, leaves: int, is_backward: bool
    ) -> dict[str, Tensor | None]:
        """What passes of the backward pass leave to each other."""
        names = ("grad_weight", "grad_gain", "turn", "outside", "worth", "grads")
        if not is_backward:
            return dict.fromkeys(names)
        entities = self.inner + self.mixed_leaves
        loops = self.leaf_only.mode.LOOP or self.mixed.mode.LOOP
        grads = self._empty(entities, self.shape.ROW)
        grads[: self.roots] = 0  # no member of any family
        return {
            "grad_weight": self._empty(self.inner),
            "grad_gain": self._empty(self.inner),
            "turn": self._empty(entities),
            "outside": None if grad_phi is None else self._outside(grad_phi),
            "worth": self._empty(max(entities, leaves)) if loops else None,
            "grads": grads,
        }

    def _outside(self, grad_phi: Tensor) -> Tensor:
        """Gradients of -phi by row: [F + N + 1, H]; nodes of a chain share a row."""
        rows = self.inner + self.call.leaves.numel() + 1
        outside = self.like.new_zeros(rows, self.heads)
        # Sorts by row before it adds: the order of the sums is fixed, too.
        places = (self.call.layout.node_energy,)
        return outside.index_put_(places, -grad_phi.to(outside.dtype), accumulate=True)

    def _outputs(self, q: Tensor, k: Tensor, v: Tensor) -> Gradients:
        channels = self.shape.P
        entity_eps = self._empty(self.inner + self.mixed_leaves, channels)
        entity_eps[: self.roots] = 0  # no member of any family
        return Gradients(
            q=q.new_empty(q.shape),
            k=k.new_empty(k.shape),
            v=v.new_empty(v.shape),
            entity_eps=entity_eps,
            leaf_eps=self._empty(q.size(0), channels),
        )

    def tiles(self, kernel: Any, kind: Kind) -> None:
        """Launch a kernel on every piece of every tile of one kind."""
        programs = kind.tiles * kind.mode.PIECES * self.heads
        if programs > 0:
            kernel[(programs,)](
                self.rows,
                self.forest,
                self.state,
                self.out,
                kind.first_tile,
                self.inner,
                self.heads,
                self.call.seed,
                S=self.shape,
                M=kind.mode,
                num_warps=kind.warps,
            )

    def families(self, kernel: Any, numbers: Tensor) -> None:
        """Launch a kernel on some leaf-only families, by their internal numbers."""
        if numbers.numel() > 0:
            kernel[(programs_for(numbers.numel(), self.heads),)](
                self.rows,
                self.forest,
                self.state,
                numbers,
                numbers.numel(),
                self.heads,
                S=self.shape,
                M=self.leaf_only.mode,
                BLOCK=ROWS,
                num_warps=1,
            )

    def upward(self, kernel: Any) -> None:
        """Launch a kernel on all levels, from the deepest to the roots."""
        for first, levels, nodes in reversed(self.runs):
            self._levels(
                kernel, first + levels - 1, levels, programs_for(nodes, self.heads)
            )

    def downward(self, kernel: Any) -> None:
        """Launch a kernel on all levels, from the roots to the deepest."""
        for first, levels, nodes in self.runs:
            self._levels(kernel, first, levels, programs_for(nodes, self.heads, ROWS))

    def _levels(self, kernel: Any, level: int, levels: int, programs: int) -> None:
        kernel[(programs,)](
            self.rows,
            self.forest,
            self.state,
            self.inner,
            self.leaf_slots,
            level,
            levels,
            self.heads,
            self.call.seed,
            S=self.shape,
            M=self.mixed.mode,
            BLOCK=ROWS,
            num_warps=1 if programs > self.heads else 4,
        )

    def leaves(self, kernel: Any, leaf_only: bool) -> None:
        """Launch a kernel on leaves: those of mixed families, and trees, or all."""
        slots = self.leaf_slots if leaf_only else 0
        sizes = slots, self.mixed_leaves, self.root_leaves
        blocks = sum(-(-size // ROWS) for size in sizes)
        if blocks > 0:
            kernel[(blocks * self.heads,)](
                self.rows,
                self.forest,
                self.state,
                self.out,
                self.inner,
                *sizes,
                self.heads,
                self.call.seed,
                S=self.shape,
                M=self.mixed.mode,
                BLOCK=ROWS,
                num_warps=1,
            )

    def gradients(self) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Gradients of q, k, v and position, once all kernels are launched."""
        out, position = self.out, self.call.position
        if out is None:
            raise RuntimeError("the forward pass has no gradients")
        if position is None:
            return out.q, out.k, out.v, None
        grad = position.new_zeros(position.shape, dtype=self.like.dtype)
        # A node is one entity and one leaf at most: nothing is added in a free order.
        for eps, nodes in (
            (out.entity_eps, self.forest.entity_node[: out.entity_eps.size(0)]),
            (out.leaf_eps, self.forest.leaf_node),
        ):
            part = eps if grad.size(1) > 1 or self.heads == 1 else eps.sum(1, True)
            grad[nodes] += part
        return out.q, out.k, out.v, grad.to(position.dtype)
