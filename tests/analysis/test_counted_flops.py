import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count

from hsa_pyg import SignalHierarchy, hierarchical_attention
from hsa_pyg.analysis import attention_flops, counted_flops
from tests.forests import forests, inputs, positions, side_by_side, star


def counted(function):
    with FlopCounterMode(display=False) as counter:
        result = function()
    return counter.get_total_flops(), result


@given(forests(25), st.booleans(), st.booleans())
def test_torch_counts_the_same(hierarchy, tie_queries, with_position):
    q, k, v = (x.requires_grad_() for x in inputs(hierarchy, 2, 4, 3))
    position = positions(hierarchy, heads=2, width=5) if with_position else None
    sizes = {
        "channels": 8,
        "heads": 2,
        "value_channels": 6,
        "position_channels": 10 if with_position else 0,
        "tie_queries": tie_queries,
    }
    forward, y = counted(
        lambda: hierarchical_attention(
            q,
            k,
            v,
            hierarchy,
            position=position,
            tie_queries=tie_queries,
            backend="torch",
        )
    )
    assert forward == counted_flops(hierarchy, **sizes).hsa_padded
    backward = counted_flops(hierarchy, **sizes, backward=True)
    assert counted(y.sum().backward)[0] == backward.hsa_padded


def test_torch_counts_as_much_for_softmax_attention():
    """Each text by itself: its query, key and value [B, H, N, D]."""
    hierarchy = SignalHierarchy.from_parents(side_by_side(star(5), star(9))[0])
    total = 0
    for leaves in (5, 9):
        q, k = torch.randn(2, 1, 2, leaves, 4)
        v = torch.randn(1, 2, leaves, 3)
        with sdpa_kernel(SDPBackend.MATH):
            total += counted(
                lambda q=q, k=k, v=v: scaled_dot_product_attention(q, k, v)
            )[0]
    assert counted_flops(hierarchy, 8, 2, value_channels=6).softmax == total
    assert counted_flops(hierarchy, 8, 2).softmax == 4 * 8 * (25 + 81)


def test_the_backward_pass_of_softmax_attention_computes_the_scores_again():
    hierarchy = SignalHierarchy.from_parents(star(7))
    query, value = (1, 2, 7, 4), (1, 2, 7, 3)
    expected = sdpa_backward_flop_count(value, query, query, value)
    flops = counted_flops(hierarchy, 8, 2, value_channels=6, backward=True)
    assert flops.softmax == flops.hsa == expected


@pytest.mark.parametrize("tie_queries", [True, False])
def test_a_flat_tree_costs_what_softmax_costs(tie_queries):
    hierarchy = SignalHierarchy.from_parents(star(6))
    flops = counted_flops(hierarchy, 8, 2, tie_queries=tie_queries)
    assert flops.hsa == flops.softmax == 4 * 8 * 36


def test_it_is_the_papers_count_less_the_softmax_and_families_of_one():
    parent = torch.tensor([-1, 0, 0, 1, 1, 1, 2])
    hierarchy = SignalHierarchy.from_parents(parent)
    paper = attention_flops(hierarchy, channels=8, heads=1).hsa
    assert paper == (4 * 8 + 1) * (4 + 9 + 1)
    assert counted_flops(hierarchy, channels=8, heads=1).hsa == 4 * 8 * (4 + 9)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"channels": 0, "heads": 1}, "channels must be positive, got 0"),
        ({"channels": 7, "heads": 2}, "must be divisible by the heads, got 7 for 2"),
        ({"channels": 1, "heads": 0}, "heads must be positive, got 0"),
        (
            {"channels": 1, "heads": 1, "value_channels": -1},
            "value_channels must be positive, got -1",
        ),
        (
            {"channels": 1, "heads": 1, "position_channels": -2},
            "position_channels must not be negative, got -2",
        ),
    ],
)
def test_sizes_that_cannot_be_are_refused(sizes, message):
    hierarchy = SignalHierarchy.from_parents(star(2))
    with pytest.raises(ValueError, match=message):
        counted_flops(hierarchy, **sizes)
