"""torch.compile: one graph, few compilations, the numbers of eager mode."""

import pickle

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from hsa_pyg import SignalHierarchy, hierarchical_attention
from tests.forests import inputs, positions, random_parents, star


@pytest.fixture(autouse=True)
def _forget_graphs(tmp_path, monkeypatch):
    """No graph of an earlier test, nor code on disk for operators of other shapes."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def scaled_attention(q, k, v, hierarchy, position=None):
    """Attention with something to fuse on both sides."""
    return 2 * hierarchical_attention(q + 1, k, v, hierarchy, position=position) + 1


def value_and_gradients(function, hierarchy, tensors, position=None):
    q, k, v = (x.clone().requires_grad_() for x in tensors)
    y = function(q, k, v, hierarchy, position)
    cotangent = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)
    return y.detach(), *torch.autograd.grad(y, (q, k, v), cotangent)


def assert_same(compiled, hierarchy, tensors, position=None):
    actual = value_and_gradients(compiled, hierarchy, tensors, position)
    expected = value_and_gradients(scaled_attention, hierarchy, tensors, position)
    for a, b in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("with_position", [False, True])
def test_fifty_random_batches_take_at_most_two_compilations(with_position):
    """Trees, leaves, levels and buckets differ in each; the graph does not.

    The second graph is for q, k, v and position, whose rows torch.compile takes for
    constants until it has seen others.
    """
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(scaled_attention, backend=counter, fullgraph=True)
    for seed in range(50):
        parent = random_parents(20 + 9 * seed, seed, reach=(None, 4, 12)[seed % 3])
        hierarchy = SignalHierarchy.from_parents(parent)
        position = positions(hierarchy, seed=seed) if with_position else None
        tensors = inputs(hierarchy, 2, 4, 3, seed=seed)
        assert_same(compiled, hierarchy, tensors, position)
    assert counter.frame_count <= 2


def test_marks_for_the_compiler_survive_copies():
    """As from a worker of a loader: a new process has no marks on its tensors."""
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(scaled_attention, backend=counter, fullgraph=True)
    for seed in range(4):
        # One tree, then flat trees, leaves of mixed families and none of them.
        parent = (star(5), random_parents(30, 1), star(7), random_parents(50, 2))[seed]
        hierarchy = pickle.loads(pickle.dumps(SignalHierarchy.from_parents(parent)))
        assert_same(compiled, hierarchy, inputs(hierarchy, 2, 4, 3))
    assert counter.frame_count <= 2


def test_no_graph_breaks():
    hierarchy = SignalHierarchy.from_parents(random_parents(40, 0))
    explained = torch._dynamo.explain(scaled_attention)(*inputs(hierarchy), hierarchy)
    assert explained.graph_count == 1
    assert explained.graph_break_count == 0


def test_energies_and_the_papers_form_compile_too():
    def function(q, k, v, hierarchy):
        return hierarchical_attention(
            q, k, v, hierarchy, self_attention=False, return_energy=True
        )

    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    hierarchy = SignalHierarchy.from_parents(random_parents(40, 0))
    tensors = [x.requires_grad_() for x in inputs(hierarchy)]
    results = []
    for run in (compiled, function):
        y, phi = run(*tensors, hierarchy)
        loss = y.square().sum() + phi[phi.isfinite()].sum()
        results.append((y, phi, *torch.autograd.grad(loss, tensors)))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b)


def test_inductor_gives_eager_results_for_one_tree_of_one_to_sixty_five_leaves():
    """One root, sizes that are no power of two (needs a C++ compiler, as inductor)."""
    compiled = torch.compile(scaled_attention, fullgraph=True, dynamic=True)
    for leaves in (*range(1, 10), 15, 16, 17, 31, 33, 63, 64, 65):
        hierarchy = SignalHierarchy.from_parents(star(leaves))
        assert_same(compiled, hierarchy, inputs(hierarchy, 1, 4, 3, seed=leaves))
    for seed in range(5):
        hierarchy = SignalHierarchy.from_parents(random_parents(50, seed))
        assert_same(compiled, hierarchy, inputs(hierarchy, 1, 4, 3, seed=seed))


def test_dropout_is_drawn_anew_at_each_compiled_call():
    def function(q, k, v, hierarchy):
        return hierarchical_attention(q, k, v, hierarchy, dropout=0.5)

    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    hierarchy = SignalHierarchy.from_parents(star(30))
    tensors = inputs(hierarchy)
    once, again = compiled(*tensors, hierarchy), compiled(*tensors, hierarchy)
    assert not torch.equal(once, again)
    # The weights that are kept are scaled up in compiled code as well.
    torch.manual_seed(0)
    expected = function(*tensors, hierarchy)
    torch.manual_seed(0)
    assert torch.equal(compiled(*tensors, hierarchy), expected)
