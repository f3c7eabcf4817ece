"""The formulas against torch's own counter on the passes, padding included."""

import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode, bmm_flop

from hsa_pyg import SignalHierarchy, hierarchical_attention
from hsa_pyg.ops import adjoint, family, passes, untied, untied_adjoint
from hsa_pyg.ops.flop_formulas import Widths, tied_flops, untied_flops
from hsa_pyg.ops.focus import Focus
from tests.differentiation import tensors_for
from tests.forests import forests, random_parents, regular, side_by_side, star

# The counter has no formula for products that are added in place.
IN_PLACE = {torch.ops.aten.baddbmm_: lambda _, a, b, **kwargs: bmm_flop(a, b)}
POSITIONS = ("none", "shared", "per head")
RAGGED, _ = side_by_side(star(3), star(4), star(5), random_parents(40, 2), star(4))


def counted(function, *arguments):
    with FlopCounterMode(display=False, custom_mapping=IN_PLACE) as counter:
        result = function(*arguments)
    return counter.get_total_flops(), result


def given_tensors(hierarchy, heads, width, value, kind):
    q, k, v, *position = tensors_for(hierarchy, heads, width, value, kind)
    position = position[0] if position else None
    if kind == "shared":
        position = position[:, None]
    return q, k, v, position


def tied_counts(hierarchy, q, k, v, position, self_attention=True, focus=None):
    """What torch counts in the forward and in the backward pass."""
    call = passes.AttentionCall(
        hierarchy.layout, hierarchy.leaves, position, 0.5, self_attention, 0.0, 0, focus
    )
    forward, (y, _, saved) = counted(passes.forward, call, q, k, v, q.dtype, True)
    grad = torch.ones_like(y)
    return forward, counted(adjoint.backward, call, q, k, v, y, saved, grad, None)[0]


def untied_counts(hierarchy, q, k, v, position, self_attention, causal, energy):
    call = untied.UntiedCall(
        hierarchy.layout,
        hierarchy.leaves,
        position,
        0.5,
        self_attention,
        causal,
        0.0,
        0,
    )
    forward, (y, mass, gain) = counted(untied.forward, call, q, k, v)
    grads = (torch.ones_like(gain), torch.ones_like(mass)) if energy else (None, None)
    grad_y = torch.ones_like(y)
    backward, _ = counted(
        untied_adjoint.backward, call, q, k, v, y, mass, grad_y, *grads
    )
    return forward, backward


@given(
    forests(30),
    st.sampled_from([1, 3]),
    st.sampled_from([(4, 3), (2, 5)]),
    st.sampled_from(POSITIONS),
    st.booleans(),
    st.sampled_from([None, Focus(1, False), Focus(2, True)]),
)
def test_torch_counts_the_same_in_both_passes(
    hierarchy, heads, widths, kind, self_attention, focus
):
    if focus is not None and focus.includes_self:
        self_attention = True
    tensors = given_tensors(hierarchy, heads, *widths, kind)
    expected = tied_counts(hierarchy, *tensors, self_attention, focus)
    q, _, v, position = tensors
    sizes = Widths.of(q, v, position)
    for backward in (False, True):
        assert expected[backward] == tied_flops(
            hierarchy.layout, sizes, backward=backward, padded=True
        )


@pytest.mark.parametrize("kind", POSITIONS)
@pytest.mark.parametrize("seed", range(4))
def test_torch_counts_the_same_where_families_are_padded(kind, seed):
    parents, _ = side_by_side(*(star(2 + (seed + i) % 7) for i in range(40)))
    parents, _ = side_by_side(parents, random_parents(150, seed, reach=20))
    hierarchy = SignalHierarchy.from_parents(parents)
    assert (hierarchy.layout.buckets[:, -1] == 1).any()
    q, k, v, position = given_tensors(hierarchy, 2, 4, 3, kind)
    sizes = Widths.of(q, v, position)
    expected = tied_counts(hierarchy, q, k, v, position)
    padded, exact = (
        [
            tied_flops(hierarchy.layout, sizes, backward=x, padded=padded)
            for x in (False, True)
        ]
        for padded in (True, False)
    )
    assert list(expected) == padded
    assert exact[0] < padded[0]
    assert exact[1] < padded[1]


def test_families_that_are_cut_into_runs_of_queries(monkeypatch):
    monkeypatch.setattr(family, "_SCORES", 1)
    hierarchy = SignalHierarchy.from_parents(side_by_side(star(100), star(70))[0])
    q, k, v, position = given_tensors(hierarchy, 2, 4, 3, "shared")
    expected = tied_counts(hierarchy, q, k, v, position)
    sizes = Widths.of(q, v, position)
    for backward in (False, True):
        assert expected[backward] == tied_flops(
            hierarchy.layout, sizes, backward=backward, padded=True
        )


@given(
    forests(30),
    st.sampled_from([1, 3]),
    st.sampled_from([(4, 3), (2, 5)]),
    st.sampled_from(POSITIONS),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_torch_counts_the_same_with_untied_queries(
    hierarchy, heads, widths, kind, self_attention, causal, energy
):
    tensors = given_tensors(hierarchy, heads, *widths, kind)
    expected = untied_counts(hierarchy, *tensors, self_attention, causal, energy)
    sizes = Widths.of(tensors[0], tensors[2], tensors[3])
    for backward in (False, True):
        assert expected[backward] == untied_flops(
            hierarchy.layout, sizes, backward=backward, padded=True, energy=energy
        )


@pytest.mark.parametrize("kind", POSITIONS)
def test_untied_queries_on_larger_trees(kind):
    parents, _ = side_by_side(star(150), regular(5, 3), random_parents(200, 3))
    hierarchy = SignalHierarchy.from_parents(parents)
    tensors = given_tensors(hierarchy, 2, 4, 3, kind)
    expected = untied_counts(hierarchy, *tensors, True, False, True)
    sizes = Widths.of(tensors[0], tensors[2], tensors[3])
    for backward in (False, True):
        how = {"backward": backward, "energy": True}
        padded = untied_flops(hierarchy.layout, sizes, padded=True, **how)
        assert expected[backward] == padded
        assert untied_flops(hierarchy.layout, sizes, padded=False, **how) < padded


@pytest.mark.parametrize("tie_queries", [True, False])
@pytest.mark.parametrize("kind", POSITIONS)
def test_the_counter_sees_the_operators(tie_queries, kind):
    hierarchy = SignalHierarchy.from_parents(RAGGED)
    q, k, v, position = given_tensors(hierarchy, 2, 4, 3, kind)
    if tie_queries:
        expected = tied_counts(hierarchy, q, k, v, position)
    else:
        expected = untied_counts(hierarchy, q, k, v, position, True, False, False)

    def attend():
        return hierarchical_attention(
            q.requires_grad_(),
            k,
            v,
            hierarchy,
            position=position,
            tie_queries=tie_queries,
            backend="torch",
        )

    forward, y = counted(attend)
    assert forward == expected[0]
    assert counted(y.sum().backward)[0] == expected[1]


def test_energies_of_untied_queries_cost_once_more_in_the_backward_pass():
    hierarchy = SignalHierarchy.from_parents(RAGGED)
    q, k, v, _ = given_tensors(hierarchy, 2, 4, 3, "none")
    q.requires_grad_()
    y, phi = hierarchical_attention(
        q, k, v, hierarchy, tie_queries=False, return_energy=True
    )
    expected = untied_counts(hierarchy, q.detach(), k, v, None, True, False, True)[1]
    assert counted((y.sum() + phi.sum()).backward)[0] == expected


@pytest.mark.parametrize("kind", POSITIONS)
def test_the_compiled_backend_counts_no_padding(kind):
    hierarchy = SignalHierarchy.from_parents(RAGGED)
    q, k, v, position = given_tensors(hierarchy, 2, 4, 3, kind)
    pairs = int(hierarchy.layout.family_size.square().sum())
    # Two channels of position a head, also where the heads share them.
    channels = 4 + (0 if kind == "none" else 2)
    q.requires_grad_()
    forward, y = counted(
        lambda: hierarchical_attention(
            q, k, v, hierarchy, position=position, backend="cpp"
        )
    )
    assert forward == 2 * pairs * 2 * (channels + 3)
    assert counted(y.sum().backward)[0] == 2 * pairs * 2 * (3 * channels + 2 * 3)


def test_the_definition_is_counted_by_torch_itself():
    hierarchy = SignalHierarchy.from_parents(star(5))
    q, k, v = tensors_for(hierarchy, 1, 4, 3)
    with FlopCounterMode(display=False) as counter:
        hierarchical_attention(q, k, v, hierarchy, backend="reference")
    names = [str(x) for each in counter.get_flop_counts().values() for x in each]
    assert not any("hsa_pyg" in name for name in names)


def test_a_tree_without_numbers_is_refused():
    hierarchy = SignalHierarchy.from_parents(star(5))
    q, k, v = tensors_for(hierarchy, 1, 4, 3)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        q, k, v = (mode.from_tensor(x) for x in (q, k, v))
        fake = hierarchy.to("cpu")
        fake.padded_layout = fake.padded_layout._map(mode.from_tensor)
        with (
            pytest.raises(NotImplementedError, match="depend on the trees"),
            FlopCounterMode(display=False),
        ):
            hierarchical_attention(q, k, v, fake, backend="torch")


def test_importing_the_package_registers_the_formulas():
    code = (
        "import hsa_pyg, torch\n"
        "from torch.utils.flop_counter import flop_registry\n"
        "assert torch.ops.hsa_pyg.hierarchical_attention in flop_registry\n"
        "assert torch.ops.hsa_pyg.untied_attention_backward in flop_registry\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
