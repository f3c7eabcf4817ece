"""Forests of every shape, and inputs for them: at random or by a rule."""

import torch
from hypothesis import strategies as st

from hsa_pyg import SignalHierarchy


@st.composite
def parent_vectors(draw, max_nodes=14, trees=None, shuffled=True):
    """Parents of a random forest: unequal depths, chains, any order of the nodes.

    A tree of few nodes is often a chain, one with a small draw often a star.
    """
    number = draw(st.integers(1, max_nodes))
    lowest = -1 if trees is None else 0
    parent = [-1] + [draw(st.integers(lowest, i - 1)) for i in range(1, number)]
    if not shuffled:
        return torch.tensor(parent)
    new_id = draw(st.permutations(range(number)))
    return relabel(torch.tensor(parent), torch.tensor(new_id))


def relabel(parent, new_id):
    """The same forest where node i is called ``new_id[i]``."""
    renamed = torch.full_like(parent, -1)
    above = new_id[parent.clamp(min=0)]
    renamed[new_id] = torch.where(parent < 0, parent, above)
    return renamed


def childless(parent):
    """Which nodes have no children: [M]."""
    mask = torch.ones(parent.numel(), dtype=torch.bool)
    mask[parent[parent >= 0]] = False
    return mask


@st.composite
def forests(draw, max_nodes=14, trees=None, empty=True):
    """A random :class:`SignalHierarchy` with at least one leaf.

    Args:
        max_nodes: largest number of nodes.
        trees: 1 for a single tree, None for any number.
        empty: whether childless nodes may be empty internal nodes.
    """
    parent = draw(parent_vectors(max_nodes, trees))
    mask = childless(parent)
    if empty:
        places = mask.nonzero().view(-1).tolist()
        for place in places[1:]:
            # Shrinks to a forest without empty nodes.
            mask[place] = draw(st.integers(0, 4)) < 4
    return SignalHierarchy.from_parents(parent, mask)


def random_parents(num_nodes, seed, new_tree=0.05, reach=None):
    """Parents of a larger random forest; ``reach`` bounds how far back a parent is."""
    generator = torch.Generator().manual_seed(seed)

    def draw(low, high):
        return int(torch.randint(low, high, (), generator=generator))

    parent = [-1]
    for node in range(1, num_nodes):
        is_root = float(torch.rand((), generator=generator)) < new_tree
        low = 0 if reach is None else max(0, node - reach)
        parent.append(-1 if is_root else draw(low, node))
    return relabel(torch.tensor(parent), torch.randperm(num_nodes, generator=generator))


def star(num_leaves):
    """Parents of one family of leaves."""
    return torch.tensor([-1] + [0] * num_leaves)


def regular(branching, levels):
    """Parents of a tree in which every node above the leaves has as many children."""
    parent, start, width = [-1], 0, 1
    for _ in range(levels):
        parent += [start + i for i in range(width) for _ in range(branching)]
        start, width = start + width, width * branching
    return torch.tensor(parent)


def caterpillar(levels):
    """Parents of a spine of ``levels`` nodes with one leaf each, two on the last."""
    spine = torch.arange(-1, levels - 1)
    return torch.cat([spine, torch.arange(levels), torch.tensor([levels - 1])])


def side_by_side(*parents):
    """Parents of a batch of forests, and the first node id of each."""
    starts, at, joined = [], 0, []
    for parent in parents:
        joined.append(torch.where(parent < 0, parent, parent + at))
        starts.append(at)
        at += parent.numel()
    return torch.cat(joined), starts


def inputs(hierarchy, heads=2, width=3, value=2, seed=0, dtype=torch.float64):
    """Random q, k [N, H, width] and v [N, H, value]."""
    generator = torch.Generator().manual_seed(seed)
    shape = (hierarchy.num_leaves, heads)
    q, k = torch.randn(2, *shape, width, generator=generator, dtype=dtype)
    return q, k, torch.randn(*shape, value, generator=generator, dtype=dtype)


def positions(hierarchy, heads=None, width=2, seed=0, dtype=torch.float64):
    """Random positional embeddings [M, width], or [M, heads, width]."""
    generator = torch.Generator().manual_seed(seed + 1)
    shape = (hierarchy.num_nodes,) if heads is None else (hierarchy.num_nodes, heads)
    return torch.randn(*shape, width, generator=generator, dtype=dtype)


def close(actual, expected, rtol=1e-10):
    """Whether the largest error is below ``rtol`` of the largest expected number."""
    assert actual.shape == expected.shape, (actual.shape, expected.shape)
    if expected.numel() == 0:
        return True
    same = actual == expected  # also infinities
    error = torch.where(same, 0, (actual - expected).abs())
    size = expected[expected.isfinite()].abs()
    largest = float(size.max()) if size.numel() else 0.0
    return float(error.max()) <= rtol * max(largest, 1.0)
