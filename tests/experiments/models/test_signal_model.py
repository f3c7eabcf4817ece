"""What holds of every model that HSA is compared with."""

import copy

import pytest
import torch
from torch_geometric.data import Batch

from hsa_pyg.experiments.models import GPSTree, SegmentTransformer, make_model
from hsa_pyg.nn import LeafEncoder, TokenEmbedding
from tests.experiments.models.documents import toy_task


def permuted(signal, seed, kinds):
    """The same signal with its nodes of some types in another order."""
    generator = torch.Generator().manual_seed(seed)
    out = copy.copy(signal)
    new_place = {}
    for kind in signal.node_types:
        number = signal[kind].num_nodes
        order = torch.arange(number)
        if kind in kinds:
            order = torch.randperm(number, generator=generator)
        new_place[kind] = torch.argsort(order)
        for name, value in signal[kind].items():
            if isinstance(value, torch.Tensor):
                out[kind][name] = value[order]
    for child, relation, parent in signal.edge_types:
        edge = signal[child, relation, parent].edge_index
        mixed = torch.randperm(edge.size(1), generator=generator)
        out[child, relation, parent].edge_index = torch.stack(
            [new_place[child][edge[0]], new_place[parent][edge[1]]]
        )[:, mixed]
    return out


def test_gradients_reach_every_parameter(baseline, batch):
    model = baseline(dropout=0.0)
    out = model(batch)
    assert out.shape == (5, 3)
    (out * torch.randn_like(out)).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
    still = {name for name, p in model.named_parameters() if not p.grad.abs().sum() > 0}
    # Keys shift all scores of a query alike; types that nobody hears of in time.
    assert not [name for name in still if "conv" not in name and "layers" not in name]


def test_alone_equals_batched_in_any_order(baseline, samples):
    model = baseline().eval()
    together = model(Batch.from_data_list(samples))
    for i, sample in enumerate(samples):
        torch.testing.assert_close(model(sample)[0], together[i])
    backwards = model(Batch.from_data_list(samples[::-1]))
    torch.testing.assert_close(backwards.flip(0), together)


def test_a_sample_trains_alone_as_in_a_batch(baseline, samples):
    """No batch norm, no padding that counts, and no gradient from other samples."""
    model = baseline(dropout=0.0).train()
    together = model(Batch.from_data_list(samples))
    torch.testing.assert_close(model(samples[2])[0], together[2])
    gradients = []
    for out in (model(samples[2])[0], together[2]):
        model.zero_grad()
        out.sum().backward()
        gradients.append([p.grad.clone() for p in model.parameters()])
    torch.testing.assert_close(*gradients, atol=1e-4, rtol=1e-4)


def test_the_order_of_nodes_does_not_matter(baseline, samples):
    model = baseline().eval()
    kinds = {"document", "paragraph", "sentence"}
    if not getattr(model, "window", None):  # Windows are cut in the leaves' order.
        kinds |= {"token", "image"}
    for seed in range(3):
        other = permuted(samples[2], seed, kinds)
        assert not torch.equal(
            other["sentence"].pos, samples[2]["sentence"].pos
        ) or not torch.equal(other["paragraph"].pos, samples[2]["paragraph"].pos)
        torch.testing.assert_close(
            model(other), model(samples[2]), atol=1e-5, rtol=1e-4
        )


def test_the_tree_and_the_places_matter(baseline, samples):
    model = baseline().eval()
    other = copy.copy(samples[2])
    other["token"].pos = other["token"].pos.flip(0)
    assert not torch.equal(model(other), model(samples[2]))
    model = baseline(position=False).eval()
    moved = copy.copy(samples[2])
    edge = moved["token", "child_of", "sentence"].edge_index.clone()
    edge[1] = edge[1].flip(0)
    moved["token", "child_of", "sentence"].edge_index = edge
    out, before = model(moved), model(samples[2])
    if getattr(model, "window", None):
        # Windows know nothing of the tree.
        torch.testing.assert_close(out, before)
    else:
        assert not torch.equal(out, before)


def test_every_leaf_counts(baseline, samples):
    model = baseline().eval()
    before = model(samples[0])
    for place in range(samples[0]["token"].num_nodes):
        other = copy.copy(samples[0])
        other["token"].x = other["token"].x.clone()
        other["token"].x[place] = 9
        # Little is left of it at the root, three layers on.
        assert not torch.equal(model(other), before), place


def test_a_seed_makes_the_same_model(baseline, batch):
    outs = []
    for _ in range(2):
        torch.manual_seed(3)
        model = baseline().train()
        torch.manual_seed(4)
        outs.append(model(batch))
    assert torch.equal(*outs)


def test_state_and_reset(baseline, batch):
    torch.manual_seed(1)
    model, other = baseline().eval(), baseline().eval()
    other.load_state_dict(model.state_dict())
    torch.testing.assert_close(other(batch), model(batch), atol=0, rtol=0)
    before = [p.clone() for p in model.parameters()]
    model.reset_parameters()
    changed = [
        not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)
    ]
    assert sum(changed) > len(changed) / 3
    assert model(batch).isfinite().all()


def test_it_learns_to_find_a_word(baseline):
    """Twelve documents of two classes in a few dozen steps."""
    batch = Batch.from_data_list(toy_task())
    model = baseline(dropout=0.0)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(100):
        out = model(batch)
        if (out.argmax(1) == batch.y).all():
            break
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(out, batch.y).backward()
        optimiser.step()
    assert (model.eval()(batch).argmax(1) == batch.y).all()


def test_mixed_precision_is_near(baseline, batch):
    model = baseline(dropout=0.0)
    exact = model(batch)
    with torch.autocast("cpu", torch.bfloat16):
        low = model(batch)
        torch.nn.functional.cross_entropy(low, batch.y).backward()
    torch.testing.assert_close(low.float(), exact, atol=0.1, rtol=0.1)
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_an_encoder_of_ones_own(samples, schema):
    encoder = LeafEncoder(16, vocab_sizes={"token": 10}, in_channels={"image": 3})
    model = make_model("hgt", schema, 2, 16, encoder=encoder)
    assert model.encoder is encoder
    table, linear = TokenEmbedding(10, 16), torch.nn.Linear(3, 16)
    model = SegmentTransformer({"token": table, "image": linear}, 2, 16, window=2)
    assert model(samples[0]).shape == (1, 2)
    with pytest.raises(ValueError, match="either 'encoder' or 'vocab_sizes'"):
        make_model("hgt", schema, 2, 16, encoder=encoder, vocab_sizes={"token": 10})
    with pytest.raises(ValueError, match="'channels' is 32, but the encoder gives"):
        make_model("gps", schema, 2, 32, encoder=encoder)
    with pytest.raises(ValueError, match="'channels' is needed"):
        GPSTree({"token": table}, 2, schema=schema)


def test_a_signal_of_two_trees_is_refused(baseline, samples):
    signal = copy.copy(samples[2])
    del signal["image", "child_of", "document"]
    with pytest.raises(ValueError, match="each must be one tree"):
        baseline()(signal)


def test_tree_vectors_are_dropped_out(baseline, batch):
    model, shapes = baseline(dropout=0.5), []
    model.dropout.register_forward_hook(lambda *call: shapes.append(call[2].shape))
    model(batch)
    assert shapes[-1] == (5, 16)
