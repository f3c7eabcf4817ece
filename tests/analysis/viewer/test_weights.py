import base64

import numpy as np
import pytest
import torch

from hsa_pyg.analysis import collect_block_weights
from hsa_pyg.analysis.viewer.contents import TreeOrder
from hsa_pyg.analysis.viewer.weights import weight_contents
from hsa_pyg.datasets import FakeNestedDataset
from hsa_pyg.nn import HSATransformer


@pytest.fixture
def collected():
    torch.manual_seed(0)
    data = FakeNestedDataset(num_samples=1, depth=4, empty=0.2, seed=5)
    model = HSATransformer.from_schema(
        data.schema, 2, channels=8, heads=2, vocab_sizes=data.vocab_sizes
    )
    return data[0], collect_block_weights(model, data[0])


def test_rows_come_in_the_order_in_which_the_page_reads_them(collected):
    signal, layers = collected
    order = TreeOrder(signal)
    contents = weight_contents(layers, order, 10**6)
    assert not contents["averaged"]
    counts = signal.hierarchy.leaf_counts.numpy()[order.node]
    for layer, encoded in zip(layers, contents["layers"], strict=True):
        weight = {
            (int(order.number[target]), int(order.number[source])): value
            for (source, target), value in zip(
                layer.pair_index.T.tolist(), layer.pair_weight.tolist(), strict=True
            )
        }
        # As attention.js does: for every node its siblings with leaves, in order.
        expected = []
        for node, parent in enumerate(order.parent.tolist()):
            if parent < 0 or not counts[node]:
                continue
            siblings = np.flatnonzero((order.parent == parent) & (counts > 0)).tolist()
            expected += [weight.pop((node, c)) for c in siblings if c != node]
        assert weight == {}
        for head, text in enumerate(encoded):
            values = np.frombuffer(base64.b64decode(text), "<f2")
            np.testing.assert_allclose(
                values, np.array(expected)[:, head], rtol=1e-3, atol=1e-7
            )


def test_many_weights_are_averaged_over_heads_and_more_are_refused(collected):
    signal, layers = collected
    order = TreeOrder(signal)
    pairs = layers[0].pair_weight.size(0)
    contents = weight_contents(layers, order, 3 * pairs)
    assert contents["averaged"]
    assert contents["heads"] == 2
    assert [len(layer) for layer in contents["layers"]] == [1, 1]
    values = np.frombuffer(base64.b64decode(contents["layers"][0][0]), "<f2")
    mean = layers[0].pair_weight.mean()
    assert values.mean(dtype=float) == pytest.approx(float(mean), rel=1e-3)
    with pytest.raises(ValueError, match=r"2 layers of \d+ pairs .* raise max_weights"):
        weight_contents(layers, order, pairs)


def test_weights_of_another_signal_are_refused(collected):
    _, layers = collected
    other = FakeNestedDataset(num_samples=1, depth=1, branching=2)[0]
    with pytest.raises(ValueError, match="weights are those of another signal"):
        weight_contents(layers, TreeOrder(other), 10**6)
