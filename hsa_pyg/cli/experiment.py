"""The commands ``hsa-pyg experiment`` and ``hsa-pyg report``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from heapq import heapreplace
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import track
from rich.table import Table
from rich.text import Text

from hsa_pyg.cli import SettingsError

if TYPE_CHECKING:
    from hsa_pyg.experiments.configuration import Setting
    from hsa_pyg.experiments.running import Run

Results = Annotated[Path, typer.Option("--out", help="Folder of the results files.")]
#: Part of a processor's speed in matrix products that a training run reaches.
_EFFICIENCY = 0.5
#: Page of what is over all experiments.
_CONTRASTS = Path("docs/results.md")


def experiment(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A shipped configuration, or the path of a YAML file. Left out, the "
            "shipped ones are listed."
        ),
    ] = None,
    task: Annotated[
        list[str] | None, typer.Option(help="Short for --set task=TASK; repeatable.")
    ] = None,
    attention: Annotated[
        list[str] | None,
        typer.Option(help="Short for --set attention=ATTENTION; repeatable."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="key=value; key=a,b runs both. Repeatable."),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Runs of each setting, from seed 0.")
    ] = None,
    jobs: Annotated[
        int,
        typer.Option(min=0, help="Processes at a time; 0 runs all in this one."),
    ] = 2,
    out: Results = Path("docs/results"),
    work: Annotated[Path, typer.Option(help="Folder of the checkpoints.")] = Path(
        "runs/experiments"
    ),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what would run, and how long.")
    ] = False,
    settings: Annotated[
        bool, typer.Option("--settings", help="List what --set changes; run nothing.")
    ] = False,
) -> None:
    """Run every setting of the experiment NAME with every seed.

    Each run leaves OUT/NAME/SETTING-SEED.json. A finished run is not run again, an
    interrupted one goes on from its last epoch: repeat the command.
    """
    from hsa_pyg.experiments.configuration import (
        check_used,
        expand,
        load_configuration,
        override,
    )
    from hsa_pyg.experiments.running import Run
    from hsa_pyg.experiments.scheduling import Schedule

    console = Console()
    if name is None:
        if any((task, attention, set_, seeds, dry_run, settings)):
            raise SettingsError(
                "Options need the NAME of an experiment; hsa-pyg experiment lists them."
            )
        console.print(_shipped_table())
        return
    configuration = load_configuration(name)
    assignments = list(set_ or ())
    for key, values in (("task", task), ("attention", attention)):
        if values:
            assignments.append(f"{key}={','.join(values)}")
    override(configuration, assignments)
    grid = expand(configuration)
    check_used(assignments, grid)
    if settings:
        console.print(_settings_table(configuration.experiment, grid))
        console.print("-: none, or it plays no part here.")
        return
    runs = [
        Run(
            configuration.experiment,
            setting,
            seed,
            out / configuration.name,
            work / configuration.name,
        )
        for setting in grid
        for seed in range(seeds or configuration.seeds)
    ]
    waiting = [run for run in runs if not run.is_finished()]
    done = len(runs) - len(waiting)
    console.print(f"{len(runs)} runs, {done} of them finished before.")
    _print_interrupted(waiting, console)
    if not waiting:
        return
    if dry_run:
        _print_plan(waiting, max(jobs, 1), console)
        return
    for folder in (out / configuration.name, work / configuration.name):
        _make_folder(folder)
    try:
        failed = Schedule(waiting, jobs).execute()
    except KeyboardInterrupt:
        console.print("Interrupted: repeat the command to go on.")
        _print_interrupted(waiting, console)
        raise typer.Exit(130) from None
    for run_name, reason in failed.items():
        console.print(f"{run_name} {reason}", soft_wrap=True, markup=False)
    if failed:
        raise typer.Exit(1)
    console.print(f"Results: {out / configuration.name}", soft_wrap=True, markup=False)


def report(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Experiments to report on; all with results if left out."),
    ] = None,
    out: Results = Path("docs/results"),
    page: Annotated[
        Path | None, typer.Option(help="Markdown page, if not the configuration's.")
    ] = None,
    contrasts: Annotated[
        bool,
        typer.Option(
            "--contrasts",
            help="Write the part that compares hierarchical with softmax attention, "
            "over all experiments.",
        ),
    ] = False,
) -> None:
    """Gather the results files of experiments into their Markdown pages.

    Only what stands between the page's two markers is replaced; pictures go to a
    folder "images" beside the page.
    """
    from hsa_pyg.experiments.configuration import (
        find_configuration,
        load_configuration,
    )
    from hsa_pyg.experiments.experiment import find_experiment
    from hsa_pyg.experiments.records import read_records

    console = Console()
    if contrasts:
        from hsa_pyg.experiments.learning.contrasts import write_contrasts

        if names:
            raise SettingsError("--contrasts is over all experiments: leave out NAMES.")
        target = page or _CONTRASTS
        part = write_contrasts(out, target.parent / "images")
        _replace(target, "contrasts", part)
        console.print(f"contrasts -> {target}", soft_wrap=True, markup=False)
        return
    found = list(names or ())
    folders = sorted(path for path in out.glob("*") if path.is_dir())
    for folder in folders if not names else ():
        if find_configuration(folder.name) is None:
            console.print(f"{folder} is of no shipped experiment: left alone.")
        else:
            found.append(folder.name)
    if not found:
        raise FileNotFoundError(f"There are no results of experiments in {out}.")
    for name in found:
        configuration = load_configuration(name)
        records = read_records(out / configuration.name)
        for record in records:
            if record.experiment != configuration.experiment:
                raise SettingsError(
                    f"{out / configuration.name} has a run of {record.experiment!r} "
                    f"({record.setting}-{record.seed}.json), {name} is of "
                    f"{configuration.experiment!r}: delete it, or choose another --out."
                )
        target = page or Path(configuration.page)
        experiment = find_experiment(configuration.experiment)
        images = target.parent / "images"
        part = experiment.page(records, images, configuration.name)
        _replace(target, configuration.name, part)
        console.print(
            f"{name}: {len(records)} runs -> {target}", soft_wrap=True, markup=False
        )


def _replace(page: Path, name: str, part: str) -> None:
    from hsa_pyg.experiments.page import replace_part

    try:
        replace_part(page, name, part)
    except ValueError as error:
        raise SettingsError(str(error)) from error


def _make_folder(folder: Path) -> None:
    """Before anything is trained: results that cannot be written are lost."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise SettingsError(
            f"Nothing can be written into the folder {folder} ({error.strerror}): "
            "choose another --out and --work."
        ) from error


def _shipped_table() -> Table:
    """The shipped configurations, and what each says of itself first."""
    from hsa_pyg.experiments.configuration import shipped_configurations

    table = Table(box=SIMPLE_HEAD)
    table.add_column("experiment", no_wrap=True)
    table.add_column("what is run")
    for name, text in shipped_configurations().items():
        table.add_row(name, Text(text))
    return table


def _settings_table(experiment: str, grid: Sequence[Setting]) -> Table:
    """Every setting, its values over the grid, and what it is."""
    from hsa_pyg.experiments.configuration import usual_values
    from hsa_pyg.experiments.descriptions import describe_settings
    from hsa_pyg.experiments.experiment import find_experiment

    table = Table(box=SIMPLE_HEAD)
    table.add_column("setting", no_wrap=True)
    table.add_column("here", max_width=24)
    table.add_column("meaning")
    values = usual_values(grid)
    for name, text in describe_settings(find_experiment(experiment).settings).items():
        here = ", ".join(map(_as_typed, values[name])) or "-"
        # As they are: brackets are no markup.
        table.add_row(name, Text(here), Text(text))
    return table


def _as_typed(value: Any) -> str:
    """A value as ``--set`` takes it."""
    if isinstance(value, list):
        return f"[{','.join(map(str, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _print_interrupted(runs: Sequence[Run], console: Console) -> None:
    for run in runs:
        standing = run.standing()
        if standing is not None:
            console.print(f"{run.name} {standing}.", soft_wrap=True)


def _print_plan(runs: Sequence[Run], jobs: int, console: Console) -> None:
    from hsa_pyg.experiments.experiment import find_experiment

    speed = _matrix_speed() * _EFFICIENCY
    experiment = find_experiment(runs[0].experiment)
    # When each job will be free: the next run goes to the first.
    ends = [0.0] * jobs
    whole = 0.0
    settings = [list(of) for _, of in groupby(runs, lambda run: run.setting.name)]
    rows = []
    for of_setting in track(settings, "Estimating", console=console, transient=True):
        first = of_setting[0]
        seconds = first.known_seconds()
        source = "as its other seeds"
        if seconds is None:
            work = experiment.work(first.setting.settings)
            seconds, source = work / speed, "from its FLOPs"
        for run in of_setting:
            standing = run.standing()
            left = seconds if standing is None else seconds * standing.left
            whole += left
            heapreplace(ends, ends[0] + left)
        number = len(of_setting)
        times = f"{number} runs of {_time(seconds)}" if number > 1 else _time(seconds)
        rows.append(f"{first.setting.name}: {times} ({source})")
    for row in rows:
        console.print(row, soft_wrap=True)
    console.print(
        f"In all {_time(whole)} of work, about {_time(max(ends))} by {jobs} "
        f"{'job' if jobs == 1 else 'jobs'}."
    )


def _time(seconds: float) -> str:
    """Minutes, from two hours on hours."""
    if seconds < 2 * 3600:
        return f"{seconds / 60:.1f} minutes"
    return f"{seconds / 3600:.1f} hours"


def _matrix_speed() -> float:
    """FLOPs per second of small matrix products on one thread."""
    import torch

    x, w = torch.randn(1000, 64), torch.randn(64, 64)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        begin, products = time.perf_counter(), 0
        while time.perf_counter() - begin < 0.1:
            torch.mm(x, w)
            products += 1
        elapsed = time.perf_counter() - begin
    finally:
        torch.set_num_threads(threads)
    return products * 2 * x.numel() * w.size(1) / elapsed
