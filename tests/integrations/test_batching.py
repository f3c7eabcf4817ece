import pytest
import torch
from torch.utils.data import DataLoader

from hsa_pyg.integrations.batching import LengthGroupedSampler

SIZES = torch.randint(1, 1000, (203,), generator=torch.Generator().manual_seed(0))


def batches(sampler):
    loader = DataLoader(range(len(SIZES)), batch_size=8, sampler=sampler)
    return [batch.tolist() for batch in loader]


def test_every_sample_is_drawn_once_and_only_the_last_batch_is_short():
    drawn = batches(LengthGroupedSampler(SIZES, 8))
    assert sorted(i for batch in drawn for i in batch) == list(range(203))
    assert [len(batch) for batch in drawn] == [8] * 25 + [3]


def test_samples_of_a_batch_are_of_like_size():
    grouped = batches(LengthGroupedSampler(SIZES, 8))
    shuffled = torch.randperm(203).split(8)

    def padding(batches):
        return sum(len(b) * max(SIZES[b]) - sum(SIZES[b]) for b in batches)

    assert padding(grouped) < 0.2 * padding(shuffled)


def test_large_batches_are_not_drawn_in_order_of_size():
    largest = [max(SIZES[b]) for b in batches(LengthGroupedSampler(SIZES, 8))]
    assert largest != sorted(largest)


def test_epochs_differ_and_the_same_seed_repeats_them():
    sampler, twin = LengthGroupedSampler(SIZES, 8), LengthGroupedSampler(SIZES, 8)
    first, second = list(sampler), list(sampler)
    assert first != second
    assert [list(twin), list(twin)] == [first, second]
    assert list(LengthGroupedSampler(SIZES, 8, seed=7)) != first


def test_an_epoch_is_none_of_the_next_seed():
    first, second = (LengthGroupedSampler(SIZES, 8, seed=seed) for seed in (0, 1))
    list(first)
    assert list(first) != list(second)


def test_a_resumed_run_can_ask_for_its_epoch():
    sampler = LengthGroupedSampler(SIZES, 8)
    epochs = [list(sampler) for _ in range(3)]
    resumed = LengthGroupedSampler(SIZES, 8)
    resumed.set_epoch(2)
    assert list(resumed) == epochs[2]


def test_no_samples_give_no_batches():
    assert list(LengthGroupedSampler([], 8)) == []


@pytest.mark.parametrize(("batch_size", "pool"), [(0, 1), (1, 0)])
def test_sizes_below_one_are_refused(batch_size, pool):
    with pytest.raises(ValueError, match=f"batch_size={batch_size} and pool={pool}"):
        LengthGroupedSampler([1], batch_size, pool=pool)
