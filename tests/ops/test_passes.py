"""The torch backend gives what the reference gives: outputs and every gradient."""

import pytest
import torch

from hsa_pyg import SignalHierarchy, hierarchical_attention
from hsa_pyg.ops import family
from tests.dense_theta import dense_attention
from tests.differentiation import differences, results, tensors_for
from tests.forests import caterpillar, close, inputs, random_parents, regular, star

KINDS = ("none", "shared", "per head")


def mixed_family(members):
    """A family of as many members, one of them a section of three leaves."""
    return torch.cat([star(members), torch.tensor([1, 1, 1])])


TREES = {
    "one leaf": torch.tensor([-1]),
    "an only child": torch.tensor([-1, 0]),
    **{f"family of {b}": star(b) for b in (2, 3, 17)},
    **{f"mixed family of {b}": mixed_family(b) for b in (1, 2, 3, 17)},
    "one leaf beside a tree": torch.tensor([-1, -1, 1, 1, 2, 2, 2]),
    "binary": regular(2, 4),
    "padded families": torch.tensor([-1, *[0] * 6]).new_tensor(
        [-1] + [0] * 6 + [1 + i for i in range(6) for _ in range(3 + i % 3)]
    ),
}


def assert_agrees(hierarchy, tensors, rtol=1e-10, **keywords):
    actual = results(hierarchy, tensors, **keywords)
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
@pytest.mark.parametrize(("width", "value"), [(1, 1), (1, 64), (5, 2), (64, 64)])
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

    actual = results(hierarchy, tensors)
    expected = results(hierarchy, tensors, dense)
    assert differences(actual, expected, 1e-10) == []


@pytest.mark.parametrize("self_attention", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_tiles_and_runs_of_queries_change_nothing(kind, self_attention, monkeypatch):
    """Many tiles a bucket, and families cut into runs of queries."""
    parent = torch.cat([mixed_family(50), torch.tensor([2] * 70 + [3] * 3 + [4] * 4)])
    hierarchy = SignalHierarchy.from_parents(parent)
    tensors = tensors_for(hierarchy, 2, 3, 2, kind)
    expected = results(hierarchy, tensors, self_attention=self_attention)
    monkeypatch.setattr(family, "_CPU_TILE", 1)
    monkeypatch.setattr(family, "_SCORES", 1)
    runs = []
    plain = family.FamilyAttention.scores

    def scores(attention, q, k, eps, bias, run):
        runs.append(run)
        return plain(attention, q, k, eps, bias, run)

    monkeypatch.setattr(family.FamilyAttention, "scores", scores)
    actual = results(hierarchy, tensors, self_attention=self_attention)
    assert differences(actual, expected, 1e-12) == []
    assert slice(64, 70) in runs
    assert_agrees(hierarchy, tensors, self_attention=self_attention)


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
        )
        return y, phi[phi.isfinite()]

    # Random directions: all entries are compared with the reference's above.
    assert torch.autograd.gradcheck(function, tensors, fast_mode=True)


@pytest.mark.parametrize("which", ["y", "phi"])
def test_gradients_of_one_output_alone(which):
    hierarchy = SignalHierarchy.from_parents(random_parents(20, seed=3))
    tensors = tensors_for(hierarchy, 2, 3, 2, "shared")
    found = []
    for backend in ("torch", "reference"):
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
    for backend in ("torch", "reference"):
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
    assert hierarchy.max_depth == 10_000
    tensors = inputs(hierarchy, heads=1, width=2, value=1)
    y, phi, *grads = results(hierarchy, tensors)
    with torch.no_grad():
        expected = hierarchical_attention(
            *tensors, hierarchy, return_energy=True, backend="reference"
        )
    assert differences([y, phi], expected, 1e-10) == []
    assert all(grad.isfinite().all() for grad in grads)


@pytest.mark.parametrize("self_attention", [True, False])
def test_gradients_of_a_caterpillar_of_five_hundred_levels(self_attention):
    hierarchy = SignalHierarchy.from_parents(caterpillar(500))
    tensors = tensors_for(hierarchy, 1, 2, 1, "shared")
    assert_agrees(hierarchy, tensors, self_attention=self_attention)


def test_a_path_of_a_hundred_thousand_single_children():
    hierarchy = SignalHierarchy.from_parents(torch.arange(-1, 99_999))
    q, k, v = inputs(hierarchy)
    y, phi = hierarchical_attention(q, k, v, hierarchy, return_energy=True)
    assert torch.equal(y, v)
    own = -(q * k).sum(-1) * q.size(2) ** -0.5
    assert close(phi, own.expand(100_000, -1))


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
