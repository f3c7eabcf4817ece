"""The kernels against the definition, forward and backward."""

import pytest
import torch

from hsa_pyg import SignalHierarchy, hierarchical_attention
from tests.differentiation import differences, results, tensors_for
from tests.forests import caterpillar, childless, random_parents, regular, star
from tests.ops.triton.agreement import assert_agrees, mixed_family, on_device, tree

TREES = {
    "one leaf": [-1],
    "an only child": [-1, 0],
    "a family of two": star(2),
    "a mixed family of one": mixed_family(1),
    "a mixed family of three": mixed_family(3),
    "one leaf beside a tree": [-1, -1, 1, 1, 2, 2, 2],
    "binary": regular(2, 3),
    "families of three to five": [-1, *[0] * 6]
    + [1 + i for i in range(6) for _ in range(3 + i % 3)],
    "caterpillar": caterpillar(12),
}


@pytest.mark.parametrize("self_attention", [True, False])
@pytest.mark.parametrize("name", TREES)
def test_awkward_trees(name, self_attention, device):
    hierarchy = tree(TREES[name])
    kind = ("none", "shared", "per head")[list(TREES).index(name) % 3]
    tensors = tensors_for(hierarchy, 2, 5, 3, kind)
    assert_agrees(device, hierarchy, tensors, self_attention=self_attention)


@pytest.mark.parametrize("seed", range(6))
def test_random_forests(seed, device):
    parent = random_parents((9, 20, 30)[seed % 3], seed, reach=(None, 3)[seed % 2])
    empty = torch.rand(parent.numel()) < 0.15
    hierarchy = SignalHierarchy.from_parents(parent, childless(parent) & ~empty)
    kind = ("none", "shared", "per head")[seed // 2]
    tensors = tensors_for(hierarchy, 2, 5, 3, kind, seed)
    assert_agrees(device, hierarchy, tensors, self_attention=seed % 2 == 0, seed=seed)


@pytest.mark.parametrize("self_attention", [True, False])
@pytest.mark.parametrize("kind", ["none", "per head"])
@pytest.mark.parametrize("name", ["leaf-only", "mixed"])
def test_families_of_several_tiles(name, kind, self_attention, device):
    """Of 130 members, beside small ones; against the batched passes."""
    inside = star(130) if name == "leaf-only" else mixed_family(130)
    parent = torch.cat([inside, torch.tensor([-1, *[inside.numel()] * 3])])
    hierarchy = tree(parent)
    tensors = tensors_for(hierarchy, 1, 3, 2, kind)
    actual = on_device(device, hierarchy, tensors, self_attention=self_attention)
    expected = results(
        hierarchy, tensors, backend="torch", self_attention=self_attention
    )
    assert differences(actual, expected, 1e-10) == []


def test_ragged_families(device):
    """Of 1 to 70 children: some in one tile with others, one in two tiles."""
    sizes = [1, 2, 3, 30, 31, 33, 64, 70]
    parent = [-1, *[0] * len(sizes)]
    parent += [1 + i for i, size in enumerate(sizes) for _ in range(size)]
    hierarchy = tree(parent)
    tensors = tensors_for(hierarchy, 1, 4, 3)
    actual = on_device(device, hierarchy, tensors)
    expected = results(hierarchy, tensors, backend="torch")
    assert differences(actual, expected, 1e-10) == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_low_precision(dtype, device):
    hierarchy = tree(random_parents(24, seed=3))
    tensors = tensors_for(hierarchy, 2, 8, 4, "shared")
    rtol = 1e-5 if dtype == torch.float32 else 4 * torch.finfo(dtype).eps
    assert_agrees(device, hierarchy, tensors, rtol, dtype)


def test_a_large_level_takes_many_programs(device, monkeypatch):
    """Levels one by one, and more nodes than programs."""
    from hsa_pyg.ops.triton import plan

    monkeypatch.setattr(plan, "SMALL_LEVEL", 1)
    monkeypatch.setattr(plan, "PROGRAMS", 4)
    hierarchy = tree(torch.cat([regular(3, 3), torch.tensor([-1, 40, 40])]))
    assert_agrees(device, hierarchy, tensors_for(hierarchy, 2, 5, 3, "shared"))


def test_scores_far_apart(device):
    """Of 1e4 in size: no infinity and no NaN, also in the gradients."""
    hierarchy = tree(random_parents(30, seed=5))
    q, k, v = tensors_for(hierarchy, 2, 4, 3)
    assert_agrees(device, hierarchy, (100 * q, 100 * k, v), rtol=1e-8)


def test_offsets_beyond_two_to_the_31(device, tmp_path):
    """Two keys so many elements apart, in memory that is hardly touched."""
    hierarchy = tree([-1, 0, 0]).to(device)
    q, k, v = (x.to(device, torch.float32) for x in tensors_for(hierarchy, 1, 4, 4))
    size = 2**31 + 8
    if device.type == "cuda":
        far = torch.empty(size, device=device)
    else:
        far = torch.from_file(str(tmp_path / "sparse"), shared=True, size=size)
    strided = far.as_strided((2, 1, 4), (2**31, 4, 1))
    strided.copy_(k)
    actual = hierarchical_attention(q, strided, v, hierarchy, backend="triton")
    expected = hierarchical_attention(q, k, v, hierarchy, backend="triton")
    assert torch.equal(actual, expected)


def test_views_of_one_projection_are_read_in_place(device):
    hierarchy = tree(random_parents(20, seed=1)).to(device)
    joined = torch.randn(hierarchy.num_leaves, 2, 3 * 5, device=device).double()
    parts = joined.split(5, -1)
    turned = [x.transpose(0, 2).contiguous().transpose(0, 2) for x in parts]
    ready = [x.contiguous() for x in parts]
    expected = hierarchical_attention(*ready, hierarchy, backend="triton")
    for tensors in (parts, turned):
        actual = hierarchical_attention(*tensors, hierarchy, backend="triton")
        assert torch.equal(actual, expected)


def test_an_expanded_gradient(device):
    """The sum's: one number for all, with strides of 0."""
    hierarchy = tree(random_parents(20, seed=1))
    found = []
    for backend, place in (("triton", device), ("reference", torch.device("cpu"))):
        tensors = [
            x.to(place).requires_grad_() for x in tensors_for(hierarchy, 2, 5, 3)
        ]
        y = hierarchical_attention(*tensors, hierarchy.to(place), backend=backend)
        found.append([x.cpu() for x in torch.autograd.grad(y.sum(), tensors)])
    assert differences(*found, 1e-10) == []


@pytest.mark.parametrize("backend", ["torch", "triton"])
def test_another_backend_differentiates_the_result(backend, device):
    """Either direction: what a forward pass keeps suits all backward passes."""
    from hsa_pyg.ops import adjoint, passes
    from hsa_pyg.ops.triton import attention

    hierarchy = tree(random_parents(20, seed=2)).to(device)
    q, k, v = (x.to(device) for x in tensors_for(hierarchy, 2, 5, 3))
    call = passes.AttentionCall(
        layout=hierarchy.layout,
        leaves=hierarchy.leaves,
        position=None,
        scale=0.5,
        self_attention=True,
        dropout=0.0,
        seed=0,
    )
    ways = {
        "torch": (passes.forward, adjoint.backward),
        "triton": (attention.forward, attention.backward),
    }
    y, _, saved = ways[backend][0](call, q, k, v, torch.float64, True)
    found = [
        backward(call, q, k, v, y, saved, torch.ones_like(y), None)[:3]
        for _, backward in ways.values()
    ]
    assert differences(*found, 1e-10) == []


def test_the_same_bits_twice(device):
    hierarchy = tree(random_parents(16, seed=4))
    tensors = tensors_for(hierarchy, 2, 8, 4, "shared")
    first, second = (
        on_device(device, hierarchy, tensors, torch.float32) for _ in range(2)
    )
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_no_leaves_at_all(device):
    hierarchy = SignalHierarchy.from_parents(torch.tensor([-1]), torch.tensor([False]))
    tensors = tensors_for(hierarchy, 2, 5, 3)
    y, phi, *grads = on_device(device, hierarchy, tensors)
    assert y.shape == (0, 2, 3)
    assert phi.tolist() == [[0.0, 0.0]]
    assert all(grad.numel() == 0 for grad in grads)


def test_wide_heads_are_refused(device):
    hierarchy = tree(star(2))
    with pytest.raises(NotImplementedError, match="256 channels"):
        on_device(device, hierarchy, tensors_for(hierarchy, 1, 257, 3))
