"""The command ``python -m benchmarks NAME [--runs N] [--output FILE]``."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks import converters, core, focus

BENCHMARKS = {"converters": converters, "core": core, "focus": focus}


def main() -> None:
    """Run one benchmark and print its table, or write it to a file as well."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=BENCHMARKS)
    parser.add_argument("--runs", type=int, default=9, help="pairs per measurement")
    parser.add_argument("--output", type=Path, help="also write the Markdown here")
    arguments = parser.parse_args()
    benchmark = BENCHMARKS[arguments.name]
    text = benchmark.run(arguments.runs)
    print(text)
    if arguments.output is not None:
        command = f"python -m benchmarks {arguments.name} --runs {arguments.runs}"
        heading = f"# Benchmark: {arguments.name}\n\nBy `{command}`."
        summary = (benchmark.__doc__ or "").strip()
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(f"{heading}\n\n{summary}\n\n{text}\n")


if __name__ == "__main__":
    main()
