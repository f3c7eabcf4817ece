import os
import pickle

import pytest
import torch

from hsa_pyg.datasets import FormalLanguage, ListOps
from hsa_pyg.datasets.formal_tasks import FORMAL_TASKS


def same(one, other):
    return all(
        torch.equal(a["token"].x, b["token"].x)
        and torch.equal(a.hierarchy.parent, b.hierarchy.parent)
        and torch.equal(a.y, b.y)
        for a, b in zip(one, other, strict=True)
    )


def test_a_root_keeps_the_signals(tmp_path, monkeypatch):
    arguments = {"num_samples": 12, "hierarchy": "tree"}
    made = FormalLanguage("modular_arithmetic", root=tmp_path, **arguments)
    assert same(made, FormalLanguage("modular_arithmetic", **arguments))
    assert os.path.exists(made.processed_paths[0])
    torch.load(made.processed_paths[0], weights_only=True)

    def drawn_again(*_):
        raise RuntimeError

    monkeypatch.setattr(FormalLanguage, "sequences", drawn_again)
    again = FormalLanguage("modular_arithmetic", root=tmp_path, **arguments)
    assert same(made, again)
    for changed in (
        {"seed": 1},
        {"num_samples": 13},
        {"hierarchy": "flat"},
        {"split": "val"},
        {"length": 30},
        {"brackets": False},
        {"force_reload": True},
    ):
        with pytest.raises(RuntimeError):
            FormalLanguage(
                "modular_arithmetic", root=tmp_path, **{**arguments, **changed}
            )


def test_settings_of_list_ops_have_files_of_their_own(tmp_path):
    arguments = [
        {},
        {"length": (10, 31)},
        {"max_depth": 5},
        {"max_args": 5},
        {"split": "test"},
    ]
    made = [
        ListOps(root=tmp_path, **{"num_samples": 3, "length": (10, 30), **changed})
        for changed in arguments
    ]
    assert len({dataset.processed_paths[0] for dataset in made}) == len(arguments)
    assert same(made[0], ListOps(num_samples=3, length=(10, 30)))


@pytest.mark.parametrize("with_root", [True, False])
def test_filters_and_transforms_are_applied(with_root, tmp_path, capsys):
    def mark(signal):
        signal.seen = torch.tensor([1])
        return signal

    dataset = FormalLanguage(
        "parity",
        root=tmp_path if with_root else None,
        num_samples=40,
        pre_filter=lambda signal: bool(signal.y == 1),
        pre_transform=mark,
        transform=lambda signal: signal.y + signal.seen,
    )
    assert 0 < len(dataset) < 40
    assert torch.cat(list(dataset)).tolist() == [2] * len(dataset)
    assert f"Left out: {40 - len(dataset)} sequences" in capsys.readouterr().err
    with pytest.raises(ValueError, match="refused all 5 sequences"):
        FormalLanguage("parity", num_samples=5, pre_filter=lambda _: False)


def test_parts_of_a_data_set_have_their_texts():
    dataset = FormalLanguage("cycle_navigation", num_samples=10, length=5)
    assert dataset[4:].text(1) == dataset.text(5)
    single = FormalLanguage("cycle_navigation", num_samples=1, length=5)
    assert len(single) == 1
    assert single.text(0) == dataset.text(0)


def test_workers_can_receive_a_data_set():
    dataset = ListOps(num_samples=4, length=(10, 30))
    assert same(dataset, pickle.loads(pickle.dumps(dataset)))


@pytest.mark.parametrize("task", FORMAL_TASKS)
def test_ids_have_names(task):
    dataset = FormalLanguage(task, num_samples=200)
    tokens = {token for signal in dataset for token in signal["token"].x.tolist()}
    # All occur but the padding.
    assert tokens == set(range(dataset.vocab_size - 1))
    assert repr(dataset) == f"FormalLanguage({task}_length40, 200)"


@pytest.mark.parametrize(("name", "value"), [("num_samples", 0), ("seed", -1)])
def test_numbers_out_of_range_are_named(name, value):
    with pytest.raises(ValueError, match=f"{name} must be at least .*, got {value}"):
        FormalLanguage("parity", **{name: value})
