"""Hierarchical attention against its flat twin, on the film reviews."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from hsa_pyg.cli.curves import plot_curves
from hsa_pyg.cli.sources import load_source


class Contestant(NamedTuple):
    """A model of the demo.

    Args:
        title: Name in the table and the picture.
        folder: Folder of its run.
        attention: As in ``hsa-pyg train --attention``.
        max_tokens: Tokens after which its documents are cut.
    """

    title: str
    folder: str
    attention: str
    max_tokens: int | None


CONTESTANTS = (
    Contestant("HSA, whole text", "hsa", "hsa", None),
    Contestant("flat, whole text", "flat", "flat", None),
    Contestant("flat, 512 tokens", "flat-512", "flat", 512),
)


def run_demo(
    out: Path,
    root: Path,
    train_size: int,
    epochs: int,
    seed: int,
    dataset: str = "movie-reviews",
    contestants: tuple[Contestant, ...] = CONTESTANTS,
) -> dict[str, dict[str, Any]]:
    """Train every contestant, print the table, and write ``out/curves.png``.

    Args:
        out: Folder of the runs; what an earlier demo left in them is replaced.
        root: Folder under which processed data is kept.
        train_size: Number of training signals.
        epochs: Epochs of each model.
        seed: Seed of each model and of its order of batches.
        dataset: Name of the data set.
        contestants: What to train.

    Returns:
        The result of each contestant by its title: the fields of
        :class:`~hsa_pyg.integrations.training.TrainingResult`.

    Raises:
        ChildProcessError: If a training run fails; its own message stands above.
    """
    console = Console()
    results, histories = {}, {}
    for contestant in contestants:
        # Here, so that no run is charged for the memory of converting documents.
        load_source(dataset, root, contestant.max_tokens)
        folder = out / contestant.folder
        shutil.rmtree(folder, ignore_errors=True)
        console.rule(f"[bold]{contestant.title}")
        options = {
            "--attention": contestant.attention,
            "--max-tokens": contestant.max_tokens,
            "--train-size": train_size,
            "--epochs": epochs,
            # Chosen for a few epochs on a few hundred reviews.
            "--batch-size": 8,
            "--lr": 5e-3,
            "--seed": seed,
            "--root": root,
            "--out": folder,
            "--device": "cpu",
        }
        command = [sys.executable, "-m", "hsa_pyg.cli", "train", dataset]
        for option, value in options.items():
            if value is not None:
                command += [option, str(value)]
        # Its own process: the peak memory of one model is not that of another.
        if subprocess.run(command).returncode != 0:
            raise ChildProcessError(f"The training of {contestant.title!r} failed.")
        results[contestant.title] = _read(folder / "result.json")
        histories[contestant.title] = _read(folder / "history.json")
    console.print(results_table(results))
    plot_curves(histories, out / "curves.png")
    # A path that is broken over two lines cannot be copied.
    console.print(
        f"Training curves: {out / 'curves.png'}", soft_wrap=True, markup=False
    )
    return results


def results_table(results: dict[str, dict[str, Any]]) -> Table:
    """One row per model: accuracy, time, memory and size.

    Args:
        results: Fields of the training result by title.
    """
    # Narrow enough for a terminal of 80 columns.
    table = Table("model", box=SIMPLE_HEAD)
    for name in (
        "test\naccuracy",
        "seconds\nper epoch",
        "peak\nmemory",
        "of it for\ntraining",
        "parameters",
    ):
        table.add_column(name, justify="right")
    for title, result in results.items():
        training = result["peak_memory"] - result["base_memory"]
        table.add_row(
            title,
            f"{result['test_accuracy']:.3f}",
            f"{result['seconds_per_epoch']:.1f}",
            f"{result['peak_memory'] / 2**20:,.0f} MiB",
            f"{training / 2**20:,.0f} MiB",
            f"{result['parameters']:,}",
        )
    return table


def _read(path: Path) -> Any:
    return json.loads(path.read_text())
