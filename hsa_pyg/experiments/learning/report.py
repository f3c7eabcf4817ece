"""Tables and pictures of learning runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from hsa_pyg.experiments.learning.clocks import epoch_seconds
from hsa_pyg.experiments.learning.plots import plot_learning
from hsa_pyg.experiments.learning.settings import BAG_OF_WORDS
from hsa_pyg.experiments.page import (
    by_setting,
    compare,
    mean_and_deviation,
    processors,
    provenance,
    table,
)
from hsa_pyg.experiments.records import Record
from hsa_pyg.experiments.reproduction import reproduction

_HSA = "hsa"
#: What attentions in one setting may differ in.
OF_ATTENTION = {"model", "tree", "windows", "max_tokens", "fold"}
#: Settings that a title tells, if all runs of a task agree in them.
_TOLD = (
    "regime",
    "features",
    "channels",
    "layers",
    "heads",
    "lr",
    "schedule",
    "batch_size",
    "epochs",
    "patience",
    "dropout",
)
#: Scores of the test, with their titles, that are told where they were measured.
_SCORES = {
    "test_accuracy": "accuracy",
    "test_macro_f1": "macro F1",
    "test_roc_auc": "ROC AUC",
    "test_rmse": "RMSE",
    "test_mae": "MAE",
}


def write_report(records: Sequence[Record], images: Path, name: str) -> str:
    """Markdown of all runs, task by task; pictures go to a folder.

    Args:
        records: Finished runs of one configuration.
        images: Folder of the pictures, beside the page.
        name: Of the configuration.
    """
    tasks: dict[str, list[Record]] = {}
    for record in records:
        task = record.configuration["task"]
        task += "-binary" if record.configuration["binary"] else ""
        target = record.configuration["target"]
        task += f"-{target}" if target == "subcategory" else ""
        tasks.setdefault(task, []).append(record)
    parts = [f"## {name}"]
    for task in sorted(tasks):
        parts += _task(task, tasks[task], name, images)
    return "\n\n".join([*parts, provenance(records)])


def _task(task: str, records: Sequence[Record], name: str, images: Path) -> list[str]:
    groups = by_setting([joined_fold(record) for record in records])
    titles = _titles(groups)
    parts = [
        f"### {task}",
        _setup(records),
        reproduction(records, name),
        _scores_table(groups, titles),
        _costs_table(groups, titles),
    ]
    trained = {
        titles[one]: [record.history for record in group]
        for one, group in groups.items()
        if len(group[0].history) > 1
    }
    if trained:
        score = _validation(records)
        picture = images / f"learning_{name}_{task}.png"
        plot_learning(trained, score, picture)
        parts.append(f"![{name}, {task}: validation by epochs](images/{picture.name})")
    return parts


def joined_fold(record: Record) -> Record:
    """Folds are runs of one setting, as seeds are; the fixed split is another."""
    fold = record.configuration.get("fold")
    if fold is None:
        return record
    return replace(
        record,
        setting=record.setting.replace(f"-fold{fold}", "-folds"),
        seed=10 * record.seed + fold,
    )


def _titles(groups: Mapping[str, Sequence[Record]]) -> dict[str, str]:
    """The model of each setting, and what is not as in most of them."""
    configurations = {name: group[0].configuration for name, group in groups.items()}
    titles = {name: [found["model"]] for name, found in configurations.items()}
    for key in next(iter(configurations.values())):
        if key in ("task", "model", "fold"):
            continue
        # What has no part in a model is none of its settings.
        told = {n: found[key] for n, found in configurations.items()}
        told = {n: value for n, value in told.items() if value not in (None, [])}
        # Where it is even, hsa's own value is the usual one.
        values = [told[n] for n in sorted(told, key=lambda n: titles[n][0] != _HSA)]
        usual = max(values, key=values.count, default=None)
        # That texts are cut is told of all whose texts are.
        usual = 0 if key == "max_tokens" else usual
        for name, value in told.items():
            if value != usual:
                titles[name].append(f"{key} {value}")
    if len({_folded(found) for found in configurations.values()}) > 1:
        for name, found in configurations.items():
            titles[name] += ["folds"] if _folded(found) else []
    return _told_apart(
        {name: ", ".join(parts) for name, parts in titles.items()}, configurations
    )


def _told_apart(
    titles: Mapping[str, str], configurations: Mapping[str, Mapping[str, Any]]
) -> dict[str, str]:
    """Titles of which no two are alike: they tell what is left out, too, if need be."""
    found = dict(titles)
    for name, title in titles.items():
        alike = [configurations[one] for one in titles if titles[one] == title]
        for key, value in configurations[name].items():
            if key != "fold" and any(one[key] != value for one in alike):
                # What is told already is not None.
                told = f", {key} {'not given' if value is None else value}"
                found[name] += told if told not in found[name] else ""
    return found


def _setup(records: Sequence[Record]) -> str:
    """Sizes, and the settings in which all models agree."""
    sizes = {
        part: " or ".join(f"{n:,}" for n in dict.fromkeys(_numbers(records, part)))
        for part in ("train", "val", "test")
    }
    told_sizes = ", ".join(
        f"{sizes[part]} {title}"
        for part, title in (("train", "training"), ("val", "validation"))
        if sizes[part]
    )
    told_sizes += f" and {sizes['test']} test signals" if sizes["test"] else ""
    told = []
    for key in _TOLD:
        values = [record.configuration[key] for record in records]
        known = {value for value in values if value is not None}
        if len(known) == 1:
            told.append(f"{key} {known.pop()}")
    return f"{told_sizes}; {', '.join(told)}."


def _numbers(records: Sequence[Record], part: str) -> list[int]:
    """How many signals a part has, over all runs."""
    return sorted(r.facts[part] for r in records if part in r.facts)


def _folded(configuration: Mapping[str, Any]) -> bool:
    """Whether a run is of one of the folds, not of the fixed split."""
    return configuration.get("fold") is not None


def _scores_table(
    groups: Mapping[str, Sequence[Record]], titles: Mapping[str, str]
) -> str:
    every = [record for group in groups.values() for record in group]
    judged = f"test_{_score(every)}"
    scores = {
        key: title
        for key, title in {**_SCORES, _validation(every): "validation"}.items()
        if any(key in record.final for record in every)
    }
    bases = _bases(groups)
    folded = all(_folded(group[0].configuration) for group in groups.values())
    runs = "folds" if folded else "seeds"
    header = ["model", runs, *scores.values(), "best epoch"]
    whom, one = "", len(set(bases.values())) == 1
    if bases:
        first = next(iter(bases.values()))
        whom = "" if one else "from hsa's with the most like settings "
        header += [f"less {titles[first]}'s"] if one else ["difference", "from"]
    rows = []
    for name, group in _by_score(groups, judged):
        row = [titles[name], str(len(group))]
        for key in scores:
            found = [record.final[key] for record in group if key in record.final]
            row.append(mean_and_deviation(found) if found else "")
        # As a person counts epochs, from 1.
        row.append(f"{fmean(1 + record.final['best_epoch'] for record in group):.1f}")
        if bases:
            # What has no partner, and hsa itself, have no difference.
            base, difference = bases.get(name, name), None
            if base != name:
                difference = compare(
                    _finals(group, judged), _finals(groups[base], judged)
                )
            row.append("" if difference is None else str(difference))
            if not one:
                row.append("" if difference is None else titles[base])
        rows.append(row)
    paired = ""
    if bases:
        paired = (
            f"; differences of {_SCORES[judged]} {whom}are paired by {runs[:-1]}, "
            f"± standard error (n {runs})"
        )
    return (
        "On the test set, with the weights of the epoch that was best on the "
        f"validation set: mean ± standard deviation over the {runs}{paired}.\n\n"
        + table(header, rows)
    )


def _costs_table(
    groups: Mapping[str, Sequence[Record]], titles: Mapping[str, str]
) -> str:
    seconds, clock = epoch_seconds(groups)
    header = ["model", "parameters", "without embeddings"]
    header += ["attention MFLOP per example", f"{clock} per epoch", "epochs"]
    header += ["leaves/s", "peak memory, MB"]
    machines = {name: processors(group) for name, group in groups.items()}
    several = len(set(machines.values())) > 1
    header += ["processor"] if several else []
    rows = []
    for name, group in groups.items():
        facts = group[0].facts
        epochs = [len(record.history) for record in group]
        encoder = facts.get("parameters_of_encoder")
        rate = ""
        if "train_leaves" in facts:
            rate = f"{facts['train_leaves'] / seconds[name]:,.0f}"
        rows.append(
            [
                titles[name],
                f"{facts['parameters']:,}",
                "" if encoder is None else f"{facts['parameters'] - encoder:,}",
                _mega(facts["attention_flops_per_example"]),
                f"{seconds[name]:.1f}",
                f"{fmean(epochs):.1f}",
                rate,
                f"{fmean(record.peak_memory for record in group) / 1e6:,.0f}",
                *([machines[name]] if several else []),
            ]
        )
    return (
        "Trained parameters; FLOPs of the matrix products of attention, forward, for "
        f"a training example in the mean; {clock} of an epoch's training batches "
        "(median), and leaves by these; most memory of the process, data included.\n\n"
        + table(header, rows)
    )


def _score(records: Sequence[Record]) -> str:
    """What the runs are judged by."""
    return records[0].facts.get("score", "accuracy")


def _validation(records: Sequence[Record]) -> str:
    """The score by which the best epoch is chosen."""
    return f"val_{_score(records)}"


def _mega(flops: float) -> str:
    return f"{flops / 1e6:,.3g}" if flops < 1e9 else f"{flops / 1e6:,.0f}"


def _bases(groups: Mapping[str, Sequence[Record]]) -> dict[str, str]:
    """The setting that each is compared with: hsa's on the same signals.

    Of several it is the one that differs in the fewest settings, trees and cut texts
    left aside, and of these, as for hsa's own settings, the one with the shortest name.
    A bag of words has no such settings: it is compared with hsa at its best, by the
    validation. Among molecules' models it is that of messages with hsa beside them.
    """
    if len(groups) < 2:
        return {}
    like = {name: signals_of(group[0]) for name, group in groups.items()}
    ours = [
        name
        for name in sorted(groups, key=lambda name: (len(name), name))
        if groups[name][0].configuration["model"].rpartition("-")[2] == _HSA
    ]
    bases = {}
    for name, group in groups.items():
        known = [one for one in ours if like[one] == like[name]]
        if name in ours:
            bases[name] = known[0]
        elif known and group[0].configuration["model"] == BAG_OF_WORDS:
            bases[name] = max(known, key=lambda one: _validated(groups[one]))
        elif known:
            # The first of equals, which has the shortest name.
            bases[name] = min(known, key=lambda one: unlike(groups[one][0], group[0]))
    return bases


def signals_of(record: Record) -> tuple[bool, Any, Any]:
    """What tells the signals of a run from those of others: scores on unlike ones are
    not compared."""
    facts = record.facts
    return _folded(record.configuration), facts.get("train"), facts.get("test")


def unlike(one: Record, other: Record) -> tuple[int, int]:
    """In how many settings two runs differ, but for those that attentions differ in.

    First of the settings that play a part in both, then of all, where what has no part
    is what is not used: phrases that are not learned, and phrases that are not there.
    """
    a, b = (_resolved(run.configuration) for run in (one, other))
    keys = (a.keys() & b.keys()) - OF_ATTENTION
    shared = [key for key in keys if None not in (a[key], b[key])]
    return (
        sum(a[key] != b[key] for key in shared),
        sum((a[key] or None) != (b[key] or None) for key in keys),
    )


def _resolved(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """With a value for what is not given, but plays a part."""
    found = dict(configuration)
    if "vectors" in found:
        found["vectors"] = found["vectors"] or "of the package"
    expansion, channels = found.get("expansion"), found.get("channels")
    if "hidden" in found and found["hidden"] is None and expansion and channels:
        found["hidden"] = expansion * channels
    return found


def _validated(group: Sequence[Record]) -> float:
    """Mean score on the validation set, if it is told."""
    found = _finals(group, _validation(group))
    return fmean(found.values()) if found else -math.inf


def _by_score(
    groups: Mapping[str, Sequence[Record]], key: str
) -> list[tuple[str, Sequence[Record]]]:
    """The best first."""
    sign = 1.0 if key in ("test_rmse", "test_mae") else -1.0

    def mean(item: tuple[str, Sequence[Record]]) -> float:
        found = list(_finals(item[1], key).values())
        return sign * fmean(found) if found else math.inf

    return sorted(groups.items(), key=mean)


def _finals(group: Sequence[Record], key: str) -> dict[int, float]:
    return {record.seed: record.final[key] for record in group if key in record.final}
