import pytest
import torch

from hsa_pyg.integrations import warming
from hsa_pyg.integrations.warming import warm_up
from hsa_pyg.nn import FlatConv, HSAConv


def test_attention_goes_there_and_back_and_draws_nothing(monkeypatch):
    called = []

    def attention(q, *arguments):
        called.append(q)
        return hierarchical_attention(q, *arguments)

    hierarchical_attention = warming.hierarchical_attention
    monkeypatch.setattr(warming, "hierarchical_attention", attention)
    model = torch.nn.Sequential(HSAConv(4, 4, 2))
    before = torch.get_rng_state()
    assert warm_up(model)
    (q,) = called
    assert q.grad is not None
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("model", [torch.nn.Linear(2, 2), FlatConv(4, 4, 2)])
def test_other_models_need_no_kernels(model, monkeypatch):
    monkeypatch.setattr(warming, "hierarchical_attention", None)
    assert not warm_up(model)
