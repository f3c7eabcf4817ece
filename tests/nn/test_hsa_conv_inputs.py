"""What HSAConv takes: leaves and edges per type, lazy sizes, and what it refuses."""

import copy

import pytest
import torch

from hsa_pyg import SignalHierarchy
from hsa_pyg.nn import HSAConv


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"out_channels": 10, "heads": 4},
            r"'out_channels' \(got 10\) must be divisible by the number of heads "
            r"\(got 4\)",
        ),
        ({"out_channels": 8, "heads": 0}, "'heads' must be at least 1, got 0"),
        ({"out_channels": 0, "heads": 1}, "'out_channels' must be at least 1, got 0"),
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
    with pytest.raises(
        TypeError, match=r"got Tensor; it is a tree, not a graph.s edge_index"
    ):
        conv(x, torch.tensor([[0], [1]]))
    with pytest.raises(TypeError, match="needs a dictionary of leaf features"):
        conv(x, edges)
    with pytest.raises(TypeError, match=r"must be a tensor .* got tuple"):
        conv((x, x), deep)
    with pytest.raises(ValueError, match="knows no node types"):
        conv({"word": x}, deep)
    with pytest.raises(ValueError, match="'position' was given; make it with the wid"):
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
    with pytest.raises(ValueError, match=r"not given; pass position=\[num_nodes, 4\]"):
        conv(x, deep)
    with pytest.raises(ValueError, match="one row for each of the 13 nodes"):
        conv(x, deep, position=position[:7])
    with pytest.raises(ValueError, match=r"shape \[num_nodes, 4\]"):
        conv(x, deep, position=position[:, :3])
    with pytest.raises(ValueError, match=r"2 domains needs 'domain' of shape \(13,\)"):
        conv(x, deep, position=position)
    with pytest.raises(ValueError, match="between 0 and 1, got 2"):
        conv(x, deep, position=position, domain=torch.full((13,), 2))
    with pytest.raises(ValueError, match=r"'position_index' .* of the 13 nodes"):
        conv(x, deep, position=position, position_index=torch.zeros(7).long())
    with pytest.raises(ValueError, match=r"'position_index' must have shape \[13\]"):
        conv(x, deep, position=position, position_index=torch.zeros(13, 1).long())
    with pytest.raises(TypeError, match="'position_index' must be a tensor, got list"):
        conv(x, deep, position=position, position_index=[0] * 13)
    with pytest.raises(ValueError, match="'position_index' was given, but no 'posit"):
        HSAConv(5, 8)(x, deep, position_index=torch.zeros(13).long())


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


def test_habits_of_other_layers_are_named(deep):
    with pytest.raises(TypeError, match=r"got tuple; .* there is no pair of sizes"):
        HSAConv((16, 16), 64)
    with pytest.raises(ValueError, match="backend 'gpu' is unknown; choose one of"):
        HSAConv(16, 64, backend="gpu")
    with pytest.raises(TypeError, match="Batch only lists the hierarchies of plain"):
        HSAConv(5, 8)(torch.randn(14, 5), [deep, deep])


@pytest.mark.parametrize("name", ["heads", "out_channels"])
def test_numbers_that_are_not_whole_are_named(name):
    options = {"out_channels": 8, "heads": 2, name: 2.0}
    with pytest.raises(
        TypeError, match=f"'{name}' must be an integer, got 2.0; use in"
    ):
        HSAConv(8, **options)
