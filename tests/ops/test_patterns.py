"""Fixed patterns: what is seen, and what is true of attention to what is seen."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hsa_pyg import SignalHierarchy, banded, blocklocal, hierarchical_attention
from hsa_pyg.analysis import attention_matrix
from hsa_pyg.ops.patterns import describe, make_pattern
from tests.dense_theta import Blocks, dot_scores, leaf_scores, measured_theta
from tests.differentiation import differences, results, tensors_for
from tests.divergence import Problem
from tests.forests import close, forests, inputs, positions, star

seeds = st.integers(0, 1000)
PATTERNS = [
    banded(1),
    banded(2),
    banded(3),
    banded(5, num_global=1),
    banded(4, num_global=3),
    blocklocal(1),
    blocklocal(2),
    blocklocal(3),
    blocklocal(2, num_global=1),
    blocklocal(3, num_global=3),
]
patterns = pytest.mark.parametrize("pattern", PATTERNS, ids=repr)
# A chain, leaves beside sections, two trees, families of unlike sizes; in the first
# family blocks of one hold a section, a chain and a leaf.
MIXED = torch.tensor([-1, 0, 0, 0, 1, 1, 1, 2, 2, 6, 6, 3, -1, 12, 12, 12, 12, 0])


def seen_in_the_paper(pattern, size):
    """The masks by the paper's words: [size, size]."""
    width, inner = pattern.width, max(size - pattern.num_global, 0)
    seen = np.zeros((size, size), dtype=bool)
    seen[inner:, :] = True  # global members attend to all,
    seen[:, inner:] = True  # and all to them
    if "Block" in type(pattern).__name__:
        for block in np.split(np.arange(inner), range(width, inner, width)):
            seen[np.ix_(block, block)] = True
        return seen
    for query in range(inner):
        windows = [range(i, min(i + width, inner)) for i in range(inner)]
        full = [w for w in windows if len(w) == min(width, inner)]
        # The window in which as many keys come before the query as half of the others.
        best = min(full, key=lambda w: abs(query - w.start - (width - 1) // 2))
        seen[query, best] = True
    return seen


def with_seen(hierarchy, pattern):
    """Which siblings see which by the paper's masks: [M, M] of node ids."""
    blocks = Blocks(hierarchy)
    seen = torch.zeros_like(blocks.siblings)
    for parent in set(blocks.parent) - {-1}:
        family = [
            node
            for node, above in enumerate(blocks.parent)
            if above == parent and blocks.count[node] > 0
        ]
        mask = torch.from_numpy(seen_in_the_paper(pattern, len(family)))
        for b, row in zip(family, mask, strict=True):
            seen[b, torch.tensor(family)[row]] = True
    return blocks.siblings & seen


def test_windows_and_blocks_by_hand():
    def rows(pattern, size):
        return [pattern.visible(place, size) for place in range(size)]

    assert rows(banded(3), 5) == [[0, 1, 2], [0, 1, 2], [1, 2, 3], [2, 3, 4], [2, 3, 4]]
    assert rows(banded(4), 5) == [[0, 1, 2, 3]] * 2 + [[1, 2, 3, 4]] * 3
    assert rows(banded(7), 3) == [[0, 1, 2]] * 3
    assert rows(blocklocal(2), 5) == [[0, 1], [0, 1], [2, 3], [2, 3], [4]]
    assert rows(blocklocal(2, 1), 4) == [[0, 1, 3], [0, 1, 3], [2, 3], [0, 1, 2, 3]]
    assert rows(banded(1, 3), 2) == [[0, 1], [0, 1]]


@given(st.sampled_from(["banded", "blocklocal"]), st.integers(1, 9), st.integers(0, 4))
def test_both_forms_of_a_pattern_are_the_papers_masks(kind, width, num_global):
    pattern = make_pattern(kind, width, num_global)
    assert make_pattern(**describe(pattern)) == pattern
    assert make_pattern(**describe(None)) is None
    for size in range(1, 20):
        expected = seen_in_the_paper(pattern, size)
        place = torch.arange(size)
        mask = pattern.mask(place[:, None], place, torch.tensor(size))
        assert (mask.numpy() == expected).all()
        visible = [pattern.visible(i, size) for i in range(size)]
        assert visible == [np.flatnonzero(row).tolist() for row in expected]


@patterns
@settings(max_examples=30)
@given(forests(max_nodes=20), seeds, st.booleans())
def test_the_backends_agree(pattern, hierarchy, seed, self_attention):
    self_attention |= not pattern.leaves_none_alone
    tensors = tensors_for(hierarchy, 2, 3, 4, "per head", seed=seed)
    form = {"pattern": pattern, "self_attention": self_attention}
    expected = results(hierarchy, tensors, backend="reference", **form)
    actual = results(hierarchy, tensors, backend="torch", **form)
    assert differences(actual, expected, 1e-10) == []


@patterns
@settings(max_examples=20)
@given(forests(), seeds)
def test_the_matrix_is_the_one_that_is_applied(pattern, hierarchy, seed):
    q, k, _ = inputs(hierarchy, seed=seed)
    form = {"position": positions(hierarchy, 2, seed=seed), "pattern": pattern}
    theta = attention_matrix(q, k, hierarchy, **form)
    assert close(theta, measured_theta(q, k, hierarchy, **form))
    assert close(theta.sum(-1), torch.ones_like(theta[..., 0]))
    blocks = Blocks(hierarchy)
    seen = blocks.expand(with_seen(hierarchy, pattern)[None].double())
    may = seen + torch.eye(hierarchy.num_leaves, dtype=torch.float64)
    assert ((theta > 0) == (may > 0)).all()


@patterns
@settings(max_examples=15)
@given(st.integers(2, 14), seeds)
def test_one_family_is_softmax_attention_under_the_papers_mask(pattern, leaves, seed):
    hierarchy = SignalHierarchy.from_parents(star(leaves))
    q, k, v = inputs(hierarchy, seed=seed)
    mask = torch.from_numpy(seen_in_the_paper(pattern, leaves))
    s = dot_scores(q, k, q.size(2) ** -0.5).masked_fill(~mask, float("-inf"))
    y, phi = hierarchical_attention(
        q, k, v, hierarchy, pattern=pattern, return_energy=True
    )
    assert close(y, torch.einsum("hij,jhd->ihd", s.softmax(-1), v))
    assert close(phi[0], -s.logsumexp(-1).mean(-1))


@pytest.mark.parametrize("lengths", [[7], [6, 1, 9], [2, 0, 5]])
@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_local_blocks_are_a_forest_with_a_tree_per_block(lengths, width):
    start = torch.arange(len(lengths))
    parent = torch.cat(
        [torch.full_like(start, -1), start.repeat_interleave(torch.tensor(lengths))]
    )
    is_leaf = torch.arange(parent.numel()) >= len(lengths)
    sequences = SignalHierarchy.from_parents(parent, is_leaf)
    forest = blocklocal(width).hierarchy(lengths)
    tensors = inputs(sequences)
    y = hierarchical_attention(*tensors, sequences, pattern=blocklocal(width))
    assert forest.num_nodes - forest.num_leaves == sum(-(-n // width) for n in lengths)
    assert close(hierarchical_attention(*tensors, forest), y)


def test_only_local_blocks_without_global_members_are_a_forest():
    with pytest.raises(ValueError, match="num_global=1 is no hierarchy"):
        blocklocal(3, num_global=1).hierarchy([4])
    with pytest.raises(ValueError, match="lengths must be at least 0"):
        blocklocal(3).hierarchy([4, -1])


@pytest.mark.parametrize("pattern", [banded(100), blocklocal(100), banded(1, 100)])
def test_families_that_fit_are_left_as_they_are(pattern):
    hierarchy = SignalHierarchy.from_parents(MIXED)
    tensors = tensors_for(hierarchy, 2, 3, 2, "shared")
    whole = results(hierarchy, tensors)
    masked = results(hierarchy, tensors, pattern=pattern)
    assert all(torch.equal(a, b) for a, b in zip(whole, masked, strict=True))


@patterns
@settings(max_examples=15)
@given(forests(max_nodes=16, trees=1), seeds, st.booleans())
def test_theta_is_optimal_on_what_is_seen(pattern, hierarchy, seed, self_attention):
    if hierarchy.num_leaves == 1:
        return
    self_attention |= not pattern.leaves_none_alone
    q, k, _ = inputs(hierarchy, heads=1, seed=seed)
    position = positions(hierarchy, 1, seed=seed)
    raw = dot_scores(q, k, q.size(2) ** -0.5)
    score = leaf_scores(Blocks(hierarchy), raw, position)[0]
    form = {"self_attention": self_attention, "pattern": pattern}
    theta = measured_theta(q, k, hierarchy, position=position, **form)[0].numpy()
    problem = Problem(hierarchy, score, self_attention)
    pairs = Blocks(hierarchy).siblings.nonzero().T
    free = np.ones(len(problem.block), dtype=bool)
    free[: pairs.size(1)] = with_seen(hierarchy, pattern)[tuple(pairs)].numpy()
    problem.block = problem.block[free]
    problem.rows = problem.block.sum(2).T
    x = problem.numbers_of(theta)
    assert np.abs(problem.theta(x) - theta).max() < 1e-12
    assert np.abs(problem.rows @ x - 1).max() < 1e-12
    assert problem.slope_left(theta) < 1e-10


def test_a_node_that_sees_no_sibling_gives_all_its_weight_inside():
    """The section is third of three in blocks of two: as if it were a tree."""
    hierarchy = SignalHierarchy.from_parents(torch.tensor([-1, 0, 0, 0, 3, 3, 3]))
    alone = SignalHierarchy.from_parents(star(3))
    form = {"pattern": blocklocal(2), "return_energy": True}
    tensors = inputs(hierarchy)
    y, phi = hierarchical_attention(*tensors, hierarchy, **form)
    section = [x[2:] for x in tensors]
    y_alone, phi_alone = hierarchical_attention(*section, alone, **form)
    assert close(y[2:], y_alone)
    assert close(phi[3:], phi_alone)


@pytest.mark.parametrize(
    ("pattern", "self_attention"),
    [(x, own) for x in PATTERNS for own in (True, False) if own or x.leaves_none_alone],
)
def test_gradients(pattern, self_attention):
    hierarchy = SignalHierarchy.from_parents(MIXED)
    tensors = [x.requires_grad_() for x in tensors_for(hierarchy, 2, 3, 2, "per head")]

    def attention(q, k, v, position):
        y, phi = hierarchical_attention(
            q,
            k,
            v,
            hierarchy,
            position=position,
            pattern=pattern,
            self_attention=self_attention,
            return_energy=True,
        )
        # Energies of leaves that do not attend to themselves are infinite.
        return y, phi.masked_fill(phi.isinf(), 0)

    assert torch.autograd.gradcheck(attention, tensors)


@patterns
def test_padded_families_have_edges_of_their_own(pattern):
    sizes = [5, 6, 7, 8, 7, 5, 4, 3] * 3
    family = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    leaf_only = torch.cat([torch.full((len(sizes),), -1), family])
    # The same families with a section in each.
    first = [sum(sizes[:i]) + len(sizes) for i in range(len(sizes))]
    mixed = torch.cat([leaf_only, torch.tensor(first).repeat_interleave(2)])
    for parent in (leaf_only, mixed):
        hierarchy = SignalHierarchy.from_parents(parent)
        assert (hierarchy.layout.buckets[:, 6] == 1).any()
        tensors = tensors_for(hierarchy, 2, 3, 4, "shared")
        expected = results(hierarchy, tensors, backend="reference", pattern=pattern)
        actual = results(hierarchy, tensors, backend="torch", pattern=pattern)
        assert differences(actual, expected, 1e-10) == []


@patterns
def test_large_families_in_runs_of_queries(pattern, monkeypatch):
    monkeypatch.setattr("hsa_pyg.ops.family._SCORES", 1)
    hierarchy = SignalHierarchy.from_parents(
        torch.cat([star(100), torch.tensor([7, 7])])
    )
    tensors = tensors_for(hierarchy, 2, 3, 4, "shared")
    expected = results(hierarchy, tensors, backend="reference", pattern=pattern)
    actual = results(hierarchy, tensors, backend="torch", pattern=pattern)
    assert differences(actual, expected, 1e-10) == []


@patterns
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_low_precision(pattern, dtype):
    hierarchy = SignalHierarchy.from_parents(MIXED)
    tensors = [x.to(dtype) for x in tensors_for(hierarchy, 2, 3, 2, "per head")]
    narrow = results(hierarchy, tensors, pattern=pattern)
    wide = results(hierarchy, [x.double() for x in tensors], pattern=pattern)
    assert narrow[0].dtype == dtype
    assert differences(narrow, wide, 8 * torch.finfo(dtype).eps) == []


@patterns
def test_large_scores_leave_no_nan(pattern):
    hierarchy = SignalHierarchy.from_parents(MIXED)
    q, k, v = (x.float() for x in inputs(hierarchy))
    found = results(hierarchy, (1e3 * q, 1e3 * k, v), pattern=pattern)
    assert all(x.isfinite().all() for x in found)


@pytest.mark.parametrize("pattern", [banded(3), blocklocal(3), banded(3, 1)], ids=repr)
def test_dropout(pattern):
    hierarchy = SignalHierarchy.from_parents(star(9))
    q, k, _ = inputs(hierarchy)
    whole = attention_matrix(q, k, hierarchy, pattern=pattern)
    dropped = measured_theta(q, k, hierarchy, pattern=pattern, dropout=0.5)
    kept = dropped > 0
    assert close(dropped, torch.where(kept, 2 * whole, 0))
    assert 0 < int(kept.sum()) < int((whole > 0).sum())


@pytest.mark.parametrize("pattern", [banded(2), blocklocal(1), banded(2, 1)], ids=repr)
def test_gradients_with_dropout(pattern):
    hierarchy = SignalHierarchy.from_parents(MIXED)
    tensors = [x.requires_grad_() for x in tensors_for(hierarchy, 2, 3, 2, "per head")]

    def attention(q, k, v, position):
        torch.manual_seed(3)
        form = {"position": position, "pattern": pattern, "dropout": 0.4}
        return hierarchical_attention(q, k, v, hierarchy, **form)

    assert torch.autograd.gradcheck(attention, tensors)


def test_compiled_in_one_graph_for_batches_of_any_shape():
    def attend(q, k, v, hierarchy):
        return 2 * hierarchical_attention(q + 1, k, v, hierarchy, pattern=banded(3, 1))

    torch._dynamo.reset()
    compiled = torch.compile(attend, fullgraph=True, dynamic=True, backend="aot_eager")
    for leaves in (5, 9, 13):
        hierarchy = SignalHierarchy.from_parents(star(leaves))
        tensors = [x.requires_grad_() for x in inputs(hierarchy)]
        found = []
        for function in (compiled, attend):
            y = function(*tensors, hierarchy)
            found.append([y.detach(), *torch.autograd.grad(y.square().sum(), tensors)])
        for a, b in zip(*found, strict=True):
            assert close(a, b)
    torch._dynamo.reset()


@pytest.mark.parametrize("pattern", [banded, blocklocal])
@pytest.mark.parametrize(
    ("numbers", "error", "message"),
    [
        ((0,), ValueError, "width must be at least 1, got 0"),
        ((2.0,), TypeError, "width must be an integer, got 2.0"),
        ((True,), TypeError, "width must be an integer, got True"),
        ((2, -1), ValueError, "num_global must be at least 0, got -1"),
        ((2, None), TypeError, "num_global must be an integer, got None"),
    ],
)
def test_numbers_that_are_none_are_refused(pattern, numbers, error, message):
    with pytest.raises(error, match=message):
        pattern(*numbers)


ALONE = "may leave a leaf alone"


@pytest.mark.parametrize(
    ("form", "error", "message"),
    [
        ({"pattern": 5}, TypeError, r"pattern must be banded\(width\).* got 5"),
        ({"pattern": banded}, TypeError, r"pattern must be banded\(width\)"),
        ({"pattern": banded(3), "top_k": 2}, ValueError, "leave one of them out"),
        ({"pattern": banded(1), "self_attention": False}, ValueError, ALONE),
        ({"pattern": blocklocal(4), "self_attention": False}, ValueError, ALONE),
        (
            {"pattern": banded(3), "tie_queries": False},
            NotImplementedError,
            "pattern is not available with tie_queries=False",
        ),
        (
            {"pattern": banded(3), "causal": True},
            NotImplementedError,
            "pattern is not available with causal=True",
        ),
    ],
)
def test_forms_that_do_not_exist_are_refused(form, error, message):
    hierarchy = SignalHierarchy.from_parents(star(4))
    q, k, v = inputs(hierarchy)
    with pytest.raises(error, match=message):
        hierarchical_attention(q, k, v, hierarchy, **form)
    with pytest.raises(error, match=message):
        attention_matrix(q, k, hierarchy, **form)
