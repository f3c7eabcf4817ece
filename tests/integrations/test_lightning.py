import importlib
import sys

import lightning.pytorch as pl
import pytest
import torch
import torch.nn.functional as F
from torch_geometric.loader import DataLoader

from hsa_pyg.integrations.lightning import SignalClassifier


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
