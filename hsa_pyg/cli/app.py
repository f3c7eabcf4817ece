"""The commands and their options."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

app = typer.Typer(
    help="Hierarchical self-attention over nested signals.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

Root = Annotated[Path, typer.Option(help="Folder of the processed data sets.")]


@app.command()
def info() -> None:
    """Print versions, devices and backends: what a bug report should hold."""
    from hsa_pyg.cli.info import describe_system

    table = Table(show_header=False, box=None)
    for name, value in describe_system().items():
        table.add_row(name, value)
    Console().print(table)


@app.command()
def train(
    dataset: Annotated[str, typer.Argument(help="movie-reviews or fake.")],
    attention: Annotated[
        Literal["hsa", "flat", "none"], typer.Option(help="Attention of the blocks.")
    ] = "hsa",
    epochs: Annotated[int, typer.Option(min=1)] = 10,
    batch_size: Annotated[int, typer.Option(min=1, help="Signals per batch.")] = 16,
    lr: Annotated[float, typer.Option(help="Highest learning rate.")] = 1e-3,
    seed: int = 0,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="Cut documents to so many tokens.")
    ] = None,
    train_size: Annotated[
        int | None, typer.Option(min=1, help="Train on so many signals only.")
    ] = None,
    channels: Annotated[int, typer.Option(min=1, help="Width of the leaves.")] = 64,
    layers: Annotated[int, typer.Option(min=1)] = 2,
    heads: Annotated[int, typer.Option(min=1)] = 4,
    dropout: Annotated[float, typer.Option(min=0.0, max=1.0)] = 0.1,
    weight_decay: Annotated[float, typer.Option(min=0.0)] = 0.01,
    position: Annotated[
        bool, typer.Option(help="Give children their place in the parent.")
    ] = True,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the run; runs/DATASET-ATTENTION-SEED if left out."
        ),
    ] = None,
    root: Root = Path("runs/data"),
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the last checkpoint in OUT.")
    ] = False,
    device: Annotated[
        str, typer.Option(help="cpu, gpu, or auto for the fastest there is.")
    ] = "auto",
) -> None:
    """Train a transformer on DATASET, keep checkpoints, and test the best epoch.

    The folder OUT holds settings.json, history.json (a row per epoch), best.ckpt,
    last.ckpt and result.json.
    """
    from hsa_pyg.cli.train import Settings, train_model

    settings = Settings(
        dataset=dataset,
        attention=attention,
        epochs=epochs,
        batch_size=batch_size,
        lr=lr,
        seed=seed,
        max_tokens=max_tokens,
        train_size=train_size,
        channels=channels,
        layers=layers,
        heads=heads,
        dropout=dropout,
        weight_decay=weight_decay,
        position=position,
    )
    out = out or Path("runs") / f"{dataset}-{attention}-{seed}"
    result = train_model(settings, out, root, resume=resume, device=device)
    table = Table(show_header=False, box=None)
    table.add_row("test accuracy", f"{result.test_accuracy:.4f}")
    table.add_row("test macro F1", f"{result.test_macro_f1:.4f}")
    table.add_row(
        "of epoch",
        f"{result.best_epoch} (validation accuracy {result.val_accuracy:.4f})",
    )
    table.add_row("seconds per epoch", f"{result.seconds_per_epoch:.1f}")
    table.add_row("written to", str(out))
    Console().print(table)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder of the runs and the picture.")] = (
        Path("runs/demo")
    ),
    root: Root = Path("runs/data"),
    train_size: Annotated[int, typer.Option(min=2, help="Reviews to train on.")] = 400,
    epochs: Annotated[int, typer.Option(min=1)] = 3,
    seed: int = 0,
) -> None:
    """Train hierarchical and flat attention on film reviews and compare them.

    Each model trains in a process of its own, so that its peak memory is its own. The
    reviews ship with the package; nothing is downloaded.
    """
    from hsa_pyg.cli.demo import run_demo

    run_demo(out, root, train_size=train_size, epochs=epochs, seed=seed)


if __name__ == "__main__":
    app()
