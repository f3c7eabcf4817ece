"""MoleculeNet: molecules divided into rings, functional groups and chains."""

from __future__ import annotations

import csv
import gzip
import json
import os
import warnings
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.data import download_url
from torch_geometric.datasets import MoleculeNet
from tqdm import tqdm

from hsa_pyg.converters import from_smiles
from hsa_pyg.datasets.raw_files import BROKEN
from hsa_pyg.datasets.stored_whole import StoredWhole, write_whole

# The warning names so many refused molecules; all are in the file beside the data.
_NAMED = 3


class MoleculeNetTrees(StoredWhole):
    r"""MoleculeNet, each molecule a signal molecule > group > atom.

    From Z. Wu et al., "MoleculeNet: A Benchmark for Molecular Machine Learning",
    Chemical Science 2018 (https://arxiv.org/abs/1703.00564). The signals are those of
    :func:`~hsa_pyg.converters.from_smiles`; ``y`` is ``[1, num_tasks]`` float, NaN
    where a label is missing.

    Names, files and columns are those of
    :class:`torch_geometric.datasets.MoleculeNet`, and so is the place of the raw file,
    ``root/<name>/raw``, which serves both; it may be compressed (``HIV.csv.gz``). It is
    downloaded if it is not there.

    Molecules that rdkit cannot read are left out; one warning counts them, and
    :attr:`refused` names them.

    Args:
        root: Folder of the data sets.
        name: ``"ESOL"``, ``"FreeSolv"``, ``"Lipo"``, ``"PCBA"``, ``"MUV"``, ``"HIV"``,
            ``"BACE"``, ``"BBBP"``, ``"Tox21"``, ``"ToxCast"``, ``"SIDER"`` or
            ``"ClinTox"``, in any case.
        transform: Called on each signal at every access.
        pre_transform: Called on each signal before it is stored.
        pre_filter: Says of each signal whether to keep it.
        force_reload: Process the molecules again.
        log: Show a progress bar while processing.

    Raises:
        ValueError: If the name is not known, or the file has rows of another form.
        ImportError: If rdkit is missing.

    Shapes:
        - ``atom.x``: ``[num_atoms, 9]`` long
        - ``y``: ``[1, num_tasks]`` float
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        name: str,
        *,
        transform: Callable | None = None,
        pre_transform: Callable | None = None,
        pre_filter: Callable | None = None,
        force_reload: bool = False,
        log: bool = True,
    ) -> None:
        self.name = str(name).lower()
        if self.name not in MoleculeNet.names:
            raise ValueError(
                f"name={name!r} is not known: use one of {sorted(MoleculeNet.names)}"
            )
        super().__init__(
            os.fspath(root),
            transform,
            pre_transform,
            pre_filter,
            log=log,
            force_reload=force_reload,
        )
        self.load(self.processed_paths[0])

    @property
    def raw_dir(self) -> str:
        """Folder of the raw file."""
        return os.path.join(self.root, self.name, "raw")

    @property
    def processed_dir(self) -> str:
        """Folder of the signals."""
        # Not "processed", where PyG's MoleculeNet keeps its own under the same root.
        return os.path.join(self.root, self.name, "processed_trees")

    @property
    def raw_file_names(self) -> list[str]:
        """The table, compressed if only that is there or it comes so."""
        plain = f"{MoleculeNet.names[self.name][2]}.csv"
        if os.path.exists(os.path.join(self.raw_dir, plain)):
            return [plain]
        packed = os.path.exists(os.path.join(self.raw_dir, f"{plain}.gz"))
        return [f"{plain}.gz" if packed else MoleculeNet.names[self.name][1]]

    @property
    def processed_file_names(self) -> list[str]:
        """Signals, and the molecules that were refused."""
        return ["trees.pt", "refused.json"]

    def download(self) -> None:
        """Download the table."""
        download_url(
            MoleculeNet.url.format(MoleculeNet.names[self.name][1]), self.raw_dir
        )

    def process(self) -> None:
        """Convert the molecules and store their signals."""
        path = Path(self.raw_paths[0])
        rows = list(self._rows(path))
        signals, refused = [], []
        for number, smiles, y in tqdm(
            rows, desc=f"Converting {self.name}", disable=not self.log
        ):
            try:
                signal = from_smiles(smiles, y=y)
            except ValueError as error:
                refused.append({"row": number, "smiles": smiles, "reason": str(error)})
                continue
            if self.pre_filter is not None and not self.pre_filter(signal):
                continue
            if self.pre_transform is not None:
                signal = self.pre_transform(signal)
            signals.append(signal)
        if not signals:
            raise ValueError(f"{path.as_posix()!r} gave no molecule to store")
        if refused:
            named = "; ".join(
                f"row {r['row']}: {r['reason']}" for r in refused[:_NAMED]
            )
            more = f"; and {len(refused) - _NAMED} more" * (len(refused) > _NAMED)
            warnings.warn(
                f"{len(refused)} of {len(rows)} molecules of {path.name} were left "
                f"out: {named}{more}; all are in {self.processed_paths[1]!r}",
                stacklevel=2,
            )
        # The signals last: they are what a later run looks for.
        write_whole(self.processed_paths[1], json.dumps(refused, indent=1))
        self.save(signals, self.processed_paths[0])

    @cached_property
    def refused(self) -> list[dict[str, str | int]]:
        """Molecules that were left out: ``row`` (from 1), ``smiles``, ``reason``."""
        return json.loads(Path(self.processed_paths[1]).read_text())

    def _rows(self, path: Path) -> Iterator[tuple[int, str, Tensor]]:
        """Number (from 1, the header aside), SMILES and labels of each row."""
        _, _, _, smiles_at, labels_at = MoleculeNet.names[self.name]
        width = 0
        for number, row in enumerate(_table(path)):
            width = width or len(row)
            if number > 0 and row:
                where = f"row {number} of {path.as_posix()!r}"
                if len(row) != width:
                    # A row that was cut off would lend a column for another.
                    raise ValueError(
                        f"{where} has {len(row)} columns, but the header {width}: "
                        "fetch the file again."
                    )
                try:
                    smiles, labels = row[smiles_at].strip(), row[labels_at]
                    labels = labels if isinstance(labels, list) else [labels]
                    y = [float(label) if label else float("nan") for label in labels]
                except (IndexError, ValueError) as error:
                    raise ValueError(
                        f"{where} is not as MoleculeNet has it ({error}): {row[:5]}"
                    ) from error
                yield number, smiles, torch.tensor([y], dtype=torch.float)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({MoleculeNet.names[self.name][0]}, {len(self)})"


def _table(path: Path) -> Iterator[list[str]]:
    """The rows of a table, the header among them."""
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8", newline="") as file:
            yield from csv.reader(file)
    except (*BROKEN, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(
            f"{path.as_posix()!r} is no table, or a part of one ({error}): fetch it "
            "again."
        ) from error
