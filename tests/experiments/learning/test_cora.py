import pytest
import torch

from hsa_pyg.cli import SettingsError
from hsa_pyg.experiments.learning.cora import load_cora
from hsa_pyg.experiments.learning.vertex_settings import (
    VertexSettings,
    complete_settings,
)
from hsa_pyg.experiments.learning.vertex_training import VertexTraining
from tests.experiments.learning import small_sources


def load(tmp_path, **options):
    settings = complete_settings(VertexSettings(channels=8, heads=2, **options))
    return load_cora(settings, tmp_path / "data", tmp_path)


def test_the_standard_split_and_the_words_of_papers(tmp_path):
    small_sources.write_cora(tmp_path / "data")
    task = load(tmp_path)
    assert task.facts["train papers"] == 9
    assert task.facts["val papers"] == 500
    assert task.facts["test papers"] == 30
    assert task.facts["citations"] == 540
    assert torch.equal(task.y, torch.arange(540) % 3)
    assert task.signal["vertex"].x.sum(1).eq(1.0).all()
    # The rings are apart, so communities do not cross them.
    assert task.facts["depth"] >= 2


def test_papers_are_learned_from_their_words(tmp_path):
    small_sources.write_cora(tmp_path / "data")
    torch.manual_seed(0)
    run = VertexTraining(
        load(tmp_path, dropout=0.0), lr=0.02, weight_decay=0.0, epochs=12, patience=0
    )
    while not run.finished:
        run.run_epoch()
    assert run.test()["test_accuracy"] == 1.0


def test_flops_grow_as_the_attention_does(tmp_path):
    small_sources.write_cora(tmp_path / "data")
    flops = {
        name: load(tmp_path, model=name).attention_flops()
        for name in ("hsa", "multihead", "performer", "none")
    }
    # Softmax: 2 (2 + 2 + 5) C N^2 in two layers.
    assert flops["multihead"] == 2 * 2 * 9 * 8 * 540**2
    assert flops["none"] == 0 < flops["hsa"] < flops["multihead"]
    assert 0 < flops["performer"] < flops["multihead"]


def test_papers_at_random_places_leave_the_tree_as_it_is(tmp_path):
    small_sources.write_cora(tmp_path / "data")
    own, other = load(tmp_path), load(tmp_path, tree="random")
    again = load(tmp_path, tree="random").signal.hierarchy
    one, two = own.signal.hierarchy, other.signal.hierarchy
    assert torch.equal(one.leaf_counts, two.leaf_counts)
    assert other.attention_flops() == own.attention_flops()
    assert torch.equal(two.parent, again.parent)
    links = own.signal["vertex", "to", "vertex"].edge_index
    assert torch.equal(other.signal["vertex", "to", "vertex"].edge_index, links)
    first = one.node_slices["vertex"][0]
    near, far = (
        (h.parent[first + links[0]] == h.parent[first + links[1]]).float().mean()
        for h in (one, two)
    )
    assert near > 0.5 > 0.2 > far


def test_files_that_are_not_there_are_named(tmp_path):
    with pytest.raises(SettingsError, match=r"ind\.cora\.x"):
        load(tmp_path)
