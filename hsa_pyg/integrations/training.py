"""One call that trains a classifier of signals, keeps its checkpoints and tests it."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from hsa_pyg.integrations.history import History
from hsa_pyg.integrations.lightning import SignalClassifier, SignalDataModule, pl
from hsa_pyg.integrations.memory import peak_memory, resident_memory
from hsa_pyg.integrations.warming import warm_up


@dataclass(frozen=True)
class TrainingResult:
    """What a training run came to.

    Args:
        best_epoch: Epoch (from 0) with the highest validation accuracy, the first of
            equals. The test scores are those of its weights.
        val_accuracy: Validation accuracy of that epoch.
        test_accuracy: Part of the test signals whose class was right.
        test_macro_f1: Mean over the classes of their F1 scores.
        epochs: Epochs trained, those before a resume included.
        seconds_per_epoch: Median over the epochs of the seconds their training batches
            took; validation is left out.
        peak_memory: Most bytes that this process has held resident since it started.
        base_memory: Bytes resident when training began: interpreter, libraries, data.
        parameters: Number of trained parameters.
    """

    best_epoch: int
    val_accuracy: float
    test_accuracy: float
    test_macro_f1: float
    epochs: int
    seconds_per_epoch: float
    peak_memory: int
    base_memory: int
    parameters: int


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
) -> TrainingResult:
    """Train, keep the best and the last checkpoint, and test the best.

    The folder ``out`` then holds ``best.ckpt``, ``last.ckpt``, ``history.json`` (a row
    per epoch) and ``result.json``. Seed the run before the model is made:
    ``lightning.seed_everything(seed)``.

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

    Returns:
        The scores, seconds and bytes of the run.

    Raises:
        FileNotFoundError: If there is nothing to resume in ``out``.
        FileExistsError: If ``out`` already holds a run and ``resume`` is not set.
        FloatingPointError: If the loss stops being finite.
    """
    out = Path(out)
    last = out / "last.ckpt"
    if resume and not last.exists():
        raise FileNotFoundError(f"There is no checkpoint {last} to resume from.")
    if not resume and last.exists():
        raise FileExistsError(
            f"{out} holds a training run already: resume it, or choose another folder."
        )
    history = History(out / "history.json")
    best = _checkpoint(out, "best", monitor="val/accuracy", mode="max")
    # Lightning's save_last follows the best epoch; a broken run goes on from its last.
    newest = _checkpoint(out, "last", monitor=None)
    trainer = pl.Trainer(
        max_epochs=epochs,
        accelerator=accelerator,
        devices=1,
        callbacks=[history, best, newest, *callbacks],
        gradient_clip_val=clip,
        logger=False,
        enable_model_summary=False,
        enable_progress_bar=progress,
        num_sanity_val_steps=0,
    )
    warm_up(classifier, trainer.strategy.root_device)
    base_memory = resident_memory()
    trainer.fit(classifier, data, ckpt_path=last if resume else None)
    rows = history.rows
    # This loads the state of the best epoch, the callbacks' too.
    (scores,) = trainer.test(
        classifier, data, ckpt_path=best.best_model_path, verbose=False
    )
    chosen = max(rows, key=lambda row: row["val/accuracy"])
    result = TrainingResult(
        best_epoch=int(chosen["epoch"]),
        val_accuracy=chosen["val/accuracy"],
        test_accuracy=scores["test/accuracy"],
        test_macro_f1=scores["test/macro_f1"],
        epochs=len(rows),
        seconds_per_epoch=median(row["seconds"] for row in rows),
        # Linux keeps two counts, which differ by some pages.
        peak_memory=max(peak_memory(), base_memory),
        base_memory=base_memory,
        parameters=sum(p.numel() for p in classifier.parameters() if p.requires_grad),
    )
    (out / "result.json").write_text(json.dumps(asdict(result), indent=2) + "\n")
    return result


def _checkpoint(out: Path, name: str, **kwargs: Any) -> pl.callbacks.ModelCheckpoint:
    return pl.callbacks.ModelCheckpoint(
        dirpath=out,
        filename=name,
        # After the history has the epoch's row, which the checkpoint carries.
        save_on_train_epoch_end=True,
        enable_version_counter=False,
        **kwargs,
    )
