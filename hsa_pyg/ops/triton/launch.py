"""Launches of kernels on the tensors of one call.

Nothing here waits for the device: see :mod:`hsa_pyg.ops.triton.plan`.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from hsa_pyg.ops.passes import AttentionCall, Saved
from hsa_pyg.ops.triton.arguments import Gradients, Rows, State
from hsa_pyg.ops.triton.plan import (
    ROWS,
    Kind,
    forest_of,
    kind_of,
    programs_for,
    runs_of_levels,
    shape_of,
    strided,
)


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

    def upward(self, kernel: Any, rows: bool = True) -> None:
        """Launch a kernel on all levels, from the deepest to the roots.

        Args:
            kernel: what is launched.
            rows: whether it takes ``Rows``; each argument costs the host time.
        """
        for first, levels, nodes in reversed(self.runs):
            programs = programs_for(nodes, self.heads)
            self._levels(kernel, first + levels - 1, levels, programs, rows)

    def downward(self, kernel: Any) -> None:
        """Launch a kernel on all levels, from the roots to the deepest."""
        for first, levels, nodes in self.runs:
            programs = programs_for(nodes, self.heads, ROWS)
            self._levels(kernel, first, levels, programs, rows=False)

    def _levels(
        self, kernel: Any, level: int, levels: int, programs: int, rows: bool
    ) -> None:
        kernel[(programs,)](
            self.rows if rows else None,
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
