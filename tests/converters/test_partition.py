import random
import re
import sys

import numpy as np
import pytest
import torch

from hsa_pyg.converters.partition import (
    METHODS,
    Partition,
    WeightedGraph,
    chunks,
    even_parts,
)


def graph(pairs, num_nodes, weight=None):
    row, col = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    weight = np.ones(len(row)) if weight is None else np.array(weight, dtype=float)
    return WeightedGraph.of(row, col, weight, num_nodes)


def clique(size, first=0):
    return [(first + a, first + b) for a in range(size) for b in range(a)]


@pytest.fixture
def noise():
    pairs = np.random.default_rng(0).integers(0, 300, (900, 2))
    return graph(pairs, 300)


def test_directions_loops_and_parallel_edges_become_weights():
    found = graph([(1, 0), (0, 1), (2, 2), (1, 2), (0, 2)], 3, [1, 2, 5, 0.5, 0])
    assert found.row.tolist() == [0, 1]
    assert found.col.tolist() == [1, 2]
    assert found.weight.tolist() == [3.0, 0.5]
    assert found.connected.tolist() == [True, True, True]
    assert graph([(2, 2)], 3).connected.tolist() == [False] * 3


def test_contraction_forgets_what_is_inside():
    square = graph([(0, 1), (1, 2), (2, 3), (3, 0)], 4, [1, 2, 3, 4])
    found = square.contract(np.array([0, 0, 1, 1]), 2)
    assert (found.row.tolist(), found.col.tolist()) == ([0], [1])
    assert found.weight.tolist() == [6.0]


def test_pieces_are_the_induced_graphs():
    whole = graph([(0, 2), (2, 4), (1, 3), (0, 1)], 5, [1, 2, 3, 4])
    (even, first), (odd, second) = whole.pieces(np.array([0, 1, 0, 1, 0]), 2)
    assert even.tolist() == [0, 2, 4]
    assert odd.tolist() == [1, 3]
    assert list(zip(first.row, first.col, first.weight, strict=True)) == [
        (0, 1, 1.0),
        (1, 2, 2.0),
    ]
    assert (second.row.tolist(), second.col.tolist()) == ([0], [1])


@pytest.mark.parametrize("method", METHODS)
def test_two_cliques_are_told_apart(method):
    # Interleaved, so that no order of the numbers gives them away.
    pairs = [(2 * a, 2 * b) for a, b in clique(6)]
    pairs += [(a + 1, b + 1) for a, b in pairs] + [(0, 1)]
    branching = 2 if method == "metis" else None
    groups = Partition(method, branching=branching)(graph(pairs, 12), True)
    assert groups.tolist() in ([0, 1] * 6, [1, 0] * 6)


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("method", METHODS)
def test_weights_decide_where_the_edges_do_not(method, shift):
    # A ring whose heavy edges join 0-1, 2-3, ... or 1-2, 3-4, ..., 7-0.
    pairs = [(node, (node + 1) % 8) for node in range(8)]
    heavy = [100.0 if node % 2 == shift else 0.1 for node in range(8)]
    branching = 4 if method in ("metis", "bisection") else None
    groups = Partition(method, branching=branching)(graph(pairs, 8, heavy), True)
    assert all(groups[node] == groups[(node + 1) % 8] for node in range(shift, 8, 2))
    assert len(set(groups.tolist())) > 1


@pytest.mark.parametrize("method", METHODS)
def test_isolated_nodes_are_one_group_of_a_whole_graph(method):
    branching = 2 if method == "metis" else None
    pairs = clique(6) + clique(6, 6)
    groups = Partition(method, branching=branching)(graph(pairs, 20), True)
    assert len(set(groups[12:])) == 1
    assert not set(groups[:12]) & set(groups[12:])
    assert sorted(set(groups)) == [0, 1, 2]
    assert Partition(method)(graph([], 4), True) is None


@pytest.mark.parametrize("method", METHODS)
def test_seeds_decide_and_earlier_calls_do_not(noise, method):
    first = Partition(method, seed=3)(noise, True)
    Partition(method, seed=4)(noise, True)
    random.random()
    assert (Partition(method, seed=3)(noise, True) == first).all()


@pytest.mark.parametrize("method", METHODS)
def test_seeds_matter(noise, method):
    # METIS makes many small parts in one way only.
    branching = 4 if method == "metis" else None
    found = {
        Partition(method, branching=branching, seed=seed)(noise, True).tobytes()
        for seed in range(5)
    }
    assert len(found) > 1


@pytest.mark.parametrize("method", METHODS)
def test_global_generators_stay_as_they_are(noise, method):
    igraph = pytest.importorskip("igraph")
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()
    Partition(method)(noise, True)
    assert random.getstate() == before[0]
    assert np.random.get_state()[1].tolist() == before[1]
    assert torch.equal(torch.get_rng_state(), before[2])
    # And igraph is back at the module random.
    random.seed(5)
    first = igraph.Graph.Erdos_Renyi(50, 0.2).get_edgelist()
    random.seed(5)
    assert igraph.Graph.Erdos_Renyi(50, 0.2).get_edgelist() == first


@pytest.mark.parametrize(("size", "parts"), [(7, 2), (50, 3), (101, 4), (5, 5)])
def test_bisection_is_even(size, parts):
    pairs = [(0, node) for node in range(1, size)] + clique(min(size, 9))
    groups = Partition("bisection", branching=parts)(graph(pairs, size), True)
    sizes = np.bincount(groups)
    assert len(sizes) == parts
    assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize(
    ("num_nodes", "max_family", "parts"),
    [(65, 64, 9), (4096, 64, 64), (4097, 64, 17), (3, 2, 2), (50_000, 64, 37)],
)
def test_even_parts_give_the_fewest_levels(num_nodes, max_family, parts):
    assert even_parts(num_nodes, max_family) == parts


def test_chunks_are_even_and_in_order():
    assert chunks(7, 3).tolist() == [0, 0, 0, 1, 1, 2, 2]


def test_a_callable_sees_both_directions_and_the_seed():
    seen = []

    def halves(edge_index, num_nodes, seed):
        seen.append((edge_index.tolist(), num_nodes, seed))
        return torch.arange(num_nodes) // 2 * 7

    groups = Partition(halves, seed=9)(graph([(0, 1), (1, 2)], 4), True)
    assert groups.tolist() == [0, 0, 1, 1]
    assert seen == [([[0, 1, 1, 2], [1, 2, 0, 1]], 4, 9)]


@pytest.mark.parametrize(
    "answer", [torch.zeros(3).long(), torch.zeros(4), torch.zeros(4) * 1j]
)
def test_a_callable_that_answers_amiss_is_told(answer):
    with pytest.raises(ValueError, match=r"membership of torch.\w+ in the shape \[\d"):
        Partition(lambda *_: answer)(graph([(0, 1)], 4), True)


@pytest.mark.parametrize("answer", [None, "halves", {0: 1}, [1, [2]]])
def test_a_callable_that_answers_no_tensor_is_told(answer):
    with pytest.raises(TypeError, match=r"gave a \w+ that is no tensor of integers"):
        Partition(lambda *_: answer)(graph([(0, 1)], 4), True)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"method": "lieden"}, ValueError, "method='lieden' is not known"),
        ({"method": 3}, TypeError, "got a int"),
        ({"max_family": 1}, ValueError, "max_family must be at least 2"),
        ({"max_family": 2.5}, TypeError, "max_family must be an integer"),
        ({"seed": -1}, ValueError, "seed must be at least 0"),
        ({"branching": 2}, ValueError, "of the methods 'metis' and 'bisection'"),
        ({"method": "metis", "branching": 1}, ValueError, "branching must be at least"),
        ({"method": "metis", "branching": 99}, ValueError, "exceeds max_family=64"),
    ],
)
def test_settings_out_of_range_are_refused(settings, error, message):
    with pytest.raises(error, match=re.escape(message)):
        Partition(**settings)


@pytest.mark.parametrize(("method", "library"), [("leiden", "igraph"), ("metis", "py")])
def test_a_missing_library_names_the_extra(monkeypatch, method, library):
    name = {"igraph": "igraph", "py": "pymetis"}[library]
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r'pip install "hsa-pyg\[graph\]"'):
        Partition(method)(graph([(0, 1), (1, 2)], 3), True)
