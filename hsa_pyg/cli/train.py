"""Training one model by its settings."""

import json
import logging
import math
import warnings
from dataclasses import MISSING, asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import torch

from hsa_pyg.cli import SettingsError
from hsa_pyg.cli.labelled_texts import some_labels
from hsa_pyg.cli.sources import COLUMNS, Facts, Source, full_name, load_source
from hsa_pyg.integrations.lightning import (
    MisconfigurationException,
    SignalClassifier,
    SignalDataModule,
    pl,
)
from hsa_pyg.integrations.training import PRECISIONS, TrainingResult, fit_classifier
from hsa_pyg.loader import DataLoader
from hsa_pyg.nn import HierarchicalPosition, HSATransformer
from hsa_pyg.nn.transformer import Attention

POSITION_CHANNELS = 16


@dataclass(frozen=True)
class Settings:
    """What decides the outcome of a training run; see ``hsa-pyg train --help``."""

    dataset: str
    attention: Attention
    epochs: int
    batch_size: int
    lr: float
    seed: int
    max_tokens: int | None
    train_size: int | None
    channels: int
    layers: int
    heads: int
    dropout: float
    weight_decay: float
    position: bool
    # What came later: runs of older versions have no such entries.
    text_column: str = COLUMNS[0]
    label_column: str = COLUMNS[1]
    digest: str | None = None
    precision: Literal["32", "bf16", "16"] = "32"
    accumulate: int = 1
    clip: float = 1.0
    warmup: float = 0.1
    schedule: Literal["cosine", "linear"] = "cosine"

    @property
    def columns(self) -> tuple[str, str]:
        """Names of the columns of texts and labels."""
        return self.text_column, self.label_column


def train_model(
    settings: Settings,
    out: Path,
    root: Path,
    resume: bool = False,
    device: str = "auto",
) -> TrainingResult:
    """Train as the settings say, write everything to ``out``, and test the best epoch.

    Args:
        settings: What to train, on what, and how. What is written has a path in full,
            and the digest of the texts that lie there.
        out: Folder of the run.
        root: Folder under which processed data is kept.
        resume: Go on from the last checkpoint in ``out``.
        device: ``"auto"``, ``"cpu"``, ``"gpu"``, ``"cuda"`` or ``"mps"``.

    Raises:
        SettingsError: If a resumed run was begun with other settings or texts, or the
            settings do not fit together.
        FileExistsError: If ``out`` holds a run that is not to be resumed.
        FileNotFoundError: If there is nothing to resume.
        FloatingPointError: If the loss stops being finite.
    """
    _check_device(device, settings.precision)
    if not 0.0 < settings.lr < math.inf:
        raise SettingsError(f"--lr must be above 0 and finite, got {settings.lr}.")
    if not 0.0 <= settings.warmup < 1.0:
        raise SettingsError(f"--warmup is a part below 1, got {settings.warmup}.")
    settings = replace(settings, dataset=full_name(settings.dataset))
    begun = _check_same(settings, out) if resume else {}
    source = load_source(
        settings.dataset,
        root,
        settings.max_tokens,
        settings.train_size,
        settings.columns,
    )
    settings = replace(settings, digest=source.digest)
    if resume:
        check_unchanged(source, begun.get("digest"), settings.dataset, out)
    _quieten()
    pl.seed_everything(settings.seed, workers=True, verbose=False)
    classifier = SignalClassifier(
        build_model(settings, source),
        source.num_classes,
        lr=settings.lr,
        weight_decay=settings.weight_decay,
        warmup=settings.warmup,
        schedule=settings.schedule,
    )
    data = SignalDataModule(
        source.train,
        source.val,
        source.test,
        batch_size=settings.batch_size,
        seed=settings.seed,
        loader=DataLoader,
    )
    if not resume:
        _keep_settings(settings, out)
    if source.digest is not None:
        _keep_splits(source, out)
    try:
        return fit_classifier(
            classifier,
            data,
            out,
            settings.epochs,
            resume=resume,
            clip=settings.clip,
            accelerator=device,
            precision=PRECISIONS[settings.precision],
            accumulate_grad_batches=settings.accumulate,
        )
    except MisconfigurationException as error:  # for instance no such device
        raise SettingsError(str(error)) from error


def build_model(settings: Settings, source: Facts) -> HSATransformer:
    """Make the transformer that the settings describe, for the signals of a source.

    Raises:
        SettingsError: If the heads do not divide the channels.
    """
    if settings.channels % settings.heads:
        raise SettingsError(
            f"{settings.heads} heads do not divide {settings.channels} channels."
        )
    position = None
    if settings.position:
        domains = dict.fromkeys(source.schema.internal_types, "sequence")
        position = HierarchicalPosition(domains, POSITION_CHANNELS)
    return HSATransformer.from_schema(
        source.schema,
        source.num_classes,
        settings.channels,
        vocab_sizes=source.vocab_sizes,
        num_layers=settings.layers,
        heads=settings.heads,
        attention=settings.attention,
        dropout=settings.dropout,
        position=position,
    )


def check_unchanged(source: Facts, digest: str | None, dataset: str, run: Path) -> None:
    """Refuse texts that are not those of a run.

    Args:
        source: What lies there now.
        digest: Digest of the texts when the run was begun.
        dataset: Their path.
        run: Folder of the run.

    Raises:
        SettingsError: If they are others.
    """
    if source.digest != digest:
        raise SettingsError(
            f"The texts or labels in {dataset!r} have changed since the run in "
            f"{run.as_posix()!r} was begun: put back what was there, or train anew "
            "with another --out."
        )


def _check_device(device: str, precision: str) -> None:
    """Refuse what cannot be trained on here, before any data are read."""
    there = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    known = {"auto": True, "cpu": True, "gpu": any(there.values()), **there}
    if device not in known:
        raise SettingsError(f"--device {device!r} is none of {', '.join(known)}.")
    if not known[device]:
        here = ", ".join(name for name, found in known.items() if found)
        raise SettingsError(f"There is no {device!r} here: --device takes {here}.")
    if precision == "16" and (device == "cpu" or not any(there.values())):
        raise SettingsError("Processors have no mixed --precision 16: take bf16.")


def _keep_settings(settings: Settings, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    if (out / "last.ckpt").exists():
        raise FileExistsError(
            f"{out} holds a training run already: add --resume to go on with it, or "
            f"choose another folder by --out."
        )
    (out / "settings.json").write_text(json.dumps(asdict(settings), indent=2) + "\n")


def _keep_splits(source: Source, out: Path) -> None:
    """Write which text is in which part, and say how many."""
    parts = {"train": source.train, "val": source.val, "test": source.test}
    places = {part: [one.source for one in found] for part, found in parts.items()}
    text = json.dumps(places, indent=2, ensure_ascii=False)
    # Names of files may hold what is no UTF-8; JSON has an escape that says the same.
    data = (text + "\n").encode("utf-8", "backslashreplace")
    (out / "splits.json").write_bytes(data)
    numbers = ", ".join(f"{part} {len(found)}" for part, found in parts.items())
    print(f"Texts: {numbers}. Classes: {some_labels(source.classes)}.")


def _check_same(settings: Settings, out: Path) -> dict[str, Any]:
    """The settings with which a run was begun, if they are these."""
    path = out / "settings.json"
    if not path.exists():
        raise FileNotFoundError(f"There is no training run to resume in {out}.")
    try:
        begun = dict(json.loads(path.read_text(encoding="utf-8")))
    except (TypeError, ValueError) as error:
        raise SettingsError(
            f"{path.as_posix()!r} does not hold the settings of a run ({error}): train "
            "anew with another --out."
        ) from error
    asked = asdict(settings)
    # That of the texts is known once they are read.
    del asked["digest"]
    later = {f.name: f.default for f in fields(Settings) if f.default is not MISSING}
    begun = {**later, **begun}
    other = {k: v for k, v in asked.items() if v != begun.get(k)}
    if other:
        changes = ", ".join(f"{k} {begun.get(k)} -> {v}" for k, v in other.items())
        raise SettingsError(
            f"The run in {out} was begun with other settings ({changes}): a resumed "
            f"run keeps them, and its learning rate is planned over all its epochs."
        )
    return begun


def _quieten() -> None:
    # Tips and notes on absent accelerators are no news to who trains on a laptop.
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message=".*does not have many workers")
    warnings.filterwarnings("ignore", message="Checkpoint directory .* is not empty")
    warnings.filterwarnings("ignore", message=".*LeafSpec.* is deprecated")
