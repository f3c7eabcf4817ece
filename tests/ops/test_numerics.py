"""Rounding, overflow, memory nobody wrote, strides: the torch backend under stress."""

import pytest
import torch

from hsa_pyg import SignalHierarchy, hierarchical_attention
from tests.differentiation import differences, results, tensors_for
from tests.forests import caterpillar, inputs, random_parents, regular, star

MIXED = torch.tensor([-1, 0, 0, 0, 1, 1, 1, 2, 2, 6, 6, -1, -1, 12, 12, 12])


def test_torch_empty_is_poisoned_in_these_tests():
    """The fixture in conftest.py works: what an operator leaves unwritten is NaN."""
    like = torch.zeros(3)
    for x in (torch.empty(3), torch.empty_like(like), like.new_empty(2, 2)):
        assert x.isnan().all()
    # Also inside of the library's operators, from Python.
    seen = []

    @torch.library.custom_op("hsa_pyg_tests::leaves_a_row", mutates_args=())
    def leaves_a_row(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        out[:-1] = x[:-1]
        seen.append(out)
        return out.clone()

    assert leaves_a_row(like).isnan().tolist() == [False, False, True]


@pytest.mark.parametrize("self_attention", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_every_element_is_written(seed, self_attention):
    parent = random_parents(60, seed, reach=(None, 5)[seed % 2])
    hierarchy = SignalHierarchy.from_parents(parent)
    tensors = tensors_for(hierarchy, 2, 3, 4, "shared", seed)
    for x in results(hierarchy, tensors, self_attention=self_attention):
        assert x.isfinite().all()


@pytest.mark.parametrize(
    ("dtype", "rtol"),
    [(torch.float32, 1e-5), (torch.bfloat16, 2e-2), (torch.float16, 2e-2)],
)
@pytest.mark.parametrize("self_attention", [True, False])
def test_error_of_short_floats(dtype, rtol, self_attention):
    """Against float64 on the same rounded inputs, so that only our rounding counts."""
    for seed in range(6):
        parent = random_parents(80, seed, reach=(None, 6, 20)[seed % 3])
        hierarchy = SignalHierarchy.from_parents(parent)
        tensors = tensors_for(hierarchy, 2, 16, 8, "shared", seed)
        short = [x.to(dtype) for x in tensors]
        wide = [x.double() for x in short]
        keywords = {"self_attention": self_attention}
        actual = results(hierarchy, short, **keywords)
        expected = results(hierarchy, wide, **keywords)
        assert actual[0].dtype == actual[2].dtype == dtype
        assert actual[1].dtype == torch.float32
        assert differences(actual, expected, rtol) == []


@pytest.mark.parametrize(
    ("dtype", "rtol"), [(torch.bfloat16, 2**-8), (torch.float16, 2**-11)]
)
@pytest.mark.parametrize("parent", [regular(8, 2), star(64), random_parents(90, 3)])
@pytest.mark.parametrize(
    "form",
    [
        {"backend": "torch"},
        {"backend": "cpp"},
        {"backend": "torch", "self_attention": False},
        {"backend": "cpp", "self_attention": False},
        {"tie_queries": False},
    ],
)
def test_gradients_round_no_more_than_their_dtype(dtype, rtol, parent, form):
    """Values far from 0: what leaves differ in is little beside their mean."""
    hierarchy = SignalHierarchy.from_parents(parent)
    q, k, v = inputs(hierarchy, 2, 16, 16)
    short = [x.to(dtype) for x in (q, k, v + 5)]
    towards = torch.randn(v.shape).to(dtype)

    def gradients(tensors, **form):
        held = [x.detach().requires_grad_() for x in tensors]
        y = hierarchical_attention(*held, hierarchy, **form)
        return torch.autograd.grad(y, held, towards.to(y.dtype))

    found = gradients(short, **form)
    exact = gradients([x.double() for x in short], **{**form, "backend": "reference"})
    for actual, expected in zip(found, exact, strict=True):
        assert actual.dtype == dtype
        assert float((actual - expected).norm() / expected.norm()) < rtol


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_large_scores_in_half_precision_do_not_overflow(dtype):
    """q.k beyond 65504, and sums over leaves that half precision could not hold."""
    hierarchy = SignalHierarchy.from_parents(regular(16, 3))
    q, k, v = (x.to(dtype) for x in inputs(hierarchy, 1, 16, 4))
    y, phi = hierarchical_attention(200 * q, 200 * k, v, hierarchy, return_energy=True)
    assert y.isfinite().all()
    assert phi.isfinite().all()
    assert float(phi.abs().max()) > 65504
    assert float(y.abs().max()) <= float(v.abs().max())


@pytest.mark.parametrize("backend", ["torch", "reference"])
def test_a_family_of_five_thousand_equal_scores_sums_to_one(backend):
    """bf16 running sums stall at 256; sums here are float32."""
    leaves = 5000 if backend == "torch" else 300
    hierarchy = SignalHierarchy.from_parents(star(leaves))
    zero = torch.zeros(leaves, 1, 4, dtype=torch.bfloat16)
    one = torch.ones(leaves, 1, 1, dtype=torch.bfloat16)
    y = hierarchical_attention(zero, zero, one, hierarchy, backend=backend)
    assert torch.equal(y, one)


@pytest.mark.parametrize("backend", ["torch", "reference"])
def test_sums_over_five_thousand_leaves_below_siblings_do_not_stall(backend):
    """The same through means and log counts: blocks of 5,000, 2 and 1 leaves."""
    parent = torch.tensor([-1, 0, 0, 0] + [1] * 5000 + [2] * 2)
    if backend == "reference":
        parent = torch.tensor([-1, 0, 0, 0] + [1] * 300 + [2] * 2)
    hierarchy = SignalHierarchy.from_parents(parent)
    zero = torch.zeros(hierarchy.num_leaves, 1, 4, dtype=torch.bfloat16)
    one = torch.ones(hierarchy.num_leaves, 1, 1, dtype=torch.bfloat16)
    y = hierarchical_attention(zero, zero, one, hierarchy, backend=backend)
    assert torch.equal(y, one)


@pytest.mark.parametrize("backend", ["torch", "reference"])
@pytest.mark.parametrize("self_attention", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sign", ["+", "-", "both"])
def test_no_nan_at_scores_of_ten_thousand(sign, dtype, self_attention, backend):
    hierarchy = SignalHierarchy.from_parents(MIXED)
    q, k, v, position = tensors_for(hierarchy, 2, 4, 3, "per head")
    q, k = q.sign() * 100, q.sign() * 100  # q.k = +-4e4 before the scale of 1/2
    if sign == "-":
        k = -k
    if sign == "both":
        k = torch.where(torch.arange(k.size(0))[:, None, None] % 2 == 0, k, -k)
    tensors = [x.to(dtype) for x in (q, k, v, position)]
    for x in results(
        hierarchy, tensors, self_attention=self_attention, backend=backend
    ):
        assert x.isfinite().all()


@pytest.mark.parametrize("kind", ["leaf-only", "mixed"])
def test_padded_members_of_a_family_do_not_overflow(kind):
    """A padded query repeats a member, and sees that member's own, large column."""
    parent = torch.tensor([-1, 0, 0] + [1] * 5 + [2] * 4)
    if kind == "mixed":
        parent = torch.cat([parent, torch.arange(3, 12).repeat_interleave(2)])
    hierarchy = SignalHierarchy.from_parents(parent)
    assert bool(hierarchy.layout.buckets[:, -1].any())  # 4 padded to 5
    q, _, v = inputs(hierarchy, 1, 4, 3)
    own = torch.eye(hierarchy.num_leaves)[:, None].double()
    q = 1000 * (own if kind == "leaf-only" else own[:, :, ::2] + own[:, :, 1::2])
    keywords = {"self_attention": kind == "mixed"}
    actual = results(hierarchy, [q, q, v], **keywords)
    expected = results(hierarchy, [q, q, v], backend="reference", **keywords)
    assert differences(actual, expected, 1e-10) == []


@pytest.mark.parametrize("self_attention", [True, False])
def test_no_nan_where_keys_are_duplicated_or_zero(self_attention):
    hierarchy = SignalHierarchy.from_parents(caterpillar(30))
    q, k, v = inputs(hierarchy)
    for q_used, k_used in ((q, k[:1].expand_as(k)), (0 * q, 0 * k), (q, 0 * k)):
        tensors = [q_used, k_used, v]
        actual = results(hierarchy, tensors, self_attention=self_attention)
        expected = results(
            hierarchy, tensors, self_attention=self_attention, backend="reference"
        )
        assert differences(actual, expected, 1e-10) == []


@pytest.mark.parametrize("offset", [50.0, -50.0, 1e4, -1e4])
def test_large_scores_in_one_family_change_no_bit_of_others(offset):
    """Its scores are lifted for all; families of other trees do not notice."""
    hierarchy = SignalHierarchy.from_parents(MIXED)
    tensors = tensors_for(hierarchy, 2, 4, 3)
    calm = results(hierarchy, tensors)
    lifted = [x.clone() for x in tensors]
    family = hierarchy.parent[hierarchy.leaves] == 12
    lifted[0][family] = offset
    lifted[1][family] = 1.0
    loud = results(hierarchy, lifted)
    other_nodes = hierarchy.parent != 12
    other_nodes[12] = False
    assert torch.equal(loud[1][other_nodes], calm[1][other_nodes])
    for a, b in zip(calm[:1] + calm[2:], loud[:1] + loud[2:], strict=True):
        assert torch.equal(a[~family], b[~family])
        assert b.isfinite().all()


def strided(x, how):
    """The same numbers, laid out otherwise."""
    if how == "channels first":
        return x.permute(2, 1, 0).contiguous().permute(2, 1, 0)
    if how == "heads first":
        return x.transpose(0, 1).contiguous().transpose(0, 1)
    if how == "part of a fused projection":
        wide = torch.cat([x.new_full(x.shape, float("nan")), x], -1)
        return wide[..., x.size(2) :]
    apart = x.new_full((x.size(0), x.size(1), 7 * x.size(2)), float("nan"))
    apart[..., ::7] = x
    return apart[..., ::7]


@pytest.mark.parametrize(
    "how",
    ["channels first", "heads first", "part of a fused projection", "every seventh"],
)
def test_inputs_that_are_not_contiguous(how):
    hierarchy = SignalHierarchy.from_parents(MIXED)
    tensors = tensors_for(hierarchy, 2, 4, 3, "per head")
    odd = [strided(x, how) for x in tensors]
    assert not any(x.is_contiguous() for x in odd)
    assert differences(results(hierarchy, odd), results(hierarchy, tensors), 0) == []


@pytest.mark.parametrize(
    "how", ["expanded", "channels first", "heads first", "every seventh"]
)
def test_a_gradient_of_the_output_that_is_not_contiguous(how):
    hierarchy = SignalHierarchy.from_parents(MIXED)
    q, k, v = (x.requires_grad_() for x in inputs(hierarchy, 2, 4, 3))
    y = hierarchical_attention(q, k, v, hierarchy)
    given = torch.randn_like(y)
    if how == "expanded":
        given = given[:1, :1, :1].expand_as(y)
    odd = given if how == "expanded" else strided(given, how)
    assert not odd.is_contiguous()
    actual = torch.autograd.grad(y, (q, k, v), odd, retain_graph=True)
    expected = torch.autograd.grad(y, (q, k, v), given.contiguous())
    for a, b in zip(actual, expected, strict=True):
        assert torch.equal(a, b)


def test_offsets_past_two_to_the_thirty_first():
    """Rows 2^30 apart in memory that is reserved and, but for the rows, not touched."""
    hierarchy = SignalHierarchy.from_parents(torch.tensor([-1, 0, 0, 1, 1]))
    torch.utils.deterministic.fill_uninitialized_memory = False
    far = torch.empty(2**31 + 8, dtype=torch.bfloat16)
    torch.utils.deterministic.fill_uninitialized_memory = True
    near = [x.to(far.dtype) for x in inputs(hierarchy, 1, 4, 4)]
    q = far.as_strided((3, 1, 4), (2**30, 4, 1))
    q.copy_(near[0])
    actual = results(hierarchy, [q, *near[1:]])
    expected = results(hierarchy, near)
    assert differences(actual, expected, 0) == []


@pytest.mark.parametrize("self_attention", [True, False])
def test_deterministic_algorithms(self_attention):
    """Nothing in the passes lacks a deterministic form, and runs agree in every bit."""
    torch.use_deterministic_algorithms(True)
    hierarchy = SignalHierarchy.from_parents(random_parents(300, seed=1, reach=40))
    tensors = tensors_for(hierarchy, 2, 4, 3, "shared")
    keywords = {"self_attention": self_attention}
    once, again = (results(hierarchy, tensors, **keywords) for _ in range(2))
    assert differences(once, again, 0) == []
