"""Merging by Ward's criterion: against the definition, and in few rounds."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hsa_pyg.integrations.transformers import merging
from hsa_pyg.integrations.transformers.merging import merge


def labels(merges, number):
    """Groups after the ``number`` cheapest merges, as a set of sets of nodes."""
    order, rank = merges.ranks(torch.zeros_like(merges.left))
    kept = torch.zeros_like(order, dtype=torch.bool)
    kept[order] = rank < number
    label = merges.cut(kept)
    return {
        tuple((label == one).nonzero()[:, 0].tolist())
        for one in label.unique().tolist()
    }


def one_by_one(x, mass, number, adjacent, most=None):
    """The definition: merge the cheapest pair of all, ``number`` times."""
    parts = [(i,) for i in range(len(x))]

    def cost(a, b):
        a, b = list(a), list(b)
        mean_a = (x[a] * mass[a, None]).sum(0) / mass[a].sum()
        mean_b = (x[b] * mass[b, None]).sum(0) / mass[b].sum()
        w = mass[a].sum() * mass[b].sum() / (mass[a].sum() + mass[b].sum())
        return float(w * (mean_a - mean_b).square().sum())

    for _ in range(number):
        pairs = [
            (cost(a, b), i, j)
            for i, a in enumerate(parts)
            for j, b in enumerate(parts)
            if i < j and (not adjacent or j == i + 1)
            if most is None or len(a) + len(b) <= most
        ]
        _, i, j = min(pairs)
        parts[i] = parts[i] + parts[j]
        del parts[j]
    return {tuple(sorted(part)) for part in parts}


def run(x, adjacent, mass=None, group=None, most=None):
    group = torch.zeros(len(x), dtype=torch.long) if group is None else group
    mass = torch.ones(len(x), dtype=x.dtype) if mass is None else mass
    return merge(x, mass, group, torch.ones_like(group), adjacent=adjacent, most=most)


@pytest.mark.parametrize("seed", range(4))
def test_any_two_merge_as_the_cheapest_pair_would_again_and_again(seed):
    torch.manual_seed(seed)
    x = torch.randn(14, 3, dtype=torch.double)
    mass = torch.rand(14, dtype=torch.double) + 0.2
    merges = run(x, False, mass)
    for number in (0, 1, 5, 11, 13):
        assert labels(merges, number) == one_by_one(x, mass, number, False)


def test_neighbours_stay_together():
    torch.manual_seed(0)
    merges = run(torch.randn(40, 3), True)
    for number in (5, 20, 30, 39):
        for part in labels(merges, number):
            assert list(part) == list(range(part[0], part[-1] + 1))
    assert merges.left.numel() == 39


def test_neighbours_merge_where_they_are_most_alike():
    x = torch.tensor([0.0, 0.1, 0.05, 5.0, 5.1, 9.0, 9.1, 9.05])[:, None]
    merges = run(x, True)
    assert labels(merges, 5) == {(0, 1, 2), (3, 4), (5, 6, 7)}
    far = run(torch.cat([x, x]), False)
    assert (0, 1, 2, 8, 9, 10) in labels(far, 13)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(2, 9), st.integers(0, 10**6))
def test_merges_of_neighbours_are_capped_and_as_many_as_fit(count, most, seed):
    torch.manual_seed(seed)
    merges = run(torch.randn(count, 2), True, most=torch.tensor([most]))
    parts = sorted(labels(merges, count))
    sizes = [len(part) for part in parts]
    assert max(sizes) <= most
    assert all(a + b > most for a, b in itertools.pairwise(sizes))


def test_heights_never_fall_from_parts_to_wholes():
    torch.manual_seed(0)
    for adjacent in (True, False):
        merges = run(torch.randn(60, 4), adjacent)
        whole = merges.height[merges.num_nodes :]
        assert (merges.height[merges.left] <= whole).all()
        assert (merges.height[merges.right] <= whole).all()


def test_groups_do_not_meet_and_do_not_change_each_other():
    torch.manual_seed(0)
    x = torch.randn(30, 3, dtype=torch.double)
    group = torch.tensor([0] * 11 + [1] + [2] * 18)
    for adjacent in (True, False):
        together = run(x, adjacent, group=group)
        assert together.left.numel() == 10 + 0 + 17
        assert (together.group[together.left] == together.group[together.right]).all()
        for one in (0, 2):
            alone = run(x[group == one], adjacent)
            heights = together.height[30:][together.group[30:] == one]
            own = alone.height[alone.num_nodes :]
            # Ties are told apart by a millionth.
            torch.testing.assert_close(
                heights.sort()[0], own.sort()[0], rtol=1e-4, atol=1e-4
            )


@pytest.mark.parametrize("adjacent", [True, False])
def test_rounds_are_few_even_if_all_is_equal_or_a_chain(adjacent, monkeypatch):
    rounds = []
    joined = merging._joined
    monkeypatch.setattr(
        merging, "_joined", lambda *args: rounds.append(1) or joined(*args)
    )
    chain = torch.arange(256.0).cumsum(0)[:, None]  # gaps grow: one pair a round
    for x in (torch.zeros(256, 2), chain, torch.randn(256, 2)):
        rounds.clear()
        merges = run(x, adjacent)
        assert merges.left.numel() == 255
        assert len(rounds) <= 3 * 9 + 10


def test_large_tables_come_in_parts(monkeypatch):
    torch.manual_seed(0)
    x, group = torch.randn(60, 3), torch.arange(6).repeat_interleave(10)
    whole = run(x, False, group=group)
    monkeypatch.setattr(merging, "_TABLE", 150)
    parts = run(x, False, group=group)
    assert torch.equal(whole.above, parts.above)
    assert torch.equal(whole.left, parts.left)


def test_nothing_and_single_nodes_do_not_merge():
    for adjacent in (True, False):
        assert run(torch.zeros(0, 2), adjacent).left.numel() == 0
        merges = run(torch.zeros(1, 2), adjacent)
        assert merges.left.numel() == 0
        assert merges.cut(torch.zeros(0, dtype=torch.bool)).tolist() == [0]
