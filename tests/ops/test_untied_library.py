"""The operator of untied queries as PyTorch knows it.

``torch.library.opcheck`` raises by itself where an operator is not what it says.
"""

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from hsa_pyg import SignalHierarchy, hierarchical_attention
from hsa_pyg.ops.library import flatten
from hsa_pyg.ops.untied_library import untied_backward, untied_forward
from tests.differentiation import tensors_for
from tests.forests import close, inputs, random_parents


def arguments(kind, dtype, dropout, energy):
    hierarchy = SignalHierarchy.from_parents(random_parents(15, 1))
    q, k, v, *position = (x.to(dtype) for x in tensors_for(hierarchy, 2, 4, 3, kind))
    if kind == "shared":
        position = [position[0][:, None]]
    tensors = [x.requires_grad_() for x in (q, k, v, *position)]
    if not position:
        tensors.append(None)
    options = (0.5, True, False, dropout, energy)
    return (*tensors, flatten(hierarchy), torch.tensor(7), *options)


@pytest.mark.parametrize("kind", ["none", "shared"])
@pytest.mark.parametrize(
    ("dtype", "dropout", "energy"),
    [
        (torch.float32, 0.5, True),
        (torch.bfloat16, 0.0, False),
        (torch.float64, 0.0, True),
    ],
)
def test_opcheck(kind, dtype, dropout, energy):
    given = arguments(kind, dtype, dropout, energy)
    torch.library.opcheck(untied_forward, given)
    q, k, v, position, layout, seed, *options, _ = given
    detached = [x if x is None else x.detach() for x in (q, k, v, position)]
    y, phi, mass, rest = untied_forward(*detached, *given[4:])
    q, k, v, position = detached
    grads = torch.randn_like(y), torch.randn_like(phi) if energy else None
    torch.library.opcheck(
        untied_backward,
        (q, k, v, y, mass, rest, position, layout, *grads, seed, *options),
    )


def test_compiled_in_one_graph_for_batches_of_any_shape():
    counter = CompileCounterWithBackend("aot_eager")

    def attend(q, k, v, hierarchy):
        return 2 * hierarchical_attention(q + 1, k, v, hierarchy, tie_queries=False)

    torch._dynamo.reset()
    compiled = torch.compile(attend, backend=counter, fullgraph=True)
    for seed in range(10):
        hierarchy = SignalHierarchy.from_parents(random_parents(20 + seed, seed))
        tensors = [x.requires_grad_() for x in inputs(hierarchy)]
        y = compiled(*tensors, hierarchy)
        assert close(y.detach(), attend(*tensors, hierarchy).detach())
        assert y.requires_grad
    assert counter.frame_count <= 2
    torch._dynamo.reset()
