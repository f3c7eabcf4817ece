"""What kernels take: tensors with their strides, the compiled forest, constants.

Named tuples, which Triton passes on field by field. Fields that hold tensors on the
host are pointers in a kernel; tuples of constants are compiled in. Sizes are arguments
of their own: kernels are compiled anew for 1 and for multiples of 16 in a tuple.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Strided(NamedTuple):
    """[rows, heads, channels] with its strides, in elements."""

    data: Any
    n: Any
    h: Any
    c: Any


class Rows(NamedTuple):
    """What members bring: leaves in the first, internal nodes in the tensors below."""

    q: Strided
    k: Strided
    v: Strided
    position: Strided
    grad_y: Strided  #: in the backward pass
    mean: Any  #: [F, H, ROW] means of q, k, v
    grad_context: Any  #: [F, H, W], in the backward pass


class Forest(NamedTuple):
    """Tensors of :class:`~hsa_pyg.compilation.FamilyLayout`, and the leaves' nodes."""

    slot_member: Any
    slot_family: Any
    family_first: Any
    family_size: Any
    family_order: Any
    tile_start: Any
    level_first: Any
    mixed_leaf: Any
    mixed_leaf_parent: Any
    root_leaf: Any
    internal_parent: Any
    internal_count: Any
    entity_log_count: Any
    entity_node: Any
    leaf_node: Any


class State(NamedTuple):
    """Tensors of :class:`~hsa_pyg.ops.passes.Saved`, y, and gradients between passes.

    In the forward pass the last ones are no tensors.
    """

    y: Any
    leaf_mass: Any
    context: Any
    mass: Any
    brought: Any
    gain: Any
    log_weight: Any
    grad_weight: Any  #: [F, H] of log w
    grad_gain: Any  #: [F, H] of -phi
    turn: Any  #: [E, H] of -phi - L, by the split of the weight
    outside: Any  #: [F + N + 1, H] of -phi, from outside
    worth: Any  #: [N or E, H] <context, its gradient> where families are large
    grads: Any  #: [E, H, ROW] of the rows of entities, in the end without siblings


class Gradients(NamedTuple):
    """Where the backward pass puts gradients of leaves and of positions."""

    q: Any
    k: Any
    v: Any
    entity_eps: Any  #: [E, H, P] among siblings in mixed families
    leaf_eps: Any  #: [N, H, P] in leaf-only families, and of leaves on themselves


class Shape(NamedTuple):
    """Channels of queries, values and positions, and the blocks that hold them."""

    D: int
    W: int
    P: int
    ROW: int  #: 2 D + W
    BLOCK_D: int
    BLOCK_W: int
    BLOCK_P: int


class Mode(NamedTuple):
    """What a kernel is compiled for."""

    MIXED: bool  #: mixed families, or leaf-only ones
    BLOCK: int  #: slots of a program
    PIECES: int  #: programs of a tile
    LOOP: bool  #: whether keys may lie outside a program's own slots
    SELF: bool  #: whether a leaf attends to itself
    OUTSIDE: bool  #: whether energies have a gradient from outside
    SCALE: float
    DROPOUT: float
    OPERAND: Any  #: dtype of the operands of matrix products
    COMPUTE: Any  #: dtype of everything else
    PRECISION: str  #: of matrix products in float32
    EPS_PRECISION: str  #: of those of positions
    EXACT: str  #: of sums that are written as products
