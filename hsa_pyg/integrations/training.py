"""One call that trains a model of signals, keeps its checkpoints and tests it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

import torch

from hsa_pyg.integrations.history import History
from hsa_pyg.integrations.lightning import (
    SignalClassifier,
    SignalDataModule,
    SignalModule,
    SignalRegressor,
    pl,
)
from hsa_pyg.integrations.memory import peak_memory, resident_memory
from hsa_pyg.integrations.seeded_epochs import SeededEpochs
from hsa_pyg.integrations.warming import warm_up

#: Lightning's names of the precisions of a run.
PRECISIONS: Mapping[str, Any] = {
    "32": "32-true",
    "bf16": "bf16-mixed",
    "16": "16-mixed",
}


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """What any training run tells.

    Args:
        best_epoch: Epoch (from 0) with the best validation score, the first of equals.
            The test scores are those of its weights.
        epochs: Epochs trained, those before a resume included.
        seconds_per_epoch: Median over the epochs of the seconds their training batches
            took; validation is left out.
        peak_memory: Most bytes that this process has held resident since it started.
        base_memory: Bytes resident when training began: interpreter, libraries, data.
        parameters: Number of trained parameters.
    """

    best_epoch: int
    epochs: int
    seconds_per_epoch: float
    peak_memory: int
    base_memory: int
    parameters: int


@dataclass(frozen=True, kw_only=True)
class TrainingResult(RunFacts):
    """What the training of a classifier came to; see also :class:`RunFacts`.

    Args:
        val_accuracy: Validation accuracy of the best epoch, which is the highest.
        test_accuracy: Part of the test signals whose class was right.
        test_macro_f1: Mean over the classes of their F1 scores.
    """

    val_accuracy: float
    test_accuracy: float
    test_macro_f1: float


@dataclass(frozen=True, kw_only=True)
class RegressionResult(RunFacts):
    """What the training of a regressor came to; see also :class:`RunFacts`.

    Args:
        val_rmse: Root mean squared error of the best epoch on the validation signals,
            which is the lowest; in the targets' own units, as the two below.
        test_rmse: That of the test signals.
        test_mae: Their mean absolute error.
    """

    val_rmse: float
    test_rmse: float
    test_mae: float


def fit_classifier(
    classifier: SignalClassifier,
    data: SignalDataModule,
    out: str | Path,
    epochs: int,
    resume: bool = False,
    clip: float = 1.0,
    progress: bool = True,
    callbacks: Sequence[pl.Callback] = (),
    accelerator: str = "auto",
    **trainer: Any,
) -> TrainingResult:
    """Train, keep the best and the last checkpoint, and test the best.

    The folder ``out`` then holds ``best.ckpt``, ``last.ckpt``, ``history.json`` (a row
    per epoch) and ``result.json``. Seed the run before the model is made:
    ``lightning.seed_everything(seed)``.

    Random numbers of each epoch, as of dropout, come from its own seed: a resumed run
    ends where an unbroken one does.

    Args:
        classifier: The model to train.
        data: Its signals.
        out: Folder of the run.
        epochs: Epochs in all, those before a resume included.
        resume: Go on from ``out/last.ckpt``.
        clip: Largest norm of a gradient; longer ones are shortened to it.
        progress: Show Lightning's progress bar.
        callbacks: Further callbacks.
        accelerator: Lightning's name of the device: ``"cpu"``, ``"gpu"`` or ``"auto"``.
        **trainer: Further arguments of Lightning's ``Trainer``, such as
            ``precision="bf16-mixed"`` or ``accumulate_grad_batches=4``.

    Returns:
        The scores, seconds and bytes of the run.

    Raises:
        TypeError: If an argument of the trainer is unknown or set here, by those above
            or since a run has one device and no check before its first epoch.
        FileNotFoundError: If there is nothing to resume in ``out``.
        FileExistsError: If ``out`` already holds a run and ``resume`` is not set.
        FloatingPointError: If the loss stops being finite.
    """
    rows, scores, facts = _fit(
        classifier,
        data,
        out,
        epochs,
        ("val/accuracy", "max"),
        resume=resume,
        clip=clip,
        progress=progress,
        callbacks=callbacks,
        accelerator=accelerator,
        trainer=trainer,
    )
    result = TrainingResult(
        val_accuracy=rows[facts.best_epoch]["val/accuracy"],
        test_accuracy=scores["test/accuracy"],
        test_macro_f1=scores["test/macro_f1"],
        **asdict(facts),
    )
    _write(result, out)
    return result


def fit_regressor(
    regressor: SignalRegressor,
    data: SignalDataModule,
    out: str | Path,
    epochs: int,
    resume: bool = False,
    clip: float = 1.0,
    progress: bool = True,
    callbacks: Sequence[pl.Callback] = (),
    accelerator: str = "auto",
    **trainer: Any,
) -> RegressionResult:
    """The same as :func:`fit_classifier` for numbers to predict.

    The best epoch is the one with the lowest root mean squared error on the validation
    signals.

    Args:
        regressor: The model to train.
        data: As there, with floats in ``signal.y``.
        out: As there, as all arguments below.
        epochs: As there.
        resume: As there.
        clip: As there.
        progress: As there.
        callbacks: As there.
        accelerator: As there.
        **trainer: As there.

    Returns:
        The scores, seconds and bytes of the run.

    Raises:
        TypeError: As there.
        FileNotFoundError: If there is nothing to resume in ``out``.
        FileExistsError: If ``out`` already holds a run and ``resume`` is not set.
        FloatingPointError: If the loss stops being finite.
    """
    rows, scores, facts = _fit(
        regressor,
        data,
        out,
        epochs,
        ("val/rmse", "min"),
        resume=resume,
        clip=clip,
        progress=progress,
        callbacks=callbacks,
        accelerator=accelerator,
        trainer=trainer,
    )
    result = RegressionResult(
        val_rmse=rows[facts.best_epoch]["val/rmse"],
        test_rmse=scores["test/rmse"],
        test_mae=scores["test/mae"],
        **asdict(facts),
    )
    _write(result, out)
    return result


def _fit(
    module: SignalModule,
    data: SignalDataModule,
    out: str | Path,
    epochs: int,
    judged: tuple[str, Literal["max", "min"]],
    *,
    resume: bool,
    clip: float,
    progress: bool,
    callbacks: Sequence[pl.Callback],
    accelerator: str,
    trainer: Mapping[str, Any],
) -> tuple[list[dict[str, float]], Mapping[str, float], RunFacts]:
    """The history, the test scores of the best epoch, and the facts of the run."""
    out = Path(out)
    last = out / "last.ckpt"
    if resume and not last.exists():
        raise FileNotFoundError(f"There is no checkpoint {last} to resume from.")
    if not resume and last.exists():
        raise FileExistsError(
            f"{out} holds a training run already: resume it, or choose another folder."
        )
    score, mode = judged
    history = History(out / "history.json")
    best = _checkpoint(out, "best", monitor=score, mode=mode)
    # Lightning's save_last follows the best epoch; a broken run goes on from its last.
    newest = _checkpoint(out, "last", monitor=None)
    # Drawn, so that it follows from the seed of the caller.
    seeded = SeededEpochs(int(torch.randint(2**31, ())))
    own: dict[str, Any] = {
        "max_epochs": epochs,
        "accelerator": accelerator,
        "devices": 1,
        "callbacks": [history, seeded, best, newest, *callbacks],
        "gradient_clip_val": clip,
        "enable_progress_bar": progress,
        "num_sanity_val_steps": 0,
    }
    usual = {"logger": False, "enable_model_summary": False}
    if twice := sorted(own.keys() & trainer.keys()):
        raise TypeError(
            f"{', '.join(twice)}: set here already. What 'epochs', 'clip', 'progress', "
            "'callbacks' and 'accelerator' do not say of it takes a "
            "lightning.pytorch.Trainer of your own."
        )
    lightning = pl.Trainer(**own, **{**usual, **trainer})
    warm_up(module, lightning.strategy.root_device)
    base_memory = resident_memory()
    lightning.fit(module, data, ckpt_path=last if resume else None)
    rows = history.rows
    # This loads the state of the best epoch, the callbacks' too.
    (scores,) = lightning.test(
        module, data, ckpt_path=best.best_model_path, verbose=False
    )
    pick = max if mode == "max" else min
    facts = RunFacts(
        best_epoch=pick(range(len(rows)), key=lambda epoch: rows[epoch][score]),
        epochs=len(rows),
        seconds_per_epoch=median(row["seconds"] for row in rows),
        # Linux keeps two counts, which differ by some pages.
        peak_memory=max(peak_memory(), base_memory),
        base_memory=base_memory,
        parameters=sum(p.numel() for p in module.parameters() if p.requires_grad),
    )
    return rows, scores, facts


def _write(result: RunFacts, out: str | Path) -> None:
    text = json.dumps(asdict(result), indent=2)
    (Path(out) / "result.json").write_text(text + "\n")


def _checkpoint(out: Path, name: str, **kwargs: Any) -> pl.callbacks.ModelCheckpoint:
    return pl.callbacks.ModelCheckpoint(
        dirpath=out,
        filename=name,
        # After the history has the epoch's row, which the checkpoint carries.
        save_on_train_epoch_end=True,
        enable_version_counter=False,
        **kwargs,
    )
