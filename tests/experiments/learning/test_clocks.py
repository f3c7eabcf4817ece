from dataclasses import replace

import pytest
import torch

from hsa_pyg.experiments.learning import clocks
from hsa_pyg.experiments.learning.clocks import epoch_seconds, warm_up
from hsa_pyg.experiments.records import Record
from hsa_pyg.nn import FlatConv, HSAConv


def test_attention_goes_there_and_back_and_draws_nothing(monkeypatch):
    called = []

    def attention(q, *arguments):
        called.append(q)
        return hierarchical_attention(q, *arguments)

    hierarchical_attention = clocks.hierarchical_attention
    monkeypatch.setattr(clocks, "hierarchical_attention", attention)
    model = torch.nn.Sequential(HSAConv(4, 4, 2))
    before = torch.get_rng_state()
    assert warm_up(model)
    (q,) = called
    assert q.grad is not None
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("model", [torch.nn.Linear(2, 2), FlatConv(4, 4, 2)])
def test_other_models_need_no_kernels(model, monkeypatch):
    monkeypatch.setattr(clocks, "hierarchical_attention", None)
    assert not warm_up(model)


def record(seconds, **row):
    rows = [{"seconds": one, **row} for one in seconds]
    numbers = {"seconds": 1.0, "peak_memory": 1, "attention_flops": 1}
    return Record(
        **{"experiment": "learning", "setting": "hsa", "seed": 0, "configuration": {}},
        **{"environment": {}, "history": rows, "final": {}, "facts": {}},
        **numbers,
    )


def test_one_clock_is_shown_for_all_settings():
    old = record([1.0, 2.0, 9.0])
    new = record([3.0, 3.0], processor_seconds=0.5)
    assert epoch_seconds({"a": [new], "b": [new]}) == (
        {"a": 0.5, "b": 0.5},
        "processor s",
    )
    assert epoch_seconds({"a": [new], "b": [old]}) == ({"a": 3.0, "b": 2.0}, "wall s")
    # That of the processor does not tell what an accelerator has worked.
    elsewhere = replace(new, facts={"device": "NVIDIA H100"})
    assert epoch_seconds({"a": [new], "b": [elsewhere]})[1] == "wall s"
