"""What the host decides before it launches kernels: blocks, modes, runs of levels.

Everything comes from sizes of tensors and from what the compiled hierarchy keeps on the
CPU, so that nothing waits for the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
import triton.language as tl
from torch import Tensor
from triton.runtime.jit import JITFunction

from hsa_pyg.compilation import FamilyLayout
from hsa_pyg.ops.passes import AttentionCall
from hsa_pyg.ops.triton import numerics
from hsa_pyg.ops.triton.arguments import Forest, Mode, Shape, Strided
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
        level_first=layout.level_first,
        mixed_leaf=layout.mixed_leaf,
        mixed_leaf_parent=layout.mixed_leaf_parent,
        root_leaf=layout.root_leaf,
        internal_parent=layout.internal_parent,
        internal_count=layout.internal_count,
        entity_log_count=layout.entity_log_count,
        entity_node=layout.entity_node,
        leaf_node=call.leaves,
    )


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
