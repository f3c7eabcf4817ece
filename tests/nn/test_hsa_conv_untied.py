"""The layer with untied queries, and causal."""

import pickle

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from hsa_pyg import SignalHierarchy
from hsa_pyg.nn import FlatConv, HSAConv, hierarchical_attention

FORMS = [{"tie_queries": False}, {"causal": True}]

# Sections of three and two words after a title: node ids are in reading order.
IN_ORDER = torch.tensor([-1, 0, 0, 2, 2, 2, 0, 6, 6])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("self_attention", [True, False])
@pytest.mark.parametrize("position", [False, True])
def test_it_is_the_function_of_its_projections(deep, form, self_attention, position):
    conv = HSAConv(
        5,
        8,
        heads=2,
        self_attention=self_attention,
        position_dim=4 if position else None,
        **form,
    ).double()
    x = torch.randn(7, 5, dtype=torch.double)
    given = [torch.randn(13, 4, dtype=torch.double)] if position else []
    q, k, v = conv.lin_qkv(x, deep).view(-1, 3, 2, 4).unbind(1)
    expected = hierarchical_attention(
        q,
        k,
        v,
        deep,
        self_attention=self_attention,
        position=conv.lin_position(*given) if position else None,
        backend="reference",
        **form,
    )
    expected = conv.lin_out(expected.flatten(1))
    torch.testing.assert_close(conv(x, deep, *given), expected)
    tied = HSAConv(
        5,
        8,
        heads=2,
        self_attention=self_attention,
        position_dim=4 if position else None,
    ).double()
    # The same parameters under the same names, whoever asks.
    tied.load_state_dict(conv.state_dict())
    assert not torch.allclose(tied(x, deep, *given), expected)


@pytest.mark.parametrize("form", FORMS)
def test_gradients_reach_every_parameter(deep, form):
    conv = HSAConv(5, 8, heads=2, position_dim=4, qkv_norm=True, **form)
    x = torch.randn(7, 5, requires_grad=True)
    position = torch.randn(13, 4, requires_grad=True)
    (conv(x, deep, position) * torch.randn(7, 8)).sum().backward()
    for name, parameter in conv.named_parameters():
        assert parameter.grad.isfinite().all(), name
        # Softmax does not see what shifts all keys.
        if name != "norms.1.bias":
            assert parameter.grad.abs().sum() > 0, name
    assert x.grad.abs().sum() > 0
    assert position.grad.abs().sum() > 0


def test_a_causal_layer_sees_no_later_leaf():
    hierarchy = SignalHierarchy.from_parents(IN_ORDER)
    conv = HSAConv(5, 8, heads=2, causal=True)
    free = HSAConv(5, 8, heads=2, tie_queries=False)
    free.load_state_dict(conv.state_dict())
    x = torch.randn(hierarchy.num_leaves, 5)
    out, seen = conv(x, hierarchy), free(x, hierarchy)
    for place in range(hierarchy.num_leaves):
        changed = x.clone()
        changed[place:] = torch.randn_like(changed[place:])
        assert torch.equal(conv(changed, hierarchy)[:place], out[:place])
        if place > 0:
            assert not torch.allclose(free(changed, hierarchy)[0], seen[0])
    before = x.clone()
    before[0] += 1
    # The first leaf is seen by all.
    assert (conv(before, hierarchy) - out).abs().sum(1).gt(0).all()


def test_state_dict_pickle_reset_and_repr(deep):
    plain = HSAConv(5, 8, heads=2)
    conv = HSAConv(5, 8, heads=2, tie_queries=False, causal=True)
    assert list(conv.state_dict()) == list(plain.state_dict())
    assert str(plain) == "HSAConv(5, 8, heads=2)"
    assert str(conv) == "HSAConv(5, 8, heads=2, tie_queries=False, causal=True)"
    assert str(HSAConv(5, 8, tie_queries=False)).endswith("heads=1, tie_queries=False)")
    x = torch.randn(7, 5)
    loaded = pickle.loads(pickle.dumps(conv))
    assert torch.equal(loaded(x, deep), conv(x, deep))
    weights = {name: p.clone() for name, p in conv.named_parameters()}
    conv.reset_parameters()
    assert conv.causal
    assert not conv.tie_queries
    assert not torch.equal(conv.lin_out.weight, weights["lin_out.weight"])


def test_tied_and_acausal_is_what_it_was(deep):
    torch.manual_seed(3)
    plain = HSAConv(5, 8, heads=2)
    torch.manual_seed(3)
    asked = HSAConv(5, 8, heads=2, tie_queries=True, causal=False)
    x = torch.randn(7, 5)
    assert torch.equal(plain(x, deep), asked(x, deep))


@pytest.mark.parametrize("form", FORMS)
def test_compiles_without_graph_breaks(form):
    conv = HSAConv(5, 8, heads=2, **form)
    torch._dynamo.reset()
    graphs = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(conv, fullgraph=True, dynamic=True, backend=graphs)
    for n in (3, 5, 8, 13):
        parent = torch.tensor([-1, 0, 0] + [1] * n + [2] * (n + 3))
        hierarchy = SignalHierarchy.from_parents(parent)
        x = torch.randn(hierarchy.num_leaves, 5)
        torch.testing.assert_close(compiled(x, hierarchy), conv(x, hierarchy))
    assert graphs.frame_count <= 2
    torch._dynamo.reset()


def test_what_does_not_go_together_is_refused(deep):
    with pytest.raises(NotImplementedError, match="top_k is not available with causal"):
        HSAConv(4, 8, causal=True, top_k=2)
    with pytest.raises(NotImplementedError, match="top_k is not available with tie"):
        HSAConv(4, 8, tie_queries=False, top_k=2)
    for backend in ("cpp", "triton"):
        with pytest.raises(NotImplementedError, match=f"{backend!r} has no tie_quer"):
            HSAConv(4, 8, tie_queries=False, backend=backend)
    conv = HSAConv(4, 8, tie_queries=False)
    with pytest.raises(NotImplementedError, match="attention_matrix"):
        conv(torch.randn(7, 4), deep, return_attention_weights=True)
    with pytest.raises(NotImplementedError, match="flat attention has no causal"):
        FlatConv(4, 8, tie_queries=False, causal=True)


def test_flat_attention_has_every_leafs_own_query_anyway(deep):
    conv = FlatConv(5, 8, heads=2, tie_queries=False)
    tied = FlatConv(5, 8, heads=2)
    tied.load_state_dict(conv.state_dict())
    x = torch.randn(7, 5)
    assert torch.equal(conv(x, deep), tied(x, deep))
