"""With families of bounded size, work and memory grow with the leaves (property 9)."""

import pytest
import torch

from hsa_pyg import SignalHierarchy, hierarchical_attention
from hsa_pyg.ops import family
from tests.forests import inputs, regular, side_by_side


def run(hierarchy):
    """Forward and backward over a batch of two heads of eight."""
    tensors = inputs(hierarchy, 2, 8, 8, dtype=torch.float32)
    q, k, v = (x.requires_grad_() for x in tensors)
    hierarchical_attention(q, k, v, hierarchy).sum().backward()


@pytest.fixture
def score_counts(monkeypatch):
    """Numbers of scores that were held at a time, one entry per tile and run."""
    counts = []
    plain = family.FamilyAttention.scores

    def scores(attention, *arguments):
        s = plain(attention, *arguments)
        counts.append(s.numel())
        return s

    monkeypatch.setattr(family, "_CPU_TILE", 2**12)
    monkeypatch.setattr(family.FamilyAttention, "scores", scores)
    return counts


def peak_bytes(function, *arguments):
    """Largest sum of memory that PyTorch held at a time for a call."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        function(*arguments)
    events = profile.profiler.kineto_results.events()
    changes = [
        (event.start_ns(), event.nbytes())
        for event in events
        if event.name() == "[memory]"
    ]
    held = highest = 0
    for _, change in sorted(changes, key=lambda pair: pair[0]):
        held += change
        highest = max(highest, held)
    return highest


def test_scores_grow_with_families_and_never_exceed_a_tile(score_counts):
    held = []
    for levels in (2, 3):
        hierarchy = SignalHierarchy.from_parents(regular(16, levels))
        score_counts.clear()
        run(hierarchy)
        # Once forward, once backward, for two heads.
        assert sum(score_counts) == 2 * 2 * hierarchy.num_families * 16**2
        held.append(max(score_counts))
    assert held[0] == held[1] < 2**12


def test_a_large_family_holds_one_run_of_queries(score_counts, monkeypatch):
    monkeypatch.setattr(family, "_SCORES", 2**14)
    run(SignalHierarchy.from_parents(regular(600, 1)))
    assert sum(score_counts) == 2 * 2 * 600**2
    assert max(score_counts) <= 2 * 32 * 600  # what a run has at least


def test_peak_memory_grows_with_leaves(monkeypatch):
    monkeypatch.setattr(family, "_CPU_TILE", 2**12)
    small, large = (SignalHierarchy.from_parents(regular(16, n)) for n in (2, 3))
    run(small)  # what is set up once
    peak, more = peak_bytes(run, small), peak_bytes(run, large)
    # 16 times the leaves: all pairs would take 256 times the memory.
    assert more < 17 * peak
    assert more < large.num_leaves**2  # a byte a pair


def number_of_operations(function, *arguments):
    """Calls of PyTorch's operators, those inside of ours included."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as p:
        function(*arguments)
    return sum(event.count for event in p.key_averages() if "::" in event.key)


def test_a_batch_takes_as_many_operations_as_one_tree():
    """One pass per level over all trees: the tensors grow, hardly anything else."""
    tree = torch.tensor([-1, 0, 0, 0, 1, 1, 1, 2, 2, 6, 6])
    trees, _ = side_by_side(*[tree] * 64)
    run(SignalHierarchy.from_parents(tree))  # what is set up once
    for function in (SignalHierarchy.from_parents, run):
        given = [tree, trees]
        if function is run:
            given = [SignalHierarchy.from_parents(parent) for parent in given]
        one, many = (number_of_operations(function, x) for x in given)
        assert one > 100
        # Members out of order take a gather more; paths are doubled more often.
        assert many < 1.25 * one
