import networkx
import pytest

from hsa_pyg.converters.networkx_structure import read_tree


def digraph(*edges):
    return networkx.DiGraph(edges)


def test_directions_and_roots():
    down = digraph(("r", "a"), ("r", "b"), ("a", "c"))
    for tree in (
        read_tree(down),
        read_tree(down, root="r"),
        read_tree(down.reverse(), "child_to_parent"),
        read_tree(down.to_undirected(), root="r"),
    ):
        assert tree.root == "r"
        assert tree.parent == {"a": "r", "b": "r", "c": "a"}
    assert list(read_tree(down).depth_first()) == ["r", "a", "c", "b"]
    hung_up = read_tree(down.to_undirected(), root="c")
    assert list(hung_up.depth_first()) == ["c", "a", "r", "b"]


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (networkx.DiGraph(), "has no node"),
        (digraph((1, 1)), "node 1 is its own parent"),
        (digraph(("r", "a"), ("r", "b"), ("a", "c"), ("b", "c")), "'c' has two parent"),
        (digraph((1, 2), (3, 4)), "it has 2 roots, among them 1 and 3"),
        (digraph((1, 2), (2, 1)), "node 1 is its own ancestor .* through 2"),
        (digraph((0, 9), (1, 2), (2, 3), (3, 1), (3, 4)), "1 is its own ancestor"),
        (networkx.MultiDiGraph([(1, 2), (1, 2)]), "two edges lead from 1 to 2"),
        (networkx.Graph([(1, 2)]), "An undirected tree needs root="),
    ],
)
def test_what_is_no_tree_names_the_node(graph, message):
    with pytest.raises(ValueError, match=message):
        read_tree(graph)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (networkx.cycle_graph(3), "is reached in two ways.*cycle"),
        (networkx.Graph([(0, 1), (2, 3)]), "node 2 cannot be reached from the root 0"),
        (networkx.Graph([(0, 0)]), "node 0 is its own parent"),
        (networkx.Graph([(0, 1), (1, 1)]), "node 1 is its own parent"),
        (networkx.MultiGraph([(0, 1), (0, 1)]), "Not a tree"),
        (networkx.DiGraph([(1, 0)]), r"root=0 has the parent 1"),
        (networkx.DiGraph([(1, 2)]), r"root=0 is not among the nodes"),
    ],
)
def test_what_does_not_hang_below_the_root_is_named(graph, message):
    with pytest.raises(ValueError, match=message):
        read_tree(graph, root=0)


def test_wrong_direction_is_hinted_at():
    up = digraph(("a", "r"), ("b", "r"))
    with pytest.raises(ValueError, match="pass direction='child_to_parent'"):
        read_tree(up)
    with pytest.raises(ValueError, match="direction='up' is not one of"):
        read_tree(up, "up")
    with pytest.raises(TypeError, match="got a dict; nested lists and dicts"):
        read_tree({})


def test_networkx_agrees_on_what_is_a_tree():
    for seed in range(60):
        graph = networkx.gnp_random_graph(5, 0.2, seed, directed=True)
        try:
            tree = read_tree(graph)
        except ValueError:
            assert not networkx.is_arborescence(graph)
        else:
            assert networkx.is_arborescence(graph)
            assert len(list(tree.depth_first())) == 5
