"""Which implementation of the passes runs: what there is, and how one is chosen."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from hsa_pyg.ops import adjoint, passes

#: The backends, and what each is for.
BACKENDS = {
    "reference": "the definition, node by node, differentiated by autograd; slow",
    "torch": "four passes of batched torch operations, on any device",
    "cpp": "four fused passes on the CPU, in C++ that is compiled on first use",
    "triton": "fused kernels on a GPU",
}

_last_backend: str | None = None


@dataclass(frozen=True)
class Implementation:
    """The two directions of a backend.

    Forward gives y, what it lacks by rounding or None, and what else it keeps.
    """

    forward: Callable[..., tuple[Tensor, Tensor | None, passes.Saved]]
    backward: Callable[..., tuple[Tensor, Tensor, Tensor, Tensor | None]]


def record(name: str) -> None:
    """Remember which backend ran last."""
    global _last_backend
    _last_backend = name


def last_backend() -> str | None:
    """The backend of the last call in this process; None before the first."""
    return _last_backend


def check_name(backend: str) -> None:
    """Refuse a name that no backend has.

    Raises:
        ValueError: if it is unknown.
    """
    if backend != "auto" and backend not in BACKENDS:
        choices = ", ".join(repr(name) for name in ("auto", *BACKENDS))
        raise ValueError(f"backend {backend!r} is unknown; choose one of {choices}")


def why_not(backend: str, device: torch.device) -> str | None:
    """Why a backend cannot run on a device here; None if it can."""
    if backend == "cpp":
        if device.type != "cpu":
            return f"it runs on the CPU, and the inputs are on {device}"
        from hsa_pyg.ops.cpp import build

        return build.why_not()
    if backend == "triton":
        from hsa_pyg.ops import triton

        return triton.why_not(device)
    return None


def available_backends() -> tuple[str, ...]:
    """Names that ``backend=`` takes on this machine, besides ``"auto"``."""
    devices = [torch.device("cpu")]
    if torch.cuda.is_available():
        devices.append(torch.device("cuda"))
    return tuple(
        name for name in BACKENDS if None in [why_not(name, x) for x in devices]
    )


def choose(backend: str, call: passes.AttentionCall, q: Tensor, v: Tensor) -> str:
    """Resolve ``"auto"``; a backend that is asked for is never replaced.

    Raises:
        ValueError: if the backend cannot run here.
        NotImplementedError: if it lacks something that the call asks for.
    """
    if backend != "auto":
        reason = why_not(backend, q.device)
        if reason is not None:
            raise ValueError(
                f"backend {backend!r} is not available here: {reason}; choose "
                "backend='auto', which takes the fastest that is"
            )
        lacking = _lacks(backend, call, q, v)
        if lacking is not None:
            raise NotImplementedError(
                f"backend {backend!r} has no {lacking}; choose backend='auto' or "
                "'torch'"
            )
        return backend
    fast = {"cpu": "cpp", "cuda": "triton"}.get(q.device.type)
    if fast is None or _lacks(fast, call, q, v) is not None:
        return "torch"
    reason = why_not(fast, q.device)
    if reason is None:
        return fast
    # Once: Python shows the same warning from the same place no second time.
    warnings.warn(
        f"hsa_pyg runs its slower backend 'torch', as {fast!r} is not available here: "
        f"{reason}. backend='torch' silences this",
        stacklevel=2,
    )
    return "torch"


def _lacks(
    backend: str, call: passes.AttentionCall, q: Tensor, v: Tensor
) -> str | None:
    """What a call asks for that a backend does not have."""
    if backend in ("cpp", "triton") and call.pattern is not None:
        return "pattern"
    if backend == "triton":
        if call.focus is not None:
            return "top_k"
        if max(q.size(2), v.size(2)) > 256:
            return "heads of more than 256 channels"
    return None


def implementation(
    backend: str, call: passes.AttentionCall, q: Tensor, v: Tensor
) -> Implementation:
    """The functions of a backend, chosen by :func:`choose`, and remembered."""
    name = choose(backend, call, q, v)
    record(name)
    if name == "torch":
        return Implementation(passes.forward, adjoint.backward)
    module = importlib.import_module(f"hsa_pyg.ops.{name}.attention")
    return Implementation(module.forward, module.backward)
