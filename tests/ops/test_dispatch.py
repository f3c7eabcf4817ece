import pytest
import torch

from hsa_pyg import SignalHierarchy, hierarchical_attention
from hsa_pyg.ops import available_backends, dispatch, last_backend
from tests.forests import inputs, star


@pytest.fixture
def call():
    hierarchy = SignalHierarchy.from_parents(star(3))
    tensors = inputs(hierarchy)

    def run(**keywords):
        return hierarchical_attention(*tensors, hierarchy, **keywords)

    return run


def test_the_backend_that_ran_can_be_asked_for(call):
    for asked, ran in (("reference",) * 2, ("torch",) * 2, ("auto", "torch")):
        call(backend=asked)
        assert last_backend() == ran


def test_no_backend_ran_before_the_first_call(monkeypatch):
    monkeypatch.setattr(dispatch, "_last_backend", None)
    assert last_backend() is None


def test_a_call_that_fails_names_no_backend(call, monkeypatch):
    monkeypatch.setattr(dispatch, "_last_backend", None)
    with pytest.raises(ValueError, match="'cuda' is unknown"):
        call(backend="cuda")
    assert last_backend() is None


def test_a_backend_that_is_not_there_is_never_replaced(call):
    message = r"'triton' is not available .* one of 'auto', 'reference', 'torch'"
    with pytest.raises(ValueError, match=message):
        call(backend="triton")


def test_every_available_backend_runs(call):
    expected = call(backend="reference")
    assert {"reference", "torch"} <= set(available_backends())
    for backend in available_backends():
        assert torch.allclose(call(backend=backend), expected)
