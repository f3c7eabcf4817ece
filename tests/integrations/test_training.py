import json

import lightning.pytorch as pl
import pytest
import torch

from hsa_pyg.integrations import training
from hsa_pyg.integrations.lightning import SignalClassifier, SignalRegressor
from hsa_pyg.integrations.training import fit_classifier, fit_regressor


def fit(make_model, make_data, out, epochs, dropout=0.0, **kwargs):
    classifier = SignalClassifier(make_model(dropout=dropout), num_classes=2, lr=0.1)
    return fit_classifier(
        classifier,
        make_data(),
        out,
        epochs,
        accelerator="cpu",
        progress=False,
        **kwargs,
    )


def test_a_run_learns_and_leaves_its_record(make_model, make_data, tmp_path):
    result = fit(make_model, make_data, tmp_path, epochs=4)
    assert result.test_accuracy == result.test_macro_f1 == 1.0
    assert result.epochs == 4
    assert result.parameters == 10
    assert 0 < result.base_memory <= result.peak_memory
    history = json.loads((tmp_path / "history.json").read_text())
    assert [row["epoch"] for row in history] == [0, 1, 2, 3]
    assert history[3]["train/loss"] < history[0]["train/loss"]
    assert all(row["seconds"] > 0 for row in history)
    assert all(row["processor_seconds"] > 0 for row in history)
    written = json.loads((tmp_path / "result.json").read_text())
    assert written["test_accuracy"] == 1.0


def test_kernels_are_ready_before_the_first_epoch(
    make_model, make_data, tmp_path, monkeypatch
):
    seen = []

    def warm_up(model, device):
        seen.append((model.trainer.current_epoch if model._trainer else None, device))

    monkeypatch.setattr(training, "warm_up", warm_up)
    fit(make_model, make_data, tmp_path, epochs=1)
    assert seen == [(None, torch.device("cpu"))]


def test_the_test_scores_are_those_of_the_best_epoch(make_model, make_data, tmp_path):
    result = fit(make_model, make_data, tmp_path, epochs=4)
    history = json.loads((tmp_path / "history.json").read_text())
    best = max(row["val/accuracy"] for row in history)
    assert result.val_accuracy == history[result.best_epoch]["val/accuracy"] == best
    saved = torch.load(tmp_path / "best.ckpt", weights_only=False)
    assert saved["epoch"] == result.best_epoch


def test_the_last_checkpoint_is_of_the_last_epoch_even_if_an_earlier_one_was_best(
    make_model, make_data, tmp_path
):
    result = fit(make_model, make_data, tmp_path, epochs=4)
    assert result.best_epoch < 3
    saved = torch.load(tmp_path / "last.ckpt", weights_only=False)
    assert saved["epoch"] == 3


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_resumed_run_ends_where_an_unbroken_one_does(
    make_model, make_data, tmp_path, dropout
):
    class Interrupt(Exception):
        pass

    class Stop(pl.Callback):
        def on_train_epoch_start(self, trainer, module):
            if trainer.current_epoch == 2:
                raise Interrupt

    settings = {"epochs": 5, "dropout": dropout}
    fit(make_model, make_data, tmp_path / "whole", **settings)
    broken = tmp_path / "broken"
    with pytest.raises(Interrupt):
        fit(make_model, make_data, broken, callbacks=[Stop()], **settings)
    # Whatever was drawn since, in a process of its own or not.
    torch.manual_seed(7)
    result = fit(make_model, make_data, broken, resume=True, **settings)
    assert result.epochs == 5
    history = json.loads((broken / "history.json").read_text())
    assert [row["epoch"] for row in history] == [0, 1, 2, 3, 4]
    torch.testing.assert_close(
        last_weights(broken), last_weights(tmp_path / "whole"), rtol=0, atol=0
    )


def test_numbers_are_learned_and_the_epoch_of_the_least_error_is_tested(
    make_model, make_data, tmp_path
):
    data = make_data()
    signals = [*data.train, *data.val, *data.test]
    for one in signals:
        one.y = 10 * one["word"].x.mean(0, keepdim=True)[:, :1] + 100
    targets = torch.cat([one.y for one in data.train])
    regressor = SignalRegressor.from_targets(make_model(1), targets, lr=0.1)
    settings = {"accelerator": "cpu", "progress": False}
    result = fit_regressor(regressor, data, tmp_path, 30, **settings)
    assert 0 < result.test_mae < result.test_rmse < 1.0
    history = json.loads((tmp_path / "history.json").read_text())
    errors = [row["val/rmse"] for row in history]
    assert errors[0] > 3.0
    assert result.val_rmse == errors[result.best_epoch] == min(errors)
    saved = torch.load(tmp_path / "best.ckpt", weights_only=False)
    assert saved["epoch"] == result.best_epoch
    written = json.loads((tmp_path / "result.json").read_text())
    assert written["test_rmse"] == result.test_rmse
    with pytest.raises(FileExistsError, match="holds a training run already"):
        fit_regressor(regressor, data, tmp_path, 30, **settings)


def test_the_trainer_takes_what_is_left_to_it(make_model, make_data, tmp_path):
    class Look(pl.Callback):
        def on_train_end(self, trainer, module):
            self.seen = trainer.precision, trainer.global_step

    looks = []
    for name, options in (
        ("usual", {}),
        ("other", {"precision": "bf16-mixed", "accumulate_grad_batches": 3}),
    ):
        looks.append(Look())
        fit(make_model, make_data, tmp_path / name, 2, callbacks=looks[-1:], **options)
    assert [look.seen for look in looks] == [("32-true", 12), ("bf16-mixed", 4)]


@pytest.mark.parametrize("name", ["max_epochs", "devices", "gradient_clip_val"])
def test_what_the_trainer_has_already_is_named(make_model, make_data, tmp_path, name):
    with pytest.raises(TypeError, match=f"^{name}: set here already"):
        fit(make_model, make_data, tmp_path, 1, **{name: 1})
    with pytest.raises(TypeError, match="unexpected keyword argument 'presicion'"):
        fit(make_model, make_data, tmp_path, 1, presicion="64")


def last_weights(out):
    saved = torch.load(out / "last.ckpt", weights_only=False)
    assert saved["epoch"] == 4
    return saved["state_dict"]


def test_a_run_is_not_overwritten(make_model, make_data, tmp_path):
    fit(make_model, make_data, tmp_path, epochs=1)
    with pytest.raises(FileExistsError, match="holds a training run already"):
        fit(make_model, make_data, tmp_path, epochs=1)


def test_nothing_to_resume_is_named(make_model, make_data, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"last\.ckpt to resume"):
        fit(make_model, make_data, tmp_path, epochs=1, resume=True)
