"""Data sets of the Open Graph Benchmark, graphs as signals."""

from __future__ import annotations

import contextlib
import csv
import gzip
import importlib.util
import io
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, download_url, extract_zip

from hsa_pyg.converters import ToHierarchy
from hsa_pyg.datasets.stored_whole import StoredWhole

_SPLITS = ("train", "valid", "test")
_MISSING = 'Data sets of OGB need ogb: pip install "hsa-pyg[ogb]".'


class _OGBDataset(StoredWhole):
    """What graph and node data sets of OGB have in common."""

    _kind: str

    def __init__(
        self,
        name: str,
        root: str | os.PathLike[str] = "dataset",
        *,
        transform: Callable | None = None,
        pre_transform: Callable | None = ToHierarchy(),  # noqa: B008 (it keeps no state)
        pre_filter: Callable | None = None,
        meta_dict: Mapping[str, Any] | None = None,
        force_reload: bool = False,
        log: bool = True,
    ) -> None:
        self.name = name
        given = _master(self._kind, name) if meta_dict is None else meta_dict
        self.meta_info = {key: str(value) for key, value in given.items()}
        if self.meta_info.get("is hetero") == "True":
            raise ValueError(
                f"{name!r} has vertices of several types, and its communities would be "
                "of one: load it with ogb and pass data.to_homogeneous() to from_graph"
            )
        if meta_dict is not None:
            folder = Path(self.meta_info["dir_path"])
        else:
            folder = Path(root) / name.replace("-", "_")
            older = folder.with_name(f"{folder.name}_pyg")
            folder = older if older.exists() else folder
        super().__init__(
            os.fspath(folder),
            transform,
            pre_transform,
            pre_filter,
            log=log,
            force_reload=force_reload,
        )
        self.load(self.processed_paths[0])

    @property
    def processed_dir(self) -> str:
        """Folder of the signals, beside that of ogb itself."""
        return os.path.join(self.root, "processed_trees")

    @property
    def raw_file_names(self) -> list[str]:
        """The files that must be there."""
        if self.meta_info["binary"] == "True":
            return ["data.npz"]
        names = ["edge"]
        names += ["node-feat"] * (self.meta_info["has_node_attr"] == "True")
        names += ["edge-feat"] * (self.meta_info["has_edge_attr"] == "True")
        return [f"{name}.csv.gz" for name in names]

    @property
    def processed_file_names(self) -> list[str]:
        """The signals."""
        return ["data.pt"]

    @property
    def task_type(self) -> str:
        """Such as ``"binary classification"``."""
        return self.meta_info["task type"]

    @property
    def eval_metric(self) -> str:
        """Such as ``"rocauc"``."""
        return self.meta_info["eval metric"]

    @property
    def num_tasks(self) -> int:
        """Number of labels of a sample."""
        return int(self.meta_info["num tasks"])

    @property
    def num_classes(self) -> int:
        """Number of classes; -1 if there are none."""
        return int(self.meta_info["num classes"])

    def download(self) -> None:
        """Download the data set and unpack it, as ogb does."""
        folder = Path(self.root)
        path = download_url(self.meta_info["url"], os.fspath(folder.parent))
        extract_zip(path, os.fspath(folder.parent))
        os.unlink(path)
        unpacked = folder.parent / self.meta_info["download_name"]
        # Beside what may lie there already, such as splits of one's own.
        shutil.copytree(unpacked, folder, dirs_exist_ok=True)
        shutil.rmtree(unpacked)

    def process(self) -> None:
        """Read the raw files, convert the graphs and store them."""
        graphs = self._labelled(self._read_graphs())
        if self.pre_filter is not None:
            graphs = [graph for graph in graphs if self.pre_filter(graph)]
        if not graphs:
            raise ValueError(
                f"{self.name!r} has no graph to store: {self.raw_dir!r} has none, or "
                "pre_filter refused all."
            )
        if self.pre_transform is not None:
            graphs = [self.pre_transform(graph) for graph in graphs]
        self.save(graphs, self.processed_paths[0])

    def get_idx_split(self, split_type: str | None = None) -> dict[str, Tensor]:
        """The official split: ``train``, ``valid`` and ``test``, long each.

        Args:
            split_type: Name of the split; None is the one of the benchmark.

        Raises:
            FileNotFoundError: If it is not there.
        """
        folder = Path(self.root, "split", split_type or self.meta_info["split"])
        files = {part: folder / f"{part}.csv.gz" for part in _SPLITS}
        if all(file.exists() for file in files.values()):
            return {part: _numbers(file) for part, file in files.items()}
        stored = folder / "split_dict.pt"
        if not stored.exists():
            raise FileNotFoundError(
                f"{folder.as_posix()!r} has neither train.csv.gz, valid.csv.gz and "
                "test.csv.gz nor split_dict.pt"
            )
        with torch.serialization.safe_globals(_numpy_classes()):
            split = torch.load(stored, weights_only=True)
        return {part: torch.as_tensor(split[part]).long() for part in _SPLITS}

    def _read_graphs(self) -> list[Data]:
        try:
            from ogb.io.read_graph_pyg import read_graph_pyg
        except ImportError as error:
            raise ImportError(_MISSING) from error
        quiet = io.StringIO()
        with contextlib.ExitStack() as stack:
            if not self.log:
                stack.enter_context(contextlib.redirect_stdout(quiet))
                stack.enter_context(contextlib.redirect_stderr(quiet))
            return read_graph_pyg(
                self.raw_dir,
                add_inverse_edge=self.meta_info["add_inverse_edge"] == "True",
                additional_node_files=self._additional("node"),
                additional_edge_files=self._additional("edge"),
                binary=self.meta_info["binary"] == "True",
            )

    def _additional(self, what: str) -> list[str]:
        names = self.meta_info[f"additional {what} files"]
        return [] if names == "None" else names.split(",")

    def _labels(self, number: int) -> Tensor:
        """Labels ``[number, num_tasks]``."""
        if self.meta_info["binary"] == "True":
            file = Path(self.raw_dir, f"{self._kind}-label.npz")
            labels = np.load(file)[f"{self._kind}_label"].reshape(number, -1)
        else:
            file = Path(self.raw_dir, f"{self._kind}-label.csv.gz")
            labels = np.genfromtxt(file, delimiter=",", ndmin=2)
            # One row of several tasks, or several rows of one task.
            labels = labels.reshape(-1, self.num_tasks)
        if len(labels) != number:
            raise ValueError(
                f"{file.as_posix()!r} has {len(labels)} labels for {number} "
                f"{self._kind}s: unpack the archive again"
            )
        whole = "classification" in self.task_type and not np.isnan(labels).any()
        return torch.from_numpy(labels.astype(np.int64 if whole else np.float32))

    def _labelled(self, graphs: list[Data]) -> list[Data]:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {len(self)})"


class OGBGraphs(_OGBDataset):
    r"""Graph property prediction of the Open Graph Benchmark, each graph a signal.

    From W. Hu et al., "Open Graph Benchmark: Datasets for Machine Learning on Graphs",
    NeurIPS 2020 (https://arxiv.org/abs/2005.00687). It reads the raw files of
    ``PygGraphPropPredDataset`` in the place where that keeps them,
    ``root/ogbg_molhiv/raw``, and downloads them if they are not there. What it stores
    itself lies beside, and is all that it unpickles: it works with every version of
    torch without turning off the safety of :func:`torch.load`.

    Args:
        name: Such as ``"ogbg-molhiv"``.
        root: Folder of the data sets.
        transform: Called on each sample at every access.
        pre_transform: Called on each graph, a :class:`~torch_geometric.data.Data`,
            before it is stored. None keeps the graphs as they are.
        pre_filter: Says of each graph whether to keep it.
        meta_dict: Description of a data set of your own, as for
            ``PygGraphPropPredDataset``, with its folder as ``"dir_path"``.
        force_reload: Process the raw files again.
        log: Show the progress of reading.

    Raises:
        ValueError: If the name is not known, or a file does not fit the others.
        ImportError: If ogb is missing.

    Shapes:
        - ``vertex.x``: ``[num_vertices, 9]`` long for molecules
        - ``y``: ``[1, num_tasks]``, long if all labels are there, else float with NaN;
          for ``ogbg-code2`` a list of words
    """

    _kind = "graph"

    def _labelled(self, graphs: list[Data]) -> list[Data]:
        if self.task_type == "subtoken prediction":
            with gzip.open(
                Path(self.raw_dir, "graph-label.csv.gz"), "rt", encoding="utf-8"
            ) as file:
                for graph, row in zip(graphs, csv.reader(file), strict=True):
                    graph.y = row[0].split(" ")
            return graphs
        for graph, y in zip(graphs, self._labels(len(graphs)), strict=True):
            graph.y = y.view(1, -1)
        return graphs


class OGBNodes(_OGBDataset):
    r"""Node property prediction of the Open Graph Benchmark: one graph as a signal.

    As :class:`OGBGraphs`, for ``PygNodePropPredDataset``. Vertices keep their order,
    so that :meth:`get_idx_split` gives rows of ``vertex.x``. Graphs with vertices of
    several types (``ogbn-mag``) are refused.

    Args:
        name: Such as ``"ogbn-arxiv"``.
        root: Folder of the data sets.
        transform: Called on the sample at every access.
        pre_transform: Called on the graph before it is stored. None keeps it as it is.
        pre_filter: Says of the graph whether to keep it.
        meta_dict: Description of a data set of your own.
        force_reload: Process the raw files again.
        log: Show the progress of reading.

    Raises:
        ValueError: If the name is not known or the graph has vertices of several types.
        ImportError: If ogb is missing.

    Shapes:
        - ``vertex.y``: ``[num_vertices, num_tasks]``
    """

    _kind = "node"

    def _labelled(self, graphs: list[Data]) -> list[Data]:
        (graph,) = graphs
        graph.y = self._labels(int(graph.num_nodes or 0))
        return graphs


def _master(kind: str, name: str) -> dict[str, str]:
    """What ogb knows of a data set, from the table that it comes with."""
    # Importing ogb asks the network for its latest version; its table needs no import.
    found = importlib.util.find_spec("ogb")
    if found is None or not found.submodule_search_locations:
        raise ImportError(_MISSING)
    folder = Path(found.submodule_search_locations[0], f"{kind}proppred")
    with open(folder / "master.csv", encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    if name not in header[1:]:
        raise ValueError(f"name={name!r} is not known: use one of {header[1:]}")
    column = header.index(name)
    return {row[0]: row[column] for row in rows}


def _numbers(path: Path) -> Tensor:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return torch.tensor([int(line) for line in file if line.strip()]).long()


def _numpy_classes() -> list[Any]:
    """What a file needs to hold arrays of integers; none of it runs foreign code."""
    rebuild: Any = np.zeros(0).__reduce__()[0]
    return [
        rebuild,
        (rebuild, "numpy.core.multiarray._reconstruct"),
        np.ndarray,
        np.dtype,
        type(np.dtype(np.int64)),
        type(np.dtype(np.int32)),
    ]
