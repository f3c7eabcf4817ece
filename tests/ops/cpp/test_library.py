"""The operators run by the C++ backend: what PyTorch was told of them holds for it."""

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from hsa_pyg import SignalHierarchy, hierarchical_attention
from hsa_pyg.ops import last_backend
from hsa_pyg.ops.library import attention_backward, attention_forward, flatten
from tests.differentiation import tensors_for
from tests.forests import close, inputs, random_parents, star

MIXED = torch.tensor([-1, 0, 0, 0, 1, 1, 1, 2, 2, 6, 6, -1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_opcheck(dtype):
    """Shapes, dtypes and strides are those of the fake kernels."""
    hierarchy = SignalHierarchy.from_parents(MIXED)
    tensors = [x.to(dtype) for x in tensors_for(hierarchy, 2, 4, 3, "per head")]
    held = [x.clone().requires_grad_() for x in tensors]
    form = (0.5, True, 2, False, 0.5, "cpp")
    given = (flatten(hierarchy), torch.tensor(7), *form, True, True)
    torch.library.opcheck(attention_forward, (*held, *given))
    y, phi, rest, *saved = attention_forward(*tensors, *given)
    assert rest.shape == (y.shape if dtype == torch.bfloat16 else (0,))
    assert y.dtype == dtype
    q, k, v, position = tensors
    grads = torch.randn_like(y), torch.randn_like(phi)
    torch.library.opcheck(
        attention_backward,
        (q, k, v, y, rest, position, given[0], saved, *grads, given[1], *form),
    )


def test_compiled_in_one_graph_for_batches_of_any_shape():
    def attend(q, k, v, hierarchy):
        return 2 * hierarchical_attention(q + 1, k, v, hierarchy, backend="cpp")

    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(attend, backend=counter, fullgraph=True)
    for seed in range(12):
        parent = star(seed + 1) if seed % 3 == 0 else random_parents(20 + seed, seed)
        hierarchy = SignalHierarchy.from_parents(parent)
        tensors = [x.requires_grad_() for x in inputs(hierarchy)]
        found = []
        for function in (compiled, attend):
            y = function(*tensors, hierarchy)
            found.append([y.detach(), *torch.autograd.grad(y.square().sum(), tensors)])
        for a, b in zip(*found, strict=True):
            assert close(a, b)
    assert last_backend() == "cpp"
    assert counter.frame_count <= 2
    torch._dynamo.reset()


def test_autocast_rounds_inputs_and_accumulates_in_float32():
    hierarchy = SignalHierarchy.from_parents(MIXED)
    *tensors, position = (x.float() for x in tensors_for(hierarchy, 2, 4, 3, "shared"))
    with torch.autocast("cpu", torch.bfloat16):
        y, phi = hierarchical_attention(
            *tensors, hierarchy, position=position, return_energy=True, backend="cpp"
        )
    assert y.dtype == torch.bfloat16
    assert phi.dtype == torch.float32
    rounded = [x.bfloat16().double() for x in tensors]
    expected = hierarchical_attention(
        *rounded,
        hierarchy,
        position=position.double(),
        return_energy=True,
        backend="reference",
    )
    assert float((phi - expected[1]).abs().max()) < 1e-5
    assert torch.allclose(y.double(), expected[0], rtol=2**-8, atol=1e-6)
