"""The options of ``hsa-pyg zero-shot``."""

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer


def zero_shot(
    model: Annotated[str, typer.Argument(help="Folder or hub name of a text encoder.")],
    data: Annotated[
        Path,
        typer.Argument(
            help="Texts: .tsv or .csv with a header, .tsv of label<TAB>text, .jsonl, or"
            " a folder with a folder of .txt files for each class."
        ),
    ],
    layers: Annotated[
        list[str] | None,
        typer.Option(
            help="Numbers from 0 as in 7,9,11; all; alternate; select:3, the three "
            "that change the output least; or select:0.1, so many that a tenth of the "
            "attention's FLOPs is left. May be given again. Left out: all."
        ),
    ] = None,
    hierarchy: Annotated[
        list[str] | None,
        typer.Option(
            help="Trees: segments:0.1, clusters:0.1, ward:8, sentences, window:4, "
            "windows:2,4,8,16, flat ... May be given again. Left out: segments:0.1."
        ),
    ] = None,
    untied: Annotated[
        bool, typer.Option("--untied", help="Every token keeps its own query.")
    ] = False,
    self_attention: Annotated[
        bool, typer.Option(help="Tokens attend to themselves.")
    ] = True,
    specials: Annotated[
        Literal["root", "inside"],
        typer.Option(help="Where special tokens hang in the tree."),
    ] = "root",
    samples: Annotated[
        int | None, typer.Option(min=1, help="Measure on so many texts only.")
    ] = None,
    max_length: Annotated[
        int | None,
        typer.Option(
            min=3,
            help="Cut texts to so many tokens, by default what the model takes; its "
            "positions are stretched for more.",
        ),
    ] = None,
    labels: Annotated[
        bool, typer.Option(help="Compare with the labels of the data.")
    ] = True,
    probe: Annotated[
        bool,
        typer.Option(
            "--probe",
            help="Fit a logistic regression to the original model's mean states.",
        ),
    ] = False,
    train: Annotated[
        Path | None,
        typer.Option(
            help="Texts for --probe and select:...; by default up to half of DATA, "
            "which is then not measured."
        ),
    ] = None,
    train_samples: Annotated[
        int, typer.Option(min=2, help="Fit --probe to at most so many texts.")
    ] = 1000,
    class_: Annotated[
        list[str] | None,
        typer.Option(
            "--class",
            metavar="LABEL=CLASS",
            help="What the model calls a label of DATA, as in neg=LABEL_0.",
        ),
    ] = None,
    lengths: Annotated[
        str, typer.Option(help='Tokens of the timed texts; "" for no timing.')
    ] = "64,256,512,2048,8192",
    text_column: str = "text",
    label_column: str = "label",
    seed: int = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1 ...")] = "cpu",
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write the tables to a .md or .json file, again after every row."
        ),
    ] = None,
) -> None:
    """Replace softmax attention in MODEL without training, and measure what changes.

    Prints accuracy, agreement and divergence of the predictions, the FLOPs of attention
    as the paper counts them, and seconds of a forward pass at several lengths.
    """
    from hsa_pyg.cli.zero_shot import measure_zero_shot
    from hsa_pyg.cli.zero_shot_settings import (
        ZeroShotSettings,
        read_classes,
        read_lengths,
    )
    from hsa_pyg.cli.zero_shot_tables import check_out, print_result, write_result

    check_out(out)
    result = measure_zero_shot(
        ZeroShotSettings(
            model=model,
            data=data,
            layers=layers or ["all"],
            hierarchies=hierarchy or ZeroShotSettings.hierarchies,
            tie_queries=not untied,
            self_attention=self_attention,
            specials=specials,
            samples=samples,
            max_length=max_length,
            labels=labels,
            probe=probe,
            train=train,
            train_samples=train_samples,
            classes=read_classes(class_ or []),
            lengths=read_lengths(lengths),
            text_column=text_column,
            label_column=label_column,
            seed=seed,
            device=device,
        ),
        None if out is None else partial(write_result, out=out),
    )
    print_result(result)
    if out is not None:
        write_result(result, out)
        print(f"written to {out}")
