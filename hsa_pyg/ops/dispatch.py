"""One entry for all backends of hierarchical self-attention."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import forward_ad

from hsa_pyg.hierarchy import SignalHierarchy
from hsa_pyg.ops.focus import Focus
from hsa_pyg.ops.library import attention_forward, compute_dtype, flatten
from hsa_pyg.ops.reference import reference_attention

#: The backends, and what each is for.
BACKENDS = {
    "reference": "the definition, node by node, differentiated by autograd; slow",
    "torch": "four passes of batched torch operations with a hand-written backward",
}

_last_backend: str | None = None


def available_backends() -> tuple[str, ...]:
    """Names that ``backend=`` takes here, besides ``"auto"``."""
    return tuple(BACKENDS)


def last_backend() -> str | None:
    """The backend of the last call in this process; None before the first."""
    return _last_backend


def _record(name: str) -> None:
    global _last_backend
    _last_backend = name


def choose_backend(backend: str) -> str:
    """Resolve ``"auto"``; a backend that is not there is an error, never replaced.

    Raises:
        ValueError: for an unknown or unavailable backend.
    """
    if backend == "auto":
        return "torch"
    if backend in BACKENDS:
        return backend
    choices = ", ".join(repr(name) for name in ("auto", *BACKENDS))
    reason = "is not available in this version" if backend == "triton" else "is unknown"
    raise ValueError(f"backend {backend!r} {reason}; choose one of {choices}")


def _needs_gradient(*inputs: Tensor | None) -> bool:
    wanted = any(x is not None and x.requires_grad for x in inputs)
    return wanted and torch.is_grad_enabled()


def _refuse_tangents(*inputs: Tensor | None) -> None:
    """A custom operator would give a tangent of zero without a word."""
    for x in inputs:
        if x is not None and forward_ad.unpack_dual(x).tangent is not None:
            raise NotImplementedError(
                "backend 'torch' has no forward-mode derivative (torch.func.jvp, "
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

    Returns:
        y [N, H, W] in v's dtype, and phi [M, H] in float32 or wider, or None.
    """
    backend = choose_backend(backend)
    if not torch.compiler.is_compiling():
        _record(backend)
    if backend == "reference":
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
        energy,
        _needs_gradient(q, k, v, position),
    )
    return y, phi if energy else None
