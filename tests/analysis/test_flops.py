import pytest
import torch

from hsa_pyg import SignalHierarchy
from hsa_pyg.analysis import attention_flops, window_attention_flops

# Length, FLOPs of softmax and of hierarchical attention in the paper's Table 3 (in
# millions, as printed), and the pairs S behind the latter.
TABLE_3 = [
    (264, "214.94", "4.32", 1402),
    (54, "8.99", "0.8357", 271),
    (12, "0.4441", "0.1912", 62),
    (26, "2.08", "0.4132", 134),
    (55, "9.33", "0.8481", 275),
    (70, "15.11", "1.29", 417),
    (38, "4.45", "0.5643", 183),
]


def printed(number, like):
    """``number`` in millions, cut to the digits of a printed one.

    The table rounds some entries and cuts others (0.8357 is 0.83577), so both count.
    """
    digits = len(like.partition(".")[2])
    millions = number / 1e6
    cut = int(millions * 10**digits) / 10**digits
    return {f"{millions:.{digits}f}", f"{cut:.{digits}f}"}


@pytest.mark.parametrize(("length", "softmax", "hsa", "pairs"), TABLE_3)
def test_the_fourteen_numbers_of_table_3(length, softmax, hsa, pairs):
    flops = window_attention_flops(length, (2, 4, 8, 16), channels=768, heads=12)
    assert flops.hsa == pairs * (4 * 768 + 12)
    assert flops.softmax == length**2 * (4 * 768 + 12)
    assert softmax in printed(flops.softmax, softmax)
    assert hsa in printed(flops.hsa, hsa)


def test_full_windows_cost_what_their_tree_costs():
    """16 leaves in windows of 2, 2, 4: a tree with no window cut short."""
    parent = torch.tensor(
        [
            -1,
            *[0] * 4,
            *[1 + i // 2 for i in range(8)],
            *[5 + i // 2 for i in range(16)],
        ]
    )
    tree = attention_flops(SignalHierarchy.from_parents(parent), 768, 12)
    windows = window_attention_flops(16, (2, 2, 4), channels=768, heads=12)
    assert tree.softmax == windows.softmax
    # The paper counts 1 for the root on top of its family.
    assert tree.hsa == windows.hsa - (4 * 768 + 12)


def test_a_flat_tree_costs_what_softmax_costs():
    hierarchy = SignalHierarchy.from_parents(torch.tensor([-1, 0, 0, 0, 0, 0]))
    flops = attention_flops(hierarchy, channels=8, heads=2)
    assert flops.hsa == flops.softmax == 25 * 34


def test_trees_of_a_batch_add_up_and_empty_children_are_free():
    one = torch.tensor([-1, 0, 0, 0, 3])
    two = torch.where(one < 0, one, one + 5)
    mask = torch.tensor([False, True, True, False, False])  # 3 -> 4 has no leaf
    single = attention_flops(SignalHierarchy.from_parents(one, mask), 4, 1)
    both = SignalHierarchy.from_parents(torch.cat([one, two]), mask.repeat(2))
    assert single.hsa == 4 * 17
    assert attention_flops(both, 4, 1).hsa == 2 * single.hsa
    assert attention_flops(both, 4, 1).softmax == 2 * single.softmax == 2 * 4 * 17


def test_untied_queries_meet_every_family_above_them():
    """0 has 1, 2 and the leaf 3; 1 has two leaves, 2 has one."""
    parent = torch.tensor([-1, 0, 0, 0, 1, 1, 2])
    hierarchy = SignalHierarchy.from_parents(parent)
    flops = attention_flops(hierarchy, channels=2, heads=1, tie_queries=False)
    assert flops.hsa == 9 * (4 * 3 + 2 * 2 + 1 * 1)
    assert flops.softmax == 9 * 16
    flat = SignalHierarchy.from_parents(torch.tensor([-1, 0, 0, 0]))
    flops = attention_flops(flat, channels=2, heads=1, tie_queries=False)
    assert flops.hsa == flops.softmax


@pytest.mark.parametrize(("channels", "heads"), [(0, 1), (4, 0), (-1, 2)])
def test_sizes_that_are_not_positive_are_refused(channels, heads):
    hierarchy = SignalHierarchy.from_parents(torch.tensor([-1, 0]))
    with pytest.raises(ValueError, match="must be positive, got"):
        attention_flops(hierarchy, channels, heads)


def test_windows_and_lengths_that_are_not_positive_are_refused():
    with pytest.raises(ValueError, match="num_leaves must be positive, got 0"):
        window_attention_flops(0, channels=4, heads=1)
    with pytest.raises(ValueError, match=r"windows must be positive, got \(2, 0\)"):
        window_attention_flops(5, (2, 0), channels=4, heads=1)


def test_numbers_of_a_wrong_kind_are_refused():
    for windows in ("24", 4, (2.5,), (True,)):
        with pytest.raises(TypeError, match="windows must be"):
            window_attention_flops(5, windows, channels=4, heads=1)
    with pytest.raises(TypeError, match=r"num_leaves must be an integer, got 5\.5"):
        window_attention_flops(5.5, channels=4, heads=1)
    hierarchy = SignalHierarchy.from_parents(torch.tensor([-1, 0]))
    with pytest.raises(TypeError, match=r"channels must be an integer, got 8\.0"):
        attention_flops(hierarchy, 8.0, 1)
