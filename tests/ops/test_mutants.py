"""Wrong implementations that look right: the checks of this suite must reject each.

Each mutant patches one place of the four passes. A check is the same comparison that
the property tests make, on a tree where every branch of the passes runs.
"""

import dataclasses

import pytest
import torch

from hsa_pyg import SignalHierarchy, hierarchical_attention
from hsa_pyg.ops import levels
from hsa_pyg.ops.family import FamilyAttention
from hsa_pyg.ops.passes import AttentionCall
from tests.dense_theta import dense_attention, measured_theta
from tests.divergence import problem_of
from tests.forests import close, inputs, star

# 0 -> (1 -> (4, 5, 6 -> (9, 10)), 2 -> (7, 8), 3): leaf-only and mixed families, leaves
# at depths 1 to 3, siblings of unlike leaf counts.
UNEVEN = torch.tensor([-1, 0, 0, 0, 1, 1, 1, 2, 2, 6, 6])


def agrees_with_the_definition():
    hierarchy = SignalHierarchy.from_parents(UNEVEN)
    q, k, v = inputs(hierarchy)
    y = hierarchical_attention(q, k, v, hierarchy)
    return close(y, dense_attention(q, k, v, hierarchy)[0])


def flat_tree_is_softmax():
    hierarchy = SignalHierarchy.from_parents(star(5))
    q, k, v = (x.transpose(0, 1) for x in inputs(hierarchy))
    y = hierarchical_attention(*(x.transpose(0, 1) for x in (q, k, v)), hierarchy)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    return close(y, expected.transpose(0, 1))


def rows_sum_to_one():
    hierarchy = SignalHierarchy.from_parents(UNEVEN)
    theta = measured_theta(*inputs(hierarchy)[:2], hierarchy)
    return close(theta.sum(-1), torch.ones_like(theta[..., 0]))


def divergence_is_minimal():
    hierarchy = SignalHierarchy.from_parents(UNEVEN)
    problem, theta = problem_of(hierarchy, True, seed=0, with_position=False)
    return problem.slope_left(theta) < 1e-10


CHECKS = {
    check.__name__: check
    for check in (
        agrees_with_the_definition,
        flat_tree_is_softmax,
        rows_sum_to_one,
        divergence_is_minimal,
    )
}


def leaves_have_infinite_energy(patch):
    """phi(i) = +infinity although leaves attend to themselves: -phi(i) = -infinity."""
    plain = AttentionCall.family_attention

    def family_attention(call, *given):
        return dataclasses.replace(plain(call, *given), own_column=False)

    patch.setattr(AttentionCall, "family_attention", family_attention)
    patch.setattr(
        AttentionCall,
        "self_scores",
        lambda call, q, k, nodes: torch.full_like(q[..., 0], float("-inf")),
    )


def leaf_energy_has_the_wrong_sign(patch):
    plain = AttentionCall.self_scores
    patch.setattr(AttentionCall, "self_scores", lambda *given: -plain(*given))


def mu_applied_once_per_sibling(patch):
    plain = levels.split
    hierarchy = SignalHierarchy.from_parents(UNEVEN)
    siblings = (hierarchy.parent[:, None] == hierarchy.parent).sum(1) - 1
    entity = hierarchy.layout.entity_node[:-1]

    def split(gain, mass):
        log_mu, log_send = plain(gain, mass)
        return log_mu * siblings[entity][:, None], log_send

    patch.setattr(levels, "split", split)


def self_column_left_in_for_internal_nodes(patch):
    plain = FamilyAttention.scores

    def scores(attention, *arguments):
        return plain(dataclasses.replace(attention, own_column=True), *arguments)

    patch.setattr(FamilyAttention, "scores", scores)


def log_count_forgotten(patch):
    plain = FamilyAttention.key_bias

    def key_bias(attention, tile):
        bias = plain(attention, tile)
        return None if bias is None else torch.where(bias.isinf(), bias, 0)

    patch.setattr(FamilyAttention, "key_bias", key_bias)


def means_of_means(patch):
    """The mean over the children, whatever the leaves below each."""
    plain = levels.levels
    hierarchy = SignalHierarchy.from_parents(UNEVEN)
    parent = hierarchy.parent
    branching = torch.bincount(parent[parent >= 0], minlength=parent.numel())

    def sum_upward(layout, total):
        children = branching[layout.internal_node].to(total)[:, None, None]
        for nodes, above, parent in plain(layout, upward=True):
            mean = total[nodes] / children[nodes]
            total[above].index_add_(0, parent, mean)
        total *= layout.internal_count.to(total)[:, None, None] / children

    patch.setattr(levels, "sum_upward", sum_upward)


# Each mutant, and a check beside the oracle that rejects it.
MUTANTS = [
    (leaves_have_infinite_energy, "flat_tree_is_softmax"),
    (leaf_energy_has_the_wrong_sign, "divergence_is_minimal"),
    (mu_applied_once_per_sibling, "rows_sum_to_one"),
    (self_column_left_in_for_internal_nodes, "divergence_is_minimal"),
    (log_count_forgotten, "divergence_is_minimal"),
    (means_of_means, "divergence_is_minimal"),
]


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_the_passes_as_they_are_satisfy_every_check(check):
    assert check()


@pytest.mark.parametrize("mutant", [m for m, _ in MUTANTS], ids=lambda m: m.__name__)
def test_the_definition_rejects(mutant, monkeypatch):
    mutant(monkeypatch)
    assert not agrees_with_the_definition()


@pytest.mark.parametrize(
    ("mutant", "check"), MUTANTS, ids=[m.__name__ for m, _ in MUTANTS]
)
def test_a_property_rejects(mutant, check, monkeypatch):
    mutant(monkeypatch)
    assert not CHECKS[check]()
