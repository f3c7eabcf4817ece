import gzip
import importlib.util
import pickle
import shutil
import warnings

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from hsa_pyg import NestedSignal
from hsa_pyg.converters import ToHierarchy, from_graph
from hsa_pyg.datasets import OGBGraphs, OGBNodes

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ogb") is None, reason="ogb is not installed"
)

EDGE = ("vertex", "to", "vertex")
META = {
    "version": 1,
    "url": "",
    "download_name": "tiny",
    "num tasks": 2,
    "num classes": 2,
    "eval metric": "rocauc",
    "task type": "binary classification",
    "add_inverse_edge": "True",
    "has_node_attr": "True",
    "has_edge_attr": "True",
    "additional node files": "None",
    "additional edge files": "None",
    "is hetero": "False",
    "binary": "False",
    "split": "scaffold",
}
# Three graphs: a path, a single vertex, a triangle with a tail.
NODES, EDGES = [3, 1, 4], [[(0, 1), (1, 2)], [], [(0, 1), (1, 2), (2, 0), (2, 3)]]


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") as file:
        file.writelines(",".join(map(str, row)) + "\n" for row in rows)


@pytest.fixture
def graphs_folder(tmp_path):
    raw = tmp_path / "tiny" / "raw"
    write(raw / "edge.csv.gz", [pair for pairs in EDGES for pair in pairs])
    write(raw / "num-node-list.csv.gz", [[number] for number in NODES])
    write(raw / "num-edge-list.csv.gz", [[len(pairs)] for pairs in EDGES])
    write(raw / "node-feat.csv.gz", [[row, row + 1] for row in range(8)])
    write(raw / "edge-feat.csv.gz", [[row] for row in range(6)])
    write(raw / "graph-label.csv.gz", [[1, 0], [0, 1], [1, ""]])
    for part, rows in (("train", [0, 2]), ("valid", [1]), ("test", [])):
        write(
            tmp_path / "tiny" / "split" / "scaffold" / f"{part}.csv.gz",
            [[row] for row in rows],
        )
    return tmp_path / "tiny"


@pytest.fixture
def nodes_folder(tmp_path):
    raw = tmp_path / "nodes" / "raw"
    write(raw / "edge.csv.gz", EDGES[2])
    write(raw / "num-node-list.csv.gz", [[4]])
    write(raw / "num-edge-list.csv.gz", [[4]])
    write(raw / "node-feat.csv.gz", [[row + 0.5, 1] for row in range(4)])
    write(raw / "node_year.csv.gz", [[2000 + row] for row in range(4)])
    write(raw / "node-label.csv.gz", [[row % 3] for row in range(4)])
    return tmp_path / "nodes"


def graphs(folder, **settings):
    meta = {**META, "dir_path": str(folder), **settings.pop("meta", {})}
    return OGBGraphs("tiny", meta_dict=meta, log=False, **settings)


def test_filters_that_leave_nothing_are_told(graphs_folder):
    with pytest.raises(ValueError, match=r"'tiny' has no graph to store.*pre_filter"):
        graphs(graphs_folder, pre_filter=lambda graph: False)


def test_graphs_become_signals(graphs_folder, capfd):
    # Loading must neither warn of unsafe files nor ask for them.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dataset = graphs(graphs_folder)
        dataset = graphs(graphs_folder)
    assert capfd.readouterr() == ("", "")
    assert len(dataset) == 3
    assert all(isinstance(signal, NestedSignal) for signal in dataset)
    assert [signal.hierarchy.num_leaves for signal in dataset] == NODES
    first = dataset[0]
    assert first["vertex"].x.tolist() == [[0, 1], [1, 2], [2, 3]]
    assert first["vertex"].x.dtype == torch.long
    # OGB adds the other direction beside each edge, with the same features.
    assert first[EDGE].edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert first[EDGE].edge_attr.tolist() == [[0], [0], [1], [1]]
    assert dataset[2]["vertex"].x[0].tolist() == [4, 5]
    assert dataset[1][EDGE].edge_attr.shape == (0, 1)
    y = torch.cat([signal.y for signal in dataset])
    assert y.shape == (3, 2)
    assert y.isnan().tolist() == [[False] * 2, [False] * 2, [False, True]]
    assert y.nan_to_num(7).tolist() == [[1, 0], [0, 1], [1, 7]]
    (batch,) = DataLoader(dataset, batch_size=3)
    assert batch.validate()
    assert (dataset.num_tasks, dataset.num_classes) == (2, 2)
    assert repr(dataset) == "OGBGraphs('tiny', 3)"


def test_the_official_split_is_read(graphs_folder):
    dataset = graphs(graphs_folder)
    split = dataset.get_idx_split()
    assert {part: ids.tolist() for part, ids in split.items()} == {
        "train": [0, 2],
        "valid": [1],
        "test": [],
    }
    assert len(dataset[split["train"]]) == 2
    with pytest.raises(FileNotFoundError, match="has neither train"):
        dataset.get_idx_split("random")


def test_splits_in_a_file_of_torch_are_read_safely(graphs_folder):
    dataset = graphs(graphs_folder)
    folder = graphs_folder / "split" / "time"
    folder.mkdir()
    split = {"train": np.array([0]), "valid": np.array([2]), "test": np.array([1])}
    torch.save(split, folder / "split_dict.pt")
    assert dataset.get_idx_split("time")["valid"].tolist() == [2]

    class Evil:
        def __reduce__(self):
            return (print, ("evil code ran",))

    torch.save({**split, "test": Evil()}, folder / "split_dict.pt")
    with pytest.raises(pickle.UnpicklingError):
        dataset.get_idx_split("time")


def test_processed_files_of_others_are_never_opened(graphs_folder):
    foreign = graphs_folder / "processed" / "geometric_data_processed.pt"
    foreign.parent.mkdir()
    foreign.write_bytes(b"no pickle at all")
    assert len(graphs(graphs_folder)) == 3
    assert foreign.read_bytes() == b"no pickle at all"


def test_the_transform_may_come_later_or_not_at_all(graphs_folder):
    stored = graphs(graphs_folder)
    plain = graphs(graphs_folder, pre_transform=None, force_reload=True)
    assert all(isinstance(graph, Data) for graph in plain)
    later = graphs(graphs_folder, pre_transform=None, transform=ToHierarchy())
    for signal, graph, other in zip(later, plain, stored, strict=True):
        assert signal.schema == other.schema == from_graph(graph).schema
        for edge in other.edge_types:
            assert torch.equal(signal[edge].edge_index, other[edge].edge_index)


def test_complete_labels_of_classes_are_integers(graphs_folder):
    write(graphs_folder / "raw" / "graph-label.csv.gz", [[1], [0], [1]])
    dataset = graphs(graphs_folder, meta={"num tasks": 1})
    assert torch.cat([signal.y for signal in dataset]).tolist() == [[1], [0], [1]]
    assert dataset[0].y.dtype == torch.long
    meta = {"num tasks": 1, "task type": "regression"}
    dataset = graphs(graphs_folder, meta=meta, force_reload=True)
    assert dataset[0].y.dtype == torch.float


def test_words_are_labels_too(graphs_folder):
    write(graphs_folder / "raw" / "graph-label.csv.gz", [["get name"], ["x"], ["a b"]])
    dataset = graphs(graphs_folder, meta={"task type": "subtoken prediction"})
    assert [signal.y for signal in dataset] == [["get", "name"], ["x"], ["a", "b"]]


def test_labels_that_do_not_fit_are_named(graphs_folder):
    write(graphs_folder / "raw" / "graph-label.csv.gz", [[1, 0], [0, 1]])
    with pytest.raises(ValueError, match="has 2 labels for 3 graphs"):
        graphs(graphs_folder)


def test_node_sets_are_one_signal(nodes_folder):
    meta = {
        **META,
        "num tasks": 1,
        "num classes": 3,
        "task type": "multiclass classification",
        "add_inverse_edge": "False",
        "has_edge_attr": "False",
        "additional node files": "node_year",
        "dir_path": str(nodes_folder),
    }
    dataset = OGBNodes("tiny", meta_dict=meta, log=False)
    signal = dataset[0]
    assert signal.validate()
    assert signal["vertex"].y.tolist() == [[0], [1], [2], [0]]
    assert signal["vertex"].node_year.view(-1).tolist() == [2000, 2001, 2002, 2003]
    assert signal["vertex"].x.tolist() == [[row + 0.5, 1] for row in range(4)]
    assert signal[EDGE].edge_index.t().tolist() == [list(pair) for pair in EDGES[2]]
    with pytest.raises(ValueError, match=r"several types.*to_homogeneous"):
        OGBNodes("tiny", meta_dict={**meta, "is hetero": "True"})


def test_offline_raw_files_are_honoured_under_their_names(graphs_folder, tmp_path):
    (tmp_path / "data").mkdir()
    graphs_folder.rename(tmp_path / "data" / "ogbg_moltox21")
    write(
        tmp_path / "data" / "ogbg_moltox21" / "raw" / "graph-label.csv.gz",
        [[*range(11), ""]] * 3,
    )
    dataset = OGBGraphs("ogbg-moltox21", tmp_path / "data", log=False)
    assert dataset[0].y.shape == (1, 12)
    assert dataset.eval_metric == "rocauc"


def test_unknown_names_and_a_missing_library_are_told(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"name='ogbg-cats' is not known.*ogbg-molhiv"):
        OGBGraphs("ogbg-cats", tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r'pip install "hsa-pyg\[ogb\]"'):
        OGBGraphs("ogbg-molhiv", tmp_path)


def test_downloads_go_where_ogb_puts_them(graphs_folder, tmp_path, monkeypatch):
    archive = shutil.make_archive(
        str(tmp_path / "tox21"), "zip", tmp_path, graphs_folder.name
    )
    own = tmp_path / "data" / "ogbg_tiny" / "split" / "mine" / "train.csv.gz"
    write(own, [[0]])

    def download(url, folder):
        assert url == "http://example.org/tiny.zip"
        return shutil.copy(archive, folder)

    monkeypatch.setattr("hsa_pyg.datasets.ogb.download_url", download)
    meta = {"url": "http://example.org/tiny.zip"}
    dataset = graphs(tmp_path / "data" / "ogbg_tiny", meta=meta)
    assert len(dataset) == 3
    assert own.exists()
    assert not (tmp_path / "data" / "tiny").exists()
