import copy
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


def test_dictionaries_and_tensors_agree(edges):
    conv = HSAConv({"word": 4, "image": 3}, 8, heads=2)
    x_dict = {"word": torch.randn(5, 4), "image": torch.randn(2, 3)}
    out = conv(x_dict, edges)
    h = SignalHierarchy.from_edge_index(
        edges, {"page": 1, "section": 2, "image": 2, "word": 5}
    )
    by_hierarchy = conv(x_dict, h)
    assert list(out) == ["word", "image"]
    assert list(by_hierarchy) == ["image", "word"]
    for name in out:
        torch.testing.assert_close(out[name], by_hierarchy[name])
    # One tensor, in the order of the leaf rows, with the same projections per type.
    wide = HSAConv({"word": 3, "image": 3}, 8, heads=2)
    x_dict["word"] = x_dict["word"][:, :3]
    rows = torch.cat([x_dict["image"], x_dict["word"]])
    torch.testing.assert_close(wide(rows, h)[2:], wide(x_dict, h)["word"])


def test_every_type_has_its_own_projection(edges):
    conv = HSAConv({"word": 4, "image": 4}, 8)
    swapped = copy.deepcopy(conv)
    a, b = swapped.lin_qkv.by_type["word"], swapped.lin_qkv.by_type["image"]
    a.weight.data, b.weight.data = b.weight.data, a.weight.data
    x_dict = {"word": torch.randn(5, 4), "image": torch.randn(2, 4)}
    assert not torch.allclose(
        conv(x_dict, edges)["word"], swapped(x_dict, edges)["word"]
    )


def test_internal_types_of_a_dictionary(edges):
    conv = HSAConv(4, 8)
    x_dict = {"word": torch.randn(5, 4), "image": torch.randn(2, 4)}
    leaves, nodes = conv(x_dict, edges), conv(x_dict, edges, return_internal=True)
    assert list(nodes) == ["word", "image", "section", "page"]
    torch.testing.assert_close(nodes["word"], leaves["word"])
    torch.testing.assert_close(nodes["section"][0], leaves["word"][:2].mean(0))
    everything = torch.cat([leaves["word"], leaves["image"]])
    torch.testing.assert_close(nodes["page"][0], everything.mean(0))


def test_only_child_of_edges_are_parent_edges(edges):
    conv = HSAConv(4, 8)
    x_dict = {"word": torch.randn(5, 4), "image": torch.randn(2, 4)}
    fewer = {kind: edge for kind, edge in edges.items() if kind[1] == "child_of"}
    assert len(fewer) < len(edges)
    torch.testing.assert_close(conv(x_dict, edges)["word"], conv(x_dict, fewer)["word"])


def test_leaf_types_come_back_without_rows(edges):
    del edges["image", "child_of", "page"]
    edges["image", "child_of", "section"] = torch.empty(2, 0, dtype=torch.long)
    conv = HSAConv({"word": 4, "image": 3}, 8, heads=2)
    x_dict = {"word": torch.randn(5, 4), "image": torch.randn(0, 3)}
    out = conv(x_dict, edges)
    assert out["image"].shape == (0, 8)
    # As if the type were not there at all, which is allowed as well.
    torch.testing.assert_close(out, conv({"word": x_dict["word"]}, edges))
    out["word"].sum().backward()
    for name, parameter in conv.named_parameters():
        if "image" not in name:
            assert parameter.grad.isfinite().all(), name


def test_no_leaf_at_all():
    conv = HSAConv({"word": 4}, 8, heads=2)
    out = conv({"word": torch.randn(0, 4)}, {})
    assert out["word"].shape == (0, 8)
    h = SignalHierarchy.from_parents(torch.tensor([-1, 0]), torch.zeros(2).bool())
    nodes = HSAConv(4, 8)(torch.randn(0, 4), h, return_internal=True)
    assert torch.equal(nodes, torch.zeros(2, 8))


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


def test_lazy_sizes_are_those_of_the_first_input(deep, edges):
    conv = HSAConv(-1, 8, heads=2)
    assert conv(torch.randn(7, 5), deep).shape == (7, 8)
    assert conv.lin_qkv.shared.weight.shape == (24, 5)
    typed = HSAConv({"word": -1, "image": -1}, 8)
    # The first batch may lack rows of a type; the size is known even so.
    del edges["image", "child_of", "page"], edges["image", "child_of", "section"]
    typed({"word": torch.randn(5, 4), "image": torch.randn(0, 3)}, edges)
    assert typed.lin_qkv.by_type["image"].weight.shape == (24, 3)
    # ... or the whole type, which is sized when it comes.
    late = HSAConv({"word": -1, "image": -1}, 8)
    late({"word": torch.randn(5, 4)}, edges)
    edges["image", "child_of", "page"] = torch.tensor([[0], [0]])
    out = late({"word": torch.randn(5, 4), "image": torch.randn(1, 3)}, edges)
    assert out["image"].isfinite().all()


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"out_channels": 10, "heads": 4},
            r"'out_channels' \(got 10\) must be divisible by the number of heads "
            r"\(got 4\)",
        ),
        ({"out_channels": 8, "heads": 0}, "divisible by the number of heads"),
        ({"out_channels": 8, "dropout": 1.5}, r"'dropout' must lie in \[0, 1\]"),
        ({"out_channels": 0}, "'out_channels' must be at least 1, got 0"),
        (
            {"out_channels": 8, "in_channels": 0},
            "'in_channels' must be at least 1, or -1 .* first input, got 0",
        ),
        (
            {"out_channels": 8, "in_channels": {"word": 4, "image": -2}},
            r"'in_channels' of leaf type 'image' must be .* got -2",
        ),
        (
            {"out_channels": 8, "position_dim": 0},
            "'position_dim' must be at least 1, got 0",
        ),
        (
            {"out_channels": 8, "position_dim": 3, "num_domains": 0},
            "'num_domains' must be at least 1, got 0",
        ),
    ],
)
def test_wrong_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        HSAConv(**{"in_channels": 4, **options})


def test_wrong_inputs(deep, edges):
    conv = HSAConv(5, 8)
    x = torch.randn(7, 5)
    with pytest.raises(ValueError, match=r"shape \[7, channels\].*got \(6, 5\)"):
        conv(x[:6], deep)
    with pytest.raises(
        ValueError, match="has 4 channels, but the layer was made for 5"
    ):
        conv(x[:, :4], deep)
    with pytest.raises(ValueError, match=r"x is torch\.float64 and the layer's param"):
        conv(x.double(), deep)
    with pytest.raises(ValueError, match="on meta and the hierarchy on cpu"):
        conv(x.to("meta"), deep)
    with pytest.raises(TypeError, match="got Tensor; a family spans node types"):
        conv(x, torch.tensor([[0], [1]]))
    with pytest.raises(TypeError, match="needs a dictionary of leaf features"):
        conv(x, edges)
    with pytest.raises(TypeError, match=r"must be a tensor .* got tuple"):
        conv((x, x), deep)
    with pytest.raises(ValueError, match="knows no node types"):
        conv({"word": x}, deep)
    with pytest.raises(ValueError, match="position_dim=None, but 'position' was given"):
        conv(x, deep, position=torch.randn(13, 4))
    with pytest.raises(ValueError, match="knows no types"):
        HSAConv({"word": 5}, 8)(x, deep)


def test_wrong_dictionaries(edges):
    words, images = torch.randn(5, 4), torch.randn(2, 4)
    conv = HSAConv({"word": 4}, 8)
    with pytest.raises(ValueError, match=r"unknown leaf type 'image'.*\['word'\]"):
        conv({"word": words, "image": images}, edges)
    with pytest.raises(ValueError, match=r"unlike widths \{'word': 4, 'image': 3\}"):
        HSAConv(4, 8)({"word": words, "image": images[:, :3]}, edges)
    with pytest.raises(ValueError, match="node 4 of type 'word', which has 4 nodes"):
        HSAConv(4, 8)({"word": words[:4], "image": images}, edges)
    with pytest.raises(ValueError, match="of type 'section' is a leaf but has a child"):
        HSAConv(4, 8)({"word": words, "image": images, "section": images}, edges)
    h = SignalHierarchy.from_edge_index(
        edges, {"page": 1, "section": 2, "image": 2, "word": 5}
    )
    with pytest.raises(
        ValueError, match="has 2 leaves of type 'image', but x has only"
    ):
        HSAConv(4, 8)({"word": words}, h)
    with pytest.raises(
        ValueError, match="type 'video' have no leaves in the hierarchy"
    ):
        HSAConv(4, 8)({"word": words, "image": images, "video": words}, h)
    with pytest.raises(
        ValueError, match=r"x\['word'\] must have shape \[5, channels\]"
    ):
        HSAConv(4, 8)({"word": words[:3], "image": images}, h)
    edges["word", "child_of", "section"] = edges[
        "word", "child_of", "section"
    ].to_sparse()
    with pytest.raises(TypeError, match="must be an integer tensor"):
        HSAConv(4, 8)({"word": words, "image": images}, edges)


def test_wrong_positions(deep):
    conv = HSAConv(5, 8, position_dim=4, num_domains=2)
    x, position = torch.randn(7, 5), torch.randn(13, 4)
    with pytest.raises(
        ValueError, match="position_dim=4, but 'position' was not given"
    ):
        conv(x, deep)
    with pytest.raises(ValueError, match="one row for each of the 13 nodes"):
        conv(x, deep, position=position[:7])
    with pytest.raises(ValueError, match=r"shape \[num_nodes, 4\]"):
        conv(x, deep, position=position[:, :3])
    with pytest.raises(ValueError, match=r"2 domains needs 'domain' of shape \(13,\)"):
        conv(x, deep, position=position)
    with pytest.raises(ValueError, match="between 0 and 1, got 2"):
        conv(x, deep, position=position, domain=torch.full((13,), 2))


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


def test_positions_and_edges_do_not_say_which_row_is_which_node():
    conv = HSAConv(5, 8, heads=2, position_dim=4)
    x_dict = {"word": torch.randn(3, 5)}
    parents = {("word", "child_of", "text"): torch.tensor([[0, 1, 2], [0, 0, 0]])}
    with pytest.raises(ValueError, match=r"pass batch\.hierarchy"):
        conv(x_dict, parents, position=torch.randn(4, 4))


@pytest.mark.parametrize("relation", ["childof", "in"])
def test_edges_without_parents_would_switch_attention_off(relation):
    conv = HSAConv(5, 8, heads=2)
    x_dict = {"word": torch.randn(3, 5)}
    parents = {("word", relation, "text"): torch.tensor([[0, 1, 2], [0, 0, 0]])}
    with pytest.raises(ValueError, match="attend to itself alone"):
        conv(x_dict, parents)
