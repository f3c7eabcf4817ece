"""Rounding, overflow, threads, strides: the C++ backend under stress."""

import pytest
import torch

from hsa_pyg import SignalHierarchy, hierarchical_attention
from tests.differentiation import differences, results, tensors_for
from tests.forests import inputs, random_parents, regular, side_by_side, star

MIXED = torch.tensor([-1, 0, 0, 0, 1, 1, 1, 2, 2, 6, 6, -1, -1, 12, 12, 12])


@pytest.mark.parametrize(
    ("dtype", "rtol"),
    [(torch.float32, 1e-5), (torch.bfloat16, 2e-2), (torch.float16, 2e-3)],
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
        keywords = {"self_attention": self_attention, "backend": "cpp"}
        actual = results(hierarchy, short, **keywords)
        expected = results(hierarchy, wide, **keywords)
        assert actual[0].dtype == actual[2].dtype == dtype
        assert actual[1].dtype == torch.float32
        assert differences(actual, expected, rtol) == []


def test_half_precision_is_read_and_rounded_as_torch_does():
    """Every float16 and bfloat16, through trees of one leaf and a family of two."""
    bits = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
    for dtype in (torch.float16, torch.bfloat16):
        v = bits.view(dtype)
        v = v[v.isfinite()].view(-1, 1, 1)
        alone = SignalHierarchy.from_parents(torch.full((v.size(0),), -1))
        zero = torch.zeros_like(v)
        assert torch.equal(
            hierarchical_attention(zero, zero, v, alone, backend="cpp"), v
        )
    pairs = torch.arange(200).repeat_interleave(2)
    pairs = SignalHierarchy.from_parents(torch.cat([torch.full((200,), -1), pairs]))
    for dtype in (torch.float16, torch.bfloat16):
        v = torch.randn(400, 1, 1).mul(10 ** torch.linspace(-9, 4, 400)[:, None, None])
        v = v.to(dtype)
        zero = torch.zeros_like(v)
        y = hierarchical_attention(zero, zero, v, pairs, backend="cpp")
        mean = v.float().view(200, 2).mean(1).to(dtype)
        assert torch.equal(y.view(200, 2), mean[:, None].expand(-1, 2))


def test_positions_of_another_dtype():
    hierarchy = SignalHierarchy.from_parents(MIXED)
    q, k, v, position = tensors_for(hierarchy, 2, 4, 3, "per head")
    unlike = [q.bfloat16(), k.bfloat16(), v.bfloat16(), position]
    actual = results(hierarchy, unlike, backend="cpp")
    expected = results(hierarchy, unlike, backend="torch")
    assert [x.dtype for x in actual] == [x.dtype for x in expected]
    assert differences(actual, expected, 1e-2) == []


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_large_scores_in_half_precision_do_not_overflow(dtype):
    """q.k beyond 65504, and sums over leaves that half precision could not hold."""
    hierarchy = SignalHierarchy.from_parents(regular(16, 3))
    q, k, v = (x.to(dtype) for x in inputs(hierarchy, 1, 16, 4))
    y, phi = hierarchical_attention(
        200 * q, 200 * k, v, hierarchy, return_energy=True, backend="cpp"
    )
    assert y.isfinite().all()
    assert phi.isfinite().all()
    assert float(phi.abs().max()) > 65504
    assert float(y.abs().max()) <= float(v.abs().max())


@pytest.mark.parametrize("parent", [star(5000), [-1, 0, 0, 0, *[1] * 5000, 2, 2]])
def test_sums_over_five_thousand_leaves_do_not_stall(parent):
    """bf16 running sums stall at 256; sums here are float32."""
    hierarchy = SignalHierarchy.from_parents(torch.as_tensor(parent))
    zero = torch.zeros(hierarchy.num_leaves, 1, 4, dtype=torch.bfloat16)
    one = torch.ones(hierarchy.num_leaves, 1, 1, dtype=torch.bfloat16)
    y = hierarchical_attention(zero, zero, one, hierarchy, backend="cpp")
    assert torch.equal(y, one)


@pytest.mark.parametrize("self_attention", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sign", ["+", "-", "both"])
def test_no_nan_at_scores_of_ten_thousand(sign, dtype, self_attention):
    hierarchy = SignalHierarchy.from_parents(MIXED)
    q, k, v, position = tensors_for(hierarchy, 2, 4, 3, "per head")
    q, k = q.sign() * 100, q.sign() * 100  # q.k = +-4e4 before the scale of 1/2
    if sign == "-":
        k = -k
    if sign == "both":
        k = torch.where(torch.arange(k.size(0))[:, None, None] % 2 == 0, k, -k)
    tensors = [x.to(dtype) for x in (q, k, v, position)]
    keywords = {"self_attention": self_attention}
    actual = results(hierarchy, tensors, backend="cpp", **keywords)
    expected = results(hierarchy, tensors, backend="torch", **keywords)
    assert all(x.isfinite().all() for x in actual)
    # A score of 4e4 in float32 is off by 2e-3.
    rtol = 1e-10 if dtype == torch.float64 else 2e-2
    assert differences(actual, expected, rtol) == []


@pytest.mark.parametrize("size", [1e-30, 1e-3, 1.0, 20.0, 80.0])
def test_exponentials_and_logarithms_over_their_whole_range(size):
    """One family of scores of some size, in float32 against float64."""
    hierarchy = SignalHierarchy.from_parents(star(60))
    q, k, v = inputs(hierarchy, 2, 1, 3)
    tensors = [x.float() for x in (size * q, k, v)]
    actual = results(hierarchy, tensors, backend="cpp")
    wide = [x.double() for x in tensors]
    expected = results(hierarchy, wide, backend="torch")
    assert differences(actual[:2], expected, 1e-6) == []
    assert differences(actual, expected, 1e-5) == []


@pytest.mark.parametrize("offset", [50.0, -50.0, 1e4, -1e4, float("nan")])
def test_one_family_changes_no_bit_of_others(offset):
    """Its scores are lifted for all; families of other trees do not notice."""
    hierarchy = SignalHierarchy.from_parents(MIXED)
    tensors = tensors_for(hierarchy, 2, 4, 3)
    calm = results(hierarchy, tensors, backend="cpp")
    lifted = [x.clone() for x in tensors]
    family = hierarchy.parent[hierarchy.leaves] == 12
    lifted[0][family] = offset
    lifted[1][family] = 1.0
    loud = results(hierarchy, lifted, backend="cpp")
    for a, b in zip(calm[:1] + calm[2:], loud[:1] + loud[2:], strict=True):
        assert torch.equal(a[~family], b[~family])


@pytest.mark.parametrize("keywords", [{}, {"top_k": 3}, {"self_attention": False}])
def test_the_number_of_threads_changes_no_bit(keywords):
    parent = side_by_side(random_parents(900, 1, reach=40), star(300), regular(4, 4))[0]
    hierarchy = SignalHierarchy.from_parents(parent)
    tensors = [x.float() for x in tensors_for(hierarchy, 2, 16, 16, "shared")]
    before = torch.get_num_threads()
    found = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        found.append(results(hierarchy, tensors, backend="cpp", **keywords))
    torch.set_num_threads(before)
    assert differences(found[0], found[1], 0) == []
    assert differences(found[0], found[2], 0) == []


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
    actual = results(hierarchy, odd, backend="cpp")
    assert differences(actual, results(hierarchy, tensors, backend="cpp"), 0) == []


@pytest.mark.parametrize(
    "how", ["expanded", "channels first", "heads first", "every seventh"]
)
def test_a_gradient_of_the_output_that_is_not_contiguous(how):
    hierarchy = SignalHierarchy.from_parents(MIXED)
    q, k, v = (x.requires_grad_() for x in inputs(hierarchy, 2, 4, 3))
    y = hierarchical_attention(q, k, v, hierarchy, backend="cpp")
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
    actual = results(hierarchy, [q, *near[1:]], backend="cpp")
    expected = results(hierarchy, near, backend="cpp")
    assert differences(actual, expected, 0) == []


@pytest.mark.parametrize("parent", [[], [-1, -1], [-1, 0, 0]])
def test_no_leaves(parent):
    """No trees, and trees of empty nodes alone."""
    parent = torch.tensor(parent, dtype=torch.long)
    is_leaf = torch.zeros(parent.numel(), dtype=torch.bool)
    hierarchy = SignalHierarchy.from_parents(parent, is_leaf)
    tensors = [torch.zeros(0, 2, 3), torch.zeros(0, 2, 3), torch.zeros(0, 2, 4)]
    y, phi, *grads = results(hierarchy, tensors, backend="cpp")
    assert y.shape == (0, 2, 4)
    assert phi.shape == (parent.numel(), 2)
    assert not phi.any()
    assert [x.shape for x in grads] == [x.shape for x in tensors]
