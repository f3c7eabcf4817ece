import pytest
import torch
from torch_geometric.data import Batch, HeteroData

from hsa_pyg.data import NestedSignal
from hsa_pyg.nn.batch_hierarchy import batch_hierarchy


def document(number, roots=1):
    """Words below as many texts."""
    signal = NestedSignal()
    signal["text"].num_nodes = roots
    signal["word"].x = torch.arange(number)
    below = torch.arange(number) % roots
    signal["word", "child_of", "text"].edge_index = torch.stack(
        [torch.arange(number), below]
    )
    return signal


def test_of_a_signal_and_of_a_batch():
    signal = document(3)
    assert batch_hierarchy(signal) is signal.hierarchy
    batch = Batch.from_data_list([document(3), document(2)])
    found = batch_hierarchy(batch)
    assert (found.num_roots, found.num_leaves) == (2, 5)


def test_what_is_no_batch_of_whole_trees_is_refused():
    with pytest.raises(TypeError, match=r"got a tuple; hsa_pyg\.loader\.DataLoader"):
        batch_hierarchy((document(2), document(3)))
    with pytest.raises(TypeError, match=r"HeteroData; make its samples signals"):
        batch_hierarchy(HeteroData())
    with pytest.raises(ValueError, match="2 roots for 1 signals, but each must be one"):
        batch_hierarchy(document(4, roots=2))
    sampled = document(2)
    sampled["word"].num_sampled_nodes = [1, 1]
    with pytest.raises(ValueError, match="neighbour sampler, which cuts families"):
        batch_hierarchy(sampled)


def test_features_without_their_tree_are_refused():
    with pytest.raises(TypeError, match=r"got a tensor of shape \(3, 2\); .*its tree"):
        batch_hierarchy(torch.ones(3, 2))
