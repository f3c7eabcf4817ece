"""Which backend runs: the fastest that there is, or the one that was asked for."""

import warnings

import pytest
import torch

from hsa_pyg import SignalHierarchy, banded, hierarchical_attention
from hsa_pyg.ops import available_backends, backends, last_backend
from hsa_pyg.ops.cpp import build
from tests.forests import close, inputs, random_parents


@pytest.fixture
def call():
    hierarchy = SignalHierarchy.from_parents(random_parents(20, 1))
    tensors = inputs(hierarchy)

    def run(**keywords):
        return hierarchical_attention(*tensors, hierarchy, **keywords)

    return run


@pytest.fixture
def no_compiler(monkeypatch):
    monkeypatch.setattr(build, "why_not", lambda: "no C++ compiler was found")


def test_on_a_cpu_the_compiled_kernels_run(call):
    call()
    assert last_backend() == "cpp"


def test_every_name_is_described():
    assert list(backends.BACKENDS) == ["reference", "torch", "cpp", "triton"]
    assert all(backends.BACKENDS.values())


def test_without_a_compiler_a_warning_says_why(call, no_compiler):
    expected = call(backend="torch")
    with pytest.warns(UserWarning, match=r"'cpp' is not .* no C\+\+ compiler was"):
        assert close(call(), expected)
    assert last_backend() == "torch"
    assert "cpp" not in available_backends()


def test_the_warning_comes_once_and_not_to_who_asks_for_torch(call, no_compiler):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        call(backend="torch")
        assert caught == []
        call()
        call()
    assert len(caught) == 1


def test_a_backend_asked_for_is_never_replaced(call, no_compiler):
    with pytest.raises(ValueError, match=r"'cpp' is not available here: no C\+\+"):
        call(backend="cpp")


def test_a_backend_of_another_device_is_refused():
    reason = backends.why_not("cpp", torch.device("meta"))
    assert reason == "it runs on the CPU, and the inputs are on meta"


def test_what_a_backend_lacks_is_named(call, monkeypatch):
    monkeypatch.setattr(backends, "why_not", lambda name, device: None)
    with pytest.raises(NotImplementedError, match="'triton' has no top_k; choose"):
        call(backend="triton", top_k=2)


@pytest.mark.parametrize("backend", ["cpp", "triton"])
def test_kernels_without_patterns_refuse_or_leave_them_to_torch(
    call, monkeypatch, backend
):
    monkeypatch.setattr(backends, "why_not", lambda name, device: None)
    with pytest.raises(NotImplementedError, match=f"'{backend}' has no pattern"):
        call(backend=backend, pattern=banded(3))
    call(pattern=banded(3))
    assert last_backend() == "torch"


def test_the_compiled_graph_chooses_when_it_runs(call, monkeypatch):
    """Not when it is traced: the machine may be another, or have no compiler."""
    torch._dynamo.reset()
    hierarchy = SignalHierarchy.from_parents(random_parents(20, 1))
    tensors = inputs(hierarchy)
    compiled = torch.compile(hierarchical_attention, backend="eager", fullgraph=True)
    compiled(*tensors, hierarchy)
    assert last_backend() == "cpp"
    monkeypatch.setattr(build, "why_not", lambda: "it is gone")
    with pytest.warns(UserWarning, match="it is gone"):
        compiled(*tensors, hierarchy)
    assert last_backend() == "torch"
    torch._dynamo.reset()
