import re
import warnings

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.loader import DataLoader
from torch_geometric.transforms import FaceToEdge
from torch_geometric.utils import from_networkx as pyg_from_networkx

from hsa_pyg.converters import from_graph

EDGE = ("vertex", "to", "vertex")


def cliques(**attributes):
    """Two cliques of four, joined by an edge, as PyG holds undirected graphs."""
    edge_index = pyg_from_networkx(nx.barbell_graph(4, 0)).edge_index
    return Data(edge_index=edge_index, num_nodes=8, **attributes)


def sound(signal):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert signal.validate()
    return signal


def test_a_graph_of_pyg_keeps_all_it_has():
    data = cliques(
        x=torch.rand(8, 3),
        y=torch.arange(8),
        pos=torch.rand(8, 2),
        train_mask=torch.arange(8) < 4,
        title="two cliques",
        temperature=torch.tensor([[7.5, 1.0]]),
    )
    data.edge_attr = torch.rand(data.num_edges, 2)
    data.edge_weight = torch.rand(data.num_edges)
    before = dict(data.to_dict())
    signal = sound(from_graph(data))
    vertex = signal["vertex"]
    for name in ("x", "y", "train_mask"):
        assert torch.equal(vertex[name], data[name])
    # In a signal "pos" is the place in the parent.
    assert torch.equal(vertex.coord, data.pos)
    assert "pos" not in vertex
    for name in ("edge_index", "edge_attr", "edge_weight"):
        assert torch.equal(signal[EDGE][name], data[name])
    assert signal.title == "two cliques"
    assert torch.equal(signal.temperature, data.temperature)
    assert signal["graph"].num_nodes == 1
    edge = signal["vertex", "child_of", "community"].edge_index
    assert edge.tolist() == [list(range(8)), [0] * 4 + [1] * 4]
    # The input is as it was.
    assert data.to_dict().keys() == before.keys()
    assert all(data[key] is value for key, value in before.items())


def test_the_hierarchy_holds_every_vertex_once():
    signal = from_graph(Data(edge_index=torch.randint(300, (2, 900)), num_nodes=300))
    hierarchy = signal.hierarchy
    assert hierarchy.num_leaves == 300
    assert hierarchy.num_roots == 1
    assert hierarchy.max_branching <= 64


@pytest.mark.parametrize("num_nodes", [1, 2, 5])
def test_tiny_graphs_have_the_schema_of_large_ones(num_nodes):
    ends = torch.arange(num_nodes)
    path = torch.stack([ends[:-1], ends[1:]])
    tiny = from_graph(Data(edge_index=path, num_nodes=num_nodes))
    large = from_graph(cliques())
    assert tiny.schema == large.schema
    batch = next(iter(DataLoader([large, tiny, large], batch_size=3)))
    assert sound(batch).hierarchy.num_leaves == 16 + num_nodes
    assert batch[1].schema == large.schema
    assert torch.equal(batch[2]["vertex"].x, large["vertex"].x)


def test_loops_and_parallel_edges_are_kept():
    edge_index = torch.tensor([[0, 0, 0, 1, 2], [0, 1, 1, 0, 2]])
    signal = from_graph(Data(edge_index=edge_index, num_nodes=4), features="degree")
    assert torch.equal(signal[EDGE].edge_index, edge_index)
    assert signal["vertex"].x.tolist() == [[1.0], [1.0], [0.0], [0.0]]


def test_an_empty_graph_is_refused():
    for graph in (Data(num_nodes=0), Data(), nx.Graph()):
        with pytest.raises(ValueError, match="the graph has no vertex"):
            from_graph(graph)


def test_other_kinds_are_refused_with_the_remedy():
    hetero = HeteroData()
    hetero["a"].x = torch.rand(3, 1)
    with pytest.raises(TypeError, match=r"HeteroData .* data\.to_homogeneous\(\)"):
        from_graph(hetero)
    with pytest.raises(TypeError, match=r"batch of 2 graphs .*to_data_list"):
        from_graph(Batch.from_data_list([cliques(), cliques()]))
    with pytest.raises(TypeError, match="got a list"):
        from_graph([[0, 1]])
    with pytest.raises(ValueError, match="sparse matrix: convert it"):
        from_graph(Data(x=torch.rand(2, 1), adj_t=torch.eye(2).to_sparse()))
    with pytest.raises(ValueError, match=r"'x' is a sparse tensor.*to_dense"):
        from_graph(cliques(x=torch.eye(8).to_sparse()))


def test_edges_out_of_range_are_named():
    with pytest.raises(ValueError, match=r"edge 1 joins the vertices \[2, 5\]"):
        from_graph(Data(edge_index=torch.tensor([[0, 2], [1, 5]]), num_nodes=5))
    with pytest.raises(ValueError, match=r"in the shape \[2, num_edges\]"):
        from_graph(Data(edge_index=torch.zeros(3, 2).long(), num_nodes=5))
    for dtype in (torch.bool, torch.complex64):
        with pytest.raises(ValueError, match=r"in the shape \[2, num_edges\]"):
            from_graph(Data(edge_index=torch.ones(2, 2, dtype=dtype), num_nodes=2))


def test_arrays_become_tensors_of_their_own():
    data = cliques(z=np.arange(8))
    signal = from_graph(data)
    data.z[:] = -1
    assert signal["vertex"].z.tolist() == list(range(8))


def test_edges_of_other_forms_are_read():
    small = torch.tensor([[0, 1], [1, 0]], dtype=torch.int32)
    for edge_index in (small, small.numpy()):
        signal = from_graph(Data(edge_index=edge_index, num_nodes=2))
        assert signal[EDGE].edge_index.dtype == torch.long


# -- features ------------------------------------------------------------------------


def test_features_of_a_graph_without():
    ones = from_graph(cliques(), features="ones")["vertex"].x
    assert torch.equal(ones, torch.ones(8, 1))
    degree = from_graph(cliques())["vertex"].x
    assert degree.view(-1).tolist() == [3, 3, 3, 4, 4, 3, 3, 3]
    with pytest.raises(ValueError, match=r"no features 'x': .* they have \['z'\]"):
        from_graph(cliques(z=torch.arange(8)), features=None)
    with pytest.raises(ValueError, match="features='degrees' is not known"):
        from_graph(cliques(), features="degrees")


def test_features_are_left_alone_where_there_are_some():
    ids = torch.arange(8)
    assert torch.equal(from_graph(cliques(x=ids), features="degree")["vertex"].x, ids)
    # One number a vertex is a feature, not a token id.
    assert from_graph(cliques(x=ids.float()))["vertex"].x.shape == (8, 1)


def test_features_are_joined_from_attributes():
    data = cliques(z=torch.arange(8), pos=torch.rand(8, 2))
    signal = from_graph(data, features=["pos", "z"])
    expected = torch.cat([data.pos, data.z.view(-1, 1)], dim=1)
    assert torch.equal(signal["vertex"].x, expected)
    assert not {"z", "pos", "coord"} & set(signal["vertex"].keys())
    with pytest.raises(ValueError, match="features names 'w', which is no numeric"):
        from_graph(data, features=["w"])
    with pytest.raises(ValueError, match="would replace the features 'x'"):
        from_graph(cliques(x=torch.rand(8, 1), z=torch.arange(8)), features=["z"])


# -- what attributes belong to -------------------------------------------------------


def test_a_label_of_the_graph_is_none_of_its_only_vertex():
    for num_nodes in (1, 2, 3):
        data = Data(x=torch.rand(num_nodes, 2), y=torch.tensor([1.0]))
        data.edge_index = torch.tensor([[0], [num_nodes - 1]])
        signal = from_graph(data)
        assert signal.y.tolist() == [1.0]
        assert "y" not in signal["vertex"]
        assert "y" not in signal[EDGE]


def test_levels_say_what_sizes_cannot():
    data = Data(x=torch.rand(3, 2), y=torch.rand(3), mark=torch.rand(1))
    assert "y" in from_graph(data)["vertex"]
    signal = from_graph(data, levels={"y": "graph"})
    assert torch.equal(signal.y, data.y)
    with pytest.raises(ValueError, match=r"'mark' has 1 rows for 3 vertices"):
        from_graph(data, levels={"mark": "vertex"})
    with pytest.raises(ValueError, match="use one of"):
        from_graph(data, levels={"y": "node"})
    with pytest.raises(ValueError, match="levels names the attribute 'w'"):
        from_graph(data, levels={"w": "graph"})


def test_rows_that_do_not_fit_are_named():
    data = cliques(x=torch.rand(8, 1), edge_attr=torch.rand(5, 1))
    with pytest.raises(ValueError, match="'edge_attr' has 5 rows for 26 edges"):
        from_graph(data)
    with pytest.raises(ValueError, match="'train_mask' has 5 rows for 8 vertices"):
        from_graph(cliques(train_mask=torch.ones(5).bool()))


def test_links_to_predict_are_shifted_in_batches():
    data = cliques(edge_label_index=torch.tensor([[0], [7]]), edge_label=torch.ones(1))
    batch = Batch.from_data_list([from_graph(data), from_graph(data)])
    assert batch[EDGE].edge_label_index.tolist() == [[0, 8], [7, 15]]


@pytest.mark.parametrize("name", ["residue_index", "mesh_face", "batch_pos", "ptr"])
@pytest.mark.parametrize("rows", [8, 3])
def test_names_that_pyg_mangles_are_refused_or_renamed(name, rows):
    values = torch.arange(rows)
    data = cliques(**{name: values})
    with pytest.raises(ValueError, match=rf"'{name}'.*rename="):
        from_graph(data)
    signal = from_graph(data, rename={name: "residue"})
    kept = signal["vertex"].residue if rows == 8 else signal.residue
    assert torch.equal(kept, values)
    assert "residue" not in from_graph(data, rename={name: None})["vertex"]
    pair = Batch.from_data_list([signal, signal])
    kept = pair["vertex"].residue if rows == 8 else pair.residue
    assert torch.equal(kept, torch.cat([values, values]))


def test_meshes_are_sent_through_their_edges():
    mesh = Data(pos=torch.rand(4, 3), face=torch.tensor([[0, 1], [1, 2], [2, 3]]))
    with pytest.raises(ValueError, match=r"T\.FaceToEdge\(\)"):
        from_graph(mesh)
    signal = from_graph(FaceToEdge()(mesh), features=["pos"])
    assert torch.equal(signal["vertex"].x, mesh.pos)
    assert signal[EDGE].edge_index.size(1) == 10


def test_names_that_signals_use_are_refused():
    for name in ("key", "num_features"):
        data = cliques()
        data[name] = torch.arange(8)
        with pytest.raises(ValueError, match=f"vertex attribute '{name}'"):
            from_graph(data)
    with pytest.raises(ValueError, match="graph attribute 'schema'"):
        from_graph(cliques(schema="v1"))


@pytest.mark.parametrize("name", ["vertex", "graph", "community", "x_dict"])
def test_names_of_types_are_no_names_of_attributes_of_the_graph(name):
    # PyG's data sets fail on the one, and x_dict would no longer be the features.
    data = cliques(**{name: "v1"})
    with pytest.raises(ValueError, match=rf"'{name}' of the whole sample.*rename="):
        from_graph(data)
    signal = sound(from_graph(data, rename={name: "version"}))
    assert signal.version == "v1"
    assert Batch.from_data_list([signal, signal]).version == ["v1", "v1"]


def test_renaming_does_not_overwrite():
    data = cliques(z=torch.arange(8), w=torch.arange(8))
    with pytest.raises(ValueError, match="would be kept as 'w', which is taken"):
        from_graph(data, rename={"z": "w"})
    with pytest.raises(ValueError, match="'pos' would be kept as 'coord'"):
        from_graph(cliques(pos=torch.rand(8, 2), coord=torch.rand(8, 2)))
    with pytest.raises(ValueError, match="rename names the attribute 'q'"):
        from_graph(data, rename={"q": "w"})
    swapped = from_graph(cliques(feat=torch.rand(8, 5)), rename={"feat": "x"})
    assert swapped["vertex"].x.shape == (8, 5)


def test_a_label_may_be_given():
    assert from_graph(cliques(), y=3).y.tolist() == [3]
    assert from_graph(cliques(), y=torch.tensor([[0.5, 1]])).y.shape == (1, 2)
    with pytest.raises(ValueError, match="has a label 'y' already"):
        from_graph(cliques(y=torch.tensor([1])), y=3)
    with pytest.raises(TypeError, match="label y of a graph is 'toxic': give a number"):
        from_graph(cliques(), y="toxic")


# -- weights -------------------------------------------------------------------------


def test_weights_of_the_edges_shape_the_communities():
    ring = [(node, (node + 1) % 8) for node in range(8)]
    data = Data(edge_index=torch.tensor(ring).t(), num_nodes=8)
    data.edge_weight = torch.tensor([0.1, 9.0] * 4)

    signal = from_graph(data, max_family=4)
    community = signal["vertex", "child_of", "community"].edge_index[1]
    assert community.tolist() == [0, 1, 1, 2, 2, 3, 3, 0]
    data.strength = data.edge_weight.view(-1, 1)
    del data.edge_weight
    levels = {"strength": "edge"}
    signal = from_graph(data, max_family=4, weight="strength", levels=levels)
    assert torch.equal(
        signal["vertex", "child_of", "community"].edge_index[1], community
    )


def test_weights_that_make_no_sense_are_named():
    data = cliques(edge_weight=torch.ones(26))
    data.edge_weight[5] = -1
    with pytest.raises(ValueError, match=r"edge 5 has the weight -1.0 .* weight=None"):
        from_graph(data)
    data.edge_weight[3] = float("inf")
    with pytest.raises(ValueError, match="edge 3 has the weight inf"):
        from_graph(data)
    data.edge_weight[3] = float("nan")
    with pytest.raises(ValueError, match="edge 3 has the weight nan"):
        from_graph(data)
    assert torch.equal(
        from_graph(data, weight=None)[EDGE].edge_weight[5:], data.edge_weight[5:]
    )
    with pytest.raises(ValueError, match=r"weight='w' is no attribute of the edges"):
        from_graph(data, weight="w")
    phases = cliques(edge_weight=torch.ones(26, dtype=torch.complex64))
    with pytest.raises(ValueError, match="must hold one number an edge"):
        from_graph(phases)


def test_equal_graphs_give_equal_signals_whatever_came_before():
    pairs = torch.from_numpy(np.random.default_rng(0).integers(0, 400, (2, 1200)))
    data = Data(edge_index=pairs, num_nodes=400)
    first = from_graph(data, seed=2)
    from_graph(cliques(), seed=7)
    torch.manual_seed(9)
    again = from_graph(data, seed=2)
    for edge in first.edge_types:
        assert torch.equal(first[edge].edge_index, again[edge].edge_index)


def test_signals_are_saved_and_loaded_safely(tmp_path):
    signal = from_graph(nx.barbell_graph(5, 1))
    torch.save(signal, tmp_path / "signal.pt")
    loaded = torch.load(tmp_path / "signal.pt", weights_only=True)
    assert loaded["vertex"].name == [repr(node) for node in nx.barbell_graph(5, 1)]
    assert torch.equal(loaded["vertex"].x, signal["vertex"].x)
    assert re.search("community: 2", repr(loaded))


def test_a_graph_of_200_000_vertices_and_1_000_000_edges():
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(200_000, (2, 1_000_000), generator=generator)
    signal = from_graph(Data(edge_index=edges, num_nodes=200_000), max_family=64)
    assert torch.equal(signal["vertex", "to", "vertex"].edge_index, edges)
    assert signal.hierarchy.num_leaves == 200_000
    assert signal.hierarchy.max_branching <= 64
    kinds = ("community", "graph")
    above = [signal["vertex", "child_of", kind].edge_index[0] for kind in kinds]
    assert torch.equal(torch.cat(above).sort().values, torch.arange(200_000))
