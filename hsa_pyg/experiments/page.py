"""The page that results are reported on: tables between markers, prose around them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from hsa_pyg.experiments.records import Record, write_whole


def replace_part(page: Path, name: str, part: str) -> None:
    """Write a part of a page between its two markers; what stands around it stays.

    A page that is not there, or has no such part yet, gets it at its end.

    Args:
        page: Markdown file.
        name: Of the part, told by the markers.
        part: Its new text.

    Raises:
        ValueError: if one marker is there without the other.
    """
    begin = f"<!-- hsa-pyg report {name}: begin, written by the command -->"
    end = f"<!-- hsa-pyg report {name}: end -->"
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    if (begin in text) != (end in text) or text.find(end) < text.find(begin):
        raise ValueError(
            f"{page} has one marker of the report {name!r} without the other: put "
            f"{begin!r} and {end!r} around the part that the report may replace."
        )
    new = f"{begin}\n\n{part.strip()}\n\n{end}"
    if begin in text:
        before, _, rest = text.partition(begin)
        text = before + new + rest.partition(end)[2]
    else:
        text = f"{text.rstrip()}\n\n{new}\n".lstrip()
    write_whole(page, text)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, its first column to the left and the others to the right."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (header, rule, *rows))


def mean_and_deviation(values: Sequence[float]) -> str:
    """Mean and standard deviation, such as ``0.812 ± 0.010``."""
    spread = f" ± {stdev(values):.3f}" if len(values) > 1 else ""
    return f"{fmean(values):.3f}{spread}"


@dataclass(frozen=True)
class Comparison:
    """The differences of two settings, seed by seed.

    Args:
        mean: Mean difference.
        error: Its standard error; nan for one seed.
        seeds: Number of seeds that both have.
    """

    mean: float
    error: float
    seeds: int

    def __str__(self) -> str:
        spread = "" if math.isnan(self.error) else f" ± {self.error:.3f}"
        return f"{self.mean:+.3f}{spread} (n={self.seeds})"


def compare(one: Mapping[int, float], other: Mapping[int, float]) -> Comparison | None:
    """Paired comparison of what two settings reach with each seed.

    Args:
        one: Number by seed.
        other: The same of the setting that is compared with.

    Returns:
        Mean of ``one - other`` and its standard error; None without a common seed.
    """
    pairs = [one[seed] - other[seed] for seed in sorted(one.keys() & other.keys())]
    if not pairs:
        return None
    error = stdev(pairs) / math.sqrt(len(pairs)) if len(pairs) > 1 else math.nan
    return Comparison(fmean(pairs), error, len(pairs))


def by_setting(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Records by the names of their settings, in the order of the records."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record.setting, []).append(record)
    return groups


def provenance(records: Sequence[Record]) -> str:
    """A line on where numbers are from: revisions, versions, processors.

    Of several revisions it tells how many runs are of each; a run that was begun by one
    and went on with another is of both. Of versions it tells torch's, and which others
    are not the same in all runs.
    """
    revisions: Counter[str] = Counter()
    versions: dict[str, set[str]] = {}
    for record in records:
        begun = record.environments
        revisions[" then ".join(dict.fromkeys(map(_revision, begun)))] += 1
        for one in begun:
            for package, version in one["versions"].items():
                versions.setdefault(package, set()).add(version or "none")
    told = [
        f"{package} {', '.join(sorted(found))}"
        for package, found in versions.items()
        if package == "torch" or len(found) > 1
    ]
    hours = sum(record.seconds for record in records) / 3600
    return (
        f"{len(records)} runs, {hours:.1f} hours by the clock in all, a core each; "
        f"{_revisions(revisions)}; {'; '.join(told)}; {processors(records)}."
    )


def processors(records: Sequence[Record]) -> str:
    """What the runs were on, those that went on elsewhere on several."""
    found = {one["processor"] for record in records for one in record.environments}
    return ", ".join(sorted(found))


def _revision(environment: Mapping[str, Any]) -> str:
    """Of the code in one process."""
    if environment["revision"] is None:
        version = environment["versions"].get("hsa-pyg")
        return "installed" if version is None else f"installed {version}"
    changed = " with uncommitted changes" if environment["dirty"] else ""
    return f"{environment['revision'][:12]}{changed}"


def _revisions(counts: Counter[str]) -> str:
    if len(counts) == 1:
        return f"revision {next(iter(counts))}"
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    told = ", ".join(
        f"{revision} ({count} {'run' if count == 1 else 'runs'})"
        for revision, count in ordered
    )
    return f"several revisions: {told}"
