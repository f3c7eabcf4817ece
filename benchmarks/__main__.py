"""The command ``python -m benchmarks NAME [SECTION ...]``.

Each section is a table, measured side by side in this process. With ``--docs docs`` it
also replaces that section of docs/benchmarks/NAME.md (or the page NAME_SECTION.md, if
each section has one) and its picture in docs/images.
``python -m benchmarks goals`` gathers what the pages say about bars and aims.
"""

from __future__ import annotations

import argparse
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType

from tqdm import tqdm

from benchmarks.goals import collect, write_goals
from benchmarks.report import Options, draw, markdown, page, sections_of

#: The benchmarks and their modules, which are imported late: some need extras.
BENCHMARKS = {
    "compile": "benchmarks.compilation",
    "converters": "benchmarks.converters",
    "core": "benchmarks.core",
    "cuda": "benchmarks.cuda",
    "focus": "benchmarks.focus",
    "growth": "benchmarks.growth",
    "limit": "benchmarks.limit",
    "memory": "benchmarks.memory",
    "peers": "benchmarks.peers",
    "training": "benchmarks.training",
    "zero_shot": "benchmarks.zero_shot",
}


def parser() -> argparse.ArgumentParser:
    """What the command takes."""
    made = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    made.add_argument("name", choices=[*BENCHMARKS, "goals"])
    made.add_argument("sections", nargs="*", help="tables to measure; all by default")
    made.add_argument("--runs", type=int, default=9, help="rounds per measurement")
    made.add_argument("--budget", type=float, default=30.0, help="seconds for them")
    made.add_argument("--backend", default="auto", help="backend of HSA")
    made.add_argument("--quick", action="store_true", help="tiny inputs, to try it")
    made.add_argument("--docs", type=Path, help="folder of the pages to write")
    made.add_argument("--data", type=Path, help="folder of data sets to read")
    made.add_argument(
        "--results-only",
        action="store_true",
        help="show what is among the results, measure nothing (zero_shot)",
    )
    return made


def command(arguments: argparse.Namespace, section: str) -> str:
    """How to measure a section again."""
    words = [
        "python -m benchmarks",
        arguments.name,
        section,
        f"--runs {arguments.runs}",
    ]
    if arguments.backend != "auto":
        words.append(f"--backend {arguments.backend}")
    if arguments.quick:
        words.append("--quick")
    return " ".join(words)


def chosen(module: ModuleType, names: list[str]) -> list[str]:
    """The sections to measure.

    Raises:
        SystemExit: if one is not known; it names those that are.
    """
    unknown = [name for name in names if name not in module.SECTIONS]
    if unknown:
        raise SystemExit(
            f"{module.__name__} has no section {', '.join(unknown)}; it has "
            f"{', '.join(module.SECTIONS)}"
        )
    return names or list(module.SECTIONS)


def write(docs: Path, name: str, module: ModuleType, measured: dict[str, str]) -> None:
    """Put the measured sections into the page of the benchmark."""
    if getattr(module, "PAGES", False):
        for section, text in measured.items():
            path = docs / "benchmarks" / f"{name}_{section}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            summary = module.summary(section)
            path.write_text(page(f"{name} {section}", summary, {section: text}))
        return
    path = docs / "benchmarks" / f"{name}.md"
    kept = sections_of(path.read_text()) if path.exists() else {}
    sections = {
        section: (kept | measured)[section]
        for section in module.SECTIONS
        if section in kept or section in measured
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(name, module.__doc__ or "", sections))


def main(words: list[str] | None = None) -> None:
    """Measure, print, and write what is asked for."""
    arguments = parser().parse_args(words)
    if arguments.name == "goals":
        docs = arguments.docs or Path("docs")
        print(collect(docs))
        if arguments.docs is not None:
            write_goals(docs)
        return
    module = import_module(BENCHMARKS[arguments.name])
    options = Options(
        runs=min(arguments.runs, 2) if arguments.quick else arguments.runs,
        quick=arguments.quick,
        backend=arguments.backend,
        budget=arguments.budget,
        data=arguments.data,
        measuring=not arguments.results_only,
        results=(arguments.docs or Path("docs")) / "results",
    )
    for name in tqdm(chosen(module, arguments.sections), desc=arguments.name):
        section = module.SECTIONS[name](options)
        picture = None
        drawn = section.draw or (
            partial(draw, section.panels) if section.panels else None
        )
        if drawn is not None and arguments.docs is not None:
            file = f"benchmark_{arguments.name}_{name}.png"
            drawn(arguments.docs / "images" / file)
            picture = f"../images/{file}"
        text = markdown(
            arguments.name, name, section, command(arguments, name), picture
        )
        tqdm.write(text)
        if arguments.docs is not None:
            write(arguments.docs, arguments.name, module, {name: text})


if __name__ == "__main__":
    main()
