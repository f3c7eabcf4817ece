from functools import partial

import pytest
import torch

from hsa_pyg import SignalHierarchy, hierarchical_attention
from hsa_pyg.ops import available_backends, backends, last_backend
from tests.forests import inputs, star


@pytest.fixture
def call():
    hierarchy = SignalHierarchy.from_parents(star(3))
    tensors = inputs(hierarchy)

    def run(**keywords):
        return hierarchical_attention(*tensors, hierarchy, **keywords)

    return run


def test_the_backend_that_ran_can_be_asked_for(call):
    for asked, ran in (("reference",) * 2, ("torch",) * 2, ("auto", "cpp")):
        call(backend=asked)
        assert last_backend() == ran


def test_no_backend_ran_before_the_first_call(monkeypatch):
    monkeypatch.setattr(backends, "_last_backend", None)
    assert last_backend() is None


def test_a_call_that_fails_names_no_backend(call, monkeypatch):
    monkeypatch.setattr(backends, "_last_backend", None)
    with pytest.raises(ValueError, match="'cuda' is unknown"):
        call(backend="cuda")
    assert last_backend() is None


def test_a_backend_that_is_not_there_is_never_replaced(call, monkeypatch):
    # Other tests of this process may have imported the kernels for the interpreter.
    monkeypatch.setattr(backends, "why_not", lambda name, device: "no GPU is here")
    message = r"'triton' is not available here: no GPU is here; choose backend='auto'"
    with pytest.raises(ValueError, match=message):
        call(backend="triton")


def test_every_available_backend_runs(call):
    expected = call(backend="reference")
    assert {"reference", "torch", "cpp"} <= set(available_backends())
    for backend in available_backends():
        assert torch.allclose(call(backend=backend), expected)


@pytest.mark.parametrize("which", range(3))
def test_forward_mode_is_refused_rather_than_a_tangent_of_zero(which):
    hierarchy = SignalHierarchy.from_parents(star(3))
    tensors = list(inputs(hierarchy))

    def attend(x, backend):
        given = [*tensors[:which], x, *tensors[which + 1 :]]
        return hierarchical_attention(*given, hierarchy, backend=backend)

    direction = (torch.randn_like(tensors[which]),)
    _, tangent = torch.func.jvp(
        lambda x: attend(x, "reference"), (tensors[which],), direction
    )
    assert tangent.abs().sum() > 0
    for backend in ("torch", "cpp", "auto"):
        function = partial(attend, backend=backend)
        with pytest.raises(NotImplementedError, match="use backend='reference'"):
            torch.func.jvp(function, (tensors[which],), direction)
