"""Tables and pictures of semantic focus runs."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np

from hsa_pyg.experiments.page import (
    by_setting,
    compare,
    mean_and_deviation,
    provenance,
    table,
)
from hsa_pyg.experiments.records import Record
from hsa_pyg.experiments.reproduction import reproduction
from hsa_pyg.experiments.semantic_focus.convergence import (
    bootstrap,
    curves,
    epochs_ratio,
    epochs_saved,
    epochs_to,
    middle,
)
from hsa_pyg.experiments.semantic_focus.plots import plot_convergence
from hsa_pyg.experiments.semantic_focus.score_spread import plot_spread, spread_table

#: Parts of the way from the loss of guessing to none, and accuracies, that are timed.
LOSS_LEVELS = (0.5, 0.1)
ACCURACY_LEVELS = (0.95, 1.0)


def write_report(records: Sequence[Record], images: Path, configuration: str) -> str:
    """Markdown of all runs, task by task; pictures go to a folder.

    Args:
        records: Finished runs of one configuration.
        images: Folder of the pictures, beside the page.
        configuration: Its name, for the commands that make the runs again.
    """
    tasks: dict[str, list[Record]] = {}
    for record in records:
        tasks.setdefault(record.configuration["task"], []).append(record)
    parts = [_task(name, tasks[name], images, configuration) for name in sorted(tasks)]
    return "\n\n".join([*parts, provenance(records)])


def _task(
    task: str, records: Sequence[Record], images: Path, configuration: str
) -> str:
    logged = [one for one in records if one.configuration["log_scores"]]
    # Logging changes no number of a run: where there are others, these tell the rest.
    records = [one for one in records if not one.configuration["log_scores"]] or records
    groups = by_setting(records)
    picture = images / f"semantic_focus_{task}.png"
    titles = _titles(task, groups)
    plot_convergence(_histories(groups, titles), picture)
    parts = [
        f"### {task}",
        _setup(records),
        reproduction(records, configuration),
        _epochs_table(groups, titles),
    ]
    full = _full(groups)
    if full is not None and len(groups) > 1:
        parts.append(_savings_table(groups, titles, full))
    parts += [
        _final_table(groups, titles),
        f"![{task}: medians and quartiles](images/{picture.name})",
    ]
    if logged:
        parts.append(_spread(task, logged, images, configuration))
    return "\n\n".join(parts)


def _spread(
    task: str, logged: Sequence[Record], images: Path, configuration: str
) -> str:
    groups = by_setting(logged)
    histories = _histories(groups, _titles(task, groups))
    picture = images / f"semantic_focus_{task}_scores.png"
    plot_spread(histories, picture)
    return "\n\n".join(
        [
            "How scores spread, of runs that logged it: means over queries, heads and "
            "blocks on the first sequences of the holdout, in the first and the last "
            "epoch. Without top-k or a pattern nothing is dropped.",
            reproduction(logged, configuration),
            spread_table(histories),
            f"![{task}: entropy and spread of the scores](images/{picture.name})",
        ]
    )


def _histories(
    groups: Mapping[str, Sequence[Record]], titles: Mapping[str, str]
) -> dict[str, list[list[dict[str, float]]]]:
    """Rows of each run by the setting's title."""
    return {titles[name]: [r.history for r in group] for name, group in groups.items()}


def _titles(task: str, names: Collection[str]) -> dict[str, str]:
    """Names of a task's settings without the task, and what all of them end in."""
    parts = [name.removeprefix(f"{task}-").split("-") for name in names]
    while len(parts) > 1 and min(map(len, parts)) > 1:
        if len({part[-1] for part in parts}) > 1:
            break
        parts = [part[:-1] for part in parts]
    return {name: "-".join(part) for name, part in zip(names, parts, strict=True)}


def _setup(records: Sequence[Record]) -> str:
    first = records[0].configuration
    keys = ("train_size", "val_size", "blocks", "batch_size", "lr", "decay", "epochs")
    told = ", ".join(f"{key} {first[key]}" for key in keys)
    if first["max_length"] is not None:
        told += f", lengths between {first['min_length']} and {first['max_length']}"
    stopped = sum(bool(record.facts["stopped_early"]) for record in records)
    rule = ""
    if stopped:
        rule = (
            f" {stopped} runs ended early, after {first['stop_after']} epochs without "
            f"an error on the holdout and with a training loss below "
            f"{first['stop_loss']}; they keep their last numbers."
        )
    return f"{told}.{rule}"


def _epochs_table(
    groups: Mapping[str, Sequence[Record]], titles: Mapping[str, str]
) -> str:
    """Epochs to levels; runs that never arrive are counted, not averaged."""
    header = ["attention", "runs"]
    header += [f"loss x {level:g}" for level in LOSS_LEVELS]
    header += [f"holdout {level:.0%}" for level in ACCURACY_LEVELS]
    rows = []
    for name, group in groups.items():
        last = max(len(record.history) for record in group)
        reached = [_epochs_to_loss(group, level) for level in LOSS_LEVELS]
        reached += [
            [epochs_to(r.history, "val_accuracy", level, rising=True) for r in group]
            for level in ACCURACY_LEVELS
        ]
        cells = [_censored(epochs, last) for epochs in reached]
        rows.append([titles[name], str(len(group)), *cells])
    return (
        "Epochs until the training loss first falls to a part of that of guessing "
        "(the logarithm of the number of classes), and until the holdout accuracy "
        "first reaches a level: median (quartiles) over the seeds, and how many "
        "arrived. A run that does not arrive counts as longer than any.\n\n"
        + table(header, rows)
    )


def _censored(reached: Sequence[float], last: int) -> str:
    arrived = sum(math.isfinite(one) for one in reached)

    def say(value: float) -> str:
        return f"{value:.0f}" if math.isfinite(value) else f"> {last}"

    low, median, high = (say(float(one)) for one in middle(reached))
    return f"{median} ({low} to {high}), {arrived}/{len(reached)}"


def _savings_table(
    groups: Mapping[str, Sequence[Record]], titles: Mapping[str, str], full: str
) -> str:
    # Where a run of full attention has been ended, its later losses are not known.
    known = min(len(record.history) for record in groups[full])
    loss = {
        name: curves([record.history for record in group], "train_loss", known)
        for name, group in groups.items()
    }
    base = loss[full]
    rows = []
    for name in groups:
        if name == full:
            continue
        found = epochs_saved(np.median(loss[name], axis=0), np.median(base, axis=0))
        saved = bootstrap(loss[name], base, lambda saving: saving.percentage)
        ratio = bootstrap(loss[name], base, lambda saving: saving.ratio)
        rows.append(
            [
                titles[name],
                *(_times(groups[name], groups[full], level) for level in LOSS_LEVELS),
                f"{found.percentage:.1f} ({saved.low:.1f} to {saved.high:.1f})",
                str(found.epoch),
                f"{found.ratio:.2f} ({ratio.low:.2f} to {ratio.high:.2f})",
            ]
        )
    header = ["attention", *(f"{titles[full]} / it, x {x:g}" for x in LOSS_LEVELS)]
    header += ["% saved", "at epoch", "ratio"]
    return (
        f"Epochs of {titles[full]} by those of the other to a training loss of a part "
        "of that of guessing: the ratio of the medians over the seeds "
        '("> all" where half of the runs of full attention do not arrive, 0 where half '
        "of the others do not).\n\nThen the epochs saved as the paper counts them, by "
        "the median training losses: the largest percentage, the epoch (from 0) of "
        "full attention at which it is saved, and the ratio that it means, over the "
        f"first {known} epochs, when a first run of full attention had ended. On a "
        "plateau, where losses differ by noise, this counts who is below by a hair. "
        "In brackets what holds 95 % of 1,000 bootstrap samples of the seeds.\n\n"
        + table(header, rows)
    )


def _times(group: Sequence[Record], full: Sequence[Record], level: float) -> str:
    """How many times as many epochs full attention takes to a part of the loss."""
    times = epochs_ratio(_epochs_to_loss(group, level), _epochs_to_loss(full, level))
    if math.isnan(times.value):
        return "neither arrives"
    low, value, high = (
        f"{one:.2f}" if math.isfinite(one) else "> all"
        for one in (times.spread.low, times.value, times.spread.high)
    )
    return f"{value} ({low} to {high})"


def _epochs_to_loss(group: Sequence[Record], part: float) -> list[float]:
    """Epochs of each run until its loss falls to a part of that of guessing."""
    level = part * math.log(group[0].facts["classes"])
    return [epochs_to(r.history, "train_loss", level, rising=False) for r in group]


def _final_table(
    groups: Mapping[str, Sequence[Record]], titles: Mapping[str, str]
) -> str:
    against = _against_full(groups)
    seconds, clock = _seconds(groups)
    header = ["attention", "train loss", "holdout accuracy", "best epoch's"]
    header += ["accuracy less full's"] if against else []
    header += [f"{clock} per epoch", "attention GFLOP per epoch"]
    rows = []
    for name, group in groups.items():
        best = [max(row["val_accuracy"] for row in r.history) for r in group]
        epochs = sum(len(record.history) for record in group)
        flops = fmean(r.attention_flops / len(r.history) for r in group)
        rows.append(
            [
                titles[name],
                mean_and_deviation([r.final["train_loss"] for r in group]),
                mean_and_deviation([r.final["val_accuracy"] for r in group]),
                mean_and_deviation(best),
                *([against.get(name, "")] if against else []),
                f"{seconds[name] / epochs:.2f}",
                f"{flops / 1e9:.1f}",
            ]
        )
    paired = "; differences are paired by seed, ± standard error" if against else ""
    return (
        "After the last epoch (mean ± standard deviation over the seeds"
        f"{paired}):\n\n{table(header, rows)}"
    )


def _against_full(groups: Mapping[str, Sequence[Record]]) -> dict[str, str]:
    """Differences from full attention, of the settings that share a seed with it."""
    full = _full(groups)
    if full is None:
        return {}
    base = _accuracies(groups[full])
    found = {name: compare(_accuracies(group), base) for name, group in groups.items()}
    return {
        name: str(one)
        for name, one in found.items()
        if one is not None and name != full
    }


def _seconds(groups: Mapping[str, Sequence[Record]]) -> tuple[dict[str, float], str]:
    """Seconds that each setting took, and what clock they are of, the same for all.

    The processor's, which other work on the machine leaves alone, unless some results
    are of a version that had only the wall clock.
    """
    rows = {
        name: [row for record in group for row in record.history]
        for name, group in groups.items()
    }
    key = "processor_seconds"
    if all(key in row for of_setting in rows.values() for row in of_setting):
        return {
            name: sum(row[key] for row in of_setting)
            for name, of_setting in rows.items()
        }, "processor s"
    return {
        name: sum(record.seconds for record in group) for name, group in groups.items()
    }, "wall s"


def _accuracies(group: Sequence[Record]) -> dict[int, float]:
    return {record.seed: record.final["val_accuracy"] for record in group}


def _full(groups: Mapping[str, Sequence[Record]]) -> str | None:
    """The setting of full attention, the one with the shortest name of several."""
    names = [n for n, g in groups.items() if g[0].configuration["attention"] == "full"]
    return min(names, key=len, default=None)
