import itertools
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.testing import CompileCounterWithBackend
from torch_geometric.explain.algorithm.utils import set_masks
from torch_geometric.nn import Sequential, summary, to_hetero

from hsa_pyg import SignalHierarchy
from hsa_pyg.nn import HSAConv, hierarchical_attention


def flat_tree(num_leaves: int) -> SignalHierarchy:
    return SignalHierarchy.from_parents(torch.tensor([-1] + [0] * num_leaves))


def theta(hierarchy: SignalHierarchy, edge_index, alpha) -> torch.Tensor:
    """The attention matrix [H, N, N] from what the layer returns."""
    leaves = hierarchy.leaves.tolist()
    parent = hierarchy.parent.tolist()

    def rows(node: int) -> list[int]:
        out = []
        for row, leaf in enumerate(leaves):
            while leaf not in (node, -1):
                leaf = parent[leaf]
            if leaf == node:
                out.append(row)
        return out

    full = torch.zeros(alpha.size(1), len(leaves), len(leaves), dtype=alpha.dtype)
    for (source, target), weight in zip(edge_index.t().tolist(), alpha, strict=True):
        to = rows(source)
        for i, j in itertools.product(rows(target), to):
            full[:, i, j] += weight / len(to)
    return full


def test_repr_and_parameters():
    conv = HSAConv(64, 64, heads=8)
    assert str(conv) == "HSAConv(64, 64, heads=8)"
    assert (
        str(HSAConv({"a": 8, "b": -1}, 16)) == "HSAConv({'a': 8, 'b': -1}, 16, heads=1)"
    )
    assert {name: tuple(p.shape) for name, p in conv.named_parameters()} == {
        "lin_qkv.shared.weight": (192, 64),
        "lin_qkv.shared.bias": (192,),
        "lin_out.weight": (64, 64),
        "lin_out.bias": (64,),
    }
    assert not any("bias" in n for n, _ in HSAConv(8, 8, bias=False).named_parameters())


def test_flat_tree_is_multi_head_attention():
    conv = HSAConv(12, 16, heads=4).double()
    for p in conv.parameters():
        torch.nn.init.normal_(p)
    x = torch.randn(7, 12, dtype=torch.double)
    # The function takes inputs as wide as the output; feed it the projections.
    q, k, v = conv.lin_qkv.shared(x).chunk(3, dim=-1)
    expected, _ = F.multi_head_attention_forward(
        q,
        k,
        v,
        embed_dim_to_check=16,
        num_heads=4,
        in_proj_weight=None,
        in_proj_bias=torch.zeros(48, dtype=torch.double),
        bias_k=None,
        bias_v=None,
        add_zero_attn=False,
        dropout_p=0.0,
        out_proj_weight=conv.lin_out.weight,
        out_proj_bias=conv.lin_out.bias,
        use_separate_proj_weight=True,
        q_proj_weight=torch.eye(16, dtype=torch.double),
        k_proj_weight=torch.eye(16, dtype=torch.double),
        v_proj_weight=torch.eye(16, dtype=torch.double),
    )
    torch.testing.assert_close(conv(x, flat_tree(7)), expected)


@pytest.mark.parametrize("self_attention", [True, False])
@pytest.mark.parametrize("position", [False, True])
def test_deep_tree_is_the_reference(deep, self_attention, position):
    options = {"position_dim": 6} if position else {}
    conv = HSAConv(5, 8, heads=2, self_attention=self_attention, **options).double()
    x = torch.randn(7, 5, dtype=torch.double)
    given = {"position": torch.randn(13, 6, dtype=torch.double)} if position else {}
    q, k, v = conv.lin_qkv.shared(x).view(7, 3, 2, 4).unbind(1)
    eps = conv.lin_position(given["position"]) if position else None
    y = hierarchical_attention(
        q, k, v, deep, self_attention=self_attention, position=eps, backend="reference"
    )
    torch.testing.assert_close(conv(x, deep, **given), conv.lin_out(y.flatten(1)))


def test_heads_are_averaged_without_concat(deep):
    conv = HSAConv(5, 6, heads=4, concat=False)
    x = torch.randn(7, 5)
    q, k, v = conv.lin_qkv.shared(x).view(7, 3, 4, 6).unbind(1)
    y = hierarchical_attention(q, k, v, deep)
    torch.testing.assert_close(conv(x, deep), conv.lin_out(y.mean(1)))


def test_norm_and_query_residual_are_the_papers(deep):
    conv = HSAConv(5, 8, heads=2, qkv_norm=True, query_residual=True)
    x = torch.randn(7, 5)
    q, k, v = (
        F.layer_norm(part, (4,))
        for part in conv.lin_qkv.shared(x).view(7, 3, 2, 4).unbind(1)
    )
    y = hierarchical_attention(q, k, v, deep) + q
    torch.testing.assert_close(conv(x, deep), conv.lin_out(y.flatten(1)))


@pytest.mark.parametrize("self_attention", [True, False])
def test_attention_weights_rebuild_the_output(deep, self_attention):
    conv = HSAConv(5, 8, heads=2, self_attention=self_attention, position_dim=3)
    x, position = torch.randn(7, 5), torch.randn(13, 3)
    out, (edge_index, alpha) = conv(
        x, deep, position=position, return_attention_weights=True
    )
    torch.testing.assert_close(out, conv(x, deep, position=position))
    matrix = theta(deep, edge_index, alpha)
    torch.testing.assert_close(matrix.sum(-1), torch.ones(2, 7))
    v = conv.lin_qkv.shared(x).view(7, 3, 2, 4)[:, 2]
    y = torch.einsum("hij,jhd->ihd", matrix, v).flatten(1)
    torch.testing.assert_close(out, conv.lin_out(y))
    # The self-loops of the leaves come last, in their order.
    assert edge_index[:, -7:].tolist() == [deep.leaves.tolist()] * 2


def test_internal_nodes_get_the_mean_of_their_leaves(deep):
    conv = HSAConv(5, 8, heads=2)
    x = torch.randn(7, 5)
    leaves, nodes = conv(x, deep), conv(x, deep, return_internal=True)
    torch.testing.assert_close(nodes[deep.leaves], leaves)
    torch.testing.assert_close(nodes[0], leaves[:5].mean(0))
    torch.testing.assert_close(nodes[5], leaves[2:4].mean(0))
    torch.testing.assert_close(nodes[9], leaves[5:].mean(0))
    assert nodes[12].tolist() == [0.0] * 8  # the empty one


def test_permuted_leaves_permute_the_output():
    parent = torch.tensor([-1, 0, 0, 1, 1, 1, 2, 2, 0])
    order = torch.randperm(9)
    place = torch.empty_like(order)
    place[order] = torch.arange(9)  # node order[i] becomes node i
    above = parent[order]
    permuted = SignalHierarchy.from_parents(
        torch.where(above >= 0, place[above.clamp(min=0)], -1)
    )
    h = SignalHierarchy.from_parents(parent)
    conv = HSAConv(4, 8, heads=2, position_dim=4)
    x, position = torch.randn(9, 4), torch.randn(9, 4)
    out = conv(x[h.leaves], h, position=position)
    moved = conv(x[order][permuted.leaves], permuted, position=position[order])
    nodes = torch.zeros(9, 8).index_copy(0, h.leaves, out)
    torch.testing.assert_close(moved, nodes[order][permuted.leaves])


def test_gradients_reach_every_parameter(edges):
    h = SignalHierarchy.from_edge_index(
        edges, {"page": 1, "section": 2, "image": 2, "word": 5}
    )
    conv = HSAConv(
        {"word": 4, "image": 3},
        8,
        heads=2,
        position_dim=6,
        num_domains=2,
        qkv_norm=True,
    )
    x_dict = {"word": torch.randn(5, 4), "image": torch.randn(2, 3)}
    position = torch.randn(10, 6, requires_grad=True)
    out = conv(x_dict, h, position=position, domain=torch.arange(10) % 2)
    sum((x * torch.randn_like(x)).sum() for x in out.values()).backward()
    for name, parameter in conv.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().sum() > 0, name
    assert position.grad.abs().sum() > 0


def test_state_dict_pickle_and_reset(deep):
    conv = HSAConv(5, 8, heads=2, position_dim=4, num_domains=3, qkv_norm=True)
    x, given = torch.randn(7, 5), (torch.randn(13, 4), torch.arange(13) % 3)
    other = HSAConv(5, 8, heads=2, position_dim=4, num_domains=3, qkv_norm=True)
    assert not torch.allclose(conv(x, deep, *given), other(x, deep, *given))
    other.load_state_dict(conv.state_dict())
    assert torch.equal(conv(x, deep, *given), other(x, deep, *given))
    loaded = pickle.loads(pickle.dumps(conv))
    assert torch.equal(conv(x, deep, *given), loaded(x, deep, *given))
    before = {name: p.clone() for name, p in conv.named_parameters()}
    conv.reset_parameters()
    changed = {n for n, p in conv.named_parameters() if not torch.equal(before[n], p)}
    assert changed == {
        "lin_qkv.shared.weight",
        "lin_out.weight",
        "lin_position.weight",
    }


def test_in_sequential_and_summary(deep):
    model = Sequential(
        "x, hierarchy",
        [
            (HSAConv(5, 8, heads=2), "x, hierarchy -> x"),
            torch.nn.ReLU(),
            (HSAConv(8, 4), "x, hierarchy -> x"),
        ],
    )
    x = torch.randn(7, 5)
    expected = model[2](model[0](x, deep).relu(), deep)
    torch.testing.assert_close(model(x, deep), expected)
    table = summary(model, x, deep)
    # 3 * 8 * 5 + 3 * 8 + 8 * 8 + 8 parameters; a layer is one line.
    assert "| ├─(module_0)HSAConv | [7, 5]        | [7, 8]         | 216" in table
    assert "lin_qkv" not in table


def test_dropout_keeps_the_expectation():
    # Many copies of one tree, each with its own draw.
    tree, copies = torch.tensor([-1, 0, 0, 1, 1, 2, 2, 2]), 4000
    shift = 8 * torch.arange(copies)[:, None]
    forest = torch.where(tree < 0, -1, tree + shift).flatten()
    h = SignalHierarchy.from_parents(forest)
    conv = HSAConv(5, 8, heads=2, dropout=0.3)
    x = torch.randn(5, 5).repeat(copies, 1)
    with torch.no_grad():
        dropped = conv(x, h).view(copies, 5, 8)
        exact = conv.eval()(x, h).view(copies, 5, 8)
    assert not torch.equal(dropped[0], dropped[1])
    torch.testing.assert_close(exact[0], exact[1])
    error = dropped.std(0) / copies**0.5
    assert ((dropped.mean(0) - exact[0]).abs() < 5 * error).all()


def test_autocast_stays_within_rounding(deep):
    conv = HSAConv(5, 8, heads=2, position_dim=4)
    x, position = torch.randn(7, 5), torch.randn(13, 4)
    exact = conv(x, deep, position=position)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = conv(x, deep, position=position)
        out.float().sum().backward()
    assert out.dtype == torch.bfloat16
    assert (out.float() - exact).norm() < 2e-2 * exact.norm()
    assert all(p.grad.isfinite().all() for p in conv.parameters())


def test_explainers_leave_it_alone(deep):
    conv = HSAConv(5, 8)
    model = torch.nn.ModuleList([conv])
    set_masks(model, torch.ones(3), torch.zeros(2, 3, dtype=torch.long))
    assert conv.explain is False
    assert conv._edge_mask is None


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = HSAConv(4, 8)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index)


def test_to_hetero_and_tracing_are_refused(edges):
    with pytest.raises(
        TypeError, match=r"cannot be traced.*x_dict and edge_index_dict"
    ):
        to_hetero(Model(), (["word", "page"], [("word", "child_of", "page")]))
    with pytest.raises(TypeError, match="cannot be traced"):
        torch.fx.symbolic_trace(Model())


@pytest.mark.parametrize("num_domains", [1, 3])
def test_compiles_at_most_twice_without_graph_breaks(num_domains):
    conv = HSAConv(5, 8, heads=2, position_dim=4, num_domains=num_domains)
    torch._dynamo.reset()
    graphs = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(conv, fullgraph=True, dynamic=True, backend=graphs)
    for n in (3, 5, 8, 13, 2, 40):
        parent = torch.tensor([-1, 0, 0] + [1] * n + [2] * (n + 3))
        h = SignalHierarchy.from_parents(parent)
        x, position = torch.randn(h.num_leaves, 5), torch.randn(h.num_nodes, 4)
        domain = torch.arange(h.num_nodes) % num_domains
        weight = torch.randn(h.num_leaves, 8)
        grads = []
        for layer in (conv, compiled):
            conv.zero_grad()
            out = layer(x, h, position=position, domain=domain)
            (out * weight).sum().backward()
            grads.append([p.grad.clone() for p in conv.parameters()])
        torch.testing.assert_close(*grads)
    assert graphs.frame_count <= 2
