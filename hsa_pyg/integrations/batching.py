"""An order of samples in which neighbours are of like size."""

from collections.abc import Iterator, Sequence

import torch
from torch.utils.data import Sampler

#: More than any training has.
_EPOCHS = 1_000_003


class LengthGroupedSampler(Sampler[int]):
    """Draws samples in random order such that the samples of a batch are alike in size.

    The samples are shuffled, sorted by size inside pools of ``pool`` batches, cut into
    batches, and the batches are shuffled. Softmax attention over padded rows then pads
    little; hierarchical attention pads nothing and gets batches of even cost. Every
    sample is drawn once per epoch, and each epoch draws another order.

    Args:
        sizes: Size of each sample, for example its number of leaves.
        batch_size: Samples per batch, as given to the loader.
        seed: Start of the random numbers. The same seed draws the same epochs.
        pool: Batches that are sorted together. Large pools pad less, small ones mix
            sizes more.

    Raises:
        ValueError: If ``batch_size`` or ``pool`` is below 1.

    Example:
        >>> sampler = LengthGroupedSampler([5, 900, 4, 850], batch_size=2)
        >>> order = list(sampler)
        >>> sorted([sorted(order[:2]), sorted(order[2:])])
        [[0, 2], [1, 3]]
    """

    def __init__(
        self, sizes: Sequence[int], batch_size: int, seed: int = 0, pool: int = 20
    ) -> None:
        if batch_size < 1 or pool < 1:
            raise ValueError(
                f"A batch holds at least one sample and a pool at least one batch, got "
                f"batch_size={batch_size} and pool={pool}."
            )
        self.sizes = torch.as_tensor(sizes, dtype=torch.long)
        self.batch_size = batch_size
        self.seed = seed
        self.pool = pool
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch that the next iteration draws (Lightning calls this)."""
        self.epoch = epoch

    def __len__(self) -> int:
        return self.sizes.numel()

    def __iter__(self) -> Iterator[int]:
        # No epoch of one seed is another epoch of the next.
        mixed = self.seed * _EPOCHS + self.epoch
        generator = torch.Generator().manual_seed(mixed % 2**63)
        self.epoch += 1
        order = torch.randperm(len(self), generator=generator)
        pools = order.split(self.batch_size * self.pool)
        order = torch.cat(
            [pool[self.sizes[pool].argsort(stable=True)] for pool in pools]
        )
        # The loader cuts every batch_size samples: the short batch has to come last.
        num_full = len(self) // self.batch_size
        full = order[: num_full * self.batch_size].view(num_full, self.batch_size)
        full = full[torch.randperm(num_full, generator=generator)]
        yield from full.flatten().tolist()
        yield from order[num_full * self.batch_size :].tolist()

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({len(self)}, batch_size={self.batch_size}, "
            f"seed={self.seed}, pool={self.pool})"
        )
