"""Outputs and all gradients of an attention, for random cotangents."""

import torch

from hsa_pyg import hierarchical_attention
from tests.forests import close, inputs, positions

NAMES = ("y", "phi", "grad q", "grad k", "grad v", "grad position")


def results(hierarchy, tensors, function=hierarchical_attention, seed=0, **keywords):
    """y, phi, and the gradients of q, k, v (and of position) of <y, a> + <phi, b>.

    Args:
        hierarchy: the forest.
        tensors: q, k, v, and position or nothing.
        function: called as ``hierarchical_attention``.
        seed: of the cotangents a and b.
        keywords: for ``function``.
    """
    tensors = [x.detach().requires_grad_() for x in tensors]
    position = tensors[3] if len(tensors) == 4 else None
    y, phi = function(
        *tensors[:3], hierarchy, position=position, return_energy=True, **keywords
    )
    generator = torch.Generator().manual_seed(seed + 2)
    a = torch.randn(y.shape, generator=generator, dtype=torch.float64)
    b = torch.randn(phi.shape, generator=generator, dtype=torch.float64)
    # Energies without self-attention are infinite where there is no key.
    phi = torch.where(phi.isfinite(), phi, 0)
    loss = (y * a.to(y)).sum() + (phi * b.to(phi)).sum()
    grads = torch.autograd.grad(loss, tensors, materialize_grads=True)
    return [y.detach(), phi.detach(), *grads]


def differences(actual, expected, rtol):
    """Names of the results that differ by more than ``rtol`` of the largest number."""
    return [
        name
        for name, a, b in zip(NAMES, actual, expected, strict=False)
        if not close(a.double(), b.double(), rtol)
    ]


def tensors_for(hierarchy, heads, width, value, kind="none", seed=0):
    """q, k, v, and positions "shared" between heads, "per head", or "none"."""
    tensors = inputs(hierarchy, heads, width, value, seed=seed)
    if kind == "none":
        return tensors
    per_head = heads if kind == "per head" else None
    return *tensors, positions(hierarchy, per_head, seed=seed)
