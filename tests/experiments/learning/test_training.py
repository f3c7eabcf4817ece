import json
from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Batch

from hsa_pyg.cli import SettingsError
from hsa_pyg.data import Feature, Schema
from hsa_pyg.experiments.experiment import TERMINATED
from hsa_pyg.experiments.learning import training as module
from hsa_pyg.experiments.learning.building import build_model
from hsa_pyg.experiments.learning.experiment import Learning
from hsa_pyg.experiments.learning.settings import LearningSettings, complete_settings
from hsa_pyg.experiments.learning.task import Task
from hsa_pyg.experiments.learning.training import (
    TaskClassifier,
    TaskTraining,
    best_epoch,
    check_precision,
    node_labels,
)
from hsa_pyg.integrations.history import History
from tests.experiments.learning.tiny_data import SCHEMA, two_paragraphs

TINY = {"channels": 8, "layers": 1, "heads": 2, "position_channels": 4, "epochs": 3}
CLOCKS = ("seconds", "processor_seconds", "evaluation_seconds")


def signals(number, regression=False):
    found = []
    for i in range(number):
        signal = two_paragraphs()
        signal["token"].x = (signal["token"].x + i) % 7
        signal.y = torch.tensor([float(i)]) if regression else torch.tensor([i % 2])
        found.append(signal)
    return found


def make_task(regression=False, **kwargs):
    train, val, test = (signals(number, regression) for number in (12, 6, 6))
    schema = SCHEMA
    if regression:
        graph = {"y": Feature((), torch.float)}
        schema = Schema(SCHEMA.nodes, SCHEMA.edges, graph)
    return Task(
        train,
        val,
        test,
        schema=schema,
        vocab_sizes={"token": 7},
        outputs=1 if regression else 2,
        kind="regression" if regression else "classification",
        domains=dict.fromkeys(SCHEMA.internal_types, "sequence"),
        **kwargs,
    )


def train(folder, task=None, tell=lambda progress: None, **settings):
    complete = complete_settings(
        LearningSettings(**{**TINY, "batch_size": 4, **settings})
    )
    checkpoint = folder / "checkpoint.pt"
    return TaskTraining(complete, 1, task or make_task(), checkpoint, tell)


def numbers(training):
    return [
        {key: x for key, x in row.items() if key not in CLOCKS}
        for row in training.history.rows
    ]


def interrupt_after(epochs):
    def tell(progress):
        if progress.epoch == epochs:
            raise KeyboardInterrupt

    return tell


@pytest.mark.parametrize("epochs", [1, 3])
def test_a_run_that_was_ended_comes_to_the_same_numbers(tmp_path, epochs):
    whole = train(tmp_path / "whole")
    whole.fit()
    first = train(tmp_path / "parts", tell=interrupt_after(epochs))
    with pytest.raises(KeyboardInterrupt):
        first.fit()
    again = train(tmp_path / "parts")
    again.fit()
    assert numbers(again) == numbers(whole)
    assert all(0 < row[key] < 60 for row in again.history.rows for key in CLOCKS)
    assert again.test()[0] == whole.test()[0]
    weights = zip(
        again.model.state_dict().values(),
        whole.model.state_dict().values(),
        strict=True,
    )
    assert all(torch.equal(one, other) for one, other in weights)


def test_an_end_by_a_signal_is_no_success(tmp_path, monkeypatch):
    """Lightning leaves by a SystemExit without a status, which means success."""
    run = train(tmp_path)

    def ended(*args, **kwargs):
        raise SystemExit

    monkeypatch.setattr(run._trainer, "fit", ended)
    with pytest.raises(SystemExit) as stopped:
        run.fit()
    assert stopped.value.code == TERMINATED == 128 + 15


def test_a_checkpoint_of_an_older_version_goes_on(tmp_path):
    first = train(tmp_path, tell=interrupt_after(2))
    with pytest.raises(KeyboardInterrupt):
        first.fit()
    path = tmp_path / "checkpoint.pt"
    state = torch.load(path, weights_only=False)
    for row in state["callbacks"][History().state_key]["rows"]:
        del row["processor_seconds"]
    torch.save(state, path)
    again = train(tmp_path)
    again.fit()
    there = ["processor_seconds" in row for row in again.history.rows]
    assert there == [False, False, True]


def test_attention_has_run_before_the_clock_starts(tmp_path, monkeypatch):
    warmed = []

    def warm_up(model, device):
        warmed.append((model, device.type, training.history._start))

    monkeypatch.setattr(module, "warm_up", warm_up)
    training = train(tmp_path, epochs=1)
    training.fit()
    assert warmed == [(training.model, training._trainer.strategy.root_device.type, 0)]
    assert training.history._start > 0
    # There is nothing left to train.
    train(tmp_path, epochs=1).fit()
    assert len(warmed) == 1


def test_training_ends_when_the_validation_gets_no_better(tmp_path):
    # Nothing is learned, so the first epoch stays the best.
    settings = {"lr": 0.0, "patience": 2, "epochs": 9}
    whole = train(tmp_path / "whole", **settings)
    whole.fit()
    assert len(whole.history.rows) == 3
    assert whole.best_epoch == 0
    stopped = train(tmp_path / "parts", tell=interrupt_after(3), **settings)
    with pytest.raises(KeyboardInterrupt):
        stopped.fit()
    again = train(tmp_path / "parts", **settings)
    again.fit()
    assert numbers(again) == numbers(whole)


def test_the_best_epoch_is_tested_not_the_last(tmp_path):
    kept = {}

    def tell(progress):
        state = training.model.state_dict()
        kept[progress.epoch - 1] = {key: x.clone() for key, x in state.items()}

    training = train(tmp_path, tell=tell)
    training.fit()
    # Let the second one have been the best.
    best = {f"model.{key}": x for key, x in kept[1].items()}
    state = {**training.module.state_dict(), **best}
    torch.save(state, tmp_path / "best.pt")
    training.test()
    assert all(
        torch.equal(x, kept[1][key]) for key, x in training.model.state_dict().items()
    )
    assert not torch.equal(kept[1]["head.weight"], kept[2]["head.weight"])
    rows = [{"val/accuracy": x} for x in (0.5, 0.7, 0.7, 0.6)]
    assert best_epoch(rows, "val/accuracy", "max") == 1
    assert best_epoch(rows, "val/accuracy", "min") == 0


def test_a_regression_is_judged_by_its_error(tmp_path):
    told = []
    task = make_task(regression=True, score="rmse")
    training = train(tmp_path, task, told.append, lr=0.05, epochs=4, warmup=0.0)
    training.fit()
    scores, seconds = training.test()
    assert scores.keys() == {"test/loss", "test/rmse", "test/mae"}
    # The loss is of standardised targets, the scores in their own units.
    targets = torch.cat([signal.y for signal in task.train])
    assert training.module.scale.mean.item() == pytest.approx(targets.mean().item())
    spread = targets.std(correction=0).item()
    assert scores["test/rmse"] == pytest.approx(
        spread * scores["test/loss"] ** 0.5, rel=0.3
    )
    losses = [row["train/loss"] for row in training.history.rows]
    assert losses[-1] < losses[0]
    assert [progress.epoch for progress in told] == [1, 2, 3, 4]
    assert all(progress.rate > 0 for progress in told)
    assert "val/rmse" in told[-1].text
    assert seconds > 0


@pytest.mark.parametrize(
    "settings",
    [
        {"accumulate": 3},
        {"precision": "bf16"},
        {"clip": 0.0},
        {"schedule": "linear", "warmup": 0.0},
    ],
)
def test_what_users_expect_of_an_optimiser(tmp_path, settings):
    training = train(tmp_path, epochs=1, **settings)
    training.fit()
    (row,) = training.history.rows
    assert torch.isfinite(torch.tensor(row["train/loss"]))
    steps = training._trainer.global_step
    assert steps == (1 if "accumulate" in settings else 3)
    json.dumps(row)


def test_every_phrase_may_be_learned_besides():
    batch = Batch.from_data_list(signals(3))
    for kind, grade in (
        ("document", 4),
        ("paragraph", 2),
        ("sentence", 1),
        ("token", 0),
    ):
        number = batch[kind].num_nodes
        batch[kind].y = torch.full((number,), grade)
    hierarchy = batch.hierarchy
    five = node_labels(batch, hierarchy, 5)
    assert five.bincount().tolist() == [21, 15, 6, 0, 3]
    assert node_labels(batch, hierarchy, 2).unique().tolist() == [-100, 0, 1]
    task = make_task()
    settings = complete_settings(LearningSettings(**TINY, dropout=0.0))
    model = build_model(settings, task)
    plain, both = (TaskClassifier(model, 2, node_weight=x) for x in (0.0, 0.5))
    loss, logits = both.compute_loss(batch, "train")
    assert torch.equal(logits, plain.compute_loss(batch, "train")[1])
    assert loss > plain.compute_loss(batch, "train")[0]
    # Nodes have a head of their own, and share all that lies below it.
    beside = loss - both.compute_loss(batch, "val")[0]
    own, shared, whole = torch.autograd.grad(
        beside, [both.node_head.weight, model.norm.weight, model.head.weight]
    )
    assert own.abs().max() > 0
    assert shared.abs().max() > 0
    assert whole.abs().max() == 0
    # Validation is by whole trees alone.
    assert torch.equal(
        both.compute_loss(batch, "val")[0], plain.compute_loss(batch, "val")[0]
    )


def test_a_score_that_is_no_number_ends_the_run(tmp_path, monkeypatch):
    training = train(tmp_path)
    plain = training.module.compute_loss

    def compute_loss(batch, stage):
        loss, logits = plain(batch, stage)
        return (loss if stage == "train" else loss * torch.nan), logits

    monkeypatch.setattr(training.module, "compute_loss", compute_loss)
    with pytest.raises(FloatingPointError, match="val/loss is nan after epoch 1: low"):
        training.fit()
    assert not (tmp_path / "checkpoint.pt").exists()


@pytest.mark.filterwarnings("ignore:You passed")
@pytest.mark.skipif(torch.cuda.is_available(), reason="this precision is known there")
def test_a_precision_that_the_processor_lacks_is_refused_before_data_are_read(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("HSA_PYG_DATA", str(tmp_path / "absent"))
    settings = LearningSettings(task="movie-reviews", precision="16")
    with pytest.raises(SettingsError, match=r"precision=16 needs a GPU.* bf16-mixed"):
        Learning().run(settings, 0, tmp_path / "checkpoint.pt", print)
    check_precision(replace(settings, precision="bf16"))
