"""Forests that are none: each error names the node and says what to do."""

import pytest
import torch

from hsa_pyg import SignalHierarchy

WORDS = ("word", "child_of", "page")
NODES = {"word": 3, "page": 2}


def edges(*pairs):
    return torch.tensor(pairs).T


@pytest.mark.parametrize(
    ("parent", "message"),
    [
        ([-1, 0, 5], r"node 2 has parent 5, but the nodes are 0 to 2; -1 marks a root"),
        ([-1, -2, 0], r"node 1 has parent -2, but the nodes are 0 to 2"),
        ([0], r"node 0 is its own ancestor.*mark one node as a root"),
        ([-1, 2, 3, 1, 0], r"node [123] is its own ancestor"),
        ([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 9], r"node (9|10) is its own ancestor"),
    ],
)
def test_parents_that_form_no_forest(parent, message):
    with pytest.raises(ValueError, match=message):
        SignalHierarchy.from_parents(torch.tensor(parent))


def test_a_cycle_of_a_hundred_thousand_nodes_far_from_a_tree():
    """No endless walk: the node that is named lies on the cycle."""
    cycle = torch.arange(100_000).roll(1) + 2
    parent = torch.cat([torch.tensor([-1, 0]), cycle, torch.tensor([5])])
    with pytest.raises(ValueError, match="its own ancestor") as caught:
        SignalHierarchy.from_parents(parent)
    named = int(str(caught.value).split()[1])
    assert 2 <= named < 100_002


@pytest.mark.parametrize(
    ("parent", "error", "message"),
    [
        ([-1, 0], TypeError, r"must be a tensor of integers, got list; use torch"),
        (torch.tensor([[-1, 0]]), ValueError, r"one dimension .*got shape \(1, 2\)"),
        (
            torch.tensor([-1.0, 0.0]),
            TypeError,
            r"must hold integers, got torch.float32",
        ),
        (torch.tensor([True]), TypeError, r"must hold integers, got torch.bool"),
    ],
)
def test_parents_that_are_no_vector_of_integers(parent, error, message):
    with pytest.raises(error, match=message):
        SignalHierarchy.from_parents(parent)


@pytest.mark.parametrize(
    ("mask", "error", "message"),
    [
        (torch.tensor([0, 1, 1]), TypeError, "tensor of booleans, got torch.int64"),
        ([False, True, True], TypeError, "tensor of booleans, got list"),
        (torch.ones(2) > 0, ValueError, r"leaf_mask \(2,\).*match parent \(3,\)"),
        (torch.ones(3) > 0, ValueError, "node 0 is a leaf but has a child, node 1"),
        (torch.ones(3, device="meta") > 0, ValueError, "on meta does not match"),
    ],
)
def test_masks_that_do_not_fit(mask, error, message):
    with pytest.raises(error, match=message):
        SignalHierarchy.from_parents(torch.tensor([-1, 0, 0]), mask)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (
            {WORDS: edges((0, 0), (1, 1), (0, 0))},
            ValueError,
            "edge from node 0 of type 'word' to its parent, node 0 of type 'page', "
            "stands twice: keep it once",
        ),
        (
            {WORDS: edges((0, 0), (1, 1), (0, 1))},
            ValueError,
            "node 0 of type 'word' has more than one parent.*keep one",
        ),
        (
            {WORDS: edges((2, 0)), ("word", "child_of", "word"): edges((2, 0))},
            ValueError,
            "node 2 of type 'word' has more than one parent",
        ),
        (
            {WORDS: edges((0, 2))},
            ValueError,
            r"edge 0 of \('word', 'child_of', 'page'\) names node 2 of type 'page', "
            "which has 2 nodes",
        ),
        ({WORDS: edges((0, 0), (-1, 0))}, ValueError, "edge 1 .* names node -1"),
        (
            {("word", "child_of", "site"): edges((0, 0))},
            ValueError,
            r"node type 'site', which is not among \['word', 'page'\]",
        ),
        ({WORDS: torch.zeros(3, 4).long()}, ValueError, r"shape \[2, num_.*\(3, 4\)"),
        (
            {WORDS: torch.zeros(2, 1)},
            TypeError,
            r"\('word', 'child_of', 'page'\) must .*integers, got torch.float32",
        ),
        ({WORDS: [[0], [0]]}, TypeError, "'page'\\) must be a tensor .*, got list"),
        ({WORDS: torch.ones(2, 1) > 0}, TypeError, "holds integers, got torch.bool"),
        (
            {WORDS: torch.ones(2, 1) * 1j},
            TypeError,
            "holds integers, got torch.complex",
        ),
        # Not another relation, whose edges would be left out without a word.
        ({"word__child_of__page": edges((0, 0))}, TypeError, "be a triple .*'word__ch"),
        (
            {("word", "page"): edges((0, 0))},
            TypeError,
            r"a triple .*\('word', 'page'\)",
        ),
        (
            {("page", "child_of", "page"): edges((0, 1), (1, 0))},
            ValueError,
            "node [01] of type 'page' is its own ancestor",
        ),
        (
            {
                WORDS: edges((0, 0)),
                ("page", "child_of", "page"): torch.zeros(
                    2, 0, dtype=torch.long, device="meta"
                ),
            },
            ValueError,
            r"several devices: \['cpu', 'meta'\]",
        ),
    ],
)
def test_edges_that_form_no_forest(given, error, message):
    with pytest.raises(error, match=message):
        SignalHierarchy.from_edge_index(given, NODES)


def test_a_leaf_type_with_children():
    with pytest.raises(
        ValueError,
        match="node 1 of type 'page' is a leaf but has a child, node 2 of type 'word'",
    ):
        SignalHierarchy.from_edge_index(
            {WORDS: edges((2, 1))}, NODES, leaf_types=["word", "page"]
        )


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"word": [0, 0, 0]}, "no entry for the 2 nodes of type 'page'"),
        ({"word": [0, 0], "page": [0, 0]}, r"2 samples of shape \(2,\) for the 3 nod"),
        ({"word": [[0], [0], [0]], "page": [0, 0]}, r"shape \(3, 1\) .*type 'word'"),
        ({"word": [0, -1, 0], "page": [0, 0]}, "node 1 of type 'word' into sample -1"),
        (
            {"word": [0, 0, 0], "page": [0, 0], "pag": [0]},
            "type 'pag', which is not a",
        ),
        (
            {"word": [0, 1, 1], "page": [0, 1]},
            "node 1 of type 'word' belongs to sample 1, but its parent, node 0 of type "
            "'page', to sample 0.*unify",
        ),
        ({"word": [0, 0, 0], "page": [0, 4]}, "names sample 4, but num_trees is 2"),
    ],
)
def test_samples_that_do_not_fit_the_forest(batch, message):
    batch = {name: torch.tensor(sample) for name, sample in batch.items()}
    with pytest.raises(ValueError, match=message):
        SignalHierarchy.from_edge_index(
            {WORDS: edges((0, 0), (1, 0))}, NODES, batch_dict=batch, num_trees=2
        )


@pytest.mark.parametrize("samples", [[0, 0, 0], torch.zeros(3), torch.ones(3) > 0])
def test_samples_that_are_no_integers(samples):
    batch = {"word": samples, "page": torch.zeros(2, dtype=torch.long)}
    with pytest.raises(TypeError, match="tensor of integers for type 'word', got "):
        SignalHierarchy.from_edge_index({}, NODES, batch_dict=batch)


def test_a_number_of_trees_means_nothing_without_the_samples():
    with pytest.raises(ValueError, match="num_trees=7 needs batch_dict"):
        SignalHierarchy.from_edge_index({WORDS: edges((0, 0))}, NODES, num_trees=7)


@pytest.mark.parametrize(
    ("number", "error", "message"),
    [
        (-1, ValueError, "nodes of type 'page' must not be negative, got -1"),
        (2.7, TypeError, "nodes of type 'page' must be an integer, got 2.7"),
        (None, TypeError, "nodes of type 'page' must be an integer, got None"),
    ],
)
def test_numbers_of_nodes_that_are_none(number, error, message):
    with pytest.raises(error, match=message):
        SignalHierarchy.from_edge_index({}, {"page": number, "word": 3})


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32])
def test_edges_of_a_narrow_type_among_more_nodes_than_it_can_count(dtype):
    pairs = torch.tensor([[44, 99], [0, 0]], dtype=dtype)
    hierarchy = SignalHierarchy.from_edge_index(
        {WORDS: pairs}, {"word": 300, "page": 1}
    )
    assert hierarchy.parent[[44, 99]].tolist() == [300, 300]
    assert hierarchy.leaf_counts[-1] == 2


@pytest.mark.parametrize(
    ("more", "is_a_transform"),
    [([(2, 2)], True), ([(1, 2), (2, 1)], True), ([(2, 1), (2, 0)], False)],
)
def test_a_loop_or_a_reverse_edge_points_to_a_transform(more, is_a_transform):
    parent_edges = {
        ("group", "child_of", "graph"): edges((0, 0), (1, 0), (2, 0)),
        ("group", "child_of", "group"): edges(*more),
    }
    for given in (parent_edges, dict(reversed(parent_edges.items()))):
        with pytest.raises(ValueError, match="more than one parent") as caught:
            SignalHierarchy.from_edge_index(given, {"graph": 1, "group": 3})
        assert ("AddSelfLoops or ToUndirected" in str(caught.value)) == is_a_transform
