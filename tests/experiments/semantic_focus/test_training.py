from time import perf_counter
from types import SimpleNamespace

import pytest
import torch

from hsa_pyg import hierarchical_attention
from hsa_pyg.experiments.semantic_focus import training as training_module
from hsa_pyg.experiments.semantic_focus.attention import DenseAttention
from hsa_pyg.experiments.semantic_focus.sequences import load_rows
from hsa_pyg.experiments.semantic_focus.settings import (
    FocusSettings,
    complete_settings,
)
from hsa_pyg.experiments.semantic_focus.training import (
    FocusTraining,
    make_attention,
    make_pattern,
)

TINY = {"train_size": 40, "val_size": 12, "batch_size": 10, "blocks": 1, "length": 8}


def start(seed=0, **settings):
    complete = complete_settings(FocusSettings(**{**TINY, "epochs": 4, **settings}))
    parts = [load_rows(complete, split, seed) for split in ("train", "val")]
    return FocusTraining(complete, seed, *parts)


def numbers(training):
    """The history without its clock."""
    return [
        {key: value for key, value in row.items() if "seconds" not in key}
        for row in training.history
    ]


@pytest.mark.parametrize(
    "settings",
    [
        {"attention": "full"},
        {"attention": "topk", "k": 3},
        {"attention": "blocklocal", "width": 4, "num_global": 1},
        {"attention": "hsa-topk", "windows": [4], "k": 3, "optimizer": "adam"},
        {"attention": "hsa", "task": "modular-arithmetic"},
    ],
)
def test_a_resumed_run_goes_on_bit_for_bit(tmp_path, settings):
    whole = start(**settings)
    for _ in range(4):
        whole.run_epoch()
    path = tmp_path / "run" / "checkpoint.pt"
    first = start(**settings)
    for _ in range(2):
        first.run_epoch()
    first.save(path)
    second = start(**settings)
    second.load(path)
    while not second.finished:
        second.run_epoch()
    assert numbers(second) == numbers(whole)
    for one, other in zip(
        second.model.parameters(), whole.model.parameters(), strict=True
    ):
        assert torch.equal(one, other)


def test_processor_seconds_are_those_of_the_epoch(monkeypatch, tmp_path):
    clock = iter([100.0, 103.0, 110.0, 114.5])
    time = SimpleNamespace(perf_counter=perf_counter, process_time=lambda: next(clock))
    monkeypatch.setattr(training_module, "time", time)
    training = start()
    training.run_epoch()
    path = tmp_path / "checkpoint.pt"
    training.save(path)
    resumed = start()
    resumed.load(path)
    resumed.run_epoch()
    assert [row["processor_seconds"] for row in resumed.history] == [3.0, 4.5]


def test_a_checkpoint_without_processor_seconds_is_gone_on_from(tmp_path):
    # As of a version that did not measure them.
    training = start()
    training.run_epoch()
    del training.history[0]["processor_seconds"]
    path = tmp_path / "checkpoint.pt"
    training.save(path)
    resumed = start()
    resumed.load(path)
    resumed.run_epoch()
    found = ["processor_seconds" in row for row in resumed.history]
    assert found == [False, True]


def test_seeds_differ_and_leave_torch_alone():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one, other, again = start(0), start(1), start(0)
    for training in (one, other, again):
        training.run_epoch()
    assert torch.equal(torch.get_rng_state(), before)
    assert numbers(one) == numbers(again) != numbers(other)


def test_a_task_is_learned_and_the_rule_ends_the_run():
    training = start(
        task="missing-duplicates",
        length=2,
        train_size=100,
        epochs=60,
        stop_after=2,
        stop_loss=0.1,
        lr=0.5,
        dropout=0.0,
    )
    while not training.finished:
        training.run_epoch()
    assert training.stopped_early
    assert 2 <= len(training.history) < 60
    assert [row["val_accuracy"] for row in training.history[-2:]] == [1.0, 1.0]
    assert training.history[-1]["train_loss"] < 0.1


def test_the_rate_falls_from_epoch_to_epoch():
    training = start(lr=0.2, decay=0.5)
    rates = [training.run_epoch()["lr"] for _ in range(3)]
    assert rates == [0.2, 0.1, 0.05]


def test_evaluation_is_that_of_all_sequences_at_once():
    training = start(attention="hsa", windows=[4])
    loss, accuracy = training.evaluate("train", training.train)
    everything = list(range(40))
    training.model.eval()
    attention = training._attention(
        "any", training.train, torch.tensor(everything), keep=True
    )
    logits = training.model(training.train.tokens, attention)
    expected = torch.nn.functional.cross_entropy(logits, training.train.labels)
    assert loss == pytest.approx(expected.item(), abs=1e-6)
    right = (logits.argmax(1) == training.train.labels).double().mean()
    assert accuracy == pytest.approx(right.item())


@pytest.mark.parametrize("attention", ["full", "topk", "banded", "hsa-topk"])
def test_scores_are_logged_without_touching_the_run(attention):
    settings = {"attention": attention, "windows": [4], "k": 3, "width": 4}
    plain, logged = start(**settings), start(log_scores=True, **settings)
    plain.run_epoch()
    row = logged.run_epoch()
    assert numbers(plain)[0].items() < row.items()
    assert {"entropy_0", "dispersion_0", "kept_dispersion_0"} <= row.keys()
    assert row["kept_dispersion_0"] <= row["dispersion_0"]
    assert ("separation_0" in row) == (attention != "full")


def test_a_loss_that_is_no_number_ends_the_run():
    with pytest.raises(FloatingPointError, match="epoch 0: lower lr"):
        start(lr=1e30, clip=1e30).run_epoch()


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    path = tmp_path / "checkpoint.pt"
    start().save(path)
    with pytest.raises(ValueError, match="other settings or another seed"):
        start(seed=1).load(path)


@pytest.mark.parametrize(
    ("settings", "length", "dense"),
    [
        ({"attention": "full"}, 64, True),
        ({"attention": "full"}, 66, False),
        ({"attention": "topk"}, 8, False),
        ({"attention": "banded"}, 8, True),
        ({"attention": "blocklocal", "width": 3}, 8, False),
        ({"attention": "blocklocal", "width": 3, "num_global": 1}, 8, True),
    ],
)
def test_each_way_of_computing_gives_the_masked_attention(settings, length, dense):
    training = start(length=length, dropout=0.0, **settings)
    rows = [3, 1]
    attention = make_attention(training.settings, training.train, rows)
    assert isinstance(attention, DenseAttention) == dense
    qkv = torch.randn(2 * training.train.tokens.size(1), 3 * 64)
    q, k, v = qkv.view(-1, 3, 1, 64).unbind(1)
    k_kept = training.settings.k
    expected = hierarchical_attention(
        q,
        k,
        v,
        training.train.hierarchy(rows),
        top_k=k_kept,
        top_k_includes_self=k_kept is not None,
        pattern=make_pattern(training.settings),
    )
    found, _ = attention.forward(qkv, None)
    torch.testing.assert_close(found, expected.flatten(1), rtol=0, atol=1e-5)


def test_the_rule_looks_at_the_last_epochs():
    training = start(stop_after=2, stop_loss=0.1)

    def stopped(accuracies, loss=0.05):
        training.history = [{"val_accuracy": x, "train_loss": loss} for x in accuracies]
        return training.stopped_early

    assert stopped([0.5, 1.0, 1.0])
    assert not stopped([1.0, 0.5, 1.0])
    assert not stopped([0.5, 1.0, 1.0], loss=0.1)
    assert not stopped([1.0])


def test_a_step_is_no_longer_than_the_clipped_gradient():
    training = start(optimizer="sgd", lr=0.1, clip=1e-3)
    before = [p.detach().clone() for p in training.model.parameters()]
    training.run_epoch()
    moved = [
        (p.detach() - old).norm()
        for p, old in zip(training.model.parameters(), before, strict=True)
    ]
    # Four batches.
    assert 0 < torch.stack(moved).norm() <= 4 * 0.1 * 1e-3 * 1.01


def test_trees_have_the_dropout_of_the_settings():
    training = start(attention="hsa", windows=[4], dropout=0.25)
    attention = make_attention(training.settings, training.train, [0, 1])
    assert attention.dropout == 0.25


def test_batches_of_other_trees_are_evaluated_on_their_own(monkeypatch):
    settings = {"attention": "hsa", "task": "modular-arithmetic", "dropout": 0.0}
    training = start(**settings)
    assert not training.train.same_trees
    whole = training.evaluate("train", training.train)
    training._attentions.clear()
    monkeypatch.setattr(training_module, "_EVALUATED", 10 * 8)
    for _ in range(2):
        found = training.evaluate("train", training.train)
        assert len(training._attentions) == 4
        assert found == pytest.approx(whole, abs=1e-6)
