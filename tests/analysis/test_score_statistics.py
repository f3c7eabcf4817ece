import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hsa_pyg import SignalHierarchy, banded, blocklocal
from hsa_pyg.analysis import (
    block_weights,
    collect_score_statistics,
    score_statistics,
)
from hsa_pyg.analysis.score_statistics import QUANTITIES
from hsa_pyg.datasets import FakeNestedDataset
from hsa_pyg.nn import FlatConv, HSAConv, HSATransformer
from tests.dense_theta import Blocks, dot_scores
from tests.forests import close, forests, inputs, positions, star

NAN = float("nan")
FORMS = [
    {},
    {"top_k": 2},
    {"top_k": 2, "top_k_includes_self": True},
    {"top_k": 1, "self_attention": False},
    {"pattern": banded(3)},
    {"pattern": banded(2, num_global=1), "self_attention": False},
    {"pattern": blocklocal(1)},
    {"pattern": blocklocal(3)},
]
forms = pytest.mark.parametrize("form", FORMS, ids=repr)


def kept_of(scores, own, form):
    """Which entries a query keeps, and which compete: [b] each, of [b] scores.

    ``own`` is the place of the query's own score; None if it has none.
    """
    places = [i for i, s in enumerate(scores) if s is not None]
    rivals = list(places)
    if "pattern" in form:
        place, size = form["place"]
        seen = form["pattern"].visible(place, size)
        return [i for i in places if i in seen], rivals
    if "top_k" not in form:
        return places, rivals
    if own is not None and not form.get("top_k_includes_self"):
        rivals.remove(own)
    best = sorted(rivals, key=lambda i: (-scores[i], i))[: form["top_k"]]
    return [i for i in places if i in best or i not in rivals], rivals


def of_one_query(scores, own, form):
    """Entropy, dispersion, kept dispersion, separation and what is kept, as numbers."""
    kept, rivals = kept_of(scores, own, form)
    every = [s for s in scores if s is not None]
    some = [scores[i] for i in kept]
    weights = [math.exp(s) / sum(math.exp(t) for t in some) for s in some]
    best = [scores[i] for i in kept if i in rivals]
    rest = [scores[i] for i in rivals if i not in kept]
    return (
        -sum(w * math.log(w) for w in weights) if some else NAN,
        max(every) - min(every),
        max(some) - min(some) if some else NAN,
        min(best) - max(rest) if best and rest else NAN,
        kept,
    )


def expected_statistics(q, k, hierarchy, position, form):
    """The same by loops over families: {node: [5 numbers] of the first head}."""
    blocks = Blocks(hierarchy)
    share = blocks.below / blocks.count.clamp(min=1)[:, None]
    raw = dot_scores(q, k, q.size(2) ** -0.5)[0]
    eps = position[:, 0] @ position[:, 0].T
    score = share @ raw @ share.T + eps + blocks.count.log()
    found, times = {}, {}
    for parent in range(hierarchy.num_nodes):
        family = [
            node
            for node, above in enumerate(blocks.parent)
            if above == parent and blocks.count[node] > 0
        ]
        if len(family) < 2:
            continue
        for place, b in enumerate(family):
            row = [float(score[b, c]) for c in family]
            below = end_of_chain(b, blocks)
            own = None
            if below in blocks.leaves and form.get("self_attention", True):
                own, leaf = place, blocks.leaves.index(below)
                row[place] = float(raw[leaf, leaf] + eps[below, below])
            else:
                row[place] = None
            form_here = {**form, "place": (place, len(family))}
            *numbers, kept = of_one_query(row, own, form_here)
            found[b] = numbers
            for i in kept:
                times[family[i]] = times.get(family[i], 0) + 1
    return {b: [*numbers, times.get(b, 0)] for b, numbers in found.items()}


def end_of_chain(node, blocks):
    while True:
        below = [
            c for c, p in enumerate(blocks.parent) if p == node and blocks.count[c] > 0
        ]
        if len(below) != 1:
            return node
        node = below[0]


@forms
@given(forests(max_nodes=18), st.integers(0, 1000))
def test_every_number_is_what_loops_over_families_give(form, hierarchy, seed):
    q, k, _ = inputs(hierarchy, heads=2, seed=seed)
    position = positions(hierarchy, 2, seed=seed)
    found = score_statistics(q, k, hierarchy, position, **form)
    expected = expected_statistics(q, k, hierarchy, position, form)
    assert sorted(found.node.tolist()) == sorted(expected)
    for row, node in enumerate(found.node.tolist()):
        actual = [float(getattr(found, name)[row, 0]) for name in QUANTITIES]
        assert actual == pytest.approx(expected[node], abs=1e-9, nan_ok=True)


@pytest.mark.parametrize("top_k", [None, 3])
def test_on_one_family_they_are_those_of_a_dense_softmax(top_k):
    hierarchy = SignalHierarchy.from_parents(star(9))
    q, k, _ = inputs(hierarchy, heads=2)
    s = dot_scores(q, k, 3**-0.5)
    ordered = s.sort(-1, descending=True).values
    kept = s >= ordered[..., (top_k or 9) - 1, None]
    weight = s.masked_fill(~kept, float("-inf")).softmax(-1)
    form = {} if top_k is None else {"top_k": top_k, "top_k_includes_self": True}
    found = score_statistics(q, k, hierarchy, **form)
    assert close(found.entropy, torch.special.entr(weight).sum(-1).T)
    assert close(found.dispersion, (ordered[..., 0] - ordered[..., -1]).T)
    least = ordered[..., (top_k or 9) - 1]
    assert close(found.kept_dispersion, (ordered[..., 0] - least).T)
    assert torch.equal(found.times_kept, kept.sum(1).T)
    if top_k is None:
        assert found.separation.isnan().all()
    else:
        assert close(found.separation, (least - ordered[..., top_k]).T)
        assert (found.separation >= 0).all()


def test_a_summary_leaves_out_what_does_not_exist_and_counts_the_rest():
    # The family of two drops nothing.
    hierarchy = SignalHierarchy.from_parents(torch.tensor([-1] * 2 + [0] * 5 + [1] * 2))
    q, k, _ = inputs(hierarchy, heads=2)
    found = score_statistics(q, k, hierarchy, top_k=2)
    summary = found.summary(quantiles=(0.1, 0.5))
    assert list(summary) == list(QUANTITIES)
    assert summary["separation"].members.tolist() == [5, 5]
    assert summary["entropy"].members.tolist() == [7, 7]
    for name in QUANTITIES:
        value = getattr(found, name).double()
        assert close(summary[name].mean, value.nanmean(0))
        at = torch.tensor([0.1, 0.5], dtype=torch.float64)
        assert close(summary[name].quantiles, value.nanquantile(at, dim=0))


def test_where_nothing_is_there_nothing_is_told():
    alone = SignalHierarchy.from_parents(torch.tensor([-1, -1]))
    q, k, _ = inputs(alone)
    found = score_statistics(q, k, alone)
    assert found.entropy.size() == (0, 2)
    summary = found.summary()["entropy"]
    assert summary.members.tolist() == [0, 0]
    assert summary.mean.isnan().all()
    assert summary.quantiles.isnan().all()
    whole = SignalHierarchy.from_parents(star(3))
    separation = score_statistics(*inputs(whole)[:2], whole).summary()["separation"]
    assert separation.members.tolist() == [0, 0]
    assert separation.quantiles.isnan().all()


@pytest.mark.parametrize(
    "form", [{}, {"top_k": 2}, {"pattern": banded(3)}, {"dropout": 0.5}], ids=repr
)
def test_a_layer_is_read_as_it_attends(form):
    hierarchy = SignalHierarchy.from_parents(torch.tensor([-1, 0, 0, 0, 1, 1, 1, 0, 0]))
    model = torch.nn.ModuleList([HSAConv(5, 8, heads=2, position_dim=3, **form)])
    model.forward = lambda *args, **kwargs: model[0](*args, **kwargs)
    x, position = torch.randn(hierarchy.num_leaves, 5), torch.randn(9, 3)
    (found,) = collect_score_statistics(
        model, x, hierarchy, position=position, return_attention_weights=True
    )
    q, k, _, eps, _ = model[0].project(x, hierarchy, position)
    kept = {name: value for name, value in form.items() if name != "dropout"}
    expected = score_statistics(q, k, hierarchy, eps, **kept)
    for name in ("node", *QUANTITIES):
        torch.testing.assert_close(
            getattr(found, name), getattr(expected, name).detach(), equal_nan=True
        )
    assert model.training


def test_each_layer_of_a_model_is_read_and_nothing_is_left_behind():
    data = FakeNestedDataset(num_samples=2, seed=2)
    model = HSATransformer.from_schema(
        data.schema, 3, channels=8, heads=2, vocab_sizes=data.vocab_sizes, num_layers=3
    )
    generator = torch.get_rng_state()
    layers = collect_score_statistics(model, data[0])
    assert len(layers) == 3
    assert not torch.equal(layers[0].entropy, layers[1].entropy)
    assert model.training
    assert all(not module._forward_hooks for module in model.modules())
    assert torch.equal(torch.get_rng_state(), generator)


def test_models_without_such_scores_are_refused(monkeypatch):
    hierarchy = SignalHierarchy.from_parents(star(4))
    x = torch.randn(4, 5)
    with pytest.raises(ValueError, match="has flat attention"):
        collect_score_statistics(FlatConv(5, 8), x, hierarchy)
    with pytest.raises(ValueError, match="no layer of hierarchical attention"):
        collect_score_statistics(torch.nn.Linear(5, 8), x)
    with pytest.raises(NotImplementedError, match="statistics for tied queries alone"):
        collect_score_statistics(HSAConv(5, 8, tie_queries=False), x, hierarchy)
    monkeypatch.setattr(block_weights, "MAX_WEIGHTS", 3)
    with pytest.raises(ValueError, match="largest family has"):
        collect_score_statistics(HSAConv(5, 8), x, hierarchy)


@pytest.mark.parametrize(
    ("form", "error", "message"),
    [
        ({"pattern": 3}, TypeError, "pattern must be"),
        ({"pattern": banded(3), "top_k": 2}, ValueError, "leave one of them out"),
        ({"top_k": 0}, ValueError, "top_k must be at least 1"),
    ],
)
def test_forms_that_do_not_exist_are_refused(form, error, message):
    hierarchy = SignalHierarchy.from_parents(star(4))
    q, k, _ = inputs(hierarchy)
    with pytest.raises(error, match=message):
        score_statistics(q, k, hierarchy, **form)
    with pytest.raises(ValueError, match="must have the same shape"):
        score_statistics(q[0], k, hierarchy)
