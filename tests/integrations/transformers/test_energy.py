"""The energy of a merge, and what greedy merges make of it."""

import pytest
import torch

from hsa_pyg import hierarchical_attention
from hsa_pyg.analysis import attention_flops
from hsa_pyg.integrations.transformers import Windows, energy, nested_forest
from hsa_pyg.integrations.transformers.energy import Energy, _Search


def total_energy(tokens, forest):
    """N phi summed over roots and heads."""
    phi = hierarchical_attention(
        tokens.q, tokens.k, tokens.q, forest, return_energy=True, backend="torch"
    )[1]
    count = forest.leaf_counts[forest.roots]
    return float((phi[forest.roots] * count[:, None]).sum())


def search(tokens):
    kind = torch.where(tokens.special, 1, torch.where(tokens.kept, 0, -1))
    assert tokens.kept.all()
    shape = (*tokens.kept.shape, *tokens.q.shape[1:])
    return _Search(tokens.q.view(shape), tokens.k.view(shape), kind, 0.1)


def test_the_rise_of_each_merge_is_exact(scored):
    tokens = scored("ctttttttc", seed=3)
    found = search(tokens)
    single = [-1] * 9

    def energy_of(labels):
        return total_energy(tokens, nested_forest(tokens, [torch.tensor(labels)]))

    rise, before = found.rise()[0], energy_of(single)
    assert rise[[0, 7]].isinf().all()  # special tokens stay alone
    for first in range(1, 7):
        labels = list(single)
        labels[first] = labels[first + 1] = 5
        expected = energy_of(labels) - before
        assert expected > 0
        assert float(rise[first]) == pytest.approx(expected, abs=1e-9)

    # And of groups that have merged before.
    merged = torch.zeros(1, 8, dtype=torch.bool)
    merged[0, 2] = merged[0, 4] = True
    found._merge(merged)
    before = energy_of([-1, -1, 2, 2, 4, 4, -1, -1, -1])
    expected = [
        energy_of([-1, 2, 2, 2, 4, 4, -1, -1, -1]) - before,
        energy_of([-1, -1, 2, 2, 2, 2, -1, -1, -1]) - before,
        energy_of([-1, -1, 2, 2, 4, 4, 4, -1, -1]) - before,
    ]
    torch.testing.assert_close(found.rise()[0, 1:4].tolist(), expected)


# The greedy choice could be worse than windows on some input, since it looks one merge
# ahead; on texts with any structure it is not.
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_at_the_cost_of_windows_the_energy_is_lower(seed, size, scored):
    tokens = scored("c" + "t" * 47 + "c", "t" * 49, seed=seed)
    windows = Windows((size,))(tokens)
    cost = attention_flops(windows, channels=1, heads=1)
    share = cost.hsa / cost.softmax
    greedy = Energy(share)(tokens)
    assert attention_flops(greedy, channels=1, heads=1).hsa <= cost.hsa + 49
    assert total_energy(tokens, greedy) < total_energy(tokens, windows)


def test_what_attends_alike_becomes_a_family(scored):
    tokens = scored("t" * 12)
    direction = torch.eye(8, dtype=torch.double)[torch.arange(12) // 4]
    q = k = 6 * direction[:, None].expand(-1, 2, -1)
    tokens = type(tokens)(tokens.kept, tokens.special, q=q, k=k)
    forest = Energy(0.4)(tokens)
    kind = torch.arange(12) // 4
    for family in forest.parent[:12].unique().tolist():
        held = kind[forest.parent[:12] == family]
        assert (held == held[0]).all()
    assert forest.num_families > 1


def test_texts_are_searched_in_parts_that_fit_the_memory(monkeypatch, scored):
    tokens = scored("c" + "t" * 20, "c" + "t" * 11 + "." * 9, "t" * 21)
    whole = Energy(0.3)(tokens)
    monkeypatch.setattr(energy, "_TABLE", 1)
    assert torch.equal(Energy(0.3)(tokens).parent, whole.parent)
