import shutil
import warnings
from functools import partial
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data, InMemoryDataset
from torch_geometric.datasets import Planetoid
from torch_geometric.loader import DataLoader
from torch_geometric.transforms import (
    AddSelfLoops,
    Compose,
    NormalizeFeatures,
    ToUndirected,
)

from hsa_pyg import NestedSignal
from hsa_pyg.converters import ToHierarchy, from_graph

PLANETOID = Path(__file__).parents[2].parent / "shared" / "data" / "planetoid"
needs_cora = pytest.mark.skipif(
    not PLANETOID.exists(), reason=f"Cora is not at {PLANETOID}"
)


def by_parity(edge_index, num_nodes, seed):
    return torch.arange(num_nodes) % 2


def random_graphs():
    generator = torch.Generator().manual_seed(0)
    graphs = []
    for num_nodes in (1, 40, 2, 90, 7):
        size = (2, 3 * num_nodes)
        edge_index = torch.randint(num_nodes, size, generator=generator)
        if num_nodes == 7:
            edge_index = edge_index[:, :0]
        graphs.append(
            Data(
                x=torch.rand(num_nodes, 3, generator=generator),
                edge_index=edge_index,
                edge_attr=torch.rand(edge_index.size(1), 2, generator=generator),
                y=torch.tensor([num_nodes]),
            )
        )
    return graphs


class RandomGraphs(InMemoryDataset):
    """Five graphs, one without edges and one of a single vertex."""

    raw_file_names = ()
    processed_file_names = ("graphs.pt",)

    def __init__(self, root, transform=None, pre_transform=None):
        super().__init__(root, transform, pre_transform)
        self.load(self.processed_paths[0])

    def process(self):
        graphs = random_graphs()
        if self.pre_transform is not None:
            graphs = [self.pre_transform(graph) for graph in graphs]
        self.save(graphs, self.processed_paths[0])


def same(first, second):
    assert first.schema == second.schema
    for kind, store in [*first.node_items(), *first.edge_items()]:
        for name, value in store.items():
            assert torch.equal(
                torch.as_tensor(value), torch.as_tensor(second[kind][name])
            ), (kind, name)
    assert torch.equal(first.y, second.y)


def test_it_does_what_from_graph_does():
    transform = ToHierarchy("metis", max_family=8, seed=3, features="degree")
    for graph in random_graphs():
        before = {name: value.clone() for name, value in graph.to_dict().items()}
        signal = transform(graph)
        same(signal, from_graph(graph, "metis", max_family=8, seed=3))
        assert signal.validate()
        assert graph.to_dict().keys() == before.keys()
        assert all(torch.equal(graph[name], before[name]) for name in before)


@pytest.mark.parametrize("when", ["transform", "pre_transform"])
def test_it_serves_in_a_data_set(tmp_path, when):
    transform = ToHierarchy(max_family=8)
    dataset = RandomGraphs(tmp_path, **{when: transform})
    expected = [transform(graph) for graph in random_graphs()]
    for signal, other in zip(dataset, expected, strict=True):
        assert isinstance(signal, NestedSignal)
        same(signal, other)
    # Stored signals are read again as they were.
    for signal, other in zip(
        RandomGraphs(tmp_path, **{when: transform}), expected, strict=True
    ):
        same(signal, other)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_the_stock_loader_batches_what_was_converted(tmp_path, num_workers):
    transform = ToHierarchy(max_family=8)
    dataset = RandomGraphs(tmp_path, transform=transform)
    loader = DataLoader(dataset, batch_size=5, num_workers=num_workers)
    (batch,) = loader
    assert batch.validate()
    assert batch.hierarchy.num_leaves == 140
    # Equal in this process and in a worker.
    for number, graph in enumerate(random_graphs()):
        sample = batch[number]
        same(sample, transform(graph))


def test_other_transforms_come_first():
    graph = random_graphs()[1]
    signal = Compose([NormalizeFeatures(), ToHierarchy()])(graph)
    assert torch.equal(signal["vertex"].x, NormalizeFeatures()(graph).x)
    assert not torch.equal(signal["vertex"].x, graph.x)


def test_its_text_holds_every_setting():
    assert repr(ToHierarchy()) == (
        "ToHierarchy('leiden', max_family=64, branching=None, seed=0, "
        "features='degree', weight='edge_weight', rename=None, levels=None)"
    )
    settings = [
        {},
        {"method": "metis"},
        {"method": by_parity},
        {"max_family": 8},
        {"method": "bisection", "branching": 3},
        {"seed": 1},
        {"features": "ones"},
        {"weight": None},
        {"rename": {"a": "b"}},
        {"levels": {"y": "graph"}},
    ]
    texts = {repr(ToHierarchy(**setting)) for setting in settings}
    assert len(texts) == len(settings)
    # No address, which would differ in the next run.
    assert " at 0x" not in repr(ToHierarchy(by_parity))
    assert "by_parity" in repr(ToHierarchy(by_parity))


def test_a_stored_data_set_warns_of_other_settings(tmp_path):
    RandomGraphs(tmp_path, pre_transform=ToHierarchy())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RandomGraphs(tmp_path, pre_transform=ToHierarchy())
    with pytest.warns(UserWarning, match="pre_transform"):
        RandomGraphs(tmp_path, pre_transform=ToHierarchy(seed=1))


def test_wrong_settings_show_at_once():
    with pytest.raises(ValueError, match="method='lyden' is not known"):
        ToHierarchy("lyden")


def test_settings_given_are_copied():
    names = {"old": "new"}
    transform = ToHierarchy(rename=names)
    names["old"] = "newer"
    assert "'newer'" not in repr(transform)


def test_partial_methods_work():
    transform = ToHierarchy(partial(by_parity))
    assert transform(random_graphs()[1])["community"].num_nodes == 2


@pytest.fixture(scope="module")
def cora_root(tmp_path_factory):
    root = tmp_path_factory.mktemp("planetoid")
    raw = root / "Cora" / "raw"
    raw.mkdir(parents=True)
    for path in PLANETOID.glob("ind.cora.*"):
        shutil.copy(path, raw / path.name)
    return root


@needs_cora
@pytest.mark.parametrize("method", ["leiden", "louvain", "metis", "bisection"])
def test_cora(cora_root, method):
    plain = Planetoid(cora_root, "Cora")[0]
    signal = Planetoid(cora_root, "Cora", transform=ToHierarchy(method))[0]
    assert signal.validate()
    vertex = signal["vertex"]
    for name in ("x", "y", "train_mask", "val_mask", "test_mask"):
        assert torch.equal(vertex[name], plain[name])
    edge = signal["vertex", "to", "vertex"].edge_index
    assert torch.equal(edge, plain.edge_index)
    hierarchy = signal.hierarchy
    assert hierarchy.num_leaves == 2708
    assert hierarchy.max_branching <= 64
    children = [
        signal["vertex", "child_of", kind].edge_index[0]
        for kind in ("graph", "community")
    ]
    assert torch.equal(torch.cat(children).sort().values, torch.arange(2708))
    # Most citations stay inside of the lowest communities; by lot it would be 2%.
    parent = torch.full((2708,), -1)
    inside = signal["vertex", "child_of", "community"].edge_index
    parent[inside[0]] = inside[1]
    assert float((parent[edge[0]] == parent[edge[1]]).float().mean()) > 0.6


@needs_cora
def test_cora_stored(cora_root, tmp_path):
    shutil.copytree(cora_root / "Cora" / "raw", tmp_path / "Cora" / "raw")
    stored = Planetoid(tmp_path, "Cora", pre_transform=ToHierarchy())
    fresh = Planetoid(cora_root, "Cora", transform=ToHierarchy())
    for edge in fresh[0].edge_types:
        assert torch.equal(stored[0][edge].edge_index, fresh[0][edge].edge_index)
    assert torch.equal(stored[0]["vertex"].train_mask, fresh[0]["vertex"].train_mask)


@pytest.mark.parametrize("transform", [AddSelfLoops(), ToUndirected()])
def test_a_transform_of_graphs_after_the_tree_is_named(transform):
    graph = random_graphs()[3]
    del graph.edge_attr
    signal = Compose([ToHierarchy(max_family=4), transform])(graph)
    message = r"more than one parent, .*such as AddSelfLoops or ToUndirected .*before\)"
    with pytest.raises(ValueError, match=message):
        _ = signal.hierarchy
    assert Compose([transform, ToHierarchy(max_family=4)])(graph).validate()


def test_a_signal_is_not_converted_again():
    signal = ToHierarchy()(random_graphs()[1])
    with pytest.raises(TypeError, match=r"a nested signal already: .*ToHierarchy, on"):
        ToHierarchy()(signal)
