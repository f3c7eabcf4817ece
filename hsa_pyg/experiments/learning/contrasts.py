"""Hierarchical attention against softmax attention, over all experiments."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from hsa_pyg.experiments.configuration import find_configuration, load_configuration
from hsa_pyg.experiments.learning.clocks import epoch_seconds
from hsa_pyg.experiments.learning.contrast_plot import plot_contrasts
from hsa_pyg.experiments.learning.report import (
    OF_ATTENTION,
    joined_fold,
    signals_of,
    unlike,
)
from hsa_pyg.experiments.page import Comparison, by_setting, compare, processors, table
from hsa_pyg.experiments.records import Record, read_records

#: Classes of experiments that have both.
_CLASSES = ("learning", "vertices")
_SOFTMAX = ("flat", "multihead")
_TITLES = {"accuracy": "accuracy", "roc_auc": "ROC AUC", "rmse": "RMSE"}
_OTHER_TREES = ("random", "windows", "flat")
#: Settings that a title is shorter without.
_MINOR = ("epochs", "lr", "tune_vectors", "link_layers")
PICTURE = "learning_contrasts.png"


@dataclass(frozen=True)
class Contrast:
    """The two attentions in one setting.

    Args:
        title: Experiment, task, and what the setting is about.
        score: What they are judged by.
        ours: Mean score of hierarchical attention on the test.
        theirs: That of softmax attention.
        change: Of the error, as a part of softmax attention's, seed by seed: below 0
            where hierarchical attention makes fewer. The error is what an accuracy or
            an area lacks of 1, or the root mean squared error itself.
        flops: FLOPs of attention, as a part of softmax attention's.
        seconds: Time of an epoch's training, as a part of softmax attention's, or
            :obj:`None` if the two were not on the same processors.
    """

    title: str
    score: str
    ours: float
    theirs: float
    change: Comparison
    flops: float
    seconds: float | None


def write_contrasts(results: Path, images: Path) -> str:
    """Markdown of all contrasts of finished runs, and their picture in a folder.

    Args:
        results: Folder with a folder of results files for each experiment.
        images: Folder of the picture, beside the page.

    Raises:
        FileNotFoundError: if there is none.
    """
    contrasts = find_contrasts(results)
    if not contrasts:
        raise FileNotFoundError(
            f"{results} has no runs of hierarchical and of softmax attention in one "
            "setting: run hsa-pyg experiment first."
        )
    plot_contrasts(contrasts, images / PICTURE)
    return "\n\n".join(
        [
            "## Hierarchical against softmax attention",
            "All that was run of the two with like settings: scores on the test, means "
            "over the seeds or folds; the change of the error (what an accuracy or "
            "area lacks of 1, or the RMSE) from softmax to hierarchical attention, "
            "paired, ± standard error (of the seeds: that of the test signals, which "
            "all seeds share, comes on top); FLOPs of attention and time of an epoch, "
            "as parts of softmax attention's (no time where they were not on one kind "
            "of processor).",
            f"![Change of the error, FLOPs and time](images/{PICTURE})",
            contrasts_table(contrasts),
            "`hsa-pyg report --contrasts`",
        ]
    )


def contrasts_table(contrasts: Sequence[Contrast]) -> str:
    """A row for each."""
    header = ["what", "score", "hierarchical", "softmax", "change of the error"]
    header += ["n", "FLOPs of attention", "time of an epoch"]
    rows = [
        [
            one.title,
            _TITLES.get(one.score, one.score),
            f"{one.ours:.3f}",
            f"{one.theirs:.3f}",
            _percent(one.change),
            str(one.change.seeds),
            f"{one.flops:.2g}",
            "" if one.seconds is None else f"{one.seconds:.2g}",
        ]
        for one in contrasts
    ]
    return table(header, rows)


def find_contrasts(results: Path) -> list[Contrast]:
    """All contrasts of finished runs, the largest gain first.

    Args:
        results: Folder with a folder of results files for each experiment.
    """
    found = []
    for folder in sorted(path for path in results.glob("*") if path.is_dir()):
        if find_configuration(folder.name) is None:
            continue
        if load_configuration(folder.name).experiment in _CLASSES:
            found += _of_experiment(folder.name, read_records(folder))
    return sorted(found, key=lambda one: (one.change.mean, one.title))


def _of_experiment(name: str, records: Sequence[Record]) -> list[Contrast]:
    groups = by_setting([joined_fold(one) for one in records])
    pairs = [
        (ours, theirs)
        for theirs, group in groups.items()
        if _model(group) in _SOFTMAX
        for ours in _partners(group, groups)
    ]
    titles = _titles(
        name,
        [
            (groups[ours][0].configuration, groups[theirs][0].configuration)
            for ours, theirs in pairs
        ],
    )
    contrasts = [
        _contrast(title, groups[ours], groups[theirs])
        for title, (ours, theirs) in zip(titles, pairs, strict=True)
    ]
    return [one for one in contrasts if one is not None]


def _partners(
    theirs: Sequence[Record], groups: Mapping[str, Sequence[Record]]
) -> list[str]:
    """Of hierarchical attention on its own tree: over all leaves, and over as many."""
    wanted = theirs[0].configuration
    by_tokens: dict[Any, str] = {}
    by_likeness = sorted(
        groups.items(),
        key=lambda item: (unlike(item[1][0], theirs[0]), len(item[0]), item[0]),
    )
    for name, group in by_likeness:
        found = group[0].configuration
        tokens = found.get("max_tokens") or 0
        if (
            _model(group) == "hsa"
            and _local(group) == _local(theirs)
            and found.get("tree") not in _OTHER_TREES
            and tokens in (0, wanted.get("max_tokens"))
            and signals_of(group[0]) == signals_of(theirs[0])
            and not unlike(group[0], theirs[0])[0]
        ):
            by_tokens.setdefault(tokens, name)
    return list(by_tokens.values())


def _model(group: Sequence[Record]) -> str:
    """The attention, of molecules' models without their messages."""
    return group[0].configuration["model"].rpartition("-")[2]


def _local(group: Sequence[Record]) -> str:
    return group[0].configuration["model"].rpartition("-")[0]


def _titles(
    name: str, pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]
) -> list[str]:
    """What each contrast is about: settings in which those of its task differ.

    How long and how fast was trained is left out where the rest tells all apart.
    """
    told = [
        _told(name, ours, theirs, [one for _, one in pairs]) for ours, theirs in pairs
    ]
    for key in _MINOR:
        shorter = [{k: text for k, text in one.items() if k != key} for one in told]
        if len({tuple(one.values()) for one in shorter}) == len(told):
            told = shorter
    return [", ".join(one.values()) for one in told]


def _told(
    name: str,
    ours: Mapping[str, Any],
    theirs: Mapping[str, Any],
    others: Sequence[Mapping[str, Any]],
) -> dict[str, str]:
    """The parts of a title, each under the setting that it tells."""
    task = theirs["task"]
    parts = {"task": name if name == task else f"{name}: {task}"}
    others = [one for one in others if one["task"] == task]
    for key, value in theirs.items():
        if key in (*OF_ATTENTION, "task") or value in (None, [], False):
            continue
        if any(one.get(key) != value for one in others):
            parts[key] = key if value is True else f"{key} {value}"
    tree = theirs.get("tree")
    if any(one.get("tree") != tree for one in others):
        place = "in a row" if tree == "flat" else "along the tree"
        parts["tree"] = f"softmax's positions {place}"
    cut = theirs.get("max_tokens")
    if cut:
        both = ours.get("max_tokens") == cut
        parts["max_tokens"] = f"{'both' if both else 'softmax'} over {cut} tokens"
    return parts


def _contrast(
    title: str, ours: Sequence[Record], theirs: Sequence[Record]
) -> Contrast | None:
    """None if they have no seed in common, or softmax attention makes no error."""
    score = ours[0].facts.get("score", "accuracy")
    one, other = (
        {record.seed: record.final[f"test_{score}"] for record in group}
        for group in (ours, theirs)
    )
    seeds = one.keys() & other.keys()
    errors = [{seed: _error(score, of[seed]) for seed in seeds} for of in (one, other)]
    change = compare(*errors)
    # By the mean error, as one seed's may be 0.
    scale = fmean(errors[1].values()) if seeds else 0.0
    if change is None or not scale:
        return None
    change = replace(change, mean=change.mean / scale, error=change.error / scale)
    seconds, _ = epoch_seconds({"ours": ours, "theirs": theirs})
    comparable = processors(ours) == processors(theirs)
    return Contrast(
        title,
        score,
        fmean(one[seed] for seed in seeds),
        fmean(other[seed] for seed in seeds),
        change,
        _flops(ours) / _flops(theirs),
        seconds["ours"] / seconds["theirs"] if comparable else None,
    )


def _error(score: str, value: float) -> float:
    return value if score in ("rmse", "mae") else 1.0 - value


def _flops(group: Sequence[Record]) -> float:
    """Of attention for as much work in both."""
    facts = group[0].facts
    if "attention_flops_per_example" in facts:
        return facts["attention_flops_per_example"]
    return fmean(one.attention_flops / len(one.history) for one in group)


def _percent(change: Comparison) -> str:
    spread = "" if math.isnan(change.error) else f" ± {100 * change.error:.1f}"
    return f"{100 * change.mean:+.1f}{spread} %"
