import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.loader import DataLoader

from hsa_pyg.datasets import FormalLanguage
from hsa_pyg.datasets.formal_tasks import FORMAL_TASKS
from tests.nested_lists import arithmetic_value, flatten, nested_list

WITH_TREE = ("modular_arithmetic", "solve_equation")


def labels(dataset):
    return torch.cat([signal.y for signal in dataset])


@pytest.mark.parametrize(
    ("task", "majority"),
    [
        ("even_pairs", 0.5),
        ("parity", 0.5),
        ("missing_duplicates", 0.5),
        ("cycle_navigation", 0.2),
        ("stack_manipulation", 0.5),
        ("modular_arithmetic", 0.295),
        ("solve_equation", 0.2),
    ],
)
def test_the_sizes_and_classes_are_those_of_the_paper(task, majority):
    dataset = FormalLanguage(task, "val", log=False)
    assert len(dataset) == dataset.num_samples == 2000
    assert all(signal["token"].num_nodes == 40 for signal in dataset[:50])
    counts = torch.bincount(labels(dataset), minlength=dataset.num_classes)
    assert counts.numel() == dataset.num_classes
    # Three standard errors, and some for the largest of several.
    error = (majority * (1 - majority) / 2000) ** 0.5
    assert abs(float(counts.max()) / 2000 - majority) < 4 * error


def test_training_has_5000_samples():
    assert len(FormalLanguage("parity", log=False)) == 5000


@pytest.mark.parametrize("task", FORMAL_TASKS)
def test_equal_arguments_give_equal_data_and_others_do_not(task):
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    one, other = (FormalLanguage(task, num_samples=20, seed=3) for _ in range(2))
    assert torch.equal(torch.rand(1), expected)
    texts = [one.text(index) for index in range(20)]
    assert texts == [other.text(index) for index in range(20)]
    assert torch.equal(labels(one), labels(other))
    longer = FormalLanguage(task, num_samples=30, seed=3)
    assert [longer.text(index) for index in range(20)] == texts
    for changed in ({"seed": 4}, {"split": "val"}, {"split": "test"}):
        data = FormalLanguage(task, **{"num_samples": 20, "seed": 3, **changed})
        assert not set(texts) & {data.text(index) for index in range(20)}


def test_the_data_are_the_same_on_every_machine():
    texts = {
        task: FormalLanguage(task, num_samples=1, length=10).text(0)
        for task in FORMAL_TASKS
    }
    assert texts == {
        "even_pairs": "1 1 1 0 1 0 0 1 0 1",
        "parity": "1 1 1 1 1 0 1 1 1 1",
        "missing_duplicates": "1 1 0 1 1 1 1 0 1 ?",
        "cycle_navigation": "+1 -1 0 +1 0 0 +1 +1 +1 -1",
        "stack_manipulation": "0 PUSH1 PUSH1 PUSH0 PUSH1 PUSH1 PUSH1 POP PUSH1 PUSH0",
        "modular_arithmetic": "( ( 4 - 0 ) + - 1 )",
        "solve_equation": "( ( - x ) + 2 ) = 3",
    }


@pytest.mark.parametrize("task", FORMAL_TASKS)
def test_hierarchies_share_their_leaves(task):
    flat = FormalLanguage(task, num_samples=5, length=20)
    windows = FormalLanguage(
        task, num_samples=5, length=20, hierarchy="windows", windows=[5, 2]
    )
    for one, other in zip(flat, windows, strict=True):
        assert torch.equal(one["token"].x, other["token"].x)
        assert torch.equal(one.y, other.y)
        assert other.hierarchy.max_depth == 3
    if task in WITH_TREE:
        trees = FormalLanguage(task, num_samples=5, length=20, hierarchy="tree")
        for one, other in zip(flat, trees, strict=True):
            assert torch.equal(one["token"].x, other["token"].x)
            tokens = flatten(nested_list(other, trees.token_names))
            assert tokens == [trees.token_names[i] for i in one["token"].x]
    else:
        with pytest.raises(ValueError, match="are none: use 'flat' or 'windows'"):
            FormalLanguage(task, num_samples=5, length=20, hierarchy="tree")


@pytest.mark.parametrize("brackets", [True, False])
@given(st.integers(1, 60), st.integers(0, 1000))
def test_expressions_are_worked_out_along_their_edges(brackets, length, seed):
    dataset = FormalLanguage(
        "modular_arithmetic",
        num_samples=3,
        length=length,
        hierarchy="tree",
        brackets=brackets,
        seed=seed,
    )
    for index, signal in enumerate(dataset):
        assert signal.validate()
        (expression,) = nested_list(signal, dataset.token_names)
        assert arithmetic_value(expression) == signal.y.item()
        if brackets:
            assert signal["token"].num_nodes == length
            assert eval(dataset.text(index)) % 5 == signal.y.item()
        else:
            assert not {"(", ")"} & set(flatten(expression))


@pytest.mark.parametrize("brackets", [True, False])
@given(st.integers(3, 60), st.integers(0, 1000))
def test_equations_are_solved_along_their_edges(brackets, length, seed):
    dataset = FormalLanguage(
        "solve_equation",
        num_samples=3,
        length=length,
        hierarchy="tree",
        brackets=brackets,
        seed=seed,
    )
    for signal in dataset:
        left, equals, right = nested_list(signal, dataset.token_names)
        assert equals == "="
        solutions = [
            digit
            for digit in range(5)
            if arithmetic_value(left, unknown=digit) == int(right)
        ]
        assert solutions == signal.y.tolist()


def test_padding_is_the_last_token_and_no_part_of_the_text():
    dataset = FormalLanguage("parity", num_samples=3, pad_multiple=9)
    assert dataset.token_names == ("0", "1", "[PAD]")
    assert dataset.vocab_size == 3
    assert dataset[0]["token"].x[40:].tolist() == [2] * 5
    assert len(dataset.text(0).split()) == 40
    wide = FormalLanguage("parity", num_samples=3, pad_to=50)[0]
    assert wide["token"].num_nodes == 50


def test_the_stock_loader_batches_trees():
    dataset = FormalLanguage("solve_equation", num_samples=8, hierarchy="tree")
    (batch,) = DataLoader(dataset, batch_size=8)
    assert batch.validate()
    assert batch.hierarchy.num_leaves == 8 * 40
    assert torch.equal(batch.y, labels(dataset))
    assert dataset.schema == dataset[0].schema


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task": "sorting"}, "task='sorting' is not known: use one of"),
        ({"task": "parity", "split": "dev"}, "split='dev' is not known"),
        ({"task": "parity", "length": 0}, "must be at least 1, got 0"),
        (
            {"task": "missing_duplicates", "length": 7},
            "must be even and at least 2, got 7",
        ),
        ({"task": "solve_equation", "length": 2}, "at least 3, got 2"),
        ({"task": "parity", "pad_to": 30}, "pad_to=30 is too short.* up to 40 tokens"),
    ],
)
def test_impossible_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        FormalLanguage(**arguments)
