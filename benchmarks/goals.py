"""All rows of the benchmarks' pages that have a bar, in one table.

``python -m benchmarks goals --docs docs`` measures nothing: it reads the pages in
docs/benchmarks and puts the table between the two marks in docs/performance.md.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.report import sections_of
from benchmarks.timing import table

BEGIN = "<!-- goals: written by python -m benchmarks goals --docs docs -->"
END = "<!-- end of goals -->"
HEAD = ["measured", "bar", "aim", "came out", "reached", "page"]


def rows_of(text: str) -> list[dict[str, str]]:
    """The rows of all tables of a Markdown text, each cell by its column."""
    rows, head = [], None
    for line in text.splitlines():
        if not line.startswith("|"):
            head = None
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if head is None:
            head = cells
        elif set(cells) != {"---"}:
            rows.append(dict(zip(head, cells, strict=True)))
    return rows


def came_out(row: dict[str, str]) -> tuple[str, str]:
    """What a row is about, and the number that its bar is for."""
    columns = list(row)
    ratio = columns[columns.index(next(x for x in columns if x.startswith("bar"))) - 1]
    if "passes" in row:
        return f"{row[columns[0]]}, {row['passes']}: {ratio}", row[ratio]
    if "forest" in row:
        return f"compiling {row['nodes']} nodes, {row['forest']}", row["time"]
    return row[columns[0]], row[ratio]


def collect(docs: Path) -> str:
    """The table of all goals that the pages tell of."""
    rows = []
    for path in sorted((docs / "benchmarks").glob("*.md")):
        for section, text in sections_of(path.read_text()).items():
            link = f"[{path.stem} {section}](benchmarks/{path.name}#{section})"
            for row in rows_of(text):
                bar = row.get("bar", row.get("bar, s", ""))
                if bar:
                    what, ratio = came_out(row)
                    aim = row.get("aim", row.get("aim, s", ""))
                    rows.append([what, bar, aim, ratio, row["reached"], link])
    return table(HEAD, rows)


def write_goals(docs: Path) -> None:
    """Replace the table in the page on performance.

    Raises:
        ValueError: if the page lacks the marks.
    """
    path = docs / "performance.md"
    before, begun, rest = path.read_text().partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not begun or not ended:
        raise ValueError(f"{path} must hold {BEGIN!r} and {END!r}, each on its line")
    path.write_text(f"{before}{BEGIN}\n\n{collect(docs)}\n\n{END}{after}")
