"""Halving of groups of points."""

import torch

from hsa_pyg.integrations.transformers.splitting import halve


def test_parts_are_small_even_and_within_their_groups():
    torch.manual_seed(0)
    group = torch.arange(5).repeat_interleave(torch.tensor([1, 7, 64, 33, 100]))
    part = halve(torch.randn(205, 4), group, 16)
    count = torch.bincount(part)
    assert count.max() <= 16
    assert count.min() >= 1
    for number in range(count.numel()):
        assert group[part == number].unique().numel() == 1
    # 64 points are four times 16, never more parts than halving asks for.
    assert part[group == 2].unique().numel() == 4


def test_it_cuts_between_two_clouds():
    torch.manual_seed(1)
    cloud = torch.arange(40) % 2
    x = torch.randn(40, 3) + 50.0 * cloud[:, None] * torch.tensor([1.0, -2.0, 0.5])
    part = halve(x, torch.zeros(40, dtype=torch.long), 20)
    assert part.unique().numel() == 2
    assert ((part == part[0]) == (cloud == cloud[0])).all()


def test_equal_points_are_halved_and_nothing_stays_nothing():
    part = halve(torch.zeros(9, 2), torch.zeros(9, dtype=torch.long), 2)
    assert torch.bincount(part).max() <= 2
    empty = torch.zeros(0, dtype=torch.long)
    assert halve(torch.zeros(0, 2), empty, 2).numel() == 0
