"""Executes the notebooks beside this file; ``make notebooks`` calls it.

A notebook is written as ``NN_name.py``, in the percent format of jupytext. Its pair
``NN_name.ipynb`` has the same cells and what they gave, and is made here alone.
"""

import argparse
import os
import tempfile
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

FOLDER = Path(__file__).parent
#: Of every notebook alike, whatever machine it was executed on.
METADATA = {
    "jupytext": {"formats": "ipynb,py:percent"},
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"file_extension": ".py", "name": "python"},
}


def sources(folder: Path = FOLDER) -> list[Path]:
    """The notebooks' sources, in their order."""
    return sorted(folder.glob("[0-9][0-9]_*.py"))


def read(path: Path) -> NotebookNode:
    """A notebook from its source or its pair, as the suffix says."""
    if path.suffix == ".py":
        return jupytext.read(path, fmt="py:percent")
    return nbformat.read(path, as_version=4)


def cells(notebook: NotebookNode) -> list[tuple[str, str]]:
    """Kind and source of every cell."""
    return [(cell.cell_type, cell.source) for cell in notebook.cells]


def executed(notebook: NotebookNode) -> bool:
    """Whether every cell of code was run, in order and without an error."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    outputs = [output for cell in code for output in cell.outputs]
    counts = [cell.execution_count for cell in code]
    failed = any(output.output_type == "error" for output in outputs)
    return counts == [*range(1, len(code) + 1)] and not failed


def is_current(source: Path) -> bool:
    """Whether the pair has the source's cells, and what they gave."""
    pair = source.with_suffix(".ipynb")
    if not pair.exists():
        return False
    notebook = read(pair)
    return executed(notebook) and cells(notebook) == cells(read(source))


def execute(source: Path, timeout: float | None = None) -> NotebookNode:
    """Run a notebook's source in a process of its own, in an empty folder.

    Args:
        source: The notebook's ``.py``.
        timeout: Seconds that a cell may take.

    Returns:
        The notebook with its outputs, and nothing else that differs between runs.

    Raises:
        nbclient.exceptions.CellExecutionError: If a cell raises an error; its message
            shows the cell.
    """
    notebook = read(source)
    # Pictures go into the notebook, whatever backend is asked for elsewhere.
    environment = {k: v for k, v in os.environ.items() if k != "MPLBACKEND"}
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=timeout,
            startup_timeout=300,
            kernel_name="python3",
            # It would warn that its ports are not encrypted; they are this machine's.
            extra_arguments=["--log-level=ERROR"],
            record_timing=False,
            coalesce_streams=True,
            resources={"metadata": {"path": folder}},
        )
        client.execute(env=environment)
    notebook.metadata = nbformat.from_dict(METADATA)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for number, cell in enumerate(notebook.cells, 1):
        cell.id, cell.metadata = f"cell-{number}", NotebookNode()
        for output in cell.get("outputs", []):
            if "metadata" in output:
                output.metadata = NotebookNode()
    return notebook


def main() -> None:
    """Execute the notebooks that were changed, or those that are named."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("names", nargs="*", help="such as 01_hsa_conv_in_pyg")
    parser.add_argument("--all", action="store_true", help="changed or not")
    given = parser.parse_args()
    known = {source.stem: source for source in sources()}
    if unknown := sorted({Path(name).stem for name in given.names} - set(known)):
        parser.error(f"no such notebook: {unknown}; there are {', '.join(known)}")
    names = [Path(name).stem for name in given.names]
    if not names:
        names = [name for name in known if given.all or not is_current(known[name])]
    for name in names:
        print(f"executing {name}", flush=True)
        notebook = execute(known[name])
        nbformat.write(notebook, known[name].with_suffix(".ipynb"))
    print(f"{len(known) - len(names)} of {len(known)} notebooks left as they were")


if __name__ == "__main__":
    main()
