"""Random numbers of an epoch that do not depend on the epochs before it."""

from typing import Any

import torch

from hsa_pyg.integrations.lightning import pl


class SeededEpochs(pl.Callback):
    """Draws the random numbers of each epoch, as of dropout, from its own seed.

    A run that goes on from its last epoch then draws what one that was left alone does.
    The seed travels in checkpoints.

    Args:
        seed: Of the run.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def on_train_batch_start(
        self, trainer: pl.Trainer, module: Any, batch: Any, batch_idx: int
    ) -> None:
        """Seed the epoch, once the loader, too, has drawn a number."""
        if batch_idx == 0:
            torch.manual_seed(1_000_003 * self.seed + trainer.current_epoch)

    def state_dict(self) -> dict[str, Any]:
        """The seed, for the checkpoint."""
        return {"seed": self.seed}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up the seed of the checkpoint."""
        self.seed = state_dict["seed"]
