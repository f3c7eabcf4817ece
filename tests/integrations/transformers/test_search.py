"""Trees from keys: valid, within their bounds, and the same in any batch."""

import pytest
import torch

from hsa_pyg.analysis import attention_flops
from hsa_pyg.integrations.transformers import Tokens, make_builder
from hsa_pyg.integrations.transformers.energy import Energy
from hsa_pyg.integrations.transformers.search import Clusters, Ward

BUILDERS = {
    "ward:2": Ward(2),
    "ward:8": Ward(8),
    "clusters": Clusters(0.2),
    "clusters, blocks": Clusters(0.2, block=16),
    "clusters, even": Clusters(0.1, weighted=False),
    "neighbours": Clusters(0.2, adjacent=True),
    "neighbours, even": Clusters(0.1, adjacent=True, weighted=False),
    "energy": Energy(0.2),
}
ADJACENT = ("ward:2", "ward:8", "neighbours", "neighbours, even", "energy")


LONG = "c" + "t" * 40 + "c" + "t" * 13 + "c"
TEXTS = (LONG, "c" + "t" * 30 + "c" + "." * 24, "." * 50 + "cttc" + "..", "t" * 56)


def groups(hierarchy, tree):
    """Leaf rows below each child of a root, counted from the text's first row."""
    root = hierarchy.roots[tree]
    row = (hierarchy.leaf_tree == tree).nonzero()[:, 0]
    node = hierarchy.leaves[row]
    while bool((below := hierarchy.parent[node] != root).any()):
        node = torch.where(below, hierarchy.parent[node], node)
    return {tuple((node == child).nonzero()[:, 0].tolist()) for child in node.unique()}


@pytest.mark.parametrize("name", BUILDERS)
def test_leaves_in_token_order_and_special_tokens_at_the_root(name, scored):
    tokens = scored(*TEXTS)
    forest = BUILDERS[name](tokens)
    assert forest.leaves.tolist() == list(range(int(tokens.kept.sum())))
    assert torch.equal(forest.leaf_tree, tokens.text_of_leaf)
    assert forest.num_roots == len(TEXTS)
    special = forest.leaves[tokens.special_leaf]
    assert (forest.depth[special] == 1).all()
    # No family of one: it would be counted and change nothing.
    children = torch.bincount(forest.parent[forest.parent >= 0])
    assert (children[children > 0] > 1).all()


@pytest.mark.parametrize("name", BUILDERS)
def test_a_batch_gives_what_each_text_alone_gives(name, scored):
    tokens = scored(*TEXTS)
    forest = BUILDERS[name](tokens)
    again = BUILDERS[name](tokens)
    assert torch.equal(forest.parent, again.parent)
    for tree, text in enumerate(TEXTS):
        mine = tokens.text_of_leaf == tree
        alone = Tokens(
            tokens.kept[tree : tree + 1],
            tokens.special[tree : tree + 1],
            q=tokens.q[mine],
            k=tokens.k[mine],
        )
        assert groups(BUILDERS[name](alone), 0) == groups(forest, tree), text


@pytest.mark.parametrize("name", ADJACENT)
def test_families_of_neighbours_reach_across_no_special_token(name, scored):
    forest = BUILDERS[name](scored(LONG))
    for group in groups(forest, 0):
        assert list(group) == list(range(group[0], group[-1] + 1))
        assert len(group) == 1 or not {0, 41, 55} & set(group)


@pytest.mark.parametrize("size", [2, 3, 8])
def test_families_of_ward_are_capped(size, scored):
    forest = Ward(size)(scored("t" * 100, "c" + "t" * 70 + "c" + "." * 28))
    children = torch.bincount(forest.parent[forest.parent >= 0])
    text = forest.parent.new_tensor([size, size + 2])
    assert (children[forest.roots] <= text).all()
    children[forest.roots] = 0
    assert children.max() <= size


@pytest.mark.parametrize("make", [Clusters, Energy])
@pytest.mark.parametrize("share", [0.5, 0.3, 0.2])
def test_the_share_is_reached_and_not_passed_by_far(make, share, scored):
    forest = make(share)(scored("c" + "t" * 150 + "c"))
    flops = attention_flops(forest, channels=1, heads=1)
    assert flops.hsa <= share * flops.softmax
    assert flops.hsa >= 0.6 * share * flops.softmax


@pytest.mark.parametrize("adjacent", [True, False])
def test_families_within_families_where_one_level_is_too_dear(adjacent, scored):
    tokens = scored("c" + "t" * 60 + "c", "c" + "t" * 45 + "c" + "." * 15)
    flat = Clusters(0.2, adjacent=adjacent)(tokens)
    assert flat.max_depth == 2
    deep = Clusters(0.1, adjacent=adjacent)(tokens)
    assert deep.max_depth == 3
    flops = attention_flops(deep, channels=1, heads=1)
    assert flops.hsa <= 0.12 * flops.softmax


def test_a_share_of_all_is_softmax_and_none_is_as_little_as_can_be(scored):
    tokens = scored(LONG)
    for make in (Clusters, Energy):
        assert make(1.0)(tokens).num_families == 1
        least = attention_flops(make(1e-9)(tokens), channels=1, heads=1)
        assert least.hsa < 0.35 * least.softmax


def test_clusters_find_what_is_alike_wherever_it_stands(scored):
    tokens = scored("t" * 24)
    kind = torch.arange(24) % 3
    k = 20.0 * torch.eye(8, dtype=torch.double)[kind][:, None].expand(-1, 2, -1)
    tokens = Tokens(tokens.kept, tokens.special, q=0 * tokens.q, k=k)
    forest = Clusters(1e-9)(tokens)
    assert all(len(set(kind[list(group)].tolist())) == 1 for group in groups(forest, 0))
    assert len(groups(forest, 0)) < 10


def test_what_special_tokens_attend_to_stays_alone(scored):
    tokens = scored("c" + "t" * 40)
    k = tokens.k.clone()
    k[20] += 6 * tokens.q[0] / tokens.q[0].square().mean().sqrt()
    tokens = Tokens(tokens.kept, tokens.special, q=tokens.q, k=k)
    for adjacent in (True, False):
        assert (20,) in groups(Clusters(0.2, adjacent=adjacent)(tokens), 0)


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("texts", [("....",), ("t...",), ("cc",), ("ctc", "...")])
def test_texts_without_or_with_one_token(name, texts, scored):
    tokens = scored(*texts)
    forest = BUILDERS[name](tokens)
    assert forest.num_leaves == int(tokens.kept.sum())
    assert forest.num_roots == len(texts)


@pytest.mark.parametrize("name", BUILDERS)
def test_half_precision_and_equal_keys(name, scored):
    tokens = scored("c" + "t" * 30 + "c", dtype=torch.float32)
    half = Tokens(
        tokens.kept, tokens.special, q=tokens.q.bfloat16(), k=tokens.k.bfloat16()
    )
    assert BUILDERS[name](half).num_leaves == 32
    same = Tokens(tokens.kept, tokens.special, q=tokens.q, k=torch.ones_like(tokens.k))
    assert BUILDERS[name](same).num_leaves == 32


def test_bad_input_is_refused_by_name():
    with pytest.raises(ValueError, match="2 members"):
        Ward(1)
    for make in (Clusters, Energy):
        for share in (0.0, 1.5, -1.0):
            with pytest.raises(ValueError, match="share must be"):
                make(share)
    with pytest.raises(ValueError, match="block must be"):
        Clusters(block=1)
    bare = Tokens(torch.ones(1, 3).bool(), torch.zeros(1, 3).bool())
    for builder in (Ward(4), Clusters(), Energy()):
        with pytest.raises(ValueError, match="queries and keys"):
            builder(bare)


def test_ward_is_known_by_name():
    assert make_builder("ward:8") == Ward(8)


@pytest.mark.parametrize(
    "spec", ["ward:2", "clusters:0.2", "segments:0.2", "energy:0.2"]
)
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_keys_that_are_not_finite_end_the_search(spec, value, scored):
    tokens = scored("cttttttttc", "cttttc....")
    tokens.k[3:6] = value
    hierarchy = make_builder(spec)(tokens)
    assert hierarchy.num_leaves == 16
    tokens.k[:] = value
    assert make_builder(spec)(tokens).num_leaves == 16
