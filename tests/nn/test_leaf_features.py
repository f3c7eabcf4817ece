import pytest
import torch
from torch_geometric import EdgeIndex

from hsa_pyg import SignalHierarchy
from hsa_pyg.nn.leaf_features import (
    check_dtype,
    check_hierarchy,
    compile_edges,
    split_leaves,
)


def test_leaf_types_are_those_with_features(edges):
    x = {"word": torch.randn(5, 4), "image": torch.randn(2, 3)}
    h = compile_edges(x, edges, leaf_types=["image", "video"])
    assert h.leaf_slices == {"word": (0, 5), "image": (5, 7), "video": (7, 7)}
    assert h.node_slices == {
        "word": (0, 5),
        "image": (5, 7),
        "video": (7, 7),
        "section": (7, 9),
        "page": (9, 10),
    }
    assert h.num_roots == 1


def test_internal_types_have_as_many_nodes_as_edges_name():
    edges = {
        ("word", "child_of", "line"): torch.tensor([[0, 1], [0, 4]]),
        ("line", "child_of", "page"): torch.tensor([[6], [2]]),
    }
    h = compile_edges({"word": torch.randn(2, 4)}, edges)
    assert h.node_slices["line"] == (2, 9)
    assert h.node_slices["page"] == (9, 12)


def test_leaves_without_parents_are_trees_of_their_own():
    h = compile_edges({"word": torch.randn(3, 4)}, {})
    assert h.num_trees == 3
    assert h.leaf_tree.tolist() == [0, 1, 2]


def test_edge_index_of_pyg_and_negative_ids(edges):
    x = {"word": torch.randn(5, 4), "image": torch.randn(2, 3)}
    kind = ("word", "child_of", "section")
    same = compile_edges(x, {**edges, kind: EdgeIndex(edges[kind])})
    assert torch.equal(same.parent, compile_edges(x, edges).parent)
    with pytest.raises(ValueError, match="names node -1 of type 'section'"):
        compile_edges(x, {**edges, kind: torch.tensor([[0], [-1]])})
    with pytest.raises(ValueError, match=r"shape \[2, num_edges\], got \(3, 5\)"):
        compile_edges(x, {**edges, kind: torch.zeros(3, 5).long()})


def test_rows_of_each_type(edges):
    h = compile_edges({"word": torch.randn(5, 4), "image": torch.randn(2, 3)}, edges)
    x = torch.arange(7.0)[:, None]
    parts = split_leaves(x, h)
    assert parts["word"].flatten().tolist() == [0, 1, 2, 3, 4]
    assert parts["image"].flatten().tolist() == [5, 6]
    assert split_leaves(x[:2], SignalHierarchy.from_parents(torch.tensor([-1]))) == {}


def test_dtypes_may_differ_under_autocast_only():
    half, weight = torch.randn(2, 3).bfloat16(), torch.randn(3, 3)
    with pytest.raises(ValueError, match=r"x is torch\.bfloat16 .* torch\.float32"):
        check_dtype(half, weight, "x")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        check_dtype(half, weight, "x")
    with pytest.raises(
        ValueError, match=r"x is on cpu and the layer's param.* on meta"
    ):
        check_dtype(weight, weight.to("meta"), "x")


@pytest.mark.parametrize("kind", ["word__child_of__section", ("word", "section")])
def test_edges_that_would_pass_for_another_relation(edges, kind):
    """They would be left out, and every leaf would attend to itself alone."""
    x = {"word": torch.randn(5, 4), "image": torch.randn(2, 3)}
    with pytest.raises(TypeError, match="an edge type must be a triple"):
        compile_edges(x, {**edges, kind: torch.tensor([[0], [0]])})


def test_features_of_a_type_that_are_no_tensor(edges):
    x = {"word": torch.randn(5, 4), "image": torch.randn(2, 3)}
    h = compile_edges(x, edges)
    for wrong, got in ((None, "NoneType"), (torch.tensor(1.0), "a scalar")):
        message = rf"x\['image'\] must be a tensor \[num_leaves, channels\], got {got}"
        with pytest.raises(TypeError, match=message):
            compile_edges({**x, "image": wrong}, edges)
        with pytest.raises(TypeError, match=message):
            check_hierarchy({**x, "image": wrong}, h)


def test_the_device_of_every_type_is_compared(edges):
    x = {"word": torch.randn(5, 4), "image": torch.randn(2, 3)}
    h = compile_edges(x, edges)
    with pytest.raises(ValueError, match="on meta and the hierarchy on cpu"):
        check_hierarchy({**x, "image": x["image"].to("meta")}, h)


def test_edges_that_are_a_scalar(edges):
    with pytest.raises(ValueError, match=r"shape \[2, num_edges\], got \(\)"):
        compile_edges(
            {"word": torch.randn(5, 4)},
            {("word", "child_of", "section"): torch.tensor(0)},
        )
