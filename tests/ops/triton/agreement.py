"""Results of the kernels beside those of another backend, on the CPU in float64."""

import torch

from hsa_pyg import SignalHierarchy, hierarchical_attention
from tests.differentiation import differences, results
from tests.forests import star


def on_device(device, hierarchy, tensors, dtype=None, **keywords):
    """y, phi and gradients by the kernels, brought back to the CPU."""
    held = [x.to(device, dtype) for x in tensors]
    found = results(hierarchy.to(device), held, on_gpu, **keywords)
    return [x.cpu() for x in found]


def on_gpu(*arguments, **keywords):
    """The kernels; cotangents are drawn on the CPU, whatever the device."""
    y, phi = hierarchical_attention(*arguments, backend="triton", **keywords)
    return y.cpu(), phi.cpu()


def assert_agrees(device, hierarchy, tensors, rtol=1e-10, dtype=None, **keywords):
    """The kernels in ``dtype`` against the definition in float64, on equal numbers."""
    rounded = [x.to(dtype or x.dtype).double() for x in tensors]
    actual = on_device(device, hierarchy, tensors, dtype, **keywords)
    expected = results(hierarchy, rounded, backend="reference", **keywords)
    assert differences(actual, expected, rtol) == []


def mixed_family(members):
    """A family of as many members, one of them a section of three leaves."""
    return torch.cat([star(members), torch.tensor([1, 1, 1])])


def tree(parent):
    return SignalHierarchy.from_parents(torch.as_tensor(parent))
