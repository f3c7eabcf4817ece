import pytest
import torch

from hsa_pyg.integrations.schedule import warmup_schedule


@pytest.mark.parametrize(("schedule", "middle"), [("cosine", 0.5), ("linear", 0.5)])
def test_the_rate_rises_and_falls_to_zero(schedule, middle):
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    scheduler = warmup_schedule(optimizer, 24, 1 / 6, schedule)
    rates = []
    for _ in range(24):
        rates.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    assert rates[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert rates[14] == pytest.approx(middle)
    assert rates[4:] == sorted(rates[4:], reverse=True)
    assert scheduler.get_last_lr()[0] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_a_single_step_has_the_whole_rate(schedule):
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    scheduler = warmup_schedule(optimizer, 1, 0.6, schedule)
    assert scheduler.get_last_lr() == [1.0]
    optimizer.step()
    scheduler.step()
    assert scheduler.get_last_lr()[0] == pytest.approx(0.0, abs=1e-12)
