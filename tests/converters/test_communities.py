import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hsa_pyg.converters.communities import community_tree
from hsa_pyg.converters.partition import METHODS, Partition


def edges(pairs):
    return torch.tensor(pairs, dtype=torch.long).view(-1, 2).t()


def clique(size, first=0):
    return [(first + a, first + b) for a in range(size) for b in range(a)]


def families(tree):
    """Sizes of the families: the root's first."""
    parents = torch.cat([tree.vertex_parent, tree.community_parent]) + 1
    return torch.bincount(parents, minlength=len(tree.community_parent) + 1)


def check(tree, num_nodes, max_family):
    """Every vertex is under the root once, and every family of a fair size."""
    assert len(tree.vertex_parent) == num_nodes
    sizes = families(tree)
    assert int(sizes.max()) <= max_family
    assert num_nodes == 1 or int(sizes.min()) >= 2
    # Parents come first, so that there is no cycle.
    number = torch.arange(len(tree.community_parent))
    assert bool((tree.community_parent < number).all())


SHAPES = {
    "path": ([(node, node + 1) for node in range(999)], 1000),
    "star": ([(0, node) for node in range(1, 1000)], 1000),
    "clique": (clique(150), 150),
    "singletons": ([], 5000),
    "pairs": ([(node, node + 1) for node in range(0, 2000, 2)], 2000),
    "clique and singletons": (clique(30), 500),
    "many cliques": ([p for n in range(300) for p in clique(4, 4 * n)], 1200),
    "one vertex": ([], 1),
    "a loop": ([(0, 0)], 1),
    "two apart": ([], 2),
    "two joined": ([(0, 1), (1, 0), (0, 1)], 2),
    "three": ([(0, 1)], 3),
}


@pytest.mark.parametrize("max_family", [2, 3, 64])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_family_is_capped(shape, max_family):
    pairs, num_nodes = SHAPES[shape]
    for method in METHODS:
        partition = Partition(method, max_family=max_family)
        check(
            community_tree(edges(pairs), num_nodes, None, partition),
            num_nodes,
            max_family,
        )


@pytest.mark.parametrize("method", METHODS)
def test_two_cliques_make_two_communities(method):
    pairs = clique(5) + clique(5, 5) + [(0, 5)]
    partition = Partition(method, branching=2 if method == "metis" else None)
    tree = community_tree(edges(pairs), 10, None, partition)
    assert tree.vertex_parent.tolist() == [0] * 5 + [1] * 5
    assert tree.community_parent.tolist() == [-1, -1]


def test_communities_of_communities():
    # Nine cliques in three rings of three; the rings hang together by one edge each.
    pairs = [pair for number in range(9) for pair in clique(6, 6 * number)]
    for ring in (0, 18, 36):
        pairs += [(ring, ring + 6), (ring + 7, ring + 12), (ring + 13, ring + 1)]
    pairs += [(2, 20), (21, 38)]
    tree = community_tree(edges(pairs), 54, None, Partition(max_family=6))
    lowest = tree.vertex_parent.view(9, 6)
    assert bool((lowest == lowest[:, :1]).all())
    assert len(set(lowest[:, 0].tolist())) == 9
    above = tree.community_parent[lowest[:, 0]].view(3, 3)
    assert bool((above == above[:, :1]).all())
    assert above[:, 0].tolist() == [0, 1, 2]


def test_small_components_are_gathered_in_one_community():
    # A ring of 40 cliques, and 30 more that hang together with nothing.
    pairs = [pair for number in range(70) for pair in clique(5, 5 * number)]
    pairs += [(5 * number, 5 * (number + 1) % 200 + 1) for number in range(40)]
    tree = community_tree(edges(pairs), 350, None, Partition(max_family=16))

    def top(vertex):
        community = int(tree.vertex_parent[vertex])
        while int(tree.community_parent[community]) >= 0:
            community = int(tree.community_parent[community])
        return community

    loose = {top(vertex) for vertex in range(200, 350)}
    assert len(loose) == 1
    assert not loose & {top(vertex) for vertex in range(200)}


def test_isolated_vertices_have_a_community_of_their_own():
    pairs = clique(6) + clique(6, 10)
    tree = community_tree(edges(pairs), 20, None, Partition())
    parent = tree.vertex_parent
    alone = torch.tensor([6, 7, 8, 9, 16, 17, 18, 19])
    assert len(set(parent[alone].tolist())) == 1
    assert int((parent == parent[6]).sum()) == len(alone)


def test_a_single_isolated_vertex_is_a_child_of_the_root():
    pairs = clique(6) + clique(6, 6)
    tree = community_tree(edges(pairs), 13, None, Partition())
    assert int(tree.vertex_parent[12]) == -1
    assert len(tree.community_parent) == 2


def test_a_star_is_divided_into_even_chunks():
    pairs, num_nodes = SHAPES["star"]
    tree = community_tree(edges(pairs), num_nodes, None, Partition())
    sizes = families(tree)
    assert len(sizes) == 33  # 32 chunks and the root
    assert set(sizes[1:].tolist()) == {31, 32}
    assert bool((tree.vertex_parent.diff() >= 0).all())


def test_50_000_isolated_vertices_are_gathered():
    tree = community_tree(torch.empty(2, 0).long(), 50_000, None, Partition())
    check(tree, 50_000, 64)
    assert len(tree.community_parent) == 37 + 37 * 37


def test_bisection_makes_a_tree_of_fixed_branching():
    pairs, num_nodes = SHAPES["path"]
    partition = Partition("bisection", max_family=2)
    sizes = families(community_tree(edges(pairs), num_nodes, None, partition))
    assert set(sizes.tolist()) == {2}
    partition = Partition("bisection", max_family=64, branching=3)
    sizes = families(community_tree(edges(pairs), num_nodes, None, partition))
    # 1000 = 27 * 37 + 1
    assert sorted(sizes.tolist()) == [3] * 13 + [37] * 26 + [38]


def test_a_callable_that_peels_one_vertex_off_ends_in_chunks():
    calls = []

    def peel(edge_index, num_nodes, seed):
        calls.append(num_nodes)
        return (torch.arange(num_nodes) > 0).long()

    pairs, num_nodes = SHAPES["path"]
    tree = community_tree(edges(pairs), num_nodes, None, Partition(peel, max_family=10))
    check(tree, num_nodes, 10)
    # Not once a vertex: after a few vain cuts there is an end.
    assert len(calls) < 100


def test_a_callable_that_does_nothing_ends_in_chunks():
    for nothing in (lambda e, n, s: torch.zeros(n).long(), lambda e, n, s: range(n)):
        tree = community_tree(
            edges([(0, 1)]), 100, None, Partition(nothing, max_family=10)
        )
        check(tree, 100, 10)
        assert families(tree).tolist() == [10] * 11


def test_weights_count_and_direction_does_not():
    ring = [(node, (node + 1) % 8) for node in range(8)]
    weight = torch.tensor([9.0, 0.1] * 4)
    tree = community_tree(edges(ring), 8, weight, Partition(max_family=4))
    back = [(b, a) for a, b in reversed(ring)]
    same = community_tree(edges(back), 8, weight.flip(0), Partition(max_family=4))
    assert tree.vertex_parent.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert torch.equal(tree.vertex_parent, same.vertex_parent)


@pytest.mark.parametrize("method", METHODS)
def test_large_random_graphs_are_divided_in_one_way(method):
    pairs = np.random.default_rng(1).integers(0, 2000, (2, 8000))
    edge_index = torch.from_numpy(pairs)
    first = community_tree(edge_index, 2000, None, Partition(method, max_family=16))
    again = community_tree(edge_index, 2000, None, Partition(method, max_family=16))
    check(first, 2000, 16)
    assert torch.equal(first.vertex_parent, again.vertex_parent)
    assert torch.equal(first.community_parent, again.community_parent)
    # Far more edges stay inside than in communities drawn by lot (16 / 2000).
    inside = first.vertex_parent[edge_index[0]] == first.vertex_parent[edge_index[1]]
    assert float(inside.float().mean()) > 0.1


def test_a_random_graph_of_20_000_vertices():
    pairs = torch.from_numpy(np.random.default_rng(3).integers(0, 20_000, (2, 100_000)))
    tree = community_tree(pairs, 20_000, None, Partition())
    check(tree, 20_000, 64)


def test_communities_are_numbered_from_the_root_down():
    pairs = np.random.default_rng(2).integers(0, 500, (2, 1500))
    tree = community_tree(
        torch.from_numpy(pairs), 500, None, Partition("metis", max_family=8)
    )
    depth = torch.zeros(len(tree.community_parent), dtype=torch.long)
    for number, parent in enumerate(tree.community_parent.tolist()):
        depth[number] = 0 if parent < 0 else depth[parent] + 1
    assert bool((depth.diff() >= 0).all())


@st.composite
def graphs(draw):
    num_nodes = draw(st.integers(1, 30))
    node = st.integers(0, num_nodes - 1)
    weights = st.sampled_from([0.0, 1e-9, 1.0, 2.5, 1e9])
    found = draw(st.lists(st.tuples(node, node, weights), max_size=60))
    weight = torch.tensor([value for _, _, value in found])
    return edges([(a, b) for a, b, _ in found]), num_nodes, weight


@settings(max_examples=60, deadline=None)
@given(graphs(), st.integers(2, 9), st.sampled_from(METHODS), st.booleans())
def test_any_graph_is_divided(graph, max_family, method, weighted):
    edge_index, num_nodes, weight = graph
    partition = Partition(method, max_family=max_family)
    tree = community_tree(
        edge_index, num_nodes, weight if weighted else None, partition
    )
    check(tree, num_nodes, max_family)
