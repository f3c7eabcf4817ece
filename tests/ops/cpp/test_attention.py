"""The C++ backend gives what the reference gives: outputs and every gradient."""

import pytest
import torch

from hsa_pyg import SignalHierarchy, hierarchical_attention
from hsa_pyg.ops import adjoint, passes
from hsa_pyg.ops.cpp import attention
from hsa_pyg.ops.passes import AttentionCall
from tests.dense_theta import dense_attention
from tests.differentiation import differences, results, tensors_for
from tests.forests import (
    caterpillar,
    close,
    inputs,
    random_parents,
    regular,
    side_by_side,
    star,
)

KINDS = ("none", "shared", "per head")


def mixed_family(members):
    """A family of as many members, one of them a section of three leaves."""
    return torch.cat([star(members), torch.tensor([1, 1, 1])])


def sections(*sizes):
    """A family of leaf-only families of these sizes."""
    inner = [-1, *[0] * len(sizes)]
    leaves = [1 + i for i, size in enumerate(sizes) for _ in range(size)]
    return torch.tensor(inner + leaves)


TREES = {
    "one leaf": torch.tensor([-1]),
    "an only child": torch.tensor([-1, 0]),
    **{f"family of {b}": star(b) for b in (2, 3, 17, 64, 65)},
    **{f"mixed family of {b}": mixed_family(b) for b in (1, 2, 3, 17)},
    "one leaf beside a tree": torch.tensor([-1, -1, 1, 1, 2, 2, 2]),
    "binary": regular(2, 4),
    "unequal families": sections(3, 4, 5, 3, 21, 40, 2, 33),
}


def assert_agrees(hierarchy, tensors, rtol=1e-10, **keywords):
    actual = results(hierarchy, tensors, backend="cpp", **keywords)
    expected = results(hierarchy, tensors, backend="reference", **keywords)
    assert differences(actual, expected, rtol) == []


@pytest.mark.parametrize("self_attention", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TREES)
def test_awkward_trees(name, kind, self_attention):
    hierarchy = SignalHierarchy.from_parents(TREES[name])
    tensors = tensors_for(hierarchy, heads=2, width=5, value=3, kind=kind)
    assert_agrees(hierarchy, tensors, self_attention=self_attention)


@pytest.mark.parametrize("heads", [1, 8])
@pytest.mark.parametrize(
    ("width", "value"), [(1, 1), (1, 64), (5, 2), (64, 64), (200, 72)]
)
def test_awkward_widths(heads, width, value):
    hierarchy = SignalHierarchy.from_parents(random_parents(25, seed=heads))
    for kind in KINDS:
        assert_agrees(hierarchy, tensors_for(hierarchy, heads, width, value, kind))


@pytest.mark.parametrize("seed", range(40))
def test_random_forests(seed):
    reach = (None, 3, 12)[seed % 3]
    parent = random_parents((9, 20, 45)[seed // 3 % 3], seed, reach=reach)
    childless = torch.ones_like(parent, dtype=torch.bool)
    childless[parent[parent >= 0]] = False
    empty = torch.rand(parent.numel()) < 0.15
    hierarchy = SignalHierarchy.from_parents(parent, childless & ~empty)
    tensors = tensors_for(hierarchy, 2, 3, 4, KINDS[seed % 3], seed)
    assert_agrees(hierarchy, tensors, self_attention=seed % 2 == 0, seed=seed)


@pytest.mark.parametrize("leaves", range(1, 66))
def test_one_family_of_every_size(leaves):
    hierarchy = SignalHierarchy.from_parents(star(leaves))
    tensors = tensors_for(hierarchy, 1, 3, 2)
    actual = results(hierarchy, tensors, backend="cpp")
    expected = results(hierarchy, tensors, backend="torch")
    assert differences(actual, expected, 1e-10) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("heads", "width"), [(5, 64), (3, 300), (20, 40)])
def test_rows_that_are_worked_on_a_few_heads_at_a_time(heads, width, kind):
    """More numbers in a family than caches hold; leaf-only and mixed families."""
    parent = sections(60, 40, 2, 3, 30, 20, 64, 17)
    hierarchy = SignalHierarchy.from_parents(parent)
    tensors = tensors_for(hierarchy, heads, width, 48, kind)
    actual = results(hierarchy, tensors, backend="cpp")
    expected = results(hierarchy, tensors, backend="torch")
    assert differences(actual, expected, 1e-10) == []


@pytest.mark.parametrize("self_attention", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("members", [130, 1000])
def test_families_larger_than_a_tile(members, kind, self_attention):
    """Leaf-only and mixed, beside small ones."""
    parent = side_by_side(star(members), star(5), mixed_family(members), star(64))[0]
    hierarchy = SignalHierarchy.from_parents(parent)
    tensors = tensors_for(hierarchy, heads=2, width=4, value=3, kind=kind)
    actual = results(hierarchy, tensors, backend="cpp", self_attention=self_attention)
    expected = results(
        hierarchy, tensors, backend="torch", self_attention=self_attention
    )
    assert differences(actual, expected, 1e-10) == []


@pytest.mark.parametrize(
    ("name", "kind"), [("star", "none"), ("mixed", "shared"), ("mixed", "per head")]
)
def test_a_family_of_a_thousand(name, kind):
    """Against the dense matrix: the reference would take a million steps."""
    parent = star(1000) if name == "star" else mixed_family(1000)
    hierarchy = SignalHierarchy.from_parents(parent)
    tensors = tensors_for(hierarchy, heads=2, width=4, value=3, kind=kind)

    def dense(q, k, v, hierarchy, position, return_energy):
        return dense_attention(q, k, v, hierarchy, position)

    actual = results(hierarchy, tensors, backend="cpp")
    expected = results(hierarchy, tensors, dense)
    assert differences(actual, expected, 1e-10) == []


@pytest.mark.parametrize("self_attention", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_by_finite_differences(kind, self_attention):
    parent = torch.tensor([-1, 0, 0, 0, 1, 1, 2, 6, 6, 6, -1])
    hierarchy = SignalHierarchy.from_parents(parent)
    heads = 2 if kind == "per head" else 1
    tensors = [x.requires_grad_() for x in tensors_for(hierarchy, heads, 2, 2, kind)]

    def function(q, k, v, position=None):
        y, phi = hierarchical_attention(
            q,
            k,
            v,
            hierarchy,
            position=position,
            self_attention=self_attention,
            return_energy=True,
            backend="cpp",
        )
        return y, phi[phi.isfinite()]

    # Random directions: all entries are compared with the reference's above.
    assert torch.autograd.gradcheck(function, tensors, fast_mode=True)


@pytest.mark.parametrize("which", ["y", "phi"])
def test_gradients_of_one_output_alone(which):
    hierarchy = SignalHierarchy.from_parents(random_parents(20, seed=3))
    tensors = tensors_for(hierarchy, 2, 3, 2, "shared")
    found = []
    for backend in ("cpp", "reference"):
        held = [x.clone().requires_grad_() for x in tensors]
        y, phi = hierarchical_attention(
            *held[:3],
            hierarchy,
            position=held[3],
            return_energy=True,
            backend=backend,
        )
        loss = y.square().sum() if which == "y" else phi.square().sum()
        found.append(torch.autograd.grad(loss, held, materialize_grads=True))
    for actual, expected in zip(*found, strict=True):
        assert close(actual, expected)


@pytest.mark.parametrize("kind", ["none", "per head"])
def test_an_infinite_energy_takes_no_gradient(kind):
    """phi of a leaf is a constant without self-attention, whatever comes back to it."""
    hierarchy = SignalHierarchy.from_parents(torch.tensor([-1, 0, 0, 0, 1, 1, -1]))
    tensors = tensors_for(hierarchy, 2, 3, 2, kind)
    found = []
    for backend in ("cpp", "reference"):
        held = [x.clone().requires_grad_() for x in tensors]
        _, phi = hierarchical_attention(
            *held[:3],
            hierarchy,
            position=held[3] if kind != "none" else None,
            self_attention=False,
            return_energy=True,
            backend=backend,
        )
        assert phi[hierarchy.leaves].isposinf().all()
        ones = torch.ones_like(phi)
        found.append(torch.autograd.grad(phi, held, ones, materialize_grads=True))
    for actual, expected in zip(*found, strict=True):
        assert close(actual, expected)


def test_a_caterpillar_of_ten_thousand_levels():
    hierarchy = SignalHierarchy.from_parents(caterpillar(10_000))
    tensors = inputs(hierarchy, heads=1, width=2, value=1)
    actual = results(hierarchy, tensors, backend="cpp")
    expected = results(hierarchy, tensors, backend="torch")
    assert differences(actual, expected, 1e-10) == []


@pytest.mark.parametrize("self_attention", [True, False])
def test_gradients_of_a_caterpillar_of_five_hundred_levels(self_attention):
    hierarchy = SignalHierarchy.from_parents(caterpillar(500))
    tensors = tensors_for(hierarchy, 1, 2, 1, "shared")
    assert_agrees(hierarchy, tensors, self_attention=self_attention)


@pytest.mark.parametrize("per_level", [30.0, -30.0, "alternating"])
def test_offsets_of_a_level_change_nothing_against_the_reference(per_level):
    """Levels whose scores lie 30 and more apart, as eps of two siblings gives them."""
    hierarchy = SignalHierarchy.from_parents(regular(2, 6))
    tensors = list(tensors_for(hierarchy, 1, 3, 2))
    position = torch.full((hierarchy.num_nodes, 1), 30**0.5, dtype=torch.float64)
    second = torch.arange(hierarchy.num_nodes) % 2 == 0
    down = per_level == -30.0
    if per_level == "alternating":
        down = hierarchy.depth % 2 == 0
    position[second & down] *= -1
    assert_agrees(hierarchy, [*tensors, position])


@pytest.mark.parametrize("self_attention", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_either_backend_differentiates_what_the_other_computed(seed, self_attention):
    parent = random_parents(60, seed, reach=(None, 5)[seed % 2])
    hierarchy = SignalHierarchy.from_parents(parent)
    q, k, v, position = tensors_for(hierarchy, 2, 3, 4, "per head", seed)
    call = AttentionCall(
        layout=hierarchy.layout,
        leaves=hierarchy.leaves,
        position=position,
        scale=0.5,
        self_attention=self_attention,
        dropout=0.0,
        seed=0,
    )
    a, b = torch.randn_like(v), torch.randn(hierarchy.num_nodes, 2).double()
    if not self_attention:
        b = torch.zeros_like(b)  # energies of leaves are infinite
    grads = []
    for forward in (passes.forward, attention.forward):
        for backward in (adjoint.backward, attention.backward):
            y, _, saved = forward(call, q, k, v, q.dtype, True)
            grads.append(backward(call, q, k, v, y, saved, a, b))
    for found in grads[1:]:
        for actual, expected in zip(found, grads[0], strict=True):
            assert close(actual, expected)
