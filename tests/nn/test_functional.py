"""The public function: what it takes, what it refuses, and batches of odd trees."""

import pytest
import torch

from hsa_pyg import NestedSignal, SignalHierarchy, hierarchical_attention
from tests.differentiation import differences, results, tensors_for
from tests.forests import close, inputs, random_parents, side_by_side, star

UNEVEN = torch.tensor([-1, 0, 0, 0, 1, 1, 1, 2, 2, 6, 6, -1])


@pytest.fixture
def hierarchy():
    return SignalHierarchy.from_parents(UNEVEN)


@pytest.fixture
def tensors(hierarchy):
    return inputs(hierarchy)


def test_scale_is_one_over_the_root_of_the_width(hierarchy, tensors):
    y = hierarchical_attention(*tensors, hierarchy)
    width = tensors[0].size(2)
    assert close(y, hierarchical_attention(*tensors, hierarchy, scale=width**-0.5))
    stretched = hierarchical_attention(3 * tensors[0], *tensors[1:], hierarchy)
    assert close(stretched, hierarchical_attention(*tensors, hierarchy, scale=3**0.5))


def test_a_position_for_all_heads_is_the_same_for_each(hierarchy, tensors):
    position = torch.randn(hierarchy.num_nodes, 4, dtype=torch.float64)
    y = hierarchical_attention(*tensors, hierarchy, position=position)
    for given in (position[:, None], position[:, None].expand(-1, 2, -1)):
        assert close(hierarchical_attention(*tensors, hierarchy, position=given), y)


def test_energy_is_for_every_node_and_zero_where_there_is_no_leaf():
    parent = torch.tensor([-1, 0, 0, 0, 2, 3])
    mask = torch.tensor([False, True, False, False, True, False])
    hierarchy = SignalHierarchy.from_parents(parent, mask)
    q, k, v = inputs(hierarchy)
    _, phi = hierarchical_attention(q, k, v, hierarchy, return_energy=True)
    assert phi.shape == (6, 2)
    assert not phi[[3, 5]].any()
    own = -(q * k).sum(-1) * 3**-0.5
    assert close(phi[[1, 4]], own)
    assert torch.equal(phi[2], phi[4])  # one child: the child's
    _, phi = hierarchical_attention(
        q, k, v, hierarchy, return_energy=True, self_attention=False
    )
    assert phi[[1, 2, 4]].isposinf().all()
    assert phi[0].isfinite().all()


@pytest.mark.parametrize("backend", ["torch", "cpp", "reference"])
def test_a_leaf_with_nothing_to_see_gives_exact_zeros(backend):
    """One-leaf trees at the start, between others and at the end, self_attention=False.

    Values and all gradients are 0, those of its neighbours what they are without it.
    """
    tree = torch.tensor([-1, 0, 0, 1, 1])
    lonely = torch.tensor([-1])
    chain = torch.tensor([-1, 0, 1])
    parent, _ = side_by_side(lonely, tree, chain, tree, lonely)
    hierarchy = SignalHierarchy.from_parents(parent)
    rows = torch.bincount(hierarchy.leaf_tree)[hierarchy.leaf_tree] == 1
    assert rows.tolist() == [True, *[False] * 3, True, *[False] * 3, True]
    tensors = inputs(hierarchy)
    keywords = {"self_attention": False, "backend": backend}
    y, _, *grads = results(hierarchy, tensors, **keywords)
    for x in (y, *grads):
        assert not x[rows].any()
        assert x[~rows].any()
    alone = SignalHierarchy.from_parents(tree)
    z = hierarchical_attention(*(x[1:4] for x in tensors), alone, **keywords)
    assert close(y[1:4], z, 1e-13)


@pytest.mark.parametrize("self_attention", [True, False])
def test_empty_nodes_change_nothing_wherever_they_stand(self_attention):
    """Empty siblings between others, at the end, deep below, and as whole trees."""
    plain = SignalHierarchy.from_parents(torch.tensor([-1, 0, 0, 1, 1, 2, 2, 2]))
    parent = torch.tensor([-1, 0, 0, 1, 1, 2, 2, 2, 0, 1, 9, 2, -1, 12, 8, -1])
    mask = torch.zeros(16, dtype=torch.bool)
    mask[3:8] = True
    padded = SignalHierarchy.from_parents(parent, mask)
    tensors = tensors_for(padded, 2, 3, 2, "shared")
    keywords = {"self_attention": self_attention}
    actual = results(padded, tensors, **keywords)
    expected = results(plain, [*tensors[:3], tensors[3][:8]], **keywords)
    assert not actual[5][8:].any()
    actual[1], actual[5] = actual[1][:8], actual[5][:8]
    # Energies have random cotangents of their own, drawn in another shape.
    assert differences(actual[:2], expected[:2], 1e-13) == []


@pytest.mark.parametrize("self_attention", [True, False])
@pytest.mark.parametrize("backend", ["torch", "cpp", "reference"])
@pytest.mark.parametrize("nodes", [0, 3])
def test_no_leaf_anywhere(nodes, backend, self_attention):
    parent = torch.tensor([-1, 0, -1][:nodes], dtype=torch.long)
    mask = torch.zeros(nodes, dtype=torch.bool)
    hierarchy = SignalHierarchy.from_parents(parent, mask)
    tensors = inputs(hierarchy)
    keywords = {"self_attention": self_attention, "backend": backend}
    y, phi = hierarchical_attention(*tensors, hierarchy, return_energy=True, **keywords)
    assert y.shape == (0, 2, 2)
    assert torch.equal(phi, torch.zeros(nodes, 2, dtype=phi.dtype))
    if backend != "reference":  # the reference has no leaf to hang a graph on
        _, _, *grads = results(hierarchy, tensors, **keywords)
        assert [grad.shape for grad in grads] == [x.shape for x in tensors]


def test_sixty_four_trees_of_every_shape_in_one_pass():
    """What each has alone, whatever stands beside it and in whichever order."""
    parents = [
        random_parents(5 + 3 * i, i, reach=(None, 2, 9)[i % 3]) for i in range(64)
    ]
    joined, starts = side_by_side(*parents)
    batch = SignalHierarchy.from_parents(joined)
    tensors = inputs(batch)
    y = hierarchical_attention(*tensors, batch)
    for parent, start in zip(parents, starts, strict=True):
        rows = (batch.leaves >= start) & (batch.leaves < start + parent.numel())
        own = [x[rows] for x in tensors]
        alone = SignalHierarchy.from_parents(parent)
        assert close(y[rows], hierarchical_attention(*own, alone), 1e-13)


def test_five_leaves_alone_and_beside_forty():
    """Where other layers mix the graphs of a batch, no bit may pass between them."""
    batch = SignalHierarchy.from_parents(side_by_side(star(5), star(40))[0])
    tensors = inputs(batch)
    y = hierarchical_attention(*tensors, batch)
    small = SignalHierarchy.from_parents(star(5))
    alone = hierarchical_attention(*(x[:5] for x in tensors), small)
    assert close(y[:5], alone, 1e-13)
    turned = SignalHierarchy.from_parents(side_by_side(star(40), star(5))[0])
    order = torch.cat([torch.arange(5, 45), torch.arange(5)])
    z = hierarchical_attention(*(x[order] for x in tensors), turned)
    assert close(z[40:], alone, 1e-13)
    louder = [torch.cat([x[:5], 100 * x[5:] - 3]) for x in tensors]
    assert torch.equal(hierarchical_attention(*louder, batch)[:5], y[:5])


@pytest.mark.parametrize("leaves", [1, 2, 3, 31, 33, 100, 127, 129])
def test_any_number_of_leaves_is_softmax_if_one_family_covers_all(leaves):
    hierarchy = SignalHierarchy.from_parents(star(leaves))
    q, k, v = (x.float() for x in inputs(hierarchy, 2, 8, 8))
    y = hierarchical_attention(q, k, v, hierarchy)
    expected = torch.nn.functional.scaled_dot_product_attention(
        *(x.transpose(0, 1) for x in (q, k, v))
    )
    torch.testing.assert_close(y, expected.transpose(0, 1), rtol=1e-5, atol=1e-6)


def test_arguments_are_not_changed(hierarchy, tensors):
    before = [x.clone() for x in tensors]
    layout = [x.clone() for x in vars(hierarchy.layout).values()]
    results(hierarchy, tensors)
    for x, old in zip(tensors, before, strict=True):
        assert torch.equal(x, old)
    for x, old in zip(vars(hierarchy.layout).values(), layout, strict=True):
        assert torch.equal(x, old)


SHORT, ZERO = slice(0, 3), slice(0, 0)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            lambda q, k, v: (q[SHORT], k, v),
            ValueError,
            r"q has 3 rows, but the hierarchy has 8 leaves; give one row per leaf",
        ),
        (lambda q, k, v: (q, k, v[SHORT]), ValueError, "v has 3 rows.* 8 leaves"),
        (lambda q, k, v: (q, k[SHORT], v), ValueError, "k has 3 rows.* 8 leaves"),
        (
            lambda q, k, v: (q, k[..., :2], v),
            ValueError,
            r"q \(8, 2, 3\) and k \(8, 2, 2\) must have the same shape",
        ),
        (
            lambda q, k, v: (q, k, v[:, :1]),
            ValueError,
            r"v \(8, 1, 2\) must have as many heads as q \(8, 2, 3\)",
        ),
        (
            lambda q, k, v: (q[:, 0], k[:, 0], v[:, 0]),
            ValueError,
            r"q must have shape \[num_leaves, heads, channels\], got \(8, 3\)",
        ),
        (
            lambda q, k, v: (q[..., ZERO], k[..., ZERO], v),
            ValueError,
            r"q \(8, 2, 0\) must have at least one head and one channel",
        ),
        (
            lambda q, k, v: (q, k, v[..., ZERO]),
            ValueError,
            r"v \(8, 2, 0\) must have at least one head and one channel",
        ),
        (
            lambda q, k, v: (q.float(), k, v),
            TypeError,
            r"q \(torch.float32\), k \(torch.float64\) .* \.to\(dtype\) or .*autocast",
        ),
        (lambda q, k, v: (q, k, v.half()), TypeError, r"v \(torch.float16\) must have"),
        (
            lambda q, k, v: (q.long(), k, v),
            TypeError,
            "q must hold floating point numbers, got torch.int64",
        ),
        (lambda q, k, v: (q.tolist(), k, v), TypeError, "q must be a tensor, got list"),
        (
            lambda q, k, v: (q, k.to("meta"), v),
            ValueError,
            r"k is on meta, but the hierarchy is on cpu; move one of them with \.to",
        ),
    ],
)
def test_tensors_that_do_not_fit(change, error, message, hierarchy, tensors):
    with pytest.raises(error, match=message):
        hierarchical_attention(*change(*tensors), hierarchy)


@pytest.mark.parametrize(
    ("keywords", "error", "message"),
    [
        ({"dropout": 1.5}, ValueError, "dropout must lie between 0 and 1, got 1.5"),
        ({"dropout": -0.1}, ValueError, "between 0 and 1, got -0.1"),
        ({"dropout": float("nan")}, ValueError, "between 0 and 1, got nan"),
        ({"dropout": True}, TypeError, "dropout must be a number, got True"),
        ({"dropout": None}, TypeError, "dropout must be a number, got None"),
        ({"scale": "big"}, TypeError, "scale must be a number, got 'big'"),
        (
            {"scale": torch.nn.Parameter(torch.tensor(0.5))},
            TypeError,
            r"got a tensor of shape \(\); .*pass q \* scale and scale=1.0",
        ),
        ({"backend": "numpy"}, ValueError, "'numpy' is unknown; choose one of 'auto'"),
        ({"top_k": 0}, ValueError, r"top_k must be at least 1, got 0"),
        ({"causal": "yes"}, TypeError, "causal must be True or False"),
        ({"tie_queries": 0}, TypeError, "tie_queries must be True or False"),
        (
            {"causal": True, "top_k": 2},
            NotImplementedError,
            "top_k is not available with causal=True; leave one of them out",
        ),
        (
            {"tie_queries": False, "top_k": 2},
            NotImplementedError,
            "top_k is not available with tie_queries=False",
        ),
        (
            {"tie_queries": False, "backend": "cpp"},
            NotImplementedError,
            "'cpp' has no tie_queries=False",
        ),
        (
            {"position": torch.zeros(8, 4)},
            ValueError,
            r"\[12, P\] or .* = \[12, 2, P\], got \(8, 4\)$",
        ),
        (
            {"position": torch.zeros(12, 3, 4)},
            ValueError,
            r"\[12, 2, P\], got \(12, 3, 4\)$",
        ),
        ({"position": torch.zeros(12)}, ValueError, r"got \(12,\)$"),
        ({"position": [0.0] * 12}, TypeError, "position must be a tensor, got list"),
        (
            {"position": torch.zeros(12, 4).long()},
            TypeError,
            "position must hold floating point numbers, got torch.int64",
        ),
        (
            {"position": torch.zeros(12, 4, device="meta")},
            ValueError,
            r"position is on meta, but q is on cpu; move it",
        ),
    ],
)
def test_keywords_that_do_not_fit(keywords, error, message, hierarchy, tensors):
    with pytest.raises(error, match=message):
        hierarchical_attention(*tensors, hierarchy, **keywords)


def test_a_parent_vector_is_no_hierarchy(tensors):
    with pytest.raises(TypeError, match=r"got Tensor; build one by .*from_parents"):
        hierarchical_attention(*tensors, UNEVEN)


@pytest.mark.parametrize("backend", ["torch", "cpp", "reference"])
@pytest.mark.parametrize("width", [0, 3])
def test_positions_that_say_nothing(width, backend, hierarchy, tensors):
    plain = hierarchical_attention(*tensors, hierarchy, backend=backend)
    none = torch.zeros(hierarchy.num_nodes, width, dtype=torch.float64)
    y = hierarchical_attention(*tensors, hierarchy, position=none, backend=backend)
    assert torch.equal(y, plain)


def test_positions_of_another_dtype_do_not_change_that_of_the_output(hierarchy):
    q, k, v, position = tensors_for(hierarchy, 2, 3, 2, "shared")
    held = [x.bfloat16().requires_grad_() for x in (q, k, v)]
    position = position.float().requires_grad_()
    y = hierarchical_attention(*held, hierarchy, position=position)
    y.sum().backward()
    assert y.dtype == torch.bfloat16
    assert position.grad.dtype == torch.float32
    expected = hierarchical_attention(
        *(x.detach().double() for x in held), hierarchy, position=position.double()
    )
    assert close(y.detach().double(), expected.detach(), 2**-8)


def test_a_signal_in_place_of_its_hierarchy_is_told_apart():
    x = torch.randn(3, 1, 4)
    with pytest.raises(TypeError, match=r"got NestedSignal; pass its \.hierarchy"):
        hierarchical_attention(x, x, x, NestedSignal())
    with pytest.raises(TypeError, match=r"got list; build one by .*from_parents"):
        hierarchical_attention(x, x, x, [-1, 0, 0])
