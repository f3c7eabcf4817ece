"""One entry for all backends of hierarchical self-attention."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import forward_ad

from hsa_pyg.hierarchy import SignalHierarchy
from hsa_pyg.ops.backends import check_name, record
from hsa_pyg.ops.focus import Focus
from hsa_pyg.ops.library import attention_forward, flatten
from hsa_pyg.ops.numbers import compute_dtype
from hsa_pyg.ops.patterns import Pattern, describe
from hsa_pyg.ops.reference import reference_attention
from hsa_pyg.ops.untied_library import untied_forward
from hsa_pyg.ops.untied_reference import reference_untied


def _needs_gradient(*inputs: Tensor | None) -> bool:
    wanted = any(x is not None and x.requires_grad for x in inputs)
    return wanted and torch.is_grad_enabled()


def _refuse_tangents(*inputs: Tensor | None) -> None:
    """A custom operator would give a tangent of zero without a word."""
    for x in inputs:
        if x is not None and forward_ad.unpack_dual(x).tangent is not None:
            raise NotImplementedError(
                "the fast backends have no forward-mode derivative (torch.func.jvp, "
                "torch.autograd.forward_ad); use backend='reference', or reverse mode"
            )


def hierarchical_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    hierarchy: SignalHierarchy,
    *,
    self_attention: bool,
    position: Tensor | None,
    scale: float,
    focus: Focus | None,
    dropout: float,
    energy: bool,
    backend: str,
    pattern: Pattern | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Run a backend on checked inputs.

    Args:
        q: [N, H, D], as k; v [N, H, W].
        k: see q.
        v: see q.
        hierarchy: M nodes, N leaves, on the same device.
        self_attention: whether a leaf attends to itself.
        position: [M, 1 or H, P] or None.
        scale: factor of the scores.
        focus: what a query keeps of its siblings; None keeps all.
        dropout: probability that an attention weight is dropped.
        energy: whether phi is wanted.
        backend: a name, or "auto".
        pattern: what a node sees of its family; None shows all. Not with ``focus``.

    Returns:
        y [N, H, W] in v's dtype, and phi [M, H] in float32 or wider, or None.
    """
    check_name(backend)
    if backend == "reference":
        if not torch.compiler.is_compiling():
            record(backend)
        dtype = compute_dtype(q, k, v)
        if position is not None:
            position = position.to(dtype)
        y, phi = reference_attention(
            q.to(dtype),
            k.to(dtype),
            v.to(dtype),
            hierarchy,
            self_attention=self_attention,
            position=position,
            scale=scale,
            focus=focus,
            pattern=pattern,
            dropout=dropout,
        )
        return y.to(v.dtype), phi if energy else None
    if not torch.compiler.is_compiling():
        _refuse_tangents(q, k, v, position)
    # Drawn on the CPU, so that reading it never waits for an accelerator.
    seed = torch.zeros((), dtype=torch.long)
    if dropout > 0:
        seed = torch.randint(2**50, ())
    y, phi, *_ = attention_forward(
        q,
        k,
        v,
        position,
        flatten(hierarchy),
        seed,
        scale,
        self_attention,
        0 if focus is None else focus.top_k,
        focus is not None and focus.includes_self,
        dropout,
        backend,
        energy,
        _needs_gradient(q, k, v, position),
        **describe(pattern),
    )
    return y, phi if energy else None


def untied_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    hierarchy: SignalHierarchy,
    *,
    self_attention: bool,
    causal: bool,
    position: Tensor | None,
    scale: float,
    dropout: float,
    energy: bool,
    backend: str,
) -> tuple[Tensor, Tensor | None]:
    """Run attention with untied queries on checked inputs.

    Args and results are those of :func:`hierarchical_attention`; ``causal`` hides the
    siblings with larger node ids.

    Raises:
        NotImplementedError: for a backend other than "reference" and "torch".
    """
    check_name(backend)
    if backend == "reference":
        if not torch.compiler.is_compiling():
            record(backend)
        dtype = compute_dtype(q, k, v)
        y, phi = reference_untied(
            q.to(dtype),
            k.to(dtype),
            v.to(dtype),
            hierarchy,
            self_attention=self_attention,
            causal=causal,
            position=None if position is None else position.to(dtype),
            scale=scale,
            dropout=dropout,
        )
        return y.to(v.dtype), phi if energy else None
    if backend not in ("auto", "torch"):
        raise NotImplementedError(
            f"backend {backend!r} has no tie_queries=False; choose backend='auto' or "
            "'torch'"
        )
    if not torch.compiler.is_compiling():
        record("torch")
        _refuse_tangents(q, k, v, position)
    seed = torch.zeros((), dtype=torch.long)
    if dropout > 0:
        seed = torch.randint(2**50, ())
    form = scale, self_attention, causal, dropout, energy
    y, phi, *_ = untied_forward(q, k, v, position, flatten(hierarchy), seed, *form)
    return y, phi if energy else None
