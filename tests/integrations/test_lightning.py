import importlib
import sys

import lightning.pytorch as pl
import pytest
import torch
import torch.nn.functional as F
from torch_geometric.loader import DataLoader

from hsa_pyg.integrations.lightning import (
    SignalClassifier,
    SignalModule,
    SignalRegressor,
)


def trainer(**kwargs):
    return pl.Trainer(
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **kwargs,
    )


def test_scores_are_means_over_signals_whatever_their_number_of_nodes(
    make_model, make_data
):
    data = make_data(batch_size=3)
    classifier = SignalClassifier(make_model(), num_classes=2)
    (scores,) = trainer().validate(classifier, data, verbose=False)
    (batch,) = DataLoader(data.val, batch_size=len(data.val))
    with torch.no_grad():
        logits = classifier(batch)
    loss = F.cross_entropy(logits, batch.y).item()
    accuracy = (logits.argmax(-1) == batch.y).float().mean().item()
    assert scores["val/loss"] == pytest.approx(loss, rel=1e-5)
    assert scores["val/accuracy"] == pytest.approx(accuracy)


def test_macro_f1_is_the_mean_over_classes(make_model, make_data):
    model = make_model()
    with torch.no_grad():
        model.linear.weight.zero_()
        model.linear.bias.copy_(torch.tensor([0.0, 1.0]))
    classifier = SignalClassifier(model, num_classes=2)
    (scores,) = trainer().test(classifier, make_data(), verbose=False)
    # All signals are called class 1, half of them rightly: F1 of 0 and of 2/3.
    assert scores["test/macro_f1"] == pytest.approx(1 / 3)


def test_a_loss_that_is_not_finite_stops_the_run_and_names_the_step(
    make_model, make_data
):
    data = make_data()
    poisoned = data.train[5]
    poisoned["word"].x[0, 0] = float("nan")
    classifier = SignalClassifier(make_model(), num_classes=2)
    with pytest.raises(FloatingPointError, match=r"nan at step \d+ \(epoch 0, batch"):
        trainer(max_epochs=1).fit(classifier, data)


def test_a_readout_with_a_row_too_few_is_named(make_model, make_data):
    model = make_model()
    model.register_forward_hook(lambda module, args, out: out[:-1])
    classifier = SignalClassifier(model, num_classes=2)
    with pytest.raises(ValueError, match=r"shape \[3, 2\] for 4 labels"):
        trainer(max_epochs=1).fit(classifier, make_data())


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (
            torch.tensor([0.0, 1.0]),
            r"float32, .*\.long\(\), or take SignalRegressor",
        ),
        (torch.tensor([0, 1]).int(), r"labels are int32, .*signal\.y\.long\(\)\.$"),
    ],
)
def test_labels_that_are_no_classes_are_refused(make_model, make_data, labels, message):
    batch = next(iter(make_data(batch_size=2).val_dataloader()))
    batch.y = labels
    with pytest.raises(ValueError, match=message):
        SignalClassifier(make_model(), 2).compute_loss(batch, "val")


@pytest.mark.parametrize("wrong", [2, -1])
def test_a_label_beyond_the_classes_is_named(make_model, make_data, wrong):
    batch = next(iter(make_data(batch_size=2).val_dataloader()))
    batch.y = torch.tensor([0, wrong])
    message = f"label of signal 1 of the batch is {wrong}, .* 2 classes, 0 to 1: count"
    with pytest.raises(IndexError, match=message):
        SignalClassifier(make_model(), 2).compute_loss(batch, "val")


@pytest.mark.parametrize(("schedule", "late"), [("cosine", 0.25), ("linear", 1 / 3)])
def test_the_learning_rate_rises_over_the_warmup_and_falls_to_zero(
    make_model, make_data, schedule, late
):
    rates = []

    class Watch(pl.Callback):
        def on_train_batch_start(self, trainer, *args):
            rates.append(trainer.optimizers[0].param_groups[0]["lr"])

    classifier = SignalClassifier(
        make_model(), num_classes=2, lr=0.2, warmup=1 / 3, schedule=schedule
    )
    trainer(max_epochs=3, callbacks=[Watch()]).fit(classifier, make_data())
    assert len(rates) == 18
    assert rates[:7] == sorted(rates[:7])
    assert max(rates) == rates[6] == pytest.approx(0.2)
    # Eight of the twelve falling steps done: (1 + cos(2 pi / 3)) / 2, or a third left.
    assert rates[14] == pytest.approx(0.2 * late)
    final = classifier.optimizers().param_groups[0]["lr"]
    assert final == pytest.approx(0.0, abs=1e-9)


def test_weight_decay_spares_biases(make_model, make_data):
    classifier = SignalClassifier(make_model(), num_classes=2, weight_decay=0.3)
    trainer(max_epochs=1).fit(classifier, make_data())
    decayed, spared = classifier.optimizers().param_groups
    assert decayed["params"] == [classifier.model.linear.weight]
    assert decayed["weight_decay"] == 0.3
    assert spared["params"] == [classifier.model.linear.bias]
    assert spared["weight_decay"] == 0.0


def numbers(data, columns=1, offset=0.0):
    """Give the signals of a data module numbers to predict: sums of their features."""
    for part in (data.train, data.val, data.test):
        for signal in part:
            x = signal["word"].x.mean(0)
            signal.y = 100 * x[:columns] + offset
    return data


def one_output(model):
    model.linear = torch.nn.Linear(4, 1)
    return model


@pytest.mark.parametrize("columns", [1, 2])
def test_numbers_are_learned_and_told_in_their_own_units(
    make_model, make_data, columns
):
    data = numbers(make_data(batch_size=3), columns, offset=1000.0)
    model = make_model() if columns == 2 else one_output(make_model())
    targets = torch.stack([signal.y for signal in data.train])
    regressor = SignalRegressor.from_targets(model, targets, lr=0.1)
    trainer(max_epochs=30).fit(regressor, data)
    (scores,) = trainer().test(regressor, data, verbose=False)
    predicted = torch.cat(trainer().predict(regressor, data.test_dataloader()))
    wanted = torch.stack([signal.y for signal in data.test])
    assert predicted.shape == wanted.shape == (8, columns)
    error = predicted - wanted
    assert scores["test/rmse"] == pytest.approx(error.square().mean().sqrt().item())
    assert scores["test/mae"] == pytest.approx(error.abs().mean().item())
    # Targets lie 100 from their mean; without a scale 1,000 is far away.
    assert scores["test/rmse"] < 20
    spread = targets.std(0, correction=0)
    loss = (error / spread).square().mean().item()
    assert scores["test/loss"] == pytest.approx(loss, rel=1e-4)


def test_without_a_scale_the_loss_is_the_squared_error(make_model, make_data):
    data = numbers(make_data(), 2)
    regressor = SignalRegressor(make_model())
    (scores,) = trainer().validate(regressor, data, verbose=False)
    assert scores["val/loss"] == pytest.approx(scores["val/rmse"] ** 2)
    assert set(regressor.state_dict()) == {"model.linear.weight", "model.linear.bias"}


def test_a_scale_is_kept_with_the_weights(make_model, make_data, tmp_path):
    data = numbers(make_data(), 2)
    first = SignalRegressor(make_model(), mean=[1.0, 2.0], std=[3.0, 4.0])
    run = trainer(max_epochs=1)
    run.fit(first, data)
    run.save_checkpoint(tmp_path / "one.ckpt")
    again = SignalRegressor.load_from_checkpoint(
        tmp_path / "one.ckpt", model=make_model()
    )
    (batch,) = DataLoader(data.val, batch_size=8)
    assert torch.equal(again.eval()(batch), first.eval()(batch))
    assert again.scale.std.tolist() == [3.0, 4.0]
    with pytest.raises(RuntimeError, match=r"scale\.mean"):
        SignalRegressor(make_model()).load_state_dict(first.state_dict())


def integers(batch, model):
    batch.y = batch.y.round().long()


def a_gap(batch, model):
    batch.y[1] = float("nan")


def a_target_too_many(batch, model):
    batch.y = torch.zeros(4, 2)


def no_column(batch, model):
    model.register_forward_hook(lambda module, args, out: out[:, 0])


def a_row_for_all(batch, model):
    model.register_forward_hook(lambda module, args, out: out[:1])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (integers, r"int64, not floats: .*\.float\(\) .* SignalClassifier"),
        (a_gap, r"1 of 4 targets are nan or inf, the first at \[1, 0\]"),
        (a_target_too_many, r"gave 1 numbers per signal for 2 targets"),
        (no_column, r"shape \[4\] for 4 signals: .* \[4, 1\] for a single one"),
        (a_row_for_all, r"shape \[1, 1\] for 4 signals"),
    ],
)
def test_nothing_is_broadcast_or_taken_for_numbers(
    make_model, make_data, spoil, message
):
    batch = next(iter(numbers(make_data()).val_dataloader()))
    model = one_output(make_model())
    regressor = SignalRegressor(model)
    assert regressor.compute_loss(batch, "val")[0] > 0
    spoil(batch, model)
    with pytest.raises(ValueError, match=message):
        regressor.compute_loss(batch, "val")


def test_half_precision_does_not_round_the_targets(make_model, make_data):
    batch = next(iter(numbers(make_data(), offset=1001.0).val_dataloader()))
    regressor = SignalRegressor(one_output(make_model()).bfloat16())
    batch["word"].x = batch["word"].x.bfloat16()
    loss, output = regressor.compute_loss(batch, "val")
    assert output.dtype == torch.float
    assert loss == F.mse_loss(output, batch.y.view(4, 1))


def test_a_module_says_what_it_lacks(make_model, make_data):
    module = SignalModule(make_model())
    batch = next(iter(make_data().val_dataloader()))
    with pytest.raises(NotImplementedError, match="SignalModule has no compute_loss"):
        module.compute_loss(batch, "val")
    with pytest.raises(NotImplementedError, match="SignalModule has no targets"):
        module.targets(batch)


def test_hyper_parameters_are_those_of_the_class(make_model):
    classifier = SignalClassifier(make_model(), num_classes=2, lr=0.2)
    assert dict(classifier.hparams) == {
        "num_classes": 2,
        "lr": 0.2,
        "weight_decay": 0.01,
        "warmup": 0.1,
        "schedule": "cosine",
    }
    assert set(classifier.state_dict()) == {"model.linear.weight", "model.linear.bias"}


@pytest.mark.parametrize(
    "arguments", [{"warmup": 1.0}, {"warmup": -0.1}, {"schedule": "step"}]
)
def test_settings_that_mean_nothing_are_refused(make_model, arguments):
    (name,) = arguments
    with pytest.raises(ValueError, match=name):
        SignalClassifier(make_model(), num_classes=2, **arguments)


def test_training_batches_are_of_like_size_and_cover_the_data(make_data):
    data = make_data(batch_size=6)
    sizes = [batch["word"].ptr.diff() for batch in data.train_dataloader()]
    assert sum(len(s) for s in sizes) == len(data.train)
    assert max(int(s.max() - s.min()) for s in sizes) <= 2


def test_the_loader_class_can_be_chosen(make_data):
    made = []

    def loader(signals, **kwargs):
        made.append(kwargs)
        return DataLoader(signals, **kwargs)

    data = make_data()
    data.loader = loader
    assert next(iter(data.test_dataloader())).num_graphs == 4
    assert made[0]["batch_size"] == 4


@pytest.mark.parametrize("module", ["lightning", "history", "training"])
def test_without_lightning_the_error_names_the_extra(monkeypatch, module):
    for name in ("lightning", "history", "training"):
        monkeypatch.delitem(sys.modules, f"hsa_pyg.integrations.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "torchmetrics", None)
    with pytest.raises(ImportError, match=r'pip install "hsa-pyg\[train\]"'):
        importlib.import_module(f"hsa_pyg.integrations.{module}")
