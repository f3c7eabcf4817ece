"""The scores of a training run, epoch by epoch."""

import json
import time
from pathlib import Path
from typing import Any

from hsa_pyg.integrations.lightning import pl
from hsa_pyg.integrations.memory import return_free_memory


class History(pl.Callback):
    """Keeps one row of scores per epoch, and writes them to a JSON file.

    A row holds ``epoch``, ``seconds`` (the epoch's training batches, validation left
    out), ``processor_seconds`` (the same by the clock of this process, all its threads
    added up, which other work on the machine leaves alone), ``lr`` and every score that
    was logged. The rows travel in checkpoints, so that the file of a resumed run tells
    of all its epochs; those of older checkpoints have no ``processor_seconds``.

    Args:
        path: The file to write after each epoch, or ``None`` to write none.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = None if path is None else Path(path)
        self.rows: list[dict[str, float]] = []
        self._start = self._seconds = 0.0
        self._processor_start = self._processor_seconds = 0.0

    def on_train_start(self, trainer: pl.Trainer, module: Any) -> None:
        """Start the clocks: in an epoch that is resumed, no other hook is called."""
        self._start_clocks()

    def on_train_epoch_start(self, trainer: pl.Trainer, module: Any) -> None:
        """Start the clocks."""
        self._start_clocks()

    def on_train_batch_end(self, *args: Any, **kwargs: Any) -> None:
        """Read the clocks; the last reading of an epoch precedes its validation."""
        self._seconds = time.perf_counter() - self._start
        self._processor_seconds = time.process_time() - self._processor_start

    def on_train_epoch_end(self, trainer: pl.Trainer, module: Any) -> None:
        """Add the epoch's row and write the file."""
        scores = {
            name: float(value) for name, value in trainer.callback_metrics.items()
        }
        row = {
            "epoch": trainer.current_epoch,
            "seconds": self._seconds,
            "processor_seconds": self._processor_seconds,
            **scores,
        }
        row["lr"] = trainer.optimizers[0].param_groups[0]["lr"]
        self.rows.append(row)
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(json.dumps(self.rows, indent=2) + "\n")
        # Once an epoch is often enough, and costs nothing that could be measured.
        return_free_memory()

    def state_dict(self) -> dict[str, Any]:
        """The rows, for the checkpoint."""
        return {"rows": self.rows}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up the rows of the checkpoint."""
        self.rows = list(state_dict["rows"])

    def _start_clocks(self) -> None:
        self._start = time.perf_counter()
        self._processor_start = time.process_time()
