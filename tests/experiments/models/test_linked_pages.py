"""Pages in their graph of links."""

import pytest
import torch
from torch_geometric.data import Batch

from hsa_pyg.data import Schema
from hsa_pyg.experiments.models import LinkedPages
from hsa_pyg.experiments.models.linked_pages import LINKS
from hsa_pyg.nn import HSATransformer
from tests.experiments.models.documents import SAMPLES

CHAIN = torch.tensor([[0, 1, 2], [1, 2, 3]])


def model(links="sage", num_layers=2):
    pages = HSATransformer.from_schema(
        Schema.of(SAMPLES[0]), 16, 16, vocab_sizes={"token": 10}, num_layers=1
    )
    return LinkedPages(pages, 16, 3, links=links, num_layers=num_layers).eval()


@pytest.fixture
def batch():
    # The last of them is a page without a leaf.
    return Batch.from_data_list(SAMPLES)


@pytest.mark.parametrize("links", LINKS)
def test_every_page_has_logits_and_everything_learns(links, batch):
    net = model(links)
    out = net(batch, CHAIN)
    out.square().sum().backward()
    assert out.shape == (5, 3)
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())


@pytest.mark.parametrize("links", ["sage", "gat"])
def test_a_page_hears_as_many_links_away_as_there_are_layers(links, batch):
    net = model(links)
    x = net.encode(batch).detach().requires_grad_()
    net.classify(x, CHAIN)[0].sum().backward()
    assert (x.grad.abs().sum(1) > 0).tolist() == [True, True, True, False, False]


def test_links_are_followed_in_both_directions(batch):
    net = model()
    x = net.encode(batch).detach().requires_grad_()
    net.classify(x, torch.tensor([[3], [0]]))[0].sum().backward()
    assert x.grad[3].abs().sum() > 0


def test_without_links_pages_are_alone(batch):
    net = model("none")
    assert torch.equal(net(batch, CHAIN), net(batch, CHAIN[:, :0]))


@pytest.mark.parametrize(
    ("options", "message"),
    [({"links": "gcn"}, "'links' must be"), ({"heads": 3}, "divisible")],
)
def test_wrong_settings_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        LinkedPages(torch.nn.Identity(), 16, 3, **options)
