"""The commands and their options."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hsa_pyg.cli.experiment import experiment, report
from hsa_pyg.cli.zero_shot_command import zero_shot

app = typer.Typer(
    help="Hierarchical self-attention over nested signals.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

Format = Annotated[
    str | None,
    typer.Option(
        help="Kind of the input, told from suffix and content if left out: text, html, "
        "markdown, epub, image, json, newick, graphml, gml, gexf, edgelist, signals "
        "(a file of torch.save), website (a folder of linked pages) or, to inspect, "
        "documents (a folder of files, each by itself)."
    ),
]
Images = Annotated[bool, typer.Option(help="Read the pictures of documents.")]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1)]
MaxTokens = Annotated[
    int | None, typer.Option(min=1, help="Cut documents to so many tokens.")
]
MainContent = Annotated[
    bool, typer.Option("--main-content", help="Leave out boilerplate of web pages.")
]
Root = Annotated[Path, typer.Option(help="Folder of the processed data sets.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        from hsa_pyg import __version__

        print(f"hsa-pyg {__version__}")
        raise typer.Exit


@app.callback()
def hsa_pyg(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print it."
        ),
    ] = False,
) -> None:
    """Hierarchical self-attention over nested signals."""


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
    dataset: Annotated[
        str,
        typer.Argument(
            help="movie-reviews, fake, or the path of texts with a label each: .tsv or "
            ".csv with a header, .tsv of label<TAB>text, .jsonl, or a folder with a "
            "folder of .txt files for each class."
        ),
    ],
    attention: Annotated[
        Literal["hsa", "flat", "none"], typer.Option(help="Attention of the blocks.")
    ] = "hsa",
    epochs: Annotated[int, typer.Option(min=1)] = 10,
    batch_size: Annotated[int, typer.Option(min=1, help="Signals per batch.")] = 16,
    lr: Annotated[float, typer.Option(help="Highest learning rate.")] = 1e-3,
    seed: Seed = 0,
    max_tokens: MaxTokens = None,
    train_size: Annotated[
        int | None, typer.Option(min=1, help="Train on so many signals only.")
    ] = None,
    channels: Annotated[int, typer.Option(min=1, help="Width of the leaves.")] = 64,
    layers: Annotated[int, typer.Option(min=1)] = 2,
    heads: Annotated[int, typer.Option(min=1)] = 4,
    dropout: Annotated[float, typer.Option(min=0.0, max=1.0)] = 0.1,
    weight_decay: Annotated[float, typer.Option(min=0.0)] = 0.01,
    warmup: Annotated[
        float,
        typer.Option(min=0.0, help="Part of all steps to reach the highest rate."),
    ] = 0.1,
    schedule: Annotated[
        Literal["cosine", "linear"], typer.Option(help="How the rate falls from there.")
    ] = "cosine",
    clip: Annotated[
        float, typer.Option(min=0.0, help="Largest norm of a gradient; 0 clips none.")
    ] = 1.0,
    accumulate: Annotated[
        int, typer.Option(min=1, help="Batches whose gradients make one step.")
    ] = 1,
    precision: Annotated[
        Literal["32", "bf16", "16"],
        typer.Option(help="32, or mixed with bf16 or (on a GPU) 16."),
    ] = "32",
    position: Annotated[
        bool, typer.Option(help="Give children their place in the parent.")
    ] = True,
    text_column: str = "text",
    label_column: str = "label",
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
        str, typer.Option(help="cpu, cuda, mps, or auto for the fastest there is.")
    ] = "auto",
) -> None:
    """Train a transformer on DATASET, keep checkpoints, and test the best epoch.

    The folder OUT holds settings.json, history.json (a row per epoch), best.ckpt,
    last.ckpt and result.json.

    Texts of your own are split 80/10/10 within each class by a hash of the text, the
    same in every run: splits.json says which is where. A run stays with its texts, to
    be resumed or looked at: when they have changed it is refused.
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
        text_column=text_column,
        label_column=label_column,
        precision=precision,
        accumulate=accumulate,
        clip=clip,
        warmup=warmup,
        schedule=schedule,
    )
    name = Path(dataset).resolve().stem
    out = out or Path("runs") / f"{name}-{attention}-{seed}"
    result = train_model(settings, out, root, resume=resume, device=device)
    table = Table(show_header=False, box=None)
    table.add_row("test accuracy", f"{result.test_accuracy:.4f}")
    table.add_row("test macro F1", f"{result.test_macro_f1:.4f}")
    table.add_row(
        "epoch",
        f"{result.best_epoch + 1} of {result.epochs} "
        f"(validation accuracy {result.val_accuracy:.4f})",
    )
    table.add_row("seconds per epoch", f"{result.seconds_per_epoch:.1f}")
    table.add_row("written to", Text(str(out)))
    Console().print(table)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder of the runs and the picture.")] = (
        Path("runs/demo")
    ),
    root: Root = Path("runs/data"),
    train_size: Annotated[int, typer.Option(min=2, help="Reviews to train on.")] = 400,
    epochs: Annotated[int, typer.Option(min=1)] = 3,
    seed: Seed = 0,
) -> None:
    """Train hierarchical and flat attention on film reviews and compare them.

    Each model trains in a process of its own, so that its peak memory is its own. The
    reviews ship with the package; nothing is downloaded.
    """
    from hsa_pyg.cli.demo import run_demo

    run_demo(out, root, train_size=train_size, epochs=epochs, seed=seed)


@app.command()
def inspect(
    path: Annotated[
        Path, typer.Argument(help="A document, picture, tree, graph, file or folder.")
    ],
    format: Format = None,
    html: Annotated[
        Path | None, typer.Option(help="Write a page to read and fold the tree.")
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Folder of hsa-pyg train: the page shows its attention."),
    ] = None,
    depth: Annotated[
        int | None,
        typer.Option(min=1, help="Levels of the tree, if not what fits in 60 lines."),
    ] = None,
    max_children: Annotated[
        int, typer.Option(min=1, help="Children of a node that are printed.")
    ] = 5,
    max_leaves: Annotated[
        int, typer.Option(min=1, help="Most leaves that the page may have.")
    ] = 20_000,
    sample: Annotated[
        int | None, typer.Option(min=0, help="Which of several signals.")
    ] = None,
    images: Images = True,
    max_tokens: MaxTokens = None,
    main_content: MainContent = False,
    root: Root = Path("runs/data"),
) -> None:
    """Print the shape and the tree of what lies at PATH; --html writes a page of it.

    A folder with HTML pages is a website, any other a collection of documents.
    """
    from hsa_pyg.cli.checkpoint import load_run
    from hsa_pyg.cli.inspect import inspect_path
    from hsa_pyg.cli.paths import ReadSettings

    inspect_path(
        path,
        ReadSettings(images=images, max_tokens=max_tokens, main_content=main_content),
        kind=format,
        html=html,
        run=None if checkpoint is None else load_run(checkpoint, root),
        depth=depth,
        max_children=max_children,
        max_leaves=max_leaves,
        sample=sample,
    )


@app.command()
def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="A file or a folder.")],
    out: Annotated[Path, typer.Argument(metavar="OUT.pt", help="File of signals.")],
    format: Format = None,
    tokenizer: Annotated[
        str,
        typer.Option(
            help="hashed; characters; words, for a vocabulary counted in IN and written"
            " to OUT.tokenizer.json; or the path of a tokenizer.json."
        ),
    ] = "hashed",
    labels: Annotated[
        Literal["folder"] | None,
        typer.Option(help="Label of a file: the name of the folder that it lies in."),
    ] = None,
    as_: Annotated[
        Literal["documents", "website"],
        typer.Option("--as", help="One signal a file, or one of the whole site."),
    ] = "documents",
    images: Images = True,
    max_tokens: MaxTokens = None,
    main_content: MainContent = False,
    text: Annotated[bool, typer.Option(help="Keep the texts in the signals.")] = True,
    force: Annotated[bool, typer.Option("--force", help="Replace OUT.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 if any file failed.")
    ] = False,
) -> None:
    """Convert the documents and pictures of a folder to a file of nested signals.

    Files that cannot be converted are left out and listed at the end. The file is read
    by torch.load(OUT), once hsa_pyg is imported.
    """
    from hsa_pyg.cli.convert import convert_path
    from hsa_pyg.cli.paths import ReadSettings

    done = convert_path(
        source,
        out,
        ReadSettings(
            images=images,
            max_tokens=max_tokens,
            main_content=main_content,
            keep_text=text,
        ),
        kind=format,
        tokenizer=tokenizer,
        labels=labels,
        as_website=as_ == "website",
        force=force,
    )
    if strict and done.failed:
        raise typer.Exit(1)


app.command("zero-shot")(zero_shot)
app.command()(experiment)
app.command()(report)


if __name__ == "__main__":
    app()
